//! The crowd: any number of accounts `u00001`, `u00002` and so on, all with one password.
//!
//! Both servers take them over from one file in the form of `smbpasswd(5)`, which is quick also for many.

use std::fmt::Write as _;

use md4::{Digest, Md4};

/// Of so many of them the ids follow the one of their group, and are below 65,536: all that some containers map.
const LOW: u32 = 40_000;
/// The id of their group.
const GROUP: u32 = 20_000;
/// What is added to the number of each of the others for an id.
const HIGH: u32 = 10_000_000;

/// How many there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crowd(pub u32);

impl Crowd {
    /// How their names are made from 1, 2, 3 and so on, as `printf` has it.
    pub const PATTERN: &'static str = "u%05d";
    /// The password of each of them.
    pub const PASSWORD: &'static str = "crowdpw";

    /// Those that come after the first `from`.
    pub(super) fn members(self, from: Crowd) -> Vec<Member> {
        let id = |number: u32| if number <= LOW { GROUP + number } else { HIGH + number };
        (from.0 + 1..=self.0).map(|number| Member { name: format!("u{number:05}"), id: id(number) }).collect()
    }
}

/// One of the crowd: name and UNIX user id.
pub(super) struct Member {
    pub(super) name: String,
    pub(super) id: u32,
}

/// Their line for `/etc/group`.
pub(super) fn group() -> String {
    format!("crowd:x:{GROUP}:\n")
}

/// Lines in the form of `/etc/passwd`.
pub(super) fn passwd(members: &[Member]) -> String {
    members.iter().fold(String::new(), |mut text, Member { name, id }| {
        let _ = writeln!(text, "{name}:x:{id}:{GROUP}::/nonexistent:/usr/sbin/nologin");
        text
    })
}

/// Entries for a database of `libnss-db`, as `makedb` takes them, of lines of `/etc/passwd`: each by its name and its id.
pub(super) fn database(passwd: &str) -> String {
    passwd.lines().fold(String::new(), |mut text, line| {
        let mut fields = line.split(':');
        if let (Some(name), Some(id)) = (fields.next(), fields.nth(1)) {
            let _ = writeln!(text, ".{name} {line}\n={id} {line}");
        }
        text
    })
}

/// Lines of `smbpasswd(5)`: name, id, no LAN Manager hash, the password's hash ([MS-NLMP] 3.3.1), an ordinary user, when
/// the password was set.
pub(super) fn smbpasswd(members: &[Member]) -> String {
    let hash = nt_hash(Crowd::PASSWORD);
    members.iter().fold(String::new(), |mut text, Member { name, id }| {
        let _ = writeln!(text, "{name}:{id}:{}:{hash}:[U          ]:LCT-65000000:", "X".repeat(32));
        text
    })
}

/// The hash of a password ([MS-NLMP] 3.3.1) as account files and directories have it.
pub(super) fn nt_hash(password: &str) -> String {
    let wide: Vec<u8> = password.encode_utf16().flat_map(u16::to_le_bytes).collect();
    Md4::digest(wide).iter().fold(String::new(), |text, byte| format!("{text}{byte:02X}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ids() {
        let members = Crowd(40_001).members(Crowd(39_999));
        let seen: Vec<(&str, u32)> = members.iter().map(|member| (member.name.as_str(), member.id)).collect();
        assert_eq!(seen, [("u40000", 60_000), ("u40001", 10_040_001)]);
        assert!(Crowd(3).members(Crowd(3)).is_empty());
    }

    #[test]
    fn lines_of_the_account_files() {
        let members = Crowd(1).members(Crowd(0));
        assert_eq!(passwd(&members), "u00001:x:20001:20000::/nonexistent:/usr/sbin/nologin\n");
        let line = smbpasswd(&members);
        let fields: Vec<&str> = line.trim_end().split(':').collect();
        assert_eq!(fields[..2], ["u00001", "20001"]);
        assert_eq!((fields[2].len(), fields[3].len(), fields[4].len()), (32, 32, 13));
    }

    #[test]
    fn entries_of_the_database() {
        let line = "u00001:x:20001:20000::/nonexistent:/usr/sbin/nologin";
        assert_eq!(database(&passwd(&Crowd(1).members(Crowd(0)))), format!(".u00001 {line}\n=20001 {line}\n"));
    }
}
