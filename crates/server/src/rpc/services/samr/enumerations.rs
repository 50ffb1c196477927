//! Enumerations of users, groups and aliases ([MS-SAMR] 3.1.5.2, 3.1.5.3), one page at a time. Users are enumerated in
//! the order of their names, and a handle stores where the last page ended. Groups are few, so their entries are
//! counted from the beginning.

use proto::dtyp::Sid;
use proto::rpc::ndr::ContextHandle;
use proto::rpc::samr::{
    self, AccountControl, DisplayInformation, DisplayQuery, Displayed, EnumerateUsers, Enumeration, RidName,
};
use proto::status::Status;

use super::positions::{EnumerationKind, Position};
use super::{Opened, SamDomain, SamrCall};
use crate::accounts::principals::{self, ALL_USERS, ALL_USERS_RID, Principal, Realm, SidNameUse};
use crate::accounts::{ListedAccount, ListedGroup};
use crate::policy::fold;
use crate::policy::limits::ENTRIES_PER_SAMR_LIST;

/// Accounts and groups requested from the back end at once.
const PAGE: usize = 200;

/// Bytes of an entry besides its name.
const ENTRY: usize = 24;

/// The requested part of an enumeration.
#[derive(Clone, Copy)]
struct Part {
    /// The number of entries before it.
    from: u32,
    /// The maximum number of entries.
    most: usize,
    /// The maximum number of bytes, unless the first entry exceeds it.
    length: usize,
}

impl Part {
    fn new(from: u32, most: u32, length: u32) -> Part {
        Part { from, most: (most as usize).clamp(1, ENTRIES_PER_SAMR_LIST), length: length as usize }
    }

    /// Returns whether the limits are reached.
    fn is_full(&self, entries: usize, bytes: usize) -> bool {
        entries > 0 && (entries >= self.most || bytes >= self.length)
    }

    /// Returns the number of the next entry.
    fn next(&self, entries: usize) -> u32 {
        self.from.saturating_add(entries as u32)
    }
}

/// A part of an enumeration, and whether there are further entries.
type Listed<T> = (Vec<T>, bool);

/// Returns the account control flags of an account.
pub(super) fn control(name: &str, disabled: bool, locked: bool) -> AccountControl {
    // The name of a machine account ends with a dollar sign.
    let machine = name.ends_with('$');
    let kind = if machine { AccountControl::WORKSTATION_TRUST_ACCOUNT } else { AccountControl::NORMAL_ACCOUNT };
    kind.with(AccountControl::ACCOUNT_DISABLED, disabled).with(AccountControl::ACCOUNT_AUTO_LOCKED, locked)
}

