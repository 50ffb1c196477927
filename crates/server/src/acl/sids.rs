//! Mapping of the SIDs in security descriptors to users and groups of Linux, and back.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use proto::dtyp::acl::{Ace, AceBody};
use proto::dtyp::{Acl, SecurityDescriptor, Sid};
use proto::status::Status;

use crate::accounts::principals::{Realm, SidNameUse, UnixId};
use crate::accounts::{Authenticator, IdMap, Unavailable};
use crate::acl::posix::{Sids, UnixSids};
use crate::error::{Error, Result};
use crate::policy::limits::USERS_LOOKED_UP_PER_ACL;
use crate::vfs::Identity;

/// Whether `sid` is in the SID range of accounts of a machine or domain (S-1-5-21-...).
pub(crate) fn is_account(sid: &Sid) -> bool {
    sid.authority() == 5 && sid.sub_authorities().first() == Some(&21)
}

/// The mapping of SIDs for one file.
pub(crate) struct FileSids {
    ids: HashMap<Sid, UnixId>,
    /// The SID in the owner field with the file's owner, if it belongs to no other user.
    owner: Option<(Sid, u32)>,
    /// Users whose groups are known.
    known: Vec<Arc<Identity>>,
}

impl FileSids {
    /// Resolves the owner of `descriptor`, whose file belongs to `uid`, and the accounts and groups in its DACL. A SID
    /// in the group field that is not a group of this server matches no group, as everywhere else.
    pub(crate) async fn of(ids: &dyn IdMap, descriptor: &SecurityDescriptor, uid: u32) -> FileSids {
        let owner = match descriptor.owner.filter(is_account) {
            Some(sid) if stands_for(ids, &sid, uid).await => Some((sid, uid)),
            _ => None,
        };
        let aces = descriptor.dacl.iter().flat_map(Acl::aces);
        let trustees: HashSet<Sid> = aces.filter_map(|ace| ace.trustee().map(|(_, sid)| *sid)).collect();
        let mut resolved = HashMap::new();
        for sid in trustees.into_iter().filter(may_be_mapped) {
            if let Ok(Some(id)) = ids.id_of(&sid).await {
                resolved.insert(sid, one_of_both(ids, &sid, id).await);
            }
        }
        FileSids { ids: resolved, owner, known: Vec::new() }
    }

    /// Adds the groups of `who` and of those users of `uids` who have accounts. Users whose lookup fails are skipped.
    pub(crate) async fn knowing(
        self,
        ids: &dyn IdMap,
        authenticator: Option<&dyn Authenticator>,
        who: &Arc<Identity>,
        uids: &[u32],
    ) -> FileSids {
        let mut known = vec![who.clone()];
        let Some(authenticator) = authenticator else { return FileSids { known, ..self } };
        let others: BTreeSet<u32> = uids.iter().copied().filter(|&uid| uid != who.uid).collect();
        for uid in others.into_iter().take(USERS_LOOKED_UP_PER_ACL) {
            let Ok(sid) = ids.sid_of(UnixId::User(uid)).await else { continue };
            let Ok(Some(user)) = ids.principal(&sid).await else { continue };
            let name = match &user.realm {
                Realm::Named(realm) => format!("{realm}\\{}", user.name),
                _ => user.name,
            };
            let Ok(Some(account)) = authenticator.find(&name).await else { continue };
            known.extend(Some(account.identity).filter(|identity| identity.uid == uid));
        }
        FileSids { known, ..self }
    }

    /// Returns the users that ACEs of `descriptor` are for.
    pub(crate) fn users(&self, descriptor: &SecurityDescriptor) -> Vec<u32> {
        let aces = descriptor.dacl.iter().flat_map(Acl::aces);
        aces.filter_map(|ace| ace.trustee()).filter_map(|(_, sid)| self.uid(sid)).collect()
    }
}

/// Whether `sid`, in the owner field of a file of the user `uid`, may be taken as that user: it is the user's, or
/// unknown on this server like that of another machine. Also true if it cannot be looked up.
pub(crate) async fn stands_for(ids: &dyn IdMap, sid: &Sid, uid: u32) -> bool {
    !matches!(ids.id_of(sid).await, Ok(Some(id)) if id.uid() != Some(uid))
}

