//! Maps between SIDs, names and Linux ids, in Samba's order: accounts, then groups with their own SIDs, then the ids
//! themselves (S-1-22-1-uid, S-1-22-2-gid).

use std::sync::Arc;

use proto::dtyp::Sid;
use server::accounts::Unavailable;
use server::accounts::principals::{Principal, Realm, SidNameUse, UNIX_GROUPS, UNIX_USERS, UnixId};
use server::answer::Answer;
use server::vfs::Identity;

use super::backend::{Backend, Entry};
use super::groups::{Group, GroupKey, GroupKind};
use super::unix::names::{Question, Reply};
use super::{Directory, first};

/// An answer that may be empty.
type Maybe<T> = Answer<Result<Option<T>, Unavailable>>;

/// Continues with `next` if there is an answer, otherwise with `other`.
fn either<T: Send + 'static, U: Send + 'static>(
    answer: Maybe<T>,
    next: impl FnOnce(T) -> Maybe<U> + Send + 'static,
    other: impl FnOnce() -> Maybe<U> + Send + 'static,
) -> Maybe<U> {
    answer.then(move |found| match found {
        Ok(Some(found)) => next(found),
        Ok(None) => other(),
        Err(why) => Answer::now(Err(why)),
    })
}

fn none<T>() -> Maybe<T> {
    Answer::now(Ok(None))
}

fn some<T>(value: T) -> Maybe<T> {
    Answer::now(Ok(Some(value)))
}

impl Directory {
    /// Returns the group for `key`; the server's own groups have priority.
    pub(super) fn group(&self, key: GroupKey) -> Maybe<Arc<Group>> {
        match self.own.group(&key) {
            Some(group) => some(group),
            None => first(self.backends.clone(), 0, key, |backend, key| backend.group(key)),
        }
    }

    /// Returns the account called `name`.
    fn entry_named(&self, name: String) -> Maybe<Entry> {
        first(self.backends.clone(), 0, name, |backend, name| backend.find(name))
    }

    /// Returns the name of the account that has or had this SID.
    fn name_of_sid(&self, sid: Sid) -> Maybe<String> {
        match self.own.former_owner(&sid) {
            Some(name) => {
                self.entry_named(name).map(|found| found.map(|found| found.map(|entry| entry.record.name.clone())))
            }
            None => first(self.backends.clone(), 0, sid, |backend, sid| backend.name_by_sid(sid)),
        }
    }

    /// Implements [`server::accounts::IdMap::expect_sids`].
    pub(super) fn expect_all(&self, sids: &[Sid]) -> Answer<()> {
        let unknown = |sid: &&Sid| {
            UnixId::in_sid(sid).is_none()
                && self.own.group(&GroupKey::Sid(**sid)).is_none()
                && self.own.former_owner(sid).is_none()
        };
        let sids: Vec<Sid> = sids.iter().filter(unknown).copied().collect();
        let asked = |backend: &Arc<dyn Backend>| backend.expect_sids(sids.clone());
        self.backends.iter().map(asked).fold(Answer::now(()), |before, next| before.then(|()| next))
    }

    /// Returns the account of the UNIX user `uid`: one that stores this uid, else the one with that user's name.
    /// Returns none if all accounts act as the process's user.
    fn entry_of_uid(&self, uid: u32) -> Maybe<Entry> {
        if self.users.only().is_some() {
            return none();
        }
        let (this, names) = (self.clone(), self.users.names().clone());
        let said = first(self.backends.clone(), 0, uid, |backend, uid| backend.by_uid(*uid));
        either(said, some, move || {
            either(
                names.ask(Question::User(uid)),
                move |reply| match reply {
                    Reply::Named(name, _) => this.entry_of_name_alone(name, uid),
                    _ => none(),
                },
                none,
            )
        })
    }

    /// Returns the account called `name`, unless its own fields name a different UNIX user than `uid`.
    fn entry_of_name_alone(&self, name: String, uid: u32) -> Maybe<Entry> {
        self.entry_named(name).map(move |found| {
            found.map(|entry| {
                entry.filter(|entry| {
                    let other = |own: u32| own != uid;
                    !entry.record.uid.is_some_and(other)
                        && !entry.user.as_ref().is_some_and(|user| other(user.identity.uid))
                })
            })
        })
    }

    pub(super) fn id_of_sid(&self, sid: Sid) -> Maybe<UnixId> {
        if let Some(id) = UnixId::in_sid(&sid) {
            return some(id);
        }
        let this = self.clone();
        either(
            self.group(GroupKey::Sid(sid)),
            |group| some(UnixId::Group(group.gid)),
            move || this.uid_of(&sid).map(|uid| uid.map(|uid| uid.map(UnixId::User))),
        )
    }

    pub(super) fn sid_of_id(&self, id: UnixId) -> Answer<Result<Sid, Unavailable>> {
        let plain = id.plain_sid();
        match id {
            UnixId::User(uid) | UnixId::Both(uid) => {
                self.entry_of_uid(uid).map(move |found| found.map(|entry| entry.map_or(plain, |entry| entry.sid)))
            }
            UnixId::Group(gid) => self
                .group(GroupKey::Gid(gid))
                .map(move |found| found.map(|group| group.map_or(plain, |group| group.sid))),
        }
    }

