//! Maps clients of a Kerberos realm to accounts, on a server that is not a member of a domain. A client gets the
//! account of its name, else the UNIX user of that name, as on hosts whose users come from the realm.
//!
//! Users of other realms are refused, regardless of the SIDs in their tickets. So is every name with several
//! components: `ann/admin` is not `ann`. A ticket never grants root.

use std::collections::HashSet;
use std::sync::Arc;

use proto::auth::pac::LogonInfo;
use proto::dtyp::Sid;
use server::accounts::principals::of_server;
use server::accounts::{Account, Authenticator, Unavailable};
use server::answer::Answer;
use server::tickets::ClientName;

use super::Directory;
use super::unix::{Key, NssUser, User};

/// Returns the account of `client`.
pub(super) fn account(
    directory: &Directory,
    client: &ClientName,
    logon: Option<&LogonInfo>,
) -> Answer<Result<Option<Account>, Unavailable>> {
    let [name] = &client.components[..] else { return refuse(client, "user names have a single component") };
    if !client.own_realm {
        return refuse(client, "users of other realms are accepted only by members of a domain");
    }
    if name.is_empty() || name.contains(['@', '\\', '/']) || name.chars().any(char::is_control) {
        return refuse(client, "the name is not allowed for a user");
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

/// Completes the account that was `found` for `name`. `sids` returns the SIDs that a ticket adds to an account, or to a
/// client without one.
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

/// Returns the SIDs of a ticket that the realm may assign. Membership in this machine's groups, and the present and
/// former SIDs of its accounts, are decided only by this server. The result is empty if the ticket's user SID belongs
/// to a different local user than `account`, because the first remaining SID would be taken for the user's own.
fn foreign(sids: &[Sid], user: Sid, own: &HashSet<Sid>, account: Option<&Account>) -> Vec<Sid> {
    let is_own = account.is_some_and(|account| account.sid == user || account.former_sids.contains(&user));
    if own.contains(&user) && !is_own {
        tracing::warn!(%user, "SIDs of a ticket ignored: its user SID belongs to an account or group of this server");
        return Vec::new();
    }
    sids.iter().filter(|sid| !own.contains(sid)).copied().collect()
}

fn refuse(client: &ClientName, why: &str) -> Answer<Result<Option<Account>, Unavailable>> {
    tracing::info!(%client, "Kerberos client refused: {why}");
    Answer::now(Ok(None))
}

/// Adds the SIDs that the realm assigns to the account's own former SIDs.
fn with_sids(account: Account, sids: &[Sid]) -> Account {
    let former_sids = account.former_sids.iter().chain(sids).copied().collect();
    Account { former_sids, ..account }
}

fn not_root(account: Account) -> Option<Account> {
    if account.identity.uid != 0 {
        return Some(account);
    }
    tracing::warn!(account = account.name, "logon refused: a Kerberos ticket never grants root");
    None
}

fn unix_user(directory: &Directory, name: String, sids: Vec<Sid>) -> Answer<Result<Option<Account>, Unavailable>> {
    // If every user acts as the process's user, NSS maps only that user's own name to it.
    if directory.users().only().is_some_and(|only| only.name != name) {
        return Answer::now(Ok(None));
    }
    directory.users().find(Key::Name(name)).map(move |found| {
        found.map(|found: NssUser| match found {
            Ok(user) => not_root(of_user(&user, sids)),
            Err(why) => {
                tracing::info!("Kerberos client refused: {why}");
                None
            }
        })
    })
}

/// Returns an account that is not stored anywhere: it consists of the realm's SIDs and the host's UNIX user.
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
    fn a_realm_cannot_assign_sids_of_this_machine() {
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
        // Ann's own present SID adds nothing new; only the group SIDs remain.
        check(ann, Some(&account), &[primary, group]);
        check(anns_before, Some(&account), &[primary, group]);
        check(bob, Some(&account), &[]);
        check(ann, None, &[]);
        check(crew, None, &[]);
    }
}