/// Resolves a SID that is both a user and a group of Linux to the one that an ACE for it means, by its type in the
/// domain.
async fn one_of_both(ids: &dyn IdMap, sid: &Sid, id: UnixId) -> UnixId {
    let UnixId::Both(_) = id else { return id };
    match ids.principal(sid).await {
        Ok(Some(whose)) => by_type(id, whose.kind),
        _ => by_type(id, SidNameUse::USER),
    }
}

/// Returns the group or the user, if the id is both.
fn by_type(id: UnixId, kind: SidNameUse) -> UnixId {
    match id {
        UnixId::Both(number) if [SidNameUse::GROUP, SidNameUse::ALIAS].contains(&kind) => UnixId::Group(number),
        UnixId::Both(number) => UnixId::User(number),
        id => id,
    }
}

/// Like [`id_of`], but resolves a SID that is both a user and a group of Linux by its type in the domain. Nothing has a
/// SID whose type is unknown.
pub(crate) async fn one_id_of(ids: &dyn IdMap, sid: &Sid) -> Result<Option<UnixId>> {
    let id = id_of(ids, sid).await?;
    let Some(UnixId::Both(_)) = id else { return Ok(id) };
    match ids.principal(sid).await.map_err(unavailable)? {
        Some(whose) => Ok(id.map(|id| by_type(id, whose.kind))),
        None => Ok(None),
    }
}

/// Whether a SID that contains no Linux id may map to one: the SID of an account, or of a group that was given one.
fn may_be_mapped(sid: &Sid) -> bool {
    is_account(sid) || (sid.authority() == 5 && sid.sub_authorities().first() == Some(&32))
}

impl Sids for FileSids {
    fn user(&self, uid: u32) -> Sid {
        UnixSids.user(uid)
    }

    fn group(&self, gid: u32) -> Sid {
        UnixSids.group(gid)
    }

    fn uid(&self, sid: &Sid) -> Option<u32> {
        let own = self.owner.filter(|(owner, _)| owner == sid).map(|(_, uid)| uid);
        own.or_else(|| self.ids.get(sid).and_then(|id| id.uid())).or_else(|| UnixSids.uid(sid))
    }

    fn gid(&self, sid: &Sid) -> Option<u32> {
        self.ids.get(sid).and_then(|id| id.gid()).or_else(|| UnixSids.gid(sid))
    }

    fn is_member(&self, uid: u32, gid: u32) -> Option<bool> {
        let whose = self.known.iter().find(|identity| identity.uid == uid)?;
        Some(whose.gid == gid || whose.groups.contains(&gid))
    }
}

/// Returns the user or group of a SID: of the id in it, or of the account or group that has it.
pub(crate) async fn id_of(ids: &dyn IdMap, sid: &Sid) -> Result<Option<UnixId>> {
    if let Some(id) = UnixId::in_sid(sid) {
        return Ok(Some(id));
    }
    if may_be_mapped(sid) { ids.id_of(sid).await.map_err(unavailable) } else { Ok(None) }
}

pub(crate) fn unavailable(why: Unavailable) -> Error {
    Error::because(Status::NO_LOGON_SERVERS, why.0)
}

/// Returns the descriptor as it is stored, which is as clients see it and as Samba stores it: [`shown`], or unchanged
/// if accounts cannot be looked up now.
pub(crate) async fn by_account(ids: &dyn IdMap, descriptor: &SecurityDescriptor) -> SecurityDescriptor {
    shown(ids, descriptor.clone()).await.unwrap_or_else(|_| descriptor.clone())
}

/// Returns the SID that an id is stored as: that of the account or group, or the id's own SID if that cannot be looked
/// up.
pub(crate) async fn of_account(ids: &dyn IdMap, id: UnixId) -> Sid {
    ids.sid_of(id).await.unwrap_or_else(|_| id.plain_sid())
}

