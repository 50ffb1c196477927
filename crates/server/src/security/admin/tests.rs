use proto::dtyp::AccessMask;

use super::*;
use crate::answer::block_on;
use crate::policy::AclStyle;
use crate::testing::{ManualClock, TestAccounts};
use crate::vfs::faulty::{Fault, Faulty, Operation, Script};
use crate::vfs::memory::{self, Memory};
use crate::vfs::{Access, Create, Errno, Identity, NewFile, Node, Op, RelPath, SERVER, SetMetadata, SetXattr};

const ATTRIBUTE: &str = "security.NTACL";
const ALL: Conversion = Conversion { replace: true, write: true };

fn path(text: &str) -> RelPath {
    let mut path = RelPath::root();
    text.split('/').filter(|name| !name.is_empty()).for_each(|name| assert!(path.push(name.as_bytes())));
    path
}

/// A share with `d`, `d/f` and a symbolic link `d/l`, owned by alice.
fn desk(acls: Option<StoredAcls>) -> (AclAdmin, Arc<Memory>) {
    let environment = Arc::new(ManualClock::ticking());
    let vfs = Arc::new(Memory::new(environment.clone()));
    let who = |uid| Op::from(Identity { uid, gid: uid, groups: Box::new([]) });
    let alice = who(1000);
    block_on(vfs.create(&who(0), &path("d"), NewFile::new(Create::Directory, 0o777))).unwrap();
    let file = Create::File(Access::default());
    block_on(vfs.create(&alice, &path("d/f"), NewFile::new(file.clone(), 0o640))).unwrap();
    block_on(vfs.create(&alice, &path("d/.frevo-own"), NewFile::new(file.clone(), 0o640))).unwrap();
    block_on(vfs.create(&alice, &path("d/Secret"), NewFile::new(file.clone(), 0o640))).unwrap();
    vfs.symlink(&alice, &path("d/l"), b"f").unwrap();
    let mut share = Share::new("s", "/s");
    share.acls.stored = acls;
    share.names.veto_files = vec!["secret".into()];
    (
        AclAdmin::new(Arc::new(share), vfs.clone(), Arc::new(TestAccounts), Some(Arc::new(TestAccounts)), environment),
        vfs,
    )
}

fn stored() -> Option<StoredAcls> {
    Some(StoredAcls {
        attribute: ATTRIBUTE.into(),
        ignore_system_acls: false,
        default_style: AclStyle::Posix,
        of_owner: None,
    })
}

fn value(item: &Item) -> Option<Vec<u8>> {
    block_on(item.node.get_xattr(&SERVER, ATTRIBUTE)).unwrap()
}

#[test]
fn a_conversion_stores_the_shown_descriptor_once() {
    let (desk, _) = desk(stored());
    for (name, dry) in [("d", true), ("d/f", true), ("d", false), ("d/f", false)] {
        let item = block_on(desk.item(&path(name))).unwrap();
        let before = block_on(desk.look(&item)).unwrap();
        assert_eq!((&before.source, &before.converted), (&Source::Converted, &before.descriptor), "{name}");
        let how = Conversion { write: !dry, ..ALL };
        assert_eq!(block_on(desk.convert(&item, how)), Ok(Outcome::Stored));
        let after = block_on(desk.look(&item)).unwrap();
        assert_eq!(value(&item).is_none(), dry);
        assert_eq!(after.source, if dry { Source::Converted } else { Source::Stored });
        assert_eq!(after.descriptor, before.descriptor);
        if !dry {
            assert_eq!(block_on(desk.convert(&item, ALL)), Ok(Outcome::Valid));
        }
    }
    let link = block_on(desk.item(&path("d/l"))).unwrap();
    assert_eq!(block_on(desk.convert(&link, ALL)), Ok(Outcome::Passed));
    assert!(block_on(desk.item(&path("d/l/x"))).is_err());
}

