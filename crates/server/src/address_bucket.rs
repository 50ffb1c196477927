//! The unit for limits on addresses: a single IPv4 address, or the /64 of an IPv6 address, because a client that has
//! one address of a /64 can use all of them (RFC 4291 2.5.4, RFC 6177).

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// An IPv4 address, or the /64 of an IPv6 address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct AddressBucket(IpAddr);

impl From<IpAddr> for AddressBucket {
    fn from(address: IpAddr) -> Self {
        AddressBucket(match address.to_canonical() {
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
            address => address,
        })
    }
}

impl fmt::Display for AddressBucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(address) => address.fmt(f),
            IpAddr::V6(address) => write!(f, "{address}/64"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_64_prefix_are_one_neighbourhood() {
        let check = |address: &str, shown: &str| {
            let of: AddressBucket = address.parse::<IpAddr>().expect("an address").into();
            assert_eq!(of.to_string(), shown, "{address}");
        };
        check("192.0.2.7", "192.0.2.7");
        check("::ffff:192.0.2.7", "192.0.2.7");
        check("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64");
        check("2001:db8:1:2::", "2001:db8:1:2::/64");
        check("::1", "::/64");
    }
}
