//! The access check: the rights that a security descriptor grants to a user ([MS-DTYP] 2.5.3.2).
//!
//! Not implemented, on purpose: object types, which files do not have; conditions, so a conditional allow ACE grants
//! nothing and a conditional deny ACE always denies; central access policies and integrity labels.

use proto::bytes::Reader;
use proto::dtyp::acl::{Ace, AceBody, AceFlags, AceType};
use proto::dtyp::{AccessMask, Acl, GenericMapping, SecurityDescriptor, Sid};

/// The token of a user for the access check ([MS-DTYP] 2.5.2).
#[derive(Clone, Hash, Debug)]
pub struct Token {
    /// The user.
    pub user: Sid,
    /// The groups, including the well-known ones (Everyone, Authenticated Users, Network).
    pub groups: Box<[Sid]>,
    /// SeSecurityPrivilege: may read and write SACLs.
    pub security: bool,
    /// SeTakeOwnershipPrivilege: may take ownership of every file.
    pub take_ownership: bool,
}

impl Token {
    /// Whether `sid` is the user or one of the groups.
    pub fn contains(&self, sid: &Sid) -> bool {
        // Compares the last part first, because most SIDs differ in it and most ACEs of a long ACL are for other users.
        let is_it = |own: &Sid| own.rid() == sid.rid() && own == sid;
        is_it(&self.user) || self.groups.iter().any(is_it)
    }

    /// Returns the user and the groups.
    pub fn sids(&self) -> Vec<Sid> {
        std::iter::once(self.user).chain(self.groups.iter().copied()).collect()
    }
}

/// The meaning of an ACE of a DACL for files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// Whether the rights are granted rather than denied.
    pub allow: bool,
    /// The trustee.
    pub sid: Sid,
    /// The rights.
    pub mask: AccessMask,
    /// How the ACE is inherited by new files and directories.
    pub inheritance: Inheritance,
}

/// The inheritance flags of an ACE that change its meaning ([MS-DTYP] 2.4.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Inheritance {
    /// OBJECT_INHERIT_ACE: new files get it.
    pub files: bool,
    /// CONTAINER_INHERIT_ACE: new directories get it.
    pub directories: bool,
    /// INHERIT_ONLY_ACE: it does not apply to the directory itself.
    pub only: bool,
}

impl Rule {
    /// Returns the meaning of `ace`; `None` if it has none for a file.
    pub fn of(ace: &Ace) -> Option<Rule> {
        let (mask, sid) = match &ace.body {
            AceBody::Trustee { mask, sid } => (*mask, *sid),
            AceBody::Raw(bytes) if ace.ace_type == AceType::ACCESS_DENIED_CALLBACK => {
                let mut reader = Reader::new(bytes);
                (AccessMask(reader.u32().ok()?), Sid::decode(&mut reader).ok()?)
            }
            AceBody::Raw(_) => return None,
        };
        let allow = match ace.ace_type {
            AceType::ACCESS_ALLOWED => true,
            AceType::ACCESS_DENIED | AceType::ACCESS_DENIED_CALLBACK => false,
            _ => return None,
        };
        let inheritance = Inheritance {
            files: ace.ace_flags.contains(AceFlags::OBJECT_INHERIT),
            directories: ace.ace_flags.contains(AceFlags::CONTAINER_INHERIT),
            only: ace.ace_flags.contains(AceFlags::INHERIT_ONLY),
        };
        Some(Rule { allow, sid, mask, inheritance })
    }

    /// Returns the corresponding ACE.
    pub fn to_ace(self) -> Ace {
        let flag = |is_set, flag| if is_set { flag } else { AceFlags::NONE };
        let flags = flag(self.inheritance.files, AceFlags::OBJECT_INHERIT)
            | flag(self.inheritance.directories, AceFlags::CONTAINER_INHERIT)
            | flag(self.inheritance.only, AceFlags::INHERIT_ONLY);
        if self.allow { Ace::allow(self.sid, self.mask, flags) } else { Ace::deny(self.sid, self.mask, flags) }
    }
}

/// STATUS_ACCESS_DENIED.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Denied;

/// Checks `wanted` and returns the granted rights: those requested, with generic rights expanded for files, and with
/// MAXIMUM_ALLOWED also all other rights of the user. Rights requested together with MAXIMUM_ALLOWED must be granted,
/// too.
// Deviates from [MS-DTYP] 2.5.3.2. With MAXIMUM_ALLOWED the order of the ACEs matters as it does without, so that a
// right is in the maximum exactly if requesting it alone succeeds. The generic rights of an ACE are expanded.
pub fn check(token: &Token, descriptor: &SecurityDescriptor, wanted: AccessMask) -> Result<AccessMask, Denied> {
    let maximum = wanted.contains(AccessMask::MAXIMUM_ALLOWED);
    let asked = wanted.without(AccessMask::MAXIMUM_ALLOWED).expand(&GenericMapping::FILE);
    answer(asked, granted(token, descriptor), maximum)
}

