//! The crowd: any number of accounts `u00001`, `u00002` and so on, all with the same password.
//!
//! Both servers import them from one file in `smbpasswd(5)` format, which is fast even for many.

use std::fmt::Write as _;

use md4::{Digest, Md4};

/// Members up to this number have ids that follow that of their group and are below 65,536, because some containers map
/// no others.
const LOW: u32 = 40_000;
/// The id of their group.
const GROUP: u32 = 20_000;
/// Added to the number of each further member to get its id.
const HIGH: u32 = 10_000_000;

/// The size of the crowd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crowd(pub u32);

impl Crowd {
    /// The `printf` pattern of their names, for the numbers 1, 2, 3 and so on.
    pub const PATTERN: &'static str = "u%05d";
    /// The password of all members.
    pub const PASSWORD: &'static str = "crowdpw";

    /// Returns the members after the first `from`.
    pub(crate) fn members(self, from: Crowd) -> Vec<Member> {
        let id = |number: u32| if number <= LOW { GROUP + number } else { HIGH + number };
        (from.0 + 1..=self.0).map(|number| Member { name: format!("u{number:05}"), id: id(number) }).collect()
    }
}

/// A member of the crowd: name and uid.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) id: u32,
}

/// Returns the group's line for `/etc/group`.
pub(crate) fn group() -> String {
    format!("crowd:x:{GROUP}:\n")
}

/// Returns lines in the format of `/etc/passwd`.
pub(crate) fn passwd(members: &[Member]) -> String {
    members.iter().fold(String::new(), |mut text, Member { name, id }| {
        let _ = writeln!(text, "{name}:x:{id}:{GROUP}::/nonexistent:/usr/sbin/nologin");
        text
    })
}

/// Converts lines of `/etc/passwd` to entries for a `libnss-db` database, in `makedb` format: each by name and by id.
pub(crate) fn database(passwd: &str) -> String {
    passwd.lines().fold(String::new(), |mut text, line| {
        let mut fields = line.split(':');
        if let (Some(name), Some(id)) = (fields.next(), fields.nth(1)) {
            let _ = writeln!(text, ".{name} {line}\n={id} {line}");
        }
        text
    })
}

/// Returns lines in `smbpasswd(5)` format: name, id, no LAN Manager hash, the password's hash ([MS-NLMP] 3.3.1),
/// ordinary user, time of the password.
pub(crate) fn smbpasswd(members: &[Member]) -> String {
    let hash = nt_hash(Crowd::PASSWORD);
    members.iter().fold(String::new(), |mut text, Member { name, id }| {
        let _ = writeln!(text, "{name}:{id}:{}:{hash}:[U          ]:LCT-65000000:", "X".repeat(32));
        text
    })
}

/// Returns the hash of a password ([MS-NLMP] 3.3.1) in the format of account files and directories.
pub(crate) fn nt_hash(password: &str) -> String {
    let wide: Vec<u8> = password.encode_utf16().flat_map(u16::to_le_bytes).collect();
    Md4::digest(wide).iter().fold(String::new(), |text, byte| format!("{text}{byte:02X}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ids_are_numbered() {
        let members = Crowd(40_001).members(Crowd(39_999));
        let seen: Vec<(&str, u32)> = members.iter().map(|member| (member.name.as_str(), member.id)).collect();
        assert_eq!(seen, [("u40000", 60_000), ("u40001", 10_040_001)]);
        assert!(Crowd(3).members(Crowd(3)).is_empty());
    }

    #[test]
    fn lines_of_the_account_files_are_formatted() {
        let members = Crowd(1).members(Crowd(0));
        assert_eq!(passwd(&members), "u00001:x:20001:20000::/nonexistent:/usr/sbin/nologin\n");
        let line = smbpasswd(&members);
        let fields: Vec<&str> = line.trim_end().split(':').collect();
        assert_eq!(fields[..2], ["u00001", "20001"]);
        assert_eq!((fields[2].len(), fields[3].len(), fields[4].len()), (32, 32, 13));
    }

    #[test]
    fn entries_of_the_database_are_formatted() {
        let line = "u00001:x:20001:20000::/nonexistent:/usr/sbin/nologin";
        assert_eq!(database(&passwd(&Crowd(1).members(Crowd(0)))), format!(".u00001 {line}\n=20001 {line}\n"));
    }
}