#[test]
fn a_descriptor_stored_by_a_client_is_valid_until_the_mode_changes() {
    let (desk, _) = desk(stored());
    let item = block_on(desk.item(&path("d/f"))).unwrap();
    let given = SecurityDescriptor {
        control: Control::DACL_PRESENT,
        dacl: Acl::new(2, vec![Ace::allow(Sid::EVERYONE, AccessMask::FILE_GENERIC_READ, AceFlags::NONE)]),
        ..SecurityDescriptor::default()
    };
    block_on(desk.set(&item, &given)).unwrap();
    let set = block_on(desk.look(&item)).unwrap();
    assert_eq!((set.source, &set.descriptor.dacl), (Source::Stored, &given.dacl));
    assert_ne!(set.converted.dacl, given.dacl);
    assert_eq!(block_on(desk.convert(&item, ALL)), Ok(Outcome::Valid));
    let mode = SetMetadata { mode: Some(0o600), ..SetMetadata::default() };
    block_on(item.node.set_metadata(&SERVER, mode)).unwrap();
    let look = block_on(desk.look(&item)).unwrap();
    assert!(matches!(&look.source, Source::Outdated(stored) if stored.dacl == given.dacl), "{:?}", look.source);
    assert_eq!(look.descriptor, look.converted);
    let kept = value(&item);
    assert_eq!(block_on(desk.convert(&item, Conversion { replace: false, ..ALL })), Ok(Outcome::Kept));
    assert_eq!(value(&item), kept);
    assert_eq!(block_on(desk.convert(&item, ALL)), Ok(Outcome::Replaced));
    let replaced = block_on(desk.look(&item)).unwrap();
    assert_eq!((replaced.source, replaced.descriptor), (Source::Stored, look.descriptor));
}

/// A file system without space for the second attribute, and the calls that it received.
#[derive(Default)]
struct Full(parking_lot::Mutex<Vec<Operation>>);

impl Full {
    fn asked_for(&self, operation: Operation) -> usize {
        self.0.lock().iter().filter(|&&asked| asked == operation).count()
    }
}

impl Script for Full {
    fn decide(&self, operation: Operation, _: u64) -> Fault {
        self.0.lock().push(operation);
        let full = operation == Operation::SetXattr && self.asked_for(operation) == 2;
        Fault { error: full.then_some(Errno::NOSPC), ..Fault::default() }
    }
}

/// Another program. It stores a descriptor before the first call that changes nothing, or the second, and so on.
struct Meddler {
    node: Arc<dyn Node>,
    value: Vec<u8>,
    readings: std::sync::atomic::AtomicUsize,
}

impl Meddler {
    /// Returns the administration of the share of `desk` with a program that changes `d/f`, and that program.
    fn with(desk: AclAdmin, vfs: Arc<Memory>, value: Vec<u8>, readings: usize) -> (AclAdmin, Arc<Meddler>) {
        let node = block_on(desk.item(&path("d/f"))).unwrap().node;
        let script = Arc::new(Meddler { node, value, readings: 0.into() });
        let vfs = Arc::new(Faulty::new(vfs, script.clone()));
        let desk =
            AclAdmin::new(desk.disk.share, vfs, Arc::new(TestAccounts), Some(Arc::new(TestAccounts)), desk.environment);
        script.readings.store(readings, std::sync::atomic::Ordering::Relaxed);
        (desk, script)
    }

    /// Whether the program wrote; it stops doing so.
    fn did(&self) -> bool {
        self.readings.swap(0, std::sync::atomic::Ordering::Relaxed) > 50
    }
}

impl Script for Meddler {
    fn decide(&self, operation: Operation, _: u64) -> Fault {
        let counts = !matches!(operation, Operation::SetXattr | Operation::SetMetadata);
        if counts && self.readings.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) == 1 {
            block_on(self.node.set_xattr(&SERVER, ATTRIBUTE, Some(self.value.clone()), SetXattr::Any)).unwrap();
        }
        Fault::default()
    }
}

#[test]
fn a_descriptor_stored_concurrently_by_another_program_stays() {
    let mut met = 0;
    let stranger = Some(Sid::of(5, [21, 9, 9, 9, 513]));
    for readings in 1..16 {
        let (desk, vfs) = desk(stored().map(|acls| StoredAcls { ignore_system_acls: true, ..acls }));
        let present = block_on(desk.look(&block_on(desk.item(&path("d/f"))).unwrap())).unwrap().descriptor;
        let value = ntacl::encode_unconditional(&SecurityDescriptor { group: stranger, ..present });
        let (desk, script) = Meddler::with(desk, vfs, value, readings);
        let item = block_on(desk.item(&path("d/f"))).unwrap();
        let list = Acl::new(2, vec![Ace::allow(Sid::EVERYONE, AccessMask::FILE_GENERIC_READ, AceFlags::NONE)]);
        let given =
            SecurityDescriptor { control: Control::DACL_PRESENT, dacl: list.clone(), ..SecurityDescriptor::default() };
        block_on(desk.set(&item, &given)).unwrap();
        let is_met = script.did();
        let look = block_on(desk.look(&item)).unwrap().descriptor;
        assert_eq!(look.dacl, list, "{readings}");
        assert_eq!(look.group == stranger, is_met, "{readings}");
        met += usize::from(is_met);
    }
    assert!(met > 1, "{met}");
}

