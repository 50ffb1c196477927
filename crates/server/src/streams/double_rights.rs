//! The permissions of an AppleDouble file: those of its file, for the same users. It never grants more to anybody
//! except its owner, which can change them anyway.

use std::sync::Arc;

use crate::acl::model::posix_acl::{self, Entry, PosixAcl, Tag};
use crate::vfs::{AclKind, Errno, Metadata, Node, Op, Result, SetMetadata, SetXattr, Vfs};

/// What the owner of an AppleDouble file needs.
const READ_AND_WRITE: u8 = 6;

/// Gives an AppleDouble file with the metadata `own` the permissions of its file `base`.
///
/// # Errors
/// They cannot be set. What was set of them grants no more than `base` does.
pub(super) async fn follow(
    vfs: &dyn Vfs,
    op: &Op,
    base: &Arc<dyn Node>,
    (node, mut own): (&Arc<dyn Node>, Metadata),
) -> Result<()> {
    let has_lists = vfs.capabilities().acls == AclKind::Posix;
    let list = if has_lists { stored(base, op).await? } else { None };
    let model = base.metadata(op).await?;
    if own.gid != model.gid {
        // The new group gets its rights afterwards.
        let narrow = SetMetadata { mode: Some(own.mode & 0o700), ..SetMetadata::default() };
        let set = SetMetadata { gid: Some(model.gid), ..SetMetadata::default() };
        // Only a member can set the group.
        if node.set_metadata(op, narrow).await.is_ok() && node.set_metadata(op, set).await.is_ok() {
            own = node.metadata(op).await?;
        }
    }
    let wanted = of(&model, list, &own);
    let mut mode = wanted.mode();
    let present = if has_lists { stored(node, op).await? } else { None };
    if present.as_ref() == Some(&wanted) {
        // A user that may write to the file need not be able to set its ACL.
        return Ok(());
    }
    // Otherwise an ACL that was inherited from the directory would stay.
    if has_lists && (!wanted.is_minimal() || present.is_some()) {
        match node.set_xattr(op, posix_acl::ACCESS, Some(wanted.encode()), SetXattr::Any).await {
            Err(Errno::OPNOTSUPP) => mode = without_names(&wanted),
            done => done?,
        }
    } else if !wanted.is_minimal() {
        mode = without_names(&wanted);
    }
    if node.metadata(op).await?.mode & 0o777 == mode {
        return Ok(());
    }
    node.set_metadata(op, SetMetadata { mode: Some(mode), ..SetMetadata::default() }).await
}