/// Returns the descriptor as clients see it, with SIDs of Linux ids replaced by those of accounts and groups. Inside
/// the server, synthesized descriptors contain the ids themselves, so that the effective descriptor of a file does not
/// change with the accounts.
pub(crate) async fn shown(ids: &dyn IdMap, mut descriptor: SecurityDescriptor) -> Result<SecurityDescriptor> {
    let mut known: HashMap<Sid, Sid> = HashMap::new();
    let lists = [&descriptor.dacl, &descriptor.sacl].into_iter().flatten().flat_map(Acl::aces);
    let trustees = lists.filter_map(|ace| ace.trustee().map(|(_, sid)| *sid));
    for sid in trustees.chain(descriptor.owner).chain(descriptor.group) {
        if let (Some(id), false) = (UnixId::in_sid(&sid), known.contains_key(&sid)) {
            known.insert(sid, ids.sid_of(id).await.map_err(unavailable)?);
        }
    }
    let name = |sid: Sid| known.get(&sid).copied().unwrap_or(sid);
    let list = |acl: Option<Acl>| {
        let (acl, before) = (acl.clone()?, acl?);
        let revision = acl.revision();
        let aces = acl.into_aces().into_iter().map(|ace| match ace.body {
            AceBody::Trustee { mask, sid } => Ace { body: AceBody::Trustee { mask, sid: name(sid) }, ..ace },
            AceBody::Raw(_) => ace,
        });
        // Longer SIDs may make an ACL too long. The ids are kept then.
        Some(Acl::new(revision, aces.collect()).unwrap_or(before))
    };
    descriptor.dacl = list(descriptor.dacl.take());
    descriptor.sacl = list(descriptor.sacl.take());
    descriptor.owner = descriptor.owner.map(name);
    descriptor.group = descriptor.group.map(name);
    Ok(descriptor)
}

#[cfg(test)]
mod tests {
    use proto::dtyp::AccessMask;
    use proto::dtyp::acl::AceFlags;

    use super::*;
    use crate::accounts::DomainSid;
    use crate::accounts::principals::{Principal, Realm};
    use crate::answer::{Answer, block_on};

    /// The user 1000 has an account, the group 50 a SID of its own.
    struct Known;

    const ANN: Sid = Sid::of(5, [21, 1, 2, 3, 1000]);
    const STAFF: Sid = Sid::of(5, [32, 545]);
    /// SIDs of a domain, each a user and a group of Linux.
    const CREW: Sid = Sid::of(5, [21, 7, 8, 9, 1106]);
    const DORA: Sid = Sid::of(5, [21, 7, 8, 9, 1103]);
    /// Such a SID that the domain has deleted.
    const NAMELESS: Sid = Sid::of(5, [21, 7, 8, 9, 1107]);

    impl IdMap for Known {
        fn id_of(&self, sid: &Sid) -> Answer<std::result::Result<Option<UnixId>, Unavailable>> {
            Answer::now(Ok(match *sid {
                ANN => Some(UnixId::User(1000)),
                STAFF => Some(UnixId::Group(50)),
                CREW => Some(UnixId::Both(62_106)),
                DORA => Some(UnixId::Both(62_103)),
                NAMELESS => Some(UnixId::Both(62_107)),
                _ => None,
            }))
        }

        fn principal(&self, sid: &Sid) -> Answer<std::result::Result<Option<Principal>, Unavailable>> {
            if *sid == NAMELESS {
                return Answer::now(Ok(None));
            }
            let kind = if *sid == CREW { SidNameUse::GROUP } else { SidNameUse::USER };
            Answer::now(Ok(Some(Principal { sid: *sid, kind, realm: Realm::Named("DOM".into()), name: String::new() })))
        }

        fn sid_of(&self, id: UnixId) -> Answer<std::result::Result<Sid, Unavailable>> {
            Answer::now(Ok(match id {
                UnixId::User(1000) => ANN,
                UnixId::Group(50) => STAFF,
                other => other.plain_sid(),
            }))
        }

        fn sids_of(&self, _: &Arc<Identity>) -> Answer<std::result::Result<Vec<Sid>, Unavailable>> {
            Answer::now(Ok(Vec::new()))
        }

        fn named(&self, _: Option<&str>, _: &str) -> Answer<std::result::Result<Option<Principal>, Unavailable>> {
            Answer::now(Ok(None))
        }