/// Returns all rights that `token` has by the descriptor and by privilege.
pub fn granted(token: &Token, descriptor: &SecurityDescriptor) -> AccessMask {
    // An absent DACL and a NULL DACL grant full control to everyone.
    let Some(dacl) = &descriptor.dacl else {
        return by_privilege(token) | AccessMask::FILE_ALL_ACCESS;
    };
    let owns = descriptor.owner.is_some_and(|owner| token.contains(&owner));
    let mut granted = by_privilege(token);
    if owns && !rules(dacl, |sid| *sid == Sid::OWNER_RIGHTS).any(|_| true) {
        granted |= AccessMask::READ_CONTROL | AccessMask::WRITE_DAC;
    }
    let mut denied = AccessMask::NONE;
    for rule in rules(dacl, |sid| token.contains(sid) || owns && *sid == Sid::OWNER_RIGHTS) {
        let mask = rule.mask.expand(&GenericMapping::FILE);
        if rule.allow {
            granted |= mask.without(denied);
        } else {
            denied |= mask.without(granted);
        }
    }
    granted
}

/// Returns the rules of `dacl` that apply to the file itself and to a SID for which `is_meant` is true. The others,
/// usually the majority of a long ACL, are not converted.
fn rules<'a>(dacl: &'a Acl, is_meant: impl Fn(&Sid) -> bool + 'a) -> impl Iterator<Item = Rule> + 'a {
    let is_meant = move |ace: &Ace| match ace.trustee() {
        Some((_, sid)) => is_meant(sid).then(|| Rule::of(ace))?,
        None => Rule::of(ace).filter(|rule| is_meant(&rule.sid)),
    };
    dacl.aces().iter().filter_map(is_meant).filter(|rule| !rule.inheritance.only)
}

/// Returns the rights that a user has by privilege, regardless of the descriptor.
fn by_privilege(token: &Token) -> AccessMask {
    let right = |holds, right| if holds { right } else { AccessMask::NONE };
    right(token.security, AccessMask::ACCESS_SYSTEM_SECURITY) | right(token.take_ownership, AccessMask::WRITE_OWNER)
}

