//! Import of accounts from Samba: the `smbpasswd` file, whose format is also the output of `pdbedit -L -w`.
//!
//! The uid of a line ([`Fields`]) is ignored: Samba itself uses the name, and writes uids that belong to no user.

use anyhow::Result;

use super::smbpasswd::line::Fields;
use crate::records::Imported;

/// The content of one line.
pub enum Line {
    /// An account, and a remark for the administrator.
    Account(Imported, Option<&'static str>),
    /// Nothing to import, and the reason.
    Skipped(String),
    /// A comment or an empty line.
    Nothing,
}

/// Parses one line, without its line feed. An error says what is wrong without quoting a hash.
pub fn read_line(line: &[u8]) -> Result<Line> {
    let Some(fields) = Fields::read(line)? else { return Ok(Line::Nothing) };
    let Fields { name, flags, changed, .. } = fields;
    if let Some(kind) = flags.machine() {
        return Ok(Line::Skipped(format!("{name} is {kind}, not a user")));
    }
    let note = match (&fields.nt_hash, flags.has('N')) {
        (_, true) => Some("has no password, which Samba allows and Frevo does not: set one with `frevo user passwd`"),
        (None, _) => Some("has no NT hash and cannot log on: set a password with `frevo user passwd`"),
        _ if flags.has('L') => Some("was locked by Samba: unlock it with `frevo user enable`"),
        _ => None,
    };
    let account = Imported {
        name: name.to_owned(),
        nt_hash: fields.nt_hash.filter(|_| !flags.has('N')),
        disabled: flags.has('D'),
        locked: flags.has('L'),
        must_change: changed == Some(0),
        never_expires: flags.has('X'),
        password_last_set: changed.filter(|secs| *secs != 0),
    };
    Ok(Line::Account(account, note))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the account of a valid line.
    fn check(line: &str) -> (Imported, Option<&'static str>) {
        match read_line(line.as_bytes()) {
            Ok(Line::Account(account, note)) => (account, note),
            Ok(_) => panic!("not an account: {line}"),
            Err(error) => panic!("{line}: {error:#}"),
        }
    }

    // The lines are from Samba 4.17: from `smbpasswd` files and from `pdbedit -L -w` with tdbsam, which have the same
    // format.
    const GOOD: &str =
        "daemon:1:XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:1D3EC02BF8AAF6D00F91C0A7F0F3C160:[U          ]:LCT-6B013C02:";
    const DISABLED: &str =
        "bin:2:XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:0FA5C7BEC343B30A586205715761BC27:[DU         ]:LCT-6B013C02:";
    const NONE: &str =
        "games:5:NO PASSWORDXXXXXXXXXXXXXXXXXXXXX:1EE890DCE23371816608A8074FF5063A:[NU         ]:LCT-6B013C02:";
    const NEVER_SET: &str =
        "nobody:65534:XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:[U          ]:LCT-00000000:";
    const NEVER_EXPIRES: &str =
        "nobody:0:XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:650B1AB9981C756263B3D66E2781F688:[UX         ]:LCT-6B013C02:";

    #[test]
    fn samba_accounts_are_read() {
        let (account, note) = check(GOOD);
        assert_eq!(account.name, "daemon");
        let hash = super::super::record::nt_hash("Secret-daemon").unwrap();
        assert_eq!(account.nt_hash.unwrap().0, hash.0);
        assert_eq!(account.password_last_set, Some(0x6b01_3c02));
        assert!(!account.disabled && !account.locked && !account.must_change && note.is_none());

        assert!(check(DISABLED).0.disabled);
        let (account, note) = check(NONE);
        assert!(account.nt_hash.is_none() && note.unwrap().contains("has no password"));
        let (account, note) = check(NEVER_SET);
        assert!(account.nt_hash.is_none() && account.must_change && note.unwrap().contains("no NT hash"));
        assert_eq!(account.password_last_set, None);
        assert!(!account.never_expires && check(NEVER_EXPIRES).0.never_expires);
        assert!(check(&GOOD.replace("[U  ", "[UL ")).0.locked);
    }

    #[test]
    fn older_and_unusual_lines_are_read() {
        check("daemon:1:XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:1D3EC02BF8AAF6D00F91C0A7F0F3C160");
        check("a b:-1:XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:1d3ec02bf8aaf6d00f91c0a7f0f3c160:[U]::");
        check(&GOOD.replace(":1:", ":4294967295:"));
        check(&format!("{GOOD}\r"));
        check(&format!("{GOOD}Daemon,,,:/home:"));
        assert_eq!(check(&GOOD.replace("6B013C02", "FFFFFFFF")).0.password_last_set, None);
        for nothing in ["", "  ", "# comment", "\r"] {
            assert!(matches!(read_line(nothing.as_bytes()), Ok(Line::Nothing)));
        }
        for (flag, word) in [("W", "workstation"), ("S", "controller"), ("I", "trusted")] {
            match read_line(GOOD.replace("[U", &format!("[{flag}")).as_bytes()) {
                Ok(Line::Skipped(why)) => assert!(why.contains(word)),
                _ => panic!("the line with flag {flag} was imported"),
            }
        }
    }

    #[test]
    fn errors_in_lines_name_the_field_and_omit_the_hash() {
        for (line, word) in [
            ("daemon", "uid"),
            ("daemon:x:", "\"x\" is not a uid"),
            ("daemon:1:XX:", "LM hash"),
            (":1:X:X", "empty"),
            ("dae/mon:1:", "contain"),
            ("daemon:1:XXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX", "ends before the NT hash"),
            (&GOOD.replace("1D3E", "1D3G"), "NT hash"),
            (&GOOD.replace("[U", "[Q"), "flag 'Q'"),
            (&GOOD.replace("]", ""), "brackets"),
            (&GOOD.replace("LCT-6B", "LCT-ZB"), "time"),
            (&GOOD.replace("LCT-", "LTC-"), "LCT-"),
        ] {
            let Err(error) = read_line(line.as_bytes()) else { panic!("accepted {line}") };
            let text = format!("{error:#}");
            assert!(text.contains(word), "{line}: {text}");
            assert!(!text.contains("C02BF8AAF6D00F91"), "{text}");
        }
        assert!(read_line(b"d\xff:1:").is_err());
        assert!(read_line(&[b':'; 100]).is_err());
        assert!(read_line("d\u{e4}:1:\u{e4}XXXXXXXXXXXXXXXXXXXXXXXXXXXXXX:x".as_bytes()).is_err());
    }
}