    pub(super) fn sids_of_identity(&self, identity: Arc<Identity>) -> Answer<Result<Vec<Sid>, Unavailable>> {
        self.sid_of_id(UnixId::User(identity.uid)).then({
            let this = self.clone();
            move |user| match user {
                Ok(sid) => this.more_sids(identity, 0, vec![sid]),
                Err(why) => Answer::now(Err(why)),
            }
        })
    }

    /// Appends the SIDs of the groups of `identity`, starting at `index`, to `sids`.
    fn more_sids(
        &self,
        identity: Arc<Identity>,
        mut index: usize,
        mut sids: Vec<Sid>,
    ) -> Answer<Result<Vec<Sid>, Unavailable>> {
        while let Some(&gid) = std::iter::once(&identity.gid).chain(&identity.groups).nth(index) {
            index += 1;
            match self.group(GroupKey::Gid(gid)) {
                Answer::Now(Some(Ok(group))) => sids.extend(group.map(|group| group.sid)),
                now_or_later => {
                    let this = self.clone();
                    return Answer::later(async move {
                        sids.extend(now_or_later.await?.map(|group| group.sid));
                        this.more_sids(identity, index, sids).await
                    });
                }
            }
        }
        sids.retain(|sid| UnixId::in_sid(sid).is_none());
        Answer::now(Ok(sids))
    }

    pub(super) fn principal_of_sid(&self, sid: Sid) -> Maybe<Principal> {
        if let Some(id) = UnixId::in_sid(&sid) {
            return self.unix_principal(id);
        }
        let this = self.clone();
        either(
            self.group(GroupKey::Sid(sid)),
            |group| some(group.principal()),
            move || either(this.name_of_sid(sid), move |name| some(account_principal(name, sid)), none),
        )
    }

    /// Returns the user or group of an id. Its name is the number if the host has no name for it, as in Samba.
    fn unix_principal(&self, id: UnixId) -> Maybe<Principal> {
        let names = self.users.names();
        let (reply, number) = match id {
            UnixId::User(uid) | UnixId::Both(uid) => (names.ask(Question::User(uid)), uid),
            UnixId::Group(gid) => (names.ask(Question::Group(gid)), gid),
        };
        either(
            reply,
            move |reply| match reply {
                Reply::Named(name, _) => some(unix(id, name)),
                _ => some(unix(id, number.to_string())),
            },
            move || some(unix(id, number.to_string())),
        )
    }

    pub(super) fn principal_of_name(&self, realm: Option<&str>, name: &str) -> Maybe<Principal> {
        let name = name.to_owned();
        match realm {
            Some(realm) if realm.eq_ignore_ascii_case(UNIX_USERS) => self.unix_named(Question::Uid(name)),
            Some(realm) if realm.eq_ignore_ascii_case(UNIX_GROUPS) => self.unix_named(Question::Gid(name)),
            Some(realm) if realm.eq_ignore_ascii_case("BUILTIN") => {
                let builtin = |group: Arc<Group>| match group.kind {
                    GroupKind::Builtin => some(group.principal()),
                    GroupKind::Domain | GroupKind::Local => none(),
                };
                either(self.group(GroupKey::Name(name)), builtin, none)
            }
            Some(_) => none(),
            None => self.own_named(name),
        }
    }

    /// Returns an account, a group, or a Linux group.
    fn own_named(&self, name: String) -> Maybe<Principal> {
        let (this, again) = (self.clone(), self.clone());
        let (group, unix_group) = (name.clone(), name.clone());
        either(
            self.entry_named(name),
            |entry| some(account_principal(entry.record.name.clone(), entry.sid)),
            move || {
                either(
                    this.group(GroupKey::Name(group)),
                    |group| some(group.principal()),
                    move || again.unix_named(Question::Gid(unix_group)),
                )
            },
        )
    }

    /// Returns a Linux user or group by name, with the SID of its account or group if it has one.
    fn unix_named(&self, question: Question) -> Maybe<Principal> {
        let this = self.clone();
        let user = matches!(question, Question::Uid(_));
        either(
            self.users.names().ask(question),
            move |reply| {
                let Reply::Named(name, id) = reply else { return none() };
                let id = if user { UnixId::User(id) } else { UnixId::Group(id) };
                this.sid_of_id(id).map(move |sid| sid.map(|sid| Some(Principal { sid, ..unix(id, name) })))
            },
            none,
        )
    }
}

/// Returns an account under the requested SID, which may be a former one.
fn account_principal(name: String, sid: Sid) -> Principal {
    // Names of machine accounts end with a dollar sign.
    let kind = if name.ends_with('$') { SidNameUse::COMPUTER } else { SidNameUse::USER };
    Principal { sid, kind, realm: Realm::Server, name }
}

fn unix(id: UnixId, name: String) -> Principal {
    let (kind, realm) = match id {
        UnixId::User(_) | UnixId::Both(_) => (SidNameUse::USER, UNIX_USERS),
        UnixId::Group(_) => (SidNameUse::GROUP, UNIX_GROUPS),
    };
    Principal { sid: id.plain_sid(), kind, realm: Realm::Named(realm.into()), name }
}

#[cfg(test)]
mod tests;