fn answer(asked: AccessMask, granted: AccessMask, maximum: bool) -> Result<AccessMask, Denied> {
    match (granted.contains(asked), maximum) {
        (true, false) => Ok(asked),
        // The right to access the SACL is granted only if it is requested by name.
        (true, true) if !granted.without(AccessMask::ACCESS_SYSTEM_SECURITY).is_empty() => {
            Ok(asked | granted.without(AccessMask::ACCESS_SYSTEM_SECURITY))
        }
        _ => Err(Denied),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proto::dtyp::AccessMask as A;

    use super::*;

    const USER: Sid = Sid::unix_user(1);
    const GROUP: Sid = Sid::unix_group(2);
    const STRANGER: Sid = Sid::unix_user(3);

    fn token() -> Token {
        Token { user: USER, groups: Box::new([GROUP, Sid::EVERYONE]), security: false, take_ownership: false }
    }

    fn allow(sid: Sid, mask: A) -> Rule {
        Rule { allow: true, sid, mask, inheritance: Inheritance::default() }
    }

    fn deny(sid: Sid, mask: A) -> Rule {
        Rule { allow: false, ..allow(sid, mask) }
    }

    fn inherit_only(rule: Rule) -> Rule {
        Rule { inheritance: Inheritance { files: true, directories: true, only: true }, ..rule }
    }

    fn descriptor(owner: Sid, rules: &[Rule]) -> SecurityDescriptor {
        let dacl = Acl::new(Acl::REVISION, rules.iter().map(|rule| rule.to_ace()).collect());
        SecurityDescriptor { owner: Some(owner), dacl, ..SecurityDescriptor::default() }
    }

    fn ask(owner: Sid, rules: &[Rule], wanted: A) -> Result<A, Denied> {
        check(&token(), &descriptor(owner, rules), wanted)
    }

    #[test]
    fn single_rights() {
        let cases: [(&[Rule], A, bool); 13] = [
            (&[], A::FILE_READ_DATA, false),
            (&[], A::NONE, true),
            (&[allow(USER, A::FILE_READ_DATA)], A::FILE_READ_DATA, true),
            (&[allow(USER, A::FILE_READ_DATA)], A::FILE_READ_DATA | A::FILE_WRITE_DATA, false),
            (&[allow(USER, A::FILE_READ_DATA), allow(GROUP, A::FILE_WRITE_DATA)], A(3), true),
            (&[allow(STRANGER, A::FILE_ALL_ACCESS)], A::FILE_READ_DATA, false),
            (&[deny(GROUP, A::FILE_READ_DATA), allow(USER, A::FILE_READ_DATA)], A::FILE_READ_DATA, false),
            (&[allow(USER, A::FILE_READ_DATA), deny(GROUP, A::FILE_READ_DATA)], A::FILE_READ_DATA, true),
            (&[deny(STRANGER, A(3)), allow(USER, A(3))], A(3), true),
            (&[inherit_only(allow(USER, A(3)))], A(3), false),
            (&[inherit_only(deny(USER, A(3))), allow(USER, A(3))], A(3), true),
            (&[allow(USER, A::FILE_GENERIC_READ)], A::GENERIC_READ, true),
            (&[allow(USER, A::GENERIC_ALL)], A::DELETE | A::FILE_EXECUTE, true),
        ];
        for (rules, wanted, granted) in cases {
            let expected = if granted { Ok(wanted.expand(&GenericMapping::FILE)) } else { Err(Denied) };
            assert_eq!(ask(STRANGER, rules, wanted), expected, "{wanted:?} by {rules:?}");
        }
    }

    #[test]
    fn owners() {
        let own = A::READ_CONTROL | A::WRITE_DAC;
        assert_eq!(ask(USER, &[], own), Ok(own));
        assert_eq!(ask(GROUP, &[], own), Ok(own), "a group of the user may own it");
        assert_eq!(ask(STRANGER, &[], own), Err(Denied));
        let limited = [allow(Sid::OWNER_RIGHTS, A::FILE_READ_DATA)];
        assert_eq!(ask(USER, &limited, A::WRITE_DAC), Err(Denied));
        assert_eq!(ask(USER, &limited, A::FILE_READ_DATA), Ok(A::FILE_READ_DATA));
        assert_eq!(ask(STRANGER, &limited, A::FILE_READ_DATA), Err(Denied));
        assert_eq!(ask(USER, &[inherit_only(limited[0])], own), Ok(own));
    }

    #[test]
    fn the_maximum() {
        let max = A::MAXIMUM_ALLOWED;
        assert_eq!(ask(STRANGER, &[], max), Err(Denied));
        assert_eq!(ask(USER, &[], max), Ok(A::READ_CONTROL | A::WRITE_DAC));
        let rules = [deny(USER, A::FILE_WRITE_DATA), allow(GROUP, A(7)), allow(STRANGER, A::DELETE)];
        assert_eq!(ask(STRANGER, &rules, max), Ok(A(5)));
        assert_eq!(ask(STRANGER, &rules, max | A(1)), Ok(A(5)));
        assert_eq!(ask(STRANGER, &rules, max | A(2)), Err(Denied), "each named right must be granted");
        let no_dacl = SecurityDescriptor::default();
        assert_eq!(check(&token(), &no_dacl, max), Ok(A::FILE_ALL_ACCESS));
        assert_eq!(check(&token(), &no_dacl, A::ACCESS_SYSTEM_SECURITY), Err(Denied));
    }

    #[test]
    fn privileges() {
        let token = Token { security: true, take_ownership: true, ..token() };
        let object = descriptor(STRANGER, &[]);
        for wanted in [A::ACCESS_SYSTEM_SECURITY, A::WRITE_OWNER] {
            assert_eq!(check(&token, &object, wanted), Ok(wanted));
        }
        assert_eq!(check(&token, &object, A::MAXIMUM_ALLOWED), Ok(A::WRITE_OWNER));
        let both = A::MAXIMUM_ALLOWED | A::ACCESS_SYSTEM_SECURITY;
        assert_eq!(check(&token, &object, both), Ok(A::WRITE_OWNER | A::ACCESS_SYSTEM_SECURITY));
    }

    #[test]
    fn conditions_never_widen_access() {
        let mut body = A::FILE_READ_DATA.0.to_le_bytes().to_vec();
        body.extend([1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
        body.extend(*b"artx");
        let callback = |ace_type| Ace { ace_type, ace_flags: AceFlags::NONE, body: AceBody::Raw(body.clone().into()) };
        let everyone = Ace::allow(Sid::EVERYONE, A(3), AceFlags::NONE);
        for (aces, granted) in [
            (vec![callback(AceType::ACCESS_ALLOWED_CALLBACK)], None),
            (vec![callback(AceType::ACCESS_DENIED_CALLBACK), everyone], Some(A(2))),
        ] {
            let dacl = Acl::new(Acl::REVISION, aces);
            let descriptor = SecurityDescriptor { dacl, ..SecurityDescriptor::default() };
            assert_eq!(check(&token(), &descriptor, A::MAXIMUM_ALLOWED).ok(), granted);
        }
    }

    proptest! {
        #[test]
        fn a_right_is_in_the_maximum_where_it_is_granted_alone(
            rules in proptest::collection::vec(
                (any::<bool>(), 0..4usize, 0..0x200u32, any::<bool>()).prop_map(|(allows, sid, mask, only)| {
                    let sid = [USER, GROUP, STRANGER, Sid::OWNER_RIGHTS][sid];
                    let rule = if allows { allow(sid, A(mask)) } else { deny(sid, A(mask)) };
                    if only { inherit_only(rule) } else { rule }
                }),
                0..8,
            ),
            owned in any::<bool>(),
        ) {
            let owner = if owned { USER } else { STRANGER };
            let maximum = ask(owner, &rules, A::MAXIMUM_ALLOWED).unwrap_or_default();
            for bit in (0..21).map(|bit| A(1 << bit)) {
                prop_assert_eq!(ask(owner, &rules, bit).is_ok(), maximum.contains(bit));
            }
        }
    }
}
