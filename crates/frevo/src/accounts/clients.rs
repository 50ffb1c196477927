//! Who the clients of a Kerberos realm are here, on a server that is no member of a domain: the account of that name, else
//! the UNIX user of that name, as on hosts whose users come from the realm.
//!
//! Users of other realms are nobody, whoever their realm says that they are, and so is every name of several components:
//! `ann/admin` is not `ann`. Nobody is root.

use std::sync::Arc;

use proto::auth::pac::LogonInfo;
use proto::dtyp::Sid;
use server::accounts::{Account, Accounts, DomainSid, Unavailable};
use server::answer::Answer;
use server::tickets::ClientName;

use super::Directory;
use super::unix::{Found, Key, User};

/// The account of `client`.
pub(super) fn account(
    directory: &Directory,
    client: &ClientName,
    logon: Option<&LogonInfo>,
) -> Answer<Result<Option<Account>, Unavailable>> {
    let [name] = &client.components[..] else { return nobody(client, "a name of several components is no user's") };
    if !client.own_realm {
        return nobody(client, "users of other realms come in only through a domain");
    }
    if name.is_empty() || name.contains(['@', '\\', '/']) || name.chars().any(char::is_control) {
        return nobody(client, "no user is called so");
    }
    let sids: Vec<Sid> = logon.map_or_else(Vec::new, |logon| foreign(logon, directory.domain()));
    let (this, name) = (directory.clone(), name.clone());
    directory.find(&name).then(move |found| match found {
        Ok(Some(account)) => Answer::now(Ok(not_root(with_sids(account, &sids)))),
        Ok(None) => unix_user(&this, name, sids),
        Err(why) => Answer::now(Err(why)),
    })
}

/// Those of the SIDs in a ticket that are the realm's to give: who has one of this machine's accounts, or is in one of its
/// groups, is said here alone. None where not even the user's own is: the first one left would be taken for that.
fn foreign(logon: &LogonInfo, machine: DomainSid) -> Vec<Sid> {
    let is_foreign = |sid: &Sid| sid.domain() != Some(machine.sid());
    if is_foreign(&logon.user) { logon.sids().filter(is_foreign).collect() } else { Vec::new() }
}

fn nobody(client: &ClientName, why: &str) -> Answer<Result<Option<Account>, Unavailable>> {
    tracing::info!(%client, "nobody here: {why}");
    Answer::now(Ok(None))
}

/// What the realm says counts beside what the account is known as here.
fn with_sids(account: Account, sids: &[Sid]) -> Account {
    let former_sids = account.former_sids.iter().chain(sids).copied().collect();
    Account { former_sids, ..account }
}

fn not_root(account: Account) -> Option<Account> {
    if account.identity.uid != 0 {
        return Some(account);
    }
    tracing::warn!(account = account.name, "logon refused: a Kerberos ticket makes nobody root");
    None
}

fn unix_user(directory: &Directory, name: String, sids: Vec<Sid>) -> Answer<Result<Option<Account>, Unavailable>> {
    // Where everybody is the process's user, that user's own name is the only one that NSS would give to it.
    if directory.users().only().is_some_and(|only| only.name != name) {
        return Answer::now(Ok(None));
    }
    directory.users().find(Key::Name(name)).map(move |found| {
        found.map(|found: Found| match found {
            Ok(user) => not_root(of_user(&user, sids)),
            Err(why) => {
                tracing::info!("a Kerberos ticket of nobody here: {why}");
                None
            }
        })
    })
}

/// An account that lies nowhere: what the realm says, and the kernel.
fn of_user(user: &User, sids: Vec<Sid>) -> Account {
    let mut sids = sids.into_iter().chain([Sid::unix_user(user.identity.uid)]);
    Account {
        name: user.name.clone(),
        nt_hash: None,
        disabled: false,
        locked: false,
        must_change: false,
        expires: None,
        sid: sids.next().unwrap_or(Sid::NULL),
        domain: None,
        former_sids: sids.collect::<Arc<[Sid]>>(),
        full_name: String::new(),
        password_last_set: None,
        identity: user.identity.clone(),
        groups: user.groups.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_realm_names_nobody_of_this_machine() {
        let own = DomainSid([7, 7, 7]);
        let [theirs, primary, group] = [1103, 513, 1104].map(|rid| Sid::of(5, [21, 1, 2, 3, rid]));
        let logon = |user| LogonInfo {
            effective_name: "ann".into(),
            full_name: String::new(),
            logon_domain_name: "DOM".into(),
            user,
            primary_group: primary,
            groups: vec![own.with_rid(1000), group, own.with_rid(1001)],
        };
        assert_eq!(foreign(&logon(theirs), own), [theirs, primary, group]);
        assert!(foreign(&logon(own.with_rid(1000)), own).is_empty());
    }
}
