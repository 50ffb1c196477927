//! `hosts allow` and `hosts deny`: which addresses may connect to the server or to one share.
//!
//! Rules are addresses and networks only. Host names are left out on purpose: to ask a name server during a connect
//! would let whoever answers for it decide who gets in.

use std::net::IpAddr;

/// The two lists of one scope. Both empty lets everybody in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostAccess {
    /// `hosts allow`.
    pub allow: HostList,
    /// `hosts deny`.
    pub deny: HostList,
}

impl HostAccess {
    /// Whether `address` may connect. As in Samba, what is allowed wins over what is denied, an allow list alone
    /// shuts out all others, and the loopback address gets in unless it is denied and not allowed.
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

/// One list: alternatives, and what `EXCEPT` takes out of them again.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostList {
    /// An address that one of these matches is in the list,
    pub any: Vec<HostRule>,
    /// unless it is in this one.
    pub except: Option<Box<HostList>>,
}

impl HostList {
    /// Whether nothing is listed.
    pub fn is_empty(&self) -> bool {
        self.any.is_empty()
    }

    /// Whether `address` is in the list.
    pub fn matches(&self, address: IpAddr) -> bool {
        self.any.iter().any(|rule| rule.matches(address))
            && !self.except.as_ref().is_some_and(|except| except.matches(address))
    }
}

/// One element of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostRule {
    /// `ALL`.
    All,
    /// The addresses whose first `prefix` bits are those of `network`; a single address has all its bits.
    Network {
        /// The network's address.
        network: IpAddr,
        /// Number of bits that count, at most 32 or 128.
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
    fn lists_decide_as_samba_documents_it() {
        check(&[], &[], &[("10.0.0.1", true), ("::1", true)]);
        check(&[("10.0.0.0", 8)], &[], &[("10.1.2.3", true), ("11.0.0.1", false), ("127.0.0.1", true)]);
        check(&[], &[("10.0.0.0", 8)], &[("10.1.2.3", false), ("11.0.0.1", true)]);
        check(&[("10.0.0.5", 32)], &[("10.0.0.0", 8)], &[("10.0.0.5", true), ("10.0.0.6", false), ("11.0.0.1", true)]);
        check(&[], &[("0.0.0.0", 0)], &[("127.0.0.1", false), ("10.0.0.1", false), ("fe80::1", true)]);
        check(&[("fd00::", 8)], &[], &[("fd12::1", true), ("fe80::1", false)]);
        check(&[("10.0.0.0", 8)], &[], &[("::ffff:10.0.0.1", true)]);
    }

    #[test]
    fn except_takes_out_again() {
        let except = Some(Box::new(list(&[("10.0.0.5", 32)])));
        let access = HostAccess { allow: HostList { any: vec![HostRule::All], except }, deny: HostList::default() };
        assert!(access.permits("10.0.0.4".parse().expect("an address")));
        assert!(!access.permits("10.0.0.5".parse().expect("an address")));
    }
}
