//! The crowd: any number of accounts `u00001`, `u00002` and so on, all with one password.
//!
//! Both servers take them over from one file in the form of `smbpasswd(5)`, which is quick also for many.

use std::fmt::Write as _;

use md4::{Digest, Md4};

/// So many of them can have ids below 65,536, which is all that some containers map.
const LOW: u32 = 40_000;
/// The first id where that many are enough, and where not.
const FIRST_ID: (u32, u32) = (20_000, 10_000_000);

/// How many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crowd(pub u32);

impl Crowd {
    /// How their names are made from 1, 2, 3 and so on, as `printf` has it.
    pub const PATTERN: &'static str = "u%05d";
    /// The password of each of them.
    pub const PASSWORD: &'static str = "crowdpw";
    /// Their UNIX group.
    const GROUP: &'static str = "crowd";

    fn first_id(self) -> u32 {
        if self.0 <= LOW { FIRST_ID.0 } else { FIRST_ID.1 }
    }

    /// All of them.
    pub(super) fn members(self) -> Vec<Member> {
        let group = self.first_id();
        (1..=self.0).map(|number| Member { name: format!("u{number:05}"), id: group + number, group }).collect()
    }

    /// Lines for `/etc/group`.
    pub(super) fn group(self) -> String {
        if self.0 == 0 { String::new() } else { format!("{}:x:{}:\n", Self::GROUP, self.first_id()) }
    }
}

/// One of the crowd: name, UNIX user and group ids.
pub(super) struct Member {
    name: String,
    id: u32,
    group: u32,
}

/// Lines for `/etc/passwd`.
pub(super) fn passwd(members: &[Member]) -> String {
    members.iter().fold(String::new(), |mut text, Member { name, id, group }| {
        let _ = writeln!(text, "{name}:x:{id}:{group}::/nonexistent:/usr/sbin/nologin");
        text
    })
}

/// Lines of `smbpasswd(5)`: name, id, no LAN Manager hash, the password's hash ([MS-NLMP] 3.3.1), an ordinary user, when
/// the password was set.
pub(super) fn smbpasswd(members: &[Member]) -> String {
    let wide: Vec<u8> = Crowd::PASSWORD.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let hash = Md4::digest(wide).iter().fold(String::new(), |text, byte| format!("{text}{byte:02X}"));
    members.iter().fold(String::new(), |mut text, Member { name, id, .. }| {
        let _ = writeln!(text, "{name}:{id}:{}:{hash}:[U          ]:LCT-65000000:", "X".repeat(32));
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ids() {
        for (count, number, name, id) in [
            (40_000, 1, "u00001", 20_001),
            (40_000, 40_000, "u40000", 60_000),
            (300_000, 300_000, "u300000", 10_300_000),
        ] {
            let member = &Crowd(count).members()[number - 1];
            assert_eq!((member.name.as_str(), member.id), (name, id));
        }
        assert!(Crowd(0).members().is_empty() && Crowd(0).group().is_empty());
    }

    #[test]
    fn lines_of_the_account_files() {
        let members = Crowd(1).members();
        assert_eq!(passwd(&members), "u00001:x:20001:20000::/nonexistent:/usr/sbin/nologin\n");
        assert_eq!(Crowd(1).group(), "crowd:x:20000:\n");
        let line = smbpasswd(&members);
        let fields: Vec<&str> = line.trim_end().split(':').collect();
        assert_eq!(fields[..2], ["u00001", "20001"]);
        assert_eq!((fields[2].len(), fields[3].len(), fields[4].len()), (32, 32, 13));
    }
}
