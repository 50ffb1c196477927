//! Parses what Samba's programs print. Samba's databases are not read themselves, because their formats change.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use proto::calendar;

/// One account of `pdbedit -L -v`: its lines, split at the first colon.
pub(super) type Verbose = BTreeMap<String, String>;

/// From this time on, Samba prints a time that means "never": 2036-02-06 15:06:39 UTC.
const NEVER: i64 = 2_085_923_199;

/// Returns the accounts of `pdbedit -L -v` by the names of their UNIX users.
pub(super) fn verbose(text: &str) -> BTreeMap<String, Verbose> {
    let mut accounts = BTreeMap::new();
    for block in text.split("---------------\n") {
        let fields: Verbose = block
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(what, value)| (what.trim().to_owned(), value.trim().to_owned()))
            .collect();
        if let Some(name) = fields.get("Unix username").cloned() {
            accounts.insert(name, fields);
        }
    }
    accounts
}

/// Parses a time such as `Sun, 17 Mar 2030 17:46:40 UTC`; `None` for never.
pub(super) fn time(text: &str) -> Result<Option<i64>> {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    if ["never", "0", ""].contains(&text) {
        return Ok(None);
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, day, month, year, clock, "UTC" | "GMT"] = words[..] else { bail!("{text:?} is not a time in UTC") };
    let month = MONTHS.iter().position(|known| *known == month).with_context(|| format!("no month in {text:?}"))?;
    let mut seconds = calendar::day(year.parse()?, i64::try_from(month)? + 1, day.parse()?);
    for (part, unit) in clock.splitn(3, ':').zip([24, 60, 60]) {
        seconds = seconds * unit + part.parse::<i64>()?;
    }
    Ok(Some(seconds).filter(|seconds| *seconds < NEVER))
}

/// Returns the value in the output of `pdbedit -P NAME`.
pub(super) fn policy(text: &str) -> Result<i64> {
    let value = text.lines().rev().find_map(|line| line.rsplit_once("value is: "));
    let (_, value) = value.context("no line `value is:` in the output of `pdbedit -P`")?;
    value.trim().parse().with_context(|| format!("{value:?} is not a number"))
}

/// Returns the shares in the output of `sharesec --view-all` that have another ACL than the default, which gives
/// everyone full control.
pub(super) fn restricted_shares(text: &str) -> Vec<String> {
    const DEFAULT: [&str; 5] = ["REVISION:1", "CONTROL:SR|DP", "OWNER:", "GROUP:", "ACL:S-1-1-0:ALLOWED/0x0/FULL"];
    let mut shares: Vec<(String, Vec<&str>)> = Vec::new();
    for line in text.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
        match (line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')), shares.last_mut()) {
            (Some(share), _) => shares.push((share.to_owned(), Vec::new())),
            (None, Some((_, lines))) => lines.push(line),
            (None, None) => {}
        }
    }
    shares.into_iter().filter(|(_, lines)| lines[..] != DEFAULT).map(|(share, _)| share).collect()
}

/// Returns the members in the output of `net sam listmem`.
pub(super) fn members(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.strip_prefix(' ')).map(|member| member.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shortened output of `pdbedit -L -v`, Samba 4.17.
    const PRINTED: &str = "---------------
Unix username:        games
NT username:          
Account Flags:        [UX         ]
User SID:             S-1-5-21-3040793607-588131712-3399717372-1002
Full Name:            Full games: x
Kickoff time:         Sun, 17 Mar 2030 17:46:40 UTC
Last bad password   : 0
Logon hours         : FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF
---------------
Unix username:        b ob
User SID:             S-1-5-21-3040793607-588131712-3399717372-1001
";

    #[test]
    fn accounts_have_their_fields() {
        let accounts = verbose(PRINTED);
        assert_eq!(accounts.len(), 2);
        let games = &accounts["games"];
        assert_eq!((games["Full Name"].as_str(), games["NT username"].as_str()), ("Full games: x", ""));
        assert_eq!(games["Logon hours"].len(), 42);
        assert!(accounts["b ob"]["User SID"].ends_with("-1001"));
        assert!(verbose("").is_empty());
    }

    #[test]
    fn times_are_read_in_utc() {
        for (text, expected) in [
            ("Sun, 17 Mar 2030 17:46:40 UTC", Some(1_900_000_000)),
            ("Mon, 23 Nov 2026 22:50:11 GMT", Some(1_795_474_211)),
            ("Wed, 06 Feb 2036 15:06:39 UTC", None),
            ("Tue, 19 Jan 2038 03:14:07 UTC", None),
            ("never", None),
            ("0", None),
        ] {
            assert_eq!(time(text).unwrap(), expected, "{text}");
        }
        for wrong in ["Sun, 17 Mar 2030 17:46:40 CET", "tomorrow", "Sun, 17 Xyz 2030 17:46:40 UTC"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_policy_has_a_value() {
        let text = "account policy \"lockout duration\" description: Minutes (default: 30, -1 => forever)\n\
                    account policy \"lockout duration\" value is: 4294967295\n";
        assert_eq!(policy(text).unwrap(), 4_294_967_295);
        assert!(policy("No account policy by that name!\n").is_err());
    }

    #[test]
    fn shares_with_an_acl_are_found() {
        let default = "REVISION:1\nCONTROL:SR|DP\nOWNER:\nGROUP:\nACL:S-1-1-0:ALLOWED/0x0/FULL\n\n";
        let other = "REVISION:1\nCONTROL:SR|DP\nOWNER:\nGROUP:\nACL:S-1-1-0:ALLOWED/0x0/READ\n\n";
        let text = format!("[a b]\n{default}[c]\n{other}[d]\n{default}[e]\n");
        assert_eq!(restricted_shares(&text), ["c", "e"]);
    }

    #[test]
    fn members_of_a_group_are_found() {
        assert_eq!(members("BED\\Loc has 1 members\n BED\\daemon\n"), ["BED\\daemon"]);
        assert!(members("BUILTIN\\Users has 0 members\n").is_empty());
    }
}
