//! Who the clients of a Kerberos realm are here, on a server that is no member of a domain: the account of that name, else
//! the UNIX user of that name, as on hosts whose users come from the realm.
//!
//! Users of other realms are nobody, whoever their realm says that they are, and so is every name of several components:
//! `ann/admin` is not `ann`. Nobody is root.

use std::collections::HashSet;
use std::sync::Arc;

use proto::auth::pac::LogonInfo;
use proto::dtyp::Sid;
use server::accounts::{Account, Accounts, Unavailable};
use server::answer::Answer;
use server::principals::of_server;
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
    let (this, name) = (directory.clone(), name.clone());
    let Some(logon) = logon else {
        return directory.find(&name).then(move |found| known(&this, name, found, |_| Vec::new()));
    };
    let (sids, user): (Vec<Sid>, Sid) = (logon.sids().collect(), logon.user);
    Answer::later(async move {
        let own = of_server(&this, &sids).await?;
        let found = this.find(&name).await;
        known(&this, name, found, |account| foreign(&sids, user, &own, account)).await
    })
}

/// Goes on with what was `found` of `name`; `sids` says what a ticket brings to an account, or to somebody without one.
fn known(
    directory: &Directory,
    name: String,
    found: Result<Option<Account>, Unavailable>,
    sids: impl FnOnce(Option<&Account>) -> Vec<Sid>,
) -> Answer<Result<Option<Account>, Unavailable>> {
    match found {
        Ok(Some(account)) => {
            let sids = sids(Some(&account));
            Answer::now(Ok(not_root(with_sids(account, &sids))))
        }
        Ok(None) => unix_user(directory, name, sids(None)),
        Err(why) => Answer::now(Err(why)),
    }
}

/// Those of the SIDs in a ticket that are the realm's to give: who has, or had, one of this machine's accounts, or is in
/// one of its groups, is said here alone. None where the ticket is of somebody else here than `account`: the first one left
/// would be taken for his.
fn foreign(sids: &[Sid], user: Sid, own: &HashSet<Sid>, account: Option<&Account>) -> Vec<Sid> {
    let is_his = account.is_some_and(|account| account.sid == user || account.former_sids.contains(&user));
    if own.contains(&user) && !is_his {
        tracing::warn!(%user, "a ticket's SIDs do not count: its user's is that of an account or group of this server");
        return Vec::new();
    }
    sids.iter().filter(|sid| !own.contains(sid)).copied().collect()
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
        never_expires: false,
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
        let [theirs, primary, group] = [1103, 513, 1104].map(|rid| Sid::of(5, [21, 1, 2, 3, rid]));
        let [ann, anns_before, bob, crew] = [1000, 1001, 1002, 1003].map(|rid| Sid::of(5, [21, 7, 7, 7, rid]));
        let own = HashSet::from([ann, anns_before, bob, crew]);
        let user = User {
            name: "ann".into(),
            identity: Arc::new(server::vfs::Identity { uid: 1, gid: 1, groups: Box::new([]) }),
            groups: Arc::new([]),
        };
        let account = of_user(&user, vec![ann, anns_before]);
        let check = |user: Sid, account: Option<&Account>, expected: &[Sid]| {
            let sids = [user, primary, bob, group, crew];
            assert_eq!(foreign(&sids, user, &own, account), expected, "{user}");
        };
        check(theirs, Some(&account), &[theirs, primary, group]);
        check(theirs, None, &[theirs, primary, group]);
        // What ann is known as here says nothing new, and hers are the groups.
        check(ann, Some(&account), &[primary, group]);
        check(anns_before, Some(&account), &[primary, group]);
        check(bob, Some(&account), &[]);
        check(ann, None, &[]);
        check(crew, None, &[]);
    }
}