impl SamrCall<'_> {
    /// Enumerates users ([MS-SAMR] 3.1.5.2.5).
    pub(super) async fn enumerate_users(self, asked: EnumerateUsers) -> Vec<u8> {
        let EnumerateUsers { handle, from, control: filter } = &asked;
        let part = Part::new(from.context, u32::MAX, from.length);
        let matches = |account: &ListedAccount| self.control(account).has_all(*filter);
        let listed = match self.members_of(handle) {
            Ok(SamDomain::Own) => self.users(handle, EnumerationKind::Users(filter.0), part, matches).await,
            Ok(SamDomain::Builtin) => Ok((Vec::new(), false)),
            Err(status) => Err(status),
        };
        let entry = |account: ListedAccount| Some(RidName { rid: account.sid.rid()?, name: account.name });
        enumerated(part, listed.map(|(users, more)| (users.into_iter().filter_map(entry).collect(), more)))
    }

    /// Enumerates groups ([MS-SAMR] 3.1.5.2.3).
    pub(super) async fn enumerate_groups(self, (handle, from): (ContextHandle, Enumeration)) -> Vec<u8> {
        self.groups_or_aliases(&handle, from, false).await
    }

    /// Enumerates aliases ([MS-SAMR] 3.1.5.2.4).
    pub(super) async fn enumerate_aliases(self, (handle, from): (ContextHandle, Enumeration)) -> Vec<u8> {
        self.groups_or_aliases(&handle, from, true).await
    }

    async fn groups_or_aliases(&self, handle: &ContextHandle, from: Enumeration, aliases: bool) -> Vec<u8> {
        let part = Part::new(from.context, u32::MAX, from.length);
        let listed = match self.members_of(handle) {
            Ok(domain) => self.groups(domain, aliases).await,
            Err(status) => Err(status),
        };
        let entry = |group: ListedGroup| Some(RidName { rid: group.principal.sid.rid()?, name: group.principal.name });
        let names = |groups: Vec<ListedGroup>| {
            part_of(groups.into_iter().filter_map(entry).collect(), part, |entry| ENTRY + 2 * entry.name.len())
        };
        enumerated(part, listed.map(names))
    }

    /// Returns display information ([MS-SAMR] 3.1.5.3.1).
    pub(super) async fn query_display(self, (handle, query): (ContextHandle, DisplayQuery)) -> Vec<u8> {
        let handle = &handle;
        let (class, part) = (query.class, Part::new(query.index, query.count, query.length));
        let listed = match self.members_of(handle) {
            Err(status) => Err(status),
            Ok(_) if !class.is_known() => Err(Status::INVALID_INFO_CLASS),
            Ok(domain) if class.is_of_groups() => self.displayed_groups(domain, part).await,
            Ok(SamDomain::Builtin) => Ok((Vec::new(), false)),
            Ok(SamDomain::Own) => {
                let machines = class == DisplayInformation::MACHINE;
                let wanted = |account: &ListedAccount| account.name.ends_with('$') == machines;
                let users = self.users(handle, EnumerationKind::Display(class.0), part, wanted).await;
                users.map(|(users, more)| (self.displayed_users(users, part), more))
            }
        };
        match listed {
            Ok((entries, more)) => {
                samr::display_response(class, &entries, if more { Status::MORE_ENTRIES } else { Status::SUCCESS })
            }
            Err(status) => samr::no_display_response(class, status),
        }
    }

    fn displayed_users(&self, users: Vec<ListedAccount>, part: Part) -> Vec<Displayed> {
        let display = |(index, account): (usize, ListedAccount)| Displayed {
            index: part.next(index + 1),
            rid: account.sid.rid().unwrap_or(0),
            control: self.control(&account),
            name: account.name,
            comment: String::new(),
            full_name: account.full_name,
        };
        users.into_iter().enumerate().map(display).collect()
    }

    async fn displayed_groups(&self, domain: SamDomain, part: Part) -> Result<Listed<Displayed>, Status> {
        let mut groups = self.groups(domain, false).await?;
        groups.sort_by_cached_key(|group| fold(&group.principal.name));
        let (groups, more) =
            part_of(groups, part, |group| ENTRY + 2 * (group.principal.name.len() + group.comment.len()));
        let display = |(index, group): (usize, ListedGroup)| Displayed {
            index: part.next(index + 1),
            rid: group.principal.sid.rid().unwrap_or(0),
            control: AccountControl::default(),
            name: group.principal.name,
            comment: group.comment,
            full_name: String::new(),
        };
        Ok((groups.into_iter().enumerate().map(display).collect(), more))
    }

    fn control(&self, account: &ListedAccount) -> AccountControl {
        let locked = account.locked || self.server.logons.is_locked_out(&account.name);
        control(&account.name, account.disabled, locked)
            .with(AccountControl::DONT_EXPIRE_PASSWORD, account.never_expires)
    }

    /// Returns the requested part of the server's users that match `list`.
    async fn users(
        &self,
        handle: &ContextHandle,
        list: EnumerationKind,
        part: Part,
        wanted: impl Fn(&ListedAccount) -> bool,
    ) -> Result<Listed<ListedAccount>, Status> {
        let (own, server) = (self.sid(SamDomain::Own), self.server);
        let position = self.position(handle, list, part.from);
        let mut skip = part.from - position.as_ref().map_or(0, |position| position.number);
        let mut after = position.map(|position| position.after);
        let (mut users, mut bytes) = (Vec::<ListedAccount>::new(), 0);
        loop {
            let page = server.accounts.roster.users(after.as_deref(), PAGE).await?;
            let Some(last) = page.last().filter(|last| goes_on(after.as_deref(), last)) else {
                return Ok((users, false));
            };
            after = Some(last.name.clone());
            for account in page.into_iter().filter(|account| account.sid.domain() == Some(own) && wanted(account)) {
                if skip > 0 {
                    skip -= 1;
                    continue;
                }
                if let Some(last) = users.last().filter(|_| part.is_full(users.len(), bytes)) {
                    let position =
                        Position { enumeration: list, number: part.next(users.len()), after: last.name.clone() };
                    self.put_position(handle, position);
                    return Ok((users, true));
                }
                bytes += ENTRY + 2 * (account.name.len() + account.full_name.len());
                users.push(account);
            }
            if let Some(after) = after.clone().filter(|_| users.is_empty()) {
                self.put_position(handle, Position { enumeration: list, number: part.from - skip, after });
            }
        }
    }

    /// Returns the last known position at or before entry `number`.
    fn position(&self, handle: &ContextHandle, list: EnumerationKind, number: u32) -> Option<Position> {
        self.handles.lock().get::<Opened>(handle)?.positions.before(list, number)
    }

    /// Stores where an enumeration continues.
    fn put_position(&self, handle: &ContextHandle, position: Position) {
        if let Some(opened) = self.handles.lock().get::<Opened>(handle) {
            opened.positions.put(position);
        }
    }

    /// Returns the groups or aliases of a domain, in the order of their SIDs.
    async fn groups(&self, domain: SamDomain, aliases: bool) -> Result<Vec<ListedGroup>, Status> {
        let (sid, server) = (self.sid(domain), self.server);
        let kind = if aliases { SidNameUse::ALIAS } else { SidNameUse::GROUP };
        let mut groups = Vec::new();
        let mut after: Option<Sid> = None;
        loop {
            let page = server.accounts.roster.groups(after.as_ref(), PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.principal.sid);
            groups.extend(
                page.into_iter()
                    .filter(|group| group.principal.sid.domain() == Some(sid) && group.principal.kind == kind),
            );
        }
        let given = match (domain, aliases) {
            (SamDomain::Own, false) => vec![Principal {
                sid: self.with_rid(domain, ALL_USERS_RID),
                kind,
                realm: Realm::Server,
                name: ALL_USERS.to_owned(),
            }],
            (SamDomain::Builtin, true) => principals::builtin_aliases().collect(),
            _ => Vec::new(),
        };
        for principal in given {
            match groups.iter_mut().find(|group| group.principal.sid == principal.sid) {
                // A mapping cannot rename a well-known group.
                Some(group) => group.principal = principal,
                None => groups.push(ListedGroup { principal, comment: String::new() }),
            }
        }
        groups.sort_by_key(|group| group.principal.sid.rid());
        Ok(groups)
    }

    /// Returns the number of users, groups and aliases in `domain`.
    pub(super) async fn counts(&self, domain: SamDomain) -> Result<[u32; 3], Status> {
        self.check_somebody()?;
        let users = match domain {
            SamDomain::Own => self.server.accounts.roster.count_users().await?,
            SamDomain::Builtin => 0,
        };
        let (groups, aliases) = (self.groups(domain, false).await?.len(), self.groups(domain, true).await?.len());
        let short = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Ok([users, short(groups), short(aliases)])
    }

    /// Returns the RIDs of all users, at most `most`.
    pub(super) async fn all_rids(&self, most: usize) -> Result<Vec<u32>, Status> {
        let (own, server) = (self.sid(SamDomain::Own), self.server);
        let (mut rids, mut after) = (Vec::new(), None::<String>);
        loop {
            let page = server.accounts.roster.users(after.as_deref(), PAGE).await?;
            let Some(last) = page.last().filter(|last| goes_on(after.as_deref(), last)) else { return Ok(rids) };
            after = Some(last.name.clone());
            let of_own = page.iter().filter(|account| account.sid.domain() == Some(own));
            rids.extend(of_own.filter_map(|account| account.sid.rid()));
            if rids.len() > most {
                return Err(Status::INSUFFICIENT_RESOURCES);
            }
        }
    }
}

/// Returns whether a page that ends with `last` advances the enumeration. Otherwise a faulty back end could cause an
/// infinite loop.
fn goes_on(after: Option<&str>, last: &ListedAccount) -> bool {
    after.is_none_or(|after| fold(&last.name) > fold(after))
}

/// Returns the requested part of a complete enumeration.
fn part_of<T>(all: Vec<T>, part: Part, length: impl Fn(&T) -> usize) -> Listed<T> {
    let (mut entries, mut bytes) = (Vec::new(), 0);
    for entry in all.into_iter().skip(part.from as usize) {
        if part.is_full(entries.len(), bytes) {
            return (entries, true);
        }
        bytes += length(&entry);
        entries.push(entry);
    }
    (entries, false)
}

fn enumerated(part: Part, listed: Result<Listed<RidName>, Status>) -> Vec<u8> {
    match listed {
        Ok((names, more)) => {
            let status = if more { Status::MORE_ENTRIES } else { Status::SUCCESS };
            samr::enumeration_response(part.next(names.len()), &names, status)
        }
        Err(status) => samr::no_enumeration_response(status),
    }
}
