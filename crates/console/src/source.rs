//! What counts as one client: limits are shared by all addresses that one client can use at will.

use std::net::{IpAddr, Ipv6Addr};

/// The source of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Source {
    /// A UNIX socket, which only root and the user of the console reach.
    Unix,
    /// The loopback interface, each of whose addresses every local user has.
    Loopback,
    /// An IPv4 address, or the /64 of an IPv6 address, because a client that has one address of it can use all (RFC
    /// 4291 2.5.4, RFC 6177).
    Network(IpAddr),
}

/// The number of [`Source::kind`]s.
pub(crate) const KINDS: usize = 3;

impl Source {
    /// Returns the source of a connection from `address`, or to a UNIX socket without one.
    pub(crate) fn of(address: Option<IpAddr>) -> Source {
        match address.map(|address| address.to_canonical()) {
            None => Source::Unix,
            Some(address) if address.is_loopback() => Source::Loopback,
            Some(IpAddr::V6(address)) => {
                Source::Network(IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)))
            }
            Some(address) => Source::Network(address),
        }
    }

    /// Returns a number below [`KINDS`]. Sources of one kind share limits that those of another kind do not use up.
    pub(crate) fn kind(self) -> usize {
        match self {
            Source::Unix => 0,
            Source::Loopback => 1,
            Source::Network(_) => 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_one_source() {
        let of = |address: &str| Source::of(Some(address.parse().expect("an address")));
        for local in ["127.0.0.1", "127.255.0.9", "::1", "::ffff:127.0.0.2"] {
            assert_eq!(of(local), Source::Loopback, "{local}");
        }
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.2"), of("10.0.0.1"));
        assert_eq!(Source::of(None), Source::Unix);
        assert!([Source::Unix, Source::Loopback, of("10.0.0.1")].iter().all(|it| it.kind() < KINDS));
    }
}
