//! Links and the hosts that are on them. Only neighbours are answered, so that no other network learns what is in this
//! one, and none can be flooded with answers.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// An address of this host and the length of its network prefix in bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Network {
    /// The address.
    pub address: IpAddr,
    /// The length of the prefix.
    pub prefix: u8,
}

/// The addresses of a link. They may change while it is served.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Addresses {
    /// Those on which the server is reachable over this link.
    pub served: Vec<Network>,
    /// All addresses of this host, also on other links, whose packets are its own.
    pub own: Arc<[IpAddr]>,
}

/// A network interface.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Link {
    /// The interface's name.
    pub name: String,
    /// The interface's index.
    pub index: u32,
}

impl Addresses {
    /// Returns whether a packet comes from another host of this link ([RFC 6762] 11). An answer to a forged sender
    /// from elsewhere would reach a victim outside the link.
    ///
    /// [RFC 6762]: https://www.rfc-editor.org/rfc/rfc6762
    pub(crate) fn is_neighbour(&self, from: IpAddr) -> bool {
        let from = from.to_canonical();
        if from.is_unspecified() || from.is_multicast() || self.own.contains(&from) {
            return false;
        }
        let link_local = match from {
            IpAddr::V4(address) => {
                if address.is_broadcast() || self.served.iter().any(|network| network.is_broadcast(address)) {
                    return false;
                }
                address.is_link_local()
            }
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        link_local || self.served.iter().any(|network| network.contains(from))
    }

    /// Returns the served address that a client at `from` should use: one of the same network if there is one,
    /// otherwise one of the same version of IP.
    pub(crate) fn for_client(&self, from: IpAddr) -> Option<IpAddr> {
        let from = from.to_canonical();
        let near = self.served.iter().find(|network| network.contains(from));
        let near = near.or_else(|| self.served.iter().find(|network| network.address.is_ipv4() == from.is_ipv4()));
        near.map(|network| network.address)
    }
}

impl Network {
    /// Returns whether an address is in this network. A prefix without bits is a default route and not a link.
    fn contains(&self, other: IpAddr) -> bool {
        match (self.address, other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => match self.prefix {
                1..=32 => (own.to_bits() ^ other.to_bits()) & u32::MAX << (32 - self.prefix) == 0,
                _ => false,
            },
            (IpAddr::V6(own), IpAddr::V6(other)) => match self.prefix {
                // An address that DHCP has assigned. The network is usually one of 64 bits.
                128 => own.to_bits() >> 64 == other.to_bits() >> 64,
                1..=127 => (own.to_bits() ^ other.to_bits()) & u128::MAX << (128 - self.prefix) == 0,
                _ => false,
            },
            _ => false,
        }
    }

    /// Returns the address of all hosts of this IPv4 network; `None` if it has none.
    pub(crate) fn broadcast(&self) -> Option<Ipv4Addr> {
        match self.address {
            IpAddr::V4(own) if (1..=30).contains(&self.prefix) => {
                Some(Ipv4Addr::from_bits(own.to_bits() | u32::MAX >> self.prefix))
            }
            _ => None,
        }
    }

    /// Returns whether an IPv4 address stands for all hosts of this network.
    fn is_broadcast(&self, address: Ipv4Addr) -> bool {
        if self.prefix >= 31 || !self.contains(IpAddr::V4(address)) {
            return false;
        }
        let hosts = u32::MAX >> self.prefix;
        matches!(address.to_bits() & hosts, bits if bits == 0 || bits == hosts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(served: &[(&str, u8)], own: &[&str]) -> Addresses {
        let network = |&(address, prefix): &(&str, u8)| Network { address: address.parse().unwrap(), prefix };
        let own = own.iter().map(|own| own.parse().unwrap()).collect();
        Addresses { served: served.iter().map(network).collect(), own }
    }

    #[test]
    fn only_hosts_of_the_link_are_neighbours() {
        let served =
            [("192.0.2.1", 24), ("2001:db8::1", 64), ("2001:db8:2::9", 128), ("10.0.0.1", 31), ("10.1.0.1", 32)];
        let addresses = addresses(&served, &["192.0.2.1", "192.0.2.200", "2001:db8::1"]);
        for (from, expected) in [
            ("192.0.2.77", true),
            ("::ffff:192.0.2.77", true),
            ("192.0.3.77", false),
            ("::ffff:8.8.8.8", false),
            ("192.0.2.1", false),
            ("192.0.2.200", false),
            ("192.0.2.0", false),
            ("192.0.2.255", false),
            ("255.255.255.255", false),
            ("0.0.0.0", false),
            ("224.0.0.251", false),
            ("127.0.0.1", false),
            ("169.254.3.4", true),
            ("10.0.0.0", true),
            ("10.1.0.2", false),
            ("2001:db8::7", true),
            ("2001:db8:0:1::7", false),
            ("fe80::7", true),
            ("ff02::fb", false),
            ("2001:db8:2::7", true),
            ("2001:db8:3::7", false),
            ("::", false),
            ("::1", false),
        ] {
            assert_eq!(addresses.is_neighbour(from.parse().unwrap()), expected, "{from}");
        }
    }

    #[test]
    fn a_default_route_is_not_a_link() {
        let all = addresses(&[("192.0.2.1", 0), ("2001:db8::1", 0), ("192.0.2.1", 33), ("::1", 129)], &[]);
        assert!(!all.is_neighbour("10.0.0.1".parse().unwrap()));
        assert!(!all.is_neighbour("2001:db8:1::1".parse().unwrap()));
    }

    #[test]
    fn a_client_gets_the_address_of_its_network() {
        let served = [("192.0.2.1", 24), ("198.51.100.1", 24), ("2001:db8::1", 64), ("2001:db8:1::1", 64)];
        let both = addresses(&served, &[]);
        for (from, expected) in [
            ("198.51.100.9", "198.51.100.1"),
            ("::ffff:198.51.100.9", "198.51.100.1"),
            ("169.254.1.1", "192.0.2.1"),
            ("2001:db8:1::9", "2001:db8:1::1"),
            ("fe80::9", "2001:db8::1"),
        ] {
            assert_eq!(both.for_client(from.parse().unwrap()), Some(expected.parse().unwrap()), "{from}");
        }
        assert_eq!(addresses(&[("192.0.2.1", 24)], &[]).for_client("fe80::9".parse().unwrap()), None);
    }
}