        fn expect_sids(&self, _: &[Sid]) -> Answer<()> {
            Answer::now(())
        }

        fn domain(&self) -> DomainSid {
            DomainSid([1, 2, 3])
        }

        fn is_of_machine(&self, sid: &Sid) -> bool {
            sid.domain() == Some(self.domain().sid())
        }
    }

    fn descriptor(owner: Sid, group: Sid, trustees: &[Sid]) -> SecurityDescriptor {
        let ace = |sid: &Sid| Ace::allow(*sid, AccessMask::FILE_ALL_ACCESS, AceFlags::NONE);
        let dacl = Acl::new(Acl::REVISION, trustees.iter().map(ace).collect());
        SecurityDescriptor { owner: Some(owner), group: Some(group), dacl, ..SecurityDescriptor::default() }
    }

    #[test]
    fn ids_with_an_account_sid_are_shown_by_it() {
        let ids = [Sid::unix_user(1000), Sid::unix_user(7), Sid::unix_group(50), Sid::unix_group(7), Sid::EVERYONE];
        let seen = [ANN, Sid::unix_user(7), STAFF, Sid::unix_group(7), Sid::EVERYONE];
        let made = descriptor(ids[0], ids[2], &ids);
        assert_eq!(block_on(shown(&Known, made)).unwrap(), descriptor(ANN, STAFF, &seen));
    }

    #[test]
    fn an_entry_is_a_user_or_a_group_and_never_both() {
        let sids = block_on(FileSids::of(&Known, &descriptor(ANN, STAFF, &[CREW, DORA]), 4));
        assert_eq!((sids.uid(&CREW), sids.gid(&CREW)), (None, Some(62_106)));
        assert_eq!((sids.uid(&DORA), sids.gid(&DORA)), (Some(62_103), None));
        // As an owner, a group is taken as a user.
        assert_eq!(block_on(id_of(&Known, &CREW)).unwrap().and_then(UnixId::uid), Some(62_106));
    }

    #[test]
    fn a_quota_is_of_a_user_or_of_a_group() {
        let one = |sid| block_on(one_id_of(&Known, &sid)).unwrap();
        assert_eq!([one(CREW), one(DORA)], [Some(UnixId::Group(62_106)), Some(UnixId::User(62_103))]);
        assert_eq!([one(ANN), one(STAFF)], [Some(UnixId::User(1000)), Some(UnixId::Group(50))]);
        assert_eq!([one(NAMELESS), one(STRANGER)], [None, None]);
        assert_eq!(one(Sid::unix_group(9)), Some(UnixId::Group(9)));
    }

    #[test]
    fn shown_sids_map_back_to_the_ids() {
        let given = descriptor(STRANGER, STRANGERS, &[ANN, STAFF]);
        let sids = block_on(FileSids::of(&Known, &given, 4));
        assert_eq!((sids.uid(&ANN), sids.gid(&STAFF), sids.uid(&STAFF)), (Some(1000), Some(50), None));
        assert_eq!(block_on(id_of(&Known, &Sid::unix_group(9))).unwrap(), Some(UnixId::Group(9)));
        assert_eq!(block_on(id_of(&Known, &Sid::EVERYONE)).unwrap(), None);
    }

    const STRANGER: Sid = Sid::of(5, [21, 9, 9, 9, 5]);
    const STRANGERS: Sid = Sid::of(5, [21, 9, 9, 9, 6]);

    #[test]
    fn an_unknown_owner_is_the_files_owner_and_an_unknown_group_matches_no_one() {
        let given = |owner| descriptor(owner, STRANGERS, &[STRANGER, STRANGERS, ANN]);
        let strange = block_on(FileSids::of(&Known, &given(STRANGER), 4));
        assert_eq!((strange.uid(&STRANGER), strange.gid(&STRANGERS)), (Some(4), None));
        // A SID of another user keeps its meaning.
        for (uid, expected) in [(1000, 1000), (4, 1000)] {
            let known = block_on(FileSids::of(&Known, &given(ANN), uid));
            assert_eq!((known.uid(&ANN), known.uid(&STRANGER)), (Some(expected), None));
        }
    }
}