#[test]
fn a_descriptor_stored_during_a_conversion_stays() {
    let mut met = 0;
    for readings in 1..24 {
        let (desk, vfs) = desk(stored());
        let item = block_on(desk.item(&path("d/f"))).unwrap();
        let descriptor = block_on(desk.look(&item)).unwrap().descriptor;
        block_on(desk.set(&item, &descriptor)).unwrap();
        let mode = SetMetadata { mode: Some(0o600), ..SetMetadata::default() };
        block_on(item.node.set_metadata(&SERVER, mode)).unwrap();
        let theirs = ntacl::encode_unconditional(&descriptor);
        let (desk, script) = Meddler::with(desk, vfs, theirs.clone(), readings);
        let item = block_on(desk.item(&path("d/f"))).unwrap();
        let outcome = block_on(desk.convert(&item, ALL)).unwrap();
        let is_met = script.did();
        assert_eq!(value(&item) == Some(theirs), is_met, "{readings}");
        assert_eq!(outcome, if is_met { Outcome::Kept } else { Outcome::Replaced }, "{readings}");
        met += usize::from(is_met);
    }
    assert!((2..23).contains(&met), "{met}");
}

#[test]
fn the_mode_is_restored_if_the_inherited_descriptor_does_not_fit() {
    let (environment, script) = (Arc::new(ManualClock::ticking()), Arc::new(Full::default()));
    let options = memory::Options { lists: true, ..memory::Options::default() };
    let vfs = Arc::new(Faulty::new(Arc::new(Memory::with_options(environment.clone(), options)), script.clone()));
    block_on(vfs.create(&SERVER, &path("d"), NewFile::new(Create::Directory, 0o700))).unwrap();
    let mut share = Share::new("s", "/s");
    share.acls.stored = stored();
    let share = Arc::new(share);
    let desk = AclAdmin::new(share, vfs, Arc::new(TestAccounts), Some(Arc::new(TestAccounts)), environment);
    let item = block_on(desk.item(&path("d"))).unwrap();
    let before = block_on(desk.look(&item)).unwrap();
    let flags = AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT;
    let given = SecurityDescriptor {
        control: Control::DACL_PRESENT,
        dacl: Acl::new(2, vec![Ace::allow(Sid::EVERYONE, AccessMask::FILE_GENERIC_READ, flags)]),
        ..SecurityDescriptor::default()
    };
    assert!(block_on(desk.set(&item, &given)).is_err());
    assert_eq!(script.asked_for(Operation::SetMetadata), 2, "the mode was changed twice");
    assert_eq!(block_on(desk.look(&item)).unwrap(), before);
    assert_eq!(block_on(item.node.metadata(&SERVER)).unwrap().mode, 0o700);
}

#[test]
fn descriptors_of_unknown_versions_stay() {
    let (desk, _) = desk(stored());
    let item = block_on(desk.item(&path("d/f"))).unwrap();
    let descriptor = block_on(desk.look(&item)).unwrap().descriptor;
    let version_3 = ntacl::encode_unconditional(&descriptor);
    let newer = vec![9, 0, 9, 0, 0, 0, 2, 0];
    for kept in [version_3, newer] {
        block_on(item.node.set_xattr(&SERVER, ATTRIBUTE, Some(kept.clone()), SetXattr::Any)).unwrap();
        assert!(matches!(block_on(desk.look(&item)).unwrap().source, Source::Unsure(_)));
        assert_eq!(block_on(desk.convert(&item, ALL)), Ok(Outcome::Kept));
        assert_eq!(value(&item), Some(kept));
    }
    block_on(item.node.set_xattr(&SERVER, ATTRIBUTE, Some(vec![4, 0]), SetXattr::Any)).unwrap();
    assert_eq!(block_on(desk.convert(&item, ALL)), Err(Error::new(Status::ACCESS_DENIED)), "damaged");
}

#[test]
fn shares_with_nothing_to_convert() {
    let ignoring = stored().map(|acls| StoredAcls { ignore_system_acls: true, ..acls });
    for (acls, source) in [(None, Source::Posix), (ignoring, Source::Default)] {
        let (desk, _) = desk(acls);
        let item = block_on(desk.item(&path("d/f"))).unwrap();
        assert_eq!(block_on(desk.look(&item)).unwrap().source, source);
        assert_eq!(block_on(desk.convert(&item, ALL)), Err(Error::new(Status::NOT_SUPPORTED)));
    }
}

