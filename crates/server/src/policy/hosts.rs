//! `hosts allow` and `hosts deny`: the addresses that may connect to the server or to a share.
//!
//! Rules are addresses and networks only. Host names are not supported on purpose, because the result of a lookup
//! during a connect would let the operator of a name server decide who may connect.

use std::net::IpAddr;

/// The two lists of one scope. If both are empty, all addresses may connect.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostAccess {
    /// `hosts allow`.
    pub allow: HostList,
    /// `hosts deny`.
    pub deny: HostList,
}

impl HostAccess {
    /// Whether `address` may connect. As in Samba, the allow list overrides the deny list, an allow list alone excludes
    /// all other addresses, and the loopback address may connect unless it is denied and not allowed.
    pub fn permits(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let (allowed, denied) = (self.allow.matches(address), self.deny.matches(address));
        if allowed {
            return true;
        }
        if address.is_loopback() {
            return !denied;
        }
        match (self.allow.is_empty(), self.deny.is_empty()) {
            (false, true) => false,
            _ => !denied,
        }
    }
}

/// A list of rules, with exceptions (`EXCEPT`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostList {
    /// The rules, one of which must match.
    pub any: Vec<HostRule>,
    /// The exceptions, which must not match.
    pub except: Option<Box<HostList>>,
}

impl HostList {
    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.any.is_empty()
    }

    /// Whether `address` matches the list.
    pub fn matches(&self, address: IpAddr) -> bool {
        self.any.iter().any(|rule| rule.matches(address))
            && !self.except.as_ref().is_some_and(|except| except.matches(address))
    }
}

/// A rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostRule {
    /// `ALL`.
    All,
    /// The addresses whose first `prefix` bits equal those of `network`. A single address has the full number of bits.
    Network {
        /// The network's address.
        network: IpAddr,
        /// Number of significant bits, at most 32 or 128.
        prefix: u8,
    },
}

impl HostRule {
    fn matches(&self, address: IpAddr) -> bool {
        match (*self, address) {
            (HostRule::All, _) => true,
            (HostRule::Network { network: IpAddr::V4(network), prefix }, IpAddr::V4(address)) => {
                let differing = u32::from(network) ^ u32::from(address);
                differing.checked_shr(32u32.saturating_sub(prefix.into())).unwrap_or(0) == 0
            }
            (HostRule::Network { network: IpAddr::V6(network), prefix }, IpAddr::V6(address)) => {
                let differing = u128::from(network) ^ u128::from(address);
                differing.checked_shr(128u32.saturating_sub(prefix.into())).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(rules: &[(&str, u8)]) -> HostList {
        let any = rules.iter().map(|(network, prefix)| HostRule::Network {
            network: network.parse().expect("an address"),
            prefix: *prefix,
        });
        HostList { any: any.collect(), except: None }
    }

    fn check(allow: &[(&str, u8)], deny: &[(&str, u8)], cases: &[(&str, bool)]) {
        let access = HostAccess { allow: list(allow), deny: list(deny) };
        for (address, expected) in cases {
            assert_eq!(access.permits(address.parse().expect("an address")), *expected, "{address} of {access:?}");
        }
    }

    #[test]
    fn lists_decide_as_documented_by_samba() {
        check(&[], &[], &[("10.0.0.1", true), ("::1", true)]);
        check(&[("10.0.0.0", 8)], &[], &[("10.1.2.3", true), ("11.0.0.1", false), ("127.0.0.1", true)]);
        check(&[], &[("10.0.0.0", 8)], &[("10.1.2.3", false), ("11.0.0.1", true)]);
        check(&[("10.0.0.5", 32)], &[("10.0.0.0", 8)], &[("10.0.0.5", true), ("10.0.0.6", false), ("11.0.0.1", true)]);
        check(&[], &[("0.0.0.0", 0)], &[("127.0.0.1", false), ("10.0.0.1", false), ("fe80::1", true)]);
        check(&[("fd00::", 8)], &[], &[("fd12::1", true), ("fe80::1", false)]);
        check(&[("10.0.0.0", 8)], &[], &[("::ffff:10.0.0.1", true)]);
    }

    #[test]
    fn except_excludes_addresses() {
        let except = Some(Box::new(list(&[("10.0.0.5", 32)])));
        let access = HostAccess { allow: HostList { any: vec![HostRule::All], except }, deny: HostList::default() };
        assert!(access.permits("10.0.0.4".parse().expect("an address")));
        assert!(!access.permits("10.0.0.5".parse().expect("an address")));
    }
}
