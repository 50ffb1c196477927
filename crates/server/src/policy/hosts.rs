//! `hosts allow` and `hosts deny`: the clients that may connect to the server or to a share.
//!
//! Host names and netgroups are resolved when a client connects. A rule that cannot be resolved admits nobody in `hosts
//! allow`, and refuses everybody in `hosts deny`.

use std::net::IpAddr;

use crate::answer::Answer;

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
        self.decide(address.to_canonical(), &|_| None)
    }

    /// Same as [`Self::permits`], with rules that `names` resolves.
    pub async fn permits_with(&self, address: IpAddr, names: Option<&dyn HostNames>) -> bool {
        let address = address.to_canonical();
        let rules = self.names();
        let Some(names) = names.filter(|_| !rules.is_empty()) else { return self.permits(address) };
        let resolved = names.resolve(rules.iter().map(|rule| (*rule).clone()).collect(), address).await;
        self.decide(address, &|rule| {
            let at = rules.iter().position(|known| *known == rule)?;
            resolved.get(at).copied().flatten()
        })
    }

    /// Whether the decision depends on host names.
    pub fn has_names(&self) -> bool {
        self.allow.names().chain(self.deny.names()).next().is_some()
    }

    fn names(&self) -> Vec<&HostRule> {
        self.allow.names().chain(self.deny.names()).collect()
    }

    fn decide(&self, address: IpAddr, resolved: Resolved<'_>) -> bool {
        let allowed = self.allow.matches_with(address, resolved).unwrap_or(false);
        let denied = self.deny.matches_with(address, resolved).unwrap_or(true);
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

/// Whether the address matches a rule with a name; `None` if that is not known.
type Resolved<'r> = &'r dyn Fn(&HostRule) -> Option<bool>;

/// The host names and netgroups of this host.
pub trait HostNames: Send + Sync {
    /// Returns for each of `rules`, which have names, whether `address` matches; `None` if that cannot be determined.
    /// The time for all of them together is bounded.
    fn resolve(&self, rules: Vec<HostRule>, address: IpAddr) -> Answer<Vec<Option<bool>>>;
}

impl std::fmt::Debug for dyn HostNames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HostNames")
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
        self.any.is_empty() && self.except.is_none()
    }

    /// Whether `address` matches the list without its names.
    pub fn matches(&self, address: IpAddr) -> bool {
        self.matches_with(address, &|_| None).unwrap_or(false)
    }

    /// Whether `address` matches the list; `None` if that depends on what is not known.
    fn matches_with(&self, address: IpAddr, resolved: Resolved<'_>) -> Option<bool> {
        let mut any = Some(false);
        for rule in &self.any {
            match rule.matches(address, resolved) {
                Some(true) => {
                    any = Some(true);
                    break;
                }
                Some(false) => {}
                None => any = None,
            }
        }
        let except = self.except.as_ref().map_or(Some(false), |except| except.matches_with(address, resolved));
        match (any, except) {
            (Some(false), _) | (_, Some(true)) => Some(false),
            (Some(true), Some(false)) => Some(true),
            _ => None,
        }
    }

    /// Returns the rules that must be resolved.
    fn names(&self) -> Box<dyn Iterator<Item = &HostRule> + '_> {
        let own = self.any.iter().filter(|rule| !matches!(rule, HostRule::All | HostRule::Network { .. }));
        Box::new(own.chain(self.except.iter().flat_map(|except| except.names())))
    }
}

/// A rule.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
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
    /// The addresses of the host with this name.
    Name(String),
    /// `.domain`: the hosts whose names end so.
    Domain(String),
    /// `@group`: the hosts in a netgroup.
    Netgroup(String),
}

impl HostRule {
    fn matches(&self, address: IpAddr, resolved: Resolved<'_>) -> Option<bool> {
        Some(match (self, address) {
            (HostRule::All, _) => true,
            (HostRule::Network { network: IpAddr::V4(network), prefix }, IpAddr::V4(address)) => {
                let differing = u32::from(*network) ^ u32::from(address);
                differing.checked_shr(32u32.saturating_sub((*prefix).into())).unwrap_or(0) == 0
            }
            (HostRule::Network { network: IpAddr::V6(network), prefix }, IpAddr::V6(address)) => {
                let differing = u128::from(*network) ^ u128::from(address);
                differing.checked_shr(128u32.saturating_sub((*prefix).into())).unwrap_or(0) == 0
            }
            (HostRule::Network { .. }, _) => false,
            (HostRule::Name(_) | HostRule::Domain(_) | HostRule::Netgroup(_), _) => return resolved(self),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::block_on;

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
        let except = Some(Box::new(list(&[("10.0.0.5", 32)])));
        let access = HostAccess { allow: HostList { any: Vec::new(), except }, deny: HostList::default() };
        for (address, permitted) in [("10.0.0.4", false), ("10.0.0.5", false), ("127.0.0.1", true)] {
            assert_eq!(access.permits(address.parse().expect("an address")), permitted, "{address}");
        }
    }

    /// Resolves `here` to 10.0.0.1, and knows that no other host has the name `other`.
    struct Names;

    impl HostNames for Names {
        fn resolve(&self, rules: Vec<HostRule>, address: IpAddr) -> Answer<Vec<Option<bool>>> {
            let one = |rule: &HostRule| match rule {
                HostRule::Name(name) if name == "here" => Some(address == IpAddr::from([10, 0, 0, 1])),
                HostRule::Name(name) if name == "other" => Some(false),
                _ => None,
            };
            Answer::now(rules.iter().map(one).collect())
        }
    }

    #[test]
    fn names_that_cannot_be_resolved_admit_nobody() {
        let name = |name: &str| HostRule::Name(name.into());
        let list = |any: Vec<HostRule>, except: Vec<HostRule>| HostList {
            any,
            except: (!except.is_empty()).then(|| Box::new(HostList { any: except, except: None })),
        };
        let none = || list(Vec::new(), Vec::new());
        let ten = || HostRule::Network { network: IpAddr::from([10, 0, 0, 0]), prefix: 8 };
        let group = || HostRule::Netgroup("gone".into());
        // The lists, and whether 10.0.0.1 and 10.0.0.2 may connect.
        let cases = [
            (list(vec![name("here")], vec![]), none(), true, false),
            (list(vec![name("gone")], vec![]), none(), false, false),
            (list(vec![name("gone"), ten()], vec![]), none(), true, true),
            (list(vec![ten()], vec![name("here")]), none(), false, true),
            (list(vec![ten()], vec![group()]), none(), false, false),
            (none(), list(vec![name("here")], vec![]), false, true),
            (none(), list(vec![name("other")], vec![]), true, true),
            (none(), list(vec![name("gone")], vec![]), false, false),
            (none(), list(vec![ten()], vec![name("here")]), true, false),
            (none(), list(vec![ten()], vec![name("gone")]), false, false),
            (list(vec![name("here")], vec![]), list(vec![name("gone")], vec![]), true, false),
        ];
        for (allow, deny, first, second) in cases {
            let access = HostAccess { allow, deny };
            assert!(access.has_names());
            for (last, expected) in [(1, first), (2, second)] {
                let address = IpAddr::from([10, 0, 0, last]);
                assert_eq!(block_on(access.permits_with(address, Some(&Names))), expected, "{last} of {access:?}");
                let blind = block_on(access.permits_with(address, None));
                assert!(!blind || expected, "without names {last} of {access:?}");
            }
        }
    }
}