/// Returns the POSIX ACL of a file; `None` if the mode has all.
async fn stored(node: &Arc<dyn Node>, op: &Op) -> Result<Option<PosixAcl>> {
    match node.get_xattr(op, posix_acl::ACCESS).await {
        Ok(value) => value.map(|value| PosixAcl::decode(&value).map_err(|_| Errno::IO)).transpose(),
        Err(Errno::OPNOTSUPP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Returns the ACL that gives the users of a file with the metadata `base` and the ACL `list` their rights on a file
/// with the owner and group of `own`.
fn of(base: &Metadata, list: Option<PosixAcl>, own: &Metadata) -> PosixAcl {
    let list = list.unwrap_or_else(|| PosixAcl::of_mode(base.mode));
    // Linux does not evaluate an ACL with an empty mask.
    let list = if list.mode() & 0o070 == 0 { PosixAcl::of_mode(list.mode()) } else { list };
    let has = |tag| list.entries().iter().find(|entry| entry.tag == tag).map(|entry| list.effective(entry));
    let (mut owner, mut group) = (has(Tag::Owner).unwrap_or(0), has(Tag::OwningGroup).unwrap_or(0));
    let other = has(Tag::Other).unwrap_or(0);
    let is_named = |entry: &&Entry| matches!(entry.tag, Tag::User(_) | Tag::Group(_));
    let named = list.entries().iter().filter(is_named);
    let mut named: Vec<Entry> =
        named.map(|entry| Entry { permissions: list.effective(entry), tag: entry.tag }).collect();
    let mut mask = has(Tag::Mask);
    if own.uid != base.uid {
        // The owner's entry is evaluated before that of a named user.
        named.retain(|entry| entry.tag != Tag::User(base.uid));
        named.push(Entry { tag: Tag::User(base.uid), permissions: owner });
        mask = Some(mask.unwrap_or(group) | owner);
        owner = READ_AND_WRITE;
    }
    if own.gid != base.gid {
        let former = named.iter().find(|entry| entry.tag == Tag::Group(base.gid)).map_or(0, |entry| entry.permissions);
        named.retain(|entry| entry.tag != Tag::Group(base.gid));
        named.push(Entry { tag: Tag::Group(base.gid), permissions: group | former });
        mask = Some(mask.unwrap_or(0) | group);
        // Its members may be in the other groups as well, whose entries may grant less than that of others.
        let groups = named.iter().filter(|entry| entry.tag.gid().is_some());
        let least = groups.fold(other, |least, entry| least & entry.permissions);
        group = named.iter().find(|entry| entry.tag == Tag::Group(own.gid)).map_or(least, |entry| entry.permissions);
        named.retain(|entry| entry.tag != Tag::Group(own.gid));
        mask = mask.map(|mask| mask | group);
    }
    let classes = [(Tag::Owner, owner), (Tag::OwningGroup, group), (Tag::Other, other)];
    let mut entries = Vec::from(classes.map(|(tag, permissions)| Entry { tag, permissions }));
    // An empty mask would give the named users the rights of others. Their entries are within the former mask.
    let is_evaluated = named.is_empty() || mask != Some(0);
    entries.extend(mask.map(|mask| Entry { tag: Tag::Mask, permissions: if is_evaluated { mask } else { 1 } }));
    entries.extend(named);
    PosixAcl::new(entries)
}

/// Returns the mode that gives nobody more than `list` does.
fn without_names(list: &PosixAcl) -> u32 {
    let least = |is_counted: fn(Tag) -> bool| {
        let counted = list.entries().iter().filter(|entry| is_counted(entry.tag));
        u32::from(counted.fold(7, |least, entry| least & list.effective(entry)))
    };
    let group = least(|tag| matches!(tag, Tag::User(_) | Tag::OwningGroup));
    let other = least(|tag| matches!(tag, Tag::User(_) | Tag::Group(_) | Tag::Other));
    list.mode() & 0o700 | group << 3 | other
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::volume;
    use crate::vfs::{Identity, Kind};

    fn metadata(uid: u32, gid: u32, mode: u32) -> Metadata {
        volume::metadata(Kind::File, mode, (uid, gid))
    }

    fn list() -> impl Strategy<Value = PosixAcl> {
        let tags = prop_oneof![(1u32..4).prop_map(Tag::User), (1u32..4).prop_map(Tag::Group)];
        let named = prop::collection::btree_map(tags, 0u8..8, 0..4);
        (prop::array::uniform3(0u8..8), named, prop::option::of(0u8..8)).prop_map(|(classes, named, mask)| {
            let tags = [Tag::Owner, Tag::OwningGroup, Tag::Other];
            let mut entries: Vec<Entry> =
                tags.into_iter().zip(classes).map(|(tag, permissions)| Entry { tag, permissions }).collect();
            let mask = mask.filter(|_| !named.is_empty());
            entries.extend(mask.map(|permissions| Entry { tag: Tag::Mask, permissions }));
            entries.extend(named.into_iter().map(|(tag, permissions)| Entry { tag, permissions }));
            PosixAcl::new(entries)
        })
    }

    proptest! {
        #[test]
        fn nobody_gets_more(
            list in list(),
            (base, own) in (prop::array::uniform2(1u32..4), prop::array::uniform2(1u32..4)),
            (uid, gid, groups) in (1u32..5, 1u32..5, prop::collection::vec(1u32..5, 0..3)),
        ) {
            let base = metadata(base[0], base[1], list.mode());
            let own = metadata(own[0], own[1], 0o700);
            let wanted = of(&base, Some(list.clone()), &own);
            let reduced = PosixAcl::of_mode(without_names(&wanted));
            let who = Identity { uid, gid, groups: groups.into() };
            for bit in [1, 2, 4] {
                let before = list.permits(&who, base.uid, base.gid, bit);
                if uid != own.uid {
                    prop_assert!(before || !wanted.permits(&who, own.uid, own.gid, bit), "{wanted:?}");
                    prop_assert!(before || !reduced.permits(&who, own.uid, own.gid, bit), "{reduced:?}");
                    if own.gid == base.gid {
                        prop_assert_eq!(before, wanted.permits(&who, own.uid, own.gid, bit), "{:?}", wanted);
                    }
                }
            }
        }
    }

    #[test]
    fn the_same_owner_and_group_keep_the_mode() {
        let own = metadata(1, 2, 0o700);
        for mode in [0o600, 0o644, 0o604, 0o777] {
            assert_eq!(of(&metadata(1, 2, mode), None, &own), PosixAcl::of_mode(mode));
        }
    }
}
