//! The requests of WS-Discovery that were answered.

use std::collections::VecDeque;
use std::net::IpAddr;

/// The requests whose repetitions are recognized.
pub(crate) const MAX_KNOWN_REQUESTS: usize = 128;

/// The last requests that were answered. SOAP-over-UDP, "Retransmission": a repetition has the MessageID
/// of the original, and the receiver should answer one of them.
///
/// The sender is compared too, so that no other host can have a request ignored by sending its MessageID before.
#[derive(Debug, Default)]
pub(crate) struct KnownRequests {
    ring: VecDeque<(IpAddr, String)>,
}

impl KnownRequests {
    pub(crate) fn contains(&self, sender: IpAddr, message_id: &str) -> bool {
        self.ring.iter().any(|(known_sender, known_id)| *known_sender == sender && known_id == message_id)
    }

    pub(crate) fn insert(&mut self, sender: IpAddr, message_id: &str) {
        if self.ring.len() >= MAX_KNOWN_REQUESTS {
            self.ring.pop_front();
        }
        self.ring.push_back((sender, message_id.to_owned()));
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.ring.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn sender(number: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 0, 0, number))
    }

    #[test]
    fn the_ring_is_bounded() {
        let mut known = KnownRequests::default();
        for number in 0..1000 {
            known.insert(sender(1), &number.to_string());
        }
        assert_eq!(known.len(), MAX_KNOWN_REQUESTS);
        assert!(known.contains(sender(1), "999"));
        assert!(!known.contains(sender(2), "999"));
        assert!(!known.contains(sender(1), "0"));
    }
}
