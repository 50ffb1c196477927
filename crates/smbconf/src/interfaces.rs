//! The network interfaces of this machine and their addresses, as listed by getifaddrs(3).

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// One address of one interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// The interface's name. An interface with several addresses has several entries.
    pub name: String,
    /// The interface's index, which distinguishes equal link-local addresses.
    pub index: u32,
    /// The address.
    pub address: IpAddr,
    /// The length of the network prefix in bits.
    pub prefix: u8,
    /// Whether it is a loopback interface.
    pub loopback: bool,
    /// Whether the interface is up.
    pub up: bool,
    /// Whether packets can be sent to several hosts of its network at once. A tunnel has one host at its other end.
    pub multicast: bool,
}

/// Returns all IP addresses of all interfaces.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let mut first = std::ptr::null_mut();
    // SAFETY: getifaddrs stores a list at the given pointer, and only if it returns 0.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = first;
    // SAFETY: each entry of the list is valid, and the last one's `ifa_next` is null, until the list is freed below.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        // SAFETY: the pointers come from getifaddrs. Each is null or points to an address of its family's size.
        let (address, mask) = unsafe { (ip(entry.ifa_addr), ip(entry.ifa_netmask)) };
        let Some(address) = address else { continue };
        // SAFETY: `ifa_name` is a C string.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) };
        // SAFETY: if_nametoindex reads a C string.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        let has = |flag: libc::c_int| entry.ifa_flags & flag.cast_unsigned() != 0;
        found.push(Interface {
            name: name.to_string_lossy().into_owned(),
            index,
            address,
            prefix: mask.map_or(if address.is_ipv4() { 32 } else { 128 }, prefix),
            loopback: has(libc::IFF_LOOPBACK),
            up: has(libc::IFF_UP),
            multicast: has(libc::IFF_MULTICAST) && !has(libc::IFF_POINTOPOINT),
        });
    }
    // SAFETY: the list comes from getifaddrs, is freed once, and no reference to it is kept.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// Returns the IP address in a socket address; `None` for null and for other families.
///
/// # Safety
/// `address` is null or points to a socket address of its family's size.
unsafe fn ip(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: guaranteed by the caller; the family is in the part common to all socket addresses.
    match libc::c_int::from(unsafe { address.as_ref() }?.sa_family) {
        libc::AF_INET => {
            // SAFETY: an address of this family is a sockaddr_in; it need not be aligned.
            let address = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: an address of this family is a sockaddr_in6; it need not be aligned.
            let address = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

fn prefix(mask: IpAddr) -> u8 {
    let ones = match mask {
        IpAddr::V4(mask) => mask.to_bits().leading_ones(),
        IpAddr::V6(mask) => mask.to_bits().leading_ones(),
    };
    u8::try_from(ones).expect("an address has at most 128 bits")
}

/// Returns the addresses at which clients can reach a server that listens on `bound`, IPv4 first. A wildcard means all
/// addresses of interfaces that are up. Link-local addresses are omitted because clients would have to specify an
/// interface. Loopback addresses are included only if there are no others.
pub fn reachable(bound: &[SocketAddr], interfaces: &[Interface]) -> Vec<IpAddr> {
    let served = serving(bound, interfaces);
    let mut addresses: Vec<IpAddr> = served.into_iter().map(|interface| interface.address).collect();
    addresses.sort_by_key(IpAddr::is_ipv6);
    addresses.dedup();
    addresses
}

/// Returns the interfaces of the addresses that [`reachable`] returns, one entry per address.
pub fn serving<'i>(bound: &[SocketAddr], interfaces: &'i [Interface]) -> Vec<&'i Interface> {
    let serves = |interface: &Interface| {
        bound.iter().any(|bound| match bound.ip() {
            IpAddr::V4(ip) => ip == interface.address || ip.is_unspecified() && interface.address.is_ipv4(),
            // A socket on :: also accepts IPv4 unless configured otherwise; in that case there is another socket on
            // 0.0.0.0.
            IpAddr::V6(ip) => ip == interface.address || ip.is_unspecified(),
        })
    };
    let link_local = |address: &IpAddr| match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    let mut served: Vec<&Interface> =
        interfaces.iter().filter(|i| i.up && !link_local(&i.address) && serves(i)).collect();
    if served.iter().any(|interface| !interface.loopback) {
        served.retain(|interface| !interface.loopback);
    }
    served
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_loopback_interface() {
        let all = interfaces().unwrap();
        let loopback = all.iter().find(|i| i.address == IpAddr::V4(Ipv4Addr::LOCALHOST)).unwrap();
        assert!(loopback.loopback && loopback.up && loopback.prefix == 8 && loopback.index > 0);
    }

    #[test]
    fn reachable_addresses_are_recognized() {
        let interface = |address: &str, loopback, up| Interface {
            name: "x".into(),
            index: 1,
            address: address.parse().unwrap(),
            prefix: 24,
            loopback,
            up,
            multicast: !loopback,
        };
        let all = [
            interface("127.0.0.1", true, true),
            interface("::1", true, true),
            interface("2001:db8::5", false, true),
            interface("fe80::1", false, true),
            interface("192.0.2.5", false, true),
            interface("198.51.100.5", false, false),
        ];
        let check = |bound: &[&str], expected: &[&str]| {
            let bound: Vec<SocketAddr> = bound.iter().map(|address| address.parse().unwrap()).collect();
            let found: Vec<String> = reachable(&bound, &all).iter().map(IpAddr::to_string).collect();
            assert_eq!(found, expected, "{bound:?}");
        };
        check(&["0.0.0.0:445"], &["192.0.2.5"]);
        check(&["[::]:445"], &["192.0.2.5", "2001:db8::5"]);
        check(&["0.0.0.0:445", "[::]:445"], &["192.0.2.5", "2001:db8::5"]);
        check(&["127.0.0.1:445"], &["127.0.0.1"]);
        check(&["127.0.0.1:445", "192.0.2.5:445"], &["192.0.2.5"]);
        check(&["[2001:db8::5]:445"], &["2001:db8::5"]);
        check(&["203.0.113.1:445"], &[]);
    }
}