#[test]
fn names_that_clients_see() {
    let (desk, _) = desk(stored());
    let item = block_on(desk.item(&path("d"))).unwrap();
    let all = [Box::from(&b"f"[..]), Box::from(&b"l"[..])];
    assert_eq!(block_on(desk.names(&item)).unwrap(), all);
    for count in 0..4 {
        let first = all.iter().take(count).cloned().collect();
        assert_eq!(block_on(desk.first_names(&item, count)).unwrap(), (2, first));
    }
}

#[test]
fn an_unknown_owner_is_refused() {
    let (desk, _) = desk(stored());
    let item = block_on(desk.item(&path("d/f"))).unwrap();
    let owner = |sid| SecurityDescriptor { owner: Some(sid), ..SecurityDescriptor::default() };
    let unknown = owner(Sid::of(5, [21, 9, 9, 9, 1000]));
    assert_eq!(block_on(desk.set(&item, &unknown)), Err(Error::new(Status::INVALID_OWNER)));
    block_on(desk.set(&item, &owner(Sid::of(5, [21, 1, 2, 3, 1001])))).unwrap();
    assert_eq!(block_on(item.node.metadata(&SERVER)).unwrap().uid, 1001);
}

#[test]
fn explicit_entries_stay_and_inherited_ones_are_replaced() {
    let (both, inherited) = (AceFlags(3), AceFlags::INHERITED);
    let (alice, bob) = (Sid::unix_user(1), Sid::unix_user(2));
    let read = AccessMask::FILE_GENERIC_READ;
    let of = |control, aces| SecurityDescriptor { control, dacl: Acl::new(2, aces), ..SecurityDescriptor::default() };
    let parent = of(Control::DACL_PRESENT, vec![Ace::allow(alice, read, both), Ace::allow(bob, read, AceFlags::NONE)]);
    let own = Ace::deny(bob, read, AceFlags::NONE);
    let present = of(Control::DACL_PRESENT, vec![own.clone(), Ace::allow(bob, AccessMask(1), inherited)]);
    let dacl = |directory| propagated(&parent, &present, directory).expect("not protected").dacl;
    assert_eq!(dacl(false), Acl::new(2, vec![own.clone(), Ace::allow(alice, read, inherited)]));
    assert_eq!(dacl(true), Acl::new(2, vec![own, Ace::allow(alice, read, both | inherited)]));
    let protected = of(Control::DACL_PRESENT | Control::DACL_PROTECTED, vec![]);
    assert_eq!(propagated(&parent, &protected, true), None);
    let barren = of(Control::DACL_PRESENT, vec![]);
    let left = propagated(&barren, &present, false).and_then(|descriptor| descriptor.dacl);
    assert_eq!(left.map(|list| list.aces().len()), Some(1));
}

#[test]
fn a_file_gets_only_a_name_that_clients_can_use_and_that_is_free() {
    let (desk, vfs) = desk(None);
    let item = block_on(desk.item(&path("d/f"))).unwrap();
    block_on(vfs.create(&SERVER, &path("bin"), NewFile::new(Create::Directory, 0o777))).unwrap();
    for (to, expected) in [
        ("d/F", Status::OBJECT_NAME_COLLISION),
        ("d/SECRET", Status::ACCESS_DENIED),
        ("secret/x", Status::ACCESS_DENIED),
        ("d/.frevo-streams", Status::ACCESS_DENIED),
        (".Frevo-Links/x", Status::ACCESS_DENIED),
        ("d/.Frevo-x", Status::ACCESS_DENIED),
        ("bin/x", Status::ACCESS_DENIED),
        ("Bin/X", Status::ACCESS_DENIED),
        ("BIN", Status::ACCESS_DENIED),
        ("binary/x", Status::OBJECT_NAME_NOT_FOUND),
        ("D/FREVO", Status::SUCCESS),
    ] {
        let restored = block_on(desk.restore(&item, &path(to), &path("bin")));
        let status = restored.map_or_else(|error| error.status, |()| Status::SUCCESS);
        assert_eq!(status, expected, "{to}");
    }
    let options = LookupOptions::exact(SymlinkPolicy::NONE);
    let found = block_on(vfs.lookup(&SERVER, &path("d/FREVO"), options)).unwrap();
    assert!(matches!(found, Lookup::Found { .. }), "the directory keeps its name");
}
