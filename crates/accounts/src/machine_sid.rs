//! `frevo user machine-sid`: the SID of this machine, like Samba's `net getlocalsid` and `net setlocalsid`.

use std::cell::RefCell;
use std::collections::HashSet;

use anyhow::{Context, Result, bail, ensure};
use proto::dtyp::Sid;
use server::accounts::DomainSid;

use super::Directory;
use super::embedded::Other;
use super::records::LIST_PAGE;

/// Parses the machine's SID in `text`: a SID alone, or the output of `net getlocalsid`, which ends with it.
pub fn read(text: &str) -> Result<DomainSid> {
    let word = text.split_whitespace().next_back().context("the SID is empty")?;
    let sid: Sid = word.parse().ok().with_context(|| format!("{word:?} is not a SID; write S-1-5-21-x-y-z"))?;
    let numbers = sid.sub_authorities();
    ensure!(sid.authority() == 5 && numbers.first() == Some(&21), "{sid} is not a machine's SID; write S-1-5-21-x-y-z");
    match *numbers {
        [_, 0, 0, 0] => bail!("{sid} is not a machine's SID, because all its numbers are zero"),
        [_, x, y, z] => Ok(DomainSid([x, y, z])),
        [_, _, _, _, rid] => bail!("{sid} is an account's SID; the machine's SID is the same without -{rid}"),
        _ => bail!("{sid} is not a machine's SID; write S-1-5-21-x-y-z"),
    }
}

impl Directory {
    /// Sets the SID of this machine, or removes a former one, and returns the present SID. Blocks.
    pub fn machine_sid(&self, set: Option<String>, forget: Option<String>) -> Result<DomainSid> {
        if let Some(former) = forget.map(|text| read(&text)).transpose()? {
            self.own.forget_domain(former)?;
        }
        if let Some(new) = set.map(|text| read(&text)).transpose()?.filter(|new| *new != self.own.domain()) {
            self.own.set_domain(new, || self.elsewhere(new))?;
            tracing::info!(sid = %new, "the SID of this machine has changed");
        }
        Ok(self.own.domain())
    }

    /// Returns the accounts of other back ends whose SIDs are in this machine's domain, now or when it is `new`.
    pub(super) fn elsewhere(&self, new: DomainSid) -> Result<Vec<Other>> {
        let own = self.own.domain();
        let (mut found, mut after) = (Vec::new(), None::<String>);
        loop {
            let following = RefCell::new(HashSet::new());
            let page = self.pages(LIST_PAGE, |backend| {
                let page = backend.page(after.as_deref(), LIST_PAGE)?;
                if backend.follows_machine() {
                    following.borrow_mut().extend(page.iter().map(|entry| entry.sid));
                }
                Ok(page)
            })?;
            let Some(last) = page.last() else { return Ok(found) };
            after = Some(last.record.name.clone());
            for entry in page {
                let (name, before) = (entry.record.name.clone(), entry.sid);
                let after = match before.rid().filter(|_| following.borrow().contains(&before)) {
                    Some(rid) => new.with_rid(rid),
                    None => before,
                };
                if [own.sid(), new.sid()].iter().any(|domain| before.domain() == Some(*domain)) {
                    found.push(Other { name, before, after });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_machine_sid_is_accepted() {
        let good = Some(DomainSid([1, 2, 3]));
        for text in ["S-1-5-21-1-2-3", " s-1-5-21-1-2-3\n", "SID for domain OLD is: S-1-5-21-1-2-3\n"] {
            assert_eq!(read(text).ok(), good, "{text:?}");
        }
        for (text, word) in [
            ("", "is empty"),
            ("S-1-5-21-1-2", "S-1-5-21-x-y-z"),
            ("S-1-5-21-0-0-0", "are zero"),
            ("S-1-5-21-1-2-3-1000", "without -1000"),
            ("S-1-5-32-544", "is not a machine"),
            ("S-1-22-1-5", "is not a machine"),
            ("S-1-5-21-1-2-4294967296", "not a SID"),
            ("OLD", "not a SID"),
        ] {
            let why = read(text).unwrap_err().to_string();
            assert!(why.contains(word), "{text:?}: {why}");
        }
    }
}
