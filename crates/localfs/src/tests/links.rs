//! Symbolic links, including ones swapped concurrently, never lead out of the root.

use server::vfs::{Case, Create, RenameRequest, Replace};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags};

use super::*;

const NONE: SymlinkPolicy = SymlinkPolicy::NONE;

impl Bed {
    fn link(&self, name: &str, target: impl AsRef<Path>) {
        process(|| symlink(target, self.root.join(name))).expect("the name is not in use");
    }

    /// Returns the result of a look-up as a comparable value.
    fn outcome(&self, text: &str, links: SymlinkPolicy) -> std::result::Result<Option<Kind>, Errno> {
        match self.lookup_as(&self.who, text, links) {
            Ok(Lookup::Found { metadata, .. }) => Ok(Some(metadata.kind)),
            Ok(_) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[test]
fn the_target_of_a_link_is_not_revealed() {
    let bed = Bed::new();
    process(|| {
        fs::create_dir(bed.outside("there")).unwrap();
        fs::write(bed.outside("there/file"), "secret").unwrap();
        fs::create_dir(bed.outside("closed")).unwrap();
        fs::set_permissions(bed.outside("closed"), fs::Permissions::from_mode(0o0)).unwrap();
    });
    let targets = [
        "../there",
        "../there/file",
        "../closed",
        "../closed/file",
        "../none",
        "/etc",
        "/etc/passwd",
        "/none",
        "/",
        "..",
        "none",
        "circle",
    ];
    for (number, target) in targets.iter().enumerate() {
        let name = if *target == "circle" { "circle".to_owned() } else { format!("link{number}") };
        bed.link(&name, target);
        for links in [FOLLOW, NONE] {
            assert_eq!(bed.outcome(&name, links), Ok(Some(Kind::Symlink)), "{target}");
            assert_eq!(bed.outcome(&format!("{name}/file"), links), Err(Errno::LOOP), "{target}");
            assert_eq!(bed.outcome(&format!("{name}/none"), links), Err(Errno::LOOP), "{target}");
            assert_eq!(bed.outcome(&format!("{}/none", name.to_uppercase()), links), Err(Errno::LOOP), "{target}");
        }
        let (_, node, _) = bed.found(&name);
        assert_eq!(block_on(node.open(&bed.who, READ)).err(), Some(Errno::LOOP), "{target}");
        let inside = path(&format!("{name}/new"));
        let made = bed.fs.create(&bed.who, &inside, NewFile::new(Create::File(BOTH), 0o644));
        assert!(matches!(block_on(made).err(), Some(Errno::LOOP | Errno::NOENT)), "{target}");
    }
}

#[test]
fn links_below_the_root_are_followed_if_allowed() {
    let bed = Bed::new();
    process(|| {
        fs::create_dir_all(bed.root.join("Dir/sub")).unwrap();
        fs::write(bed.root.join("Dir/sub/file"), "inside").unwrap();
        chown(bed.root.join("Dir/sub"), Some(bed.who.uid), None).unwrap();
    });
    bed.link("relative", "Dir/sub");
    bed.link("absolute", bed.root.join("Dir/sub"));
    bed.link("root", &bed.root);
    bed.link("Dir/sub/chain", "../../absolute/../sub/file");
    for text in ["relative/file", "absolute/FILE", "Root/Dir/sub/file", "ABSOLUTE/chain", "root/relative/chain"] {
        let (_, node, _) = bed.found(text);
        assert_eq!(content(&node, &bed.who), "inside", "{text}");
        assert_eq!(bed.outcome(text, NONE), Err(Errno::LOOP), "{text}");
    }
    // Changes follow the same links as the look-up did.
    let Ok(Lookup::Missing { path: new, .. }) = bed.lookup("absolute/New") else { panic!("the name is not in use") };
    let (_, made) = now(bed.fs.create(&bed.who, &new, NewFile::new(Create::File(BOTH), 0o644))).opened();
    assert_eq!(bed.found("dir/sub/new").2.id, made.id);
    assert_eq!(block_on(bed.fs.rename(&bed.who, RenameRequest::new(&new, made.id, &path("relative/moved")))), Ok(()));
    assert_eq!(block_on(bed.fs.unlink(&bed.who, &path("absolute/moved"), made.id, Kind::File)).map(|_| ()), Ok(()));
    // A path that merely starts like one below the root is not below it.
    let beside = format!("{}-beside", bed.root.display());
    process(|| fs::create_dir(&beside)).unwrap();
    bed.link("beside", &beside);
    bed.link("up", bed.root.join("../share-beside"));
    assert_eq!(bed.outcome("beside", FOLLOW), Ok(Some(Kind::Symlink)));
    assert_eq!(bed.outcome("up", FOLLOW), Ok(Some(Kind::Symlink)));
    process(|| fs::remove_dir(&beside)).unwrap();
}

#[test]
fn wide_links_lead_out_only_if_configured() {
    let wide = SymlinkPolicy { wide: true, ..SymlinkPolicy::BENEATH };
    let bed = Bed::with(Options { links: wide, root: None });
    process(|| {
        fs::create_dir(bed.outside("there")).unwrap();
        chown(bed.outside("there"), Some(bed.who.uid), None).unwrap();
        fs::write(bed.outside("there/file"), "outside").unwrap();
    });
    bed.link("link", "../there");
    assert_eq!(bed.outcome("LINK/FILE", wide), Ok(Some(Kind::File)));
    assert_eq!(bed.outcome("link/file", FOLLOW), Err(Errno::LOOP));
    assert_eq!(bed.outcome("link/file", SymlinkPolicy { wide: true, ..SymlinkPolicy::NONE }), Err(Errno::LOOP));
    let made = bed.fs.create(&bed.who, &path("link/new"), NewFile::new(Create::File(BOTH), 0o644));
    assert!(block_on(made).is_ok() && bed.outside("there/new").exists());
}

#[test]
fn a_followed_link_is_renamed_and_removed_itself() {
    let bed = Bed::new();
    let (_, file) = bed.create("file");
    bed.link("link", "file");
    let id = bed.found("link").2.id;
    assert_eq!(id, file.id, "the lookup follows the link");
    assert_eq!(block_on(bed.fs.rename(&bed.who, RenameRequest::new(&path("link"), id, &path("moved")))), Ok(()));
    assert_eq!(block_on(bed.fs.unlink(&bed.who, &path("moved"), id, Kind::File)).map(|_| ()), Ok(()));
    assert_eq!(bed.found("file").2.id, id, "the target remains");
    assert!(bed.is_missing("moved") && bed.is_missing("link"));
}

/// Runs `work` while another thread swaps the directory `a` for the link `b`, which leads out, and back.
fn while_swapping(bed: &Bed, work: impl Fn(usize)) {
    process(|| {
        fs::create_dir(bed.outside("secret")).unwrap();
        fs::set_permissions(bed.outside("secret"), fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(bed.outside("secret/passwd"), "outside").unwrap();
        fs::create_dir(bed.root.join("a")).unwrap();
        fs::set_permissions(bed.root.join("a"), fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(bed.root.join("a/passwd"), "inside").unwrap();
    });
    bed.link("b", "../secret");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (a, b) = (bed.root.join("a"), bed.root.join("b"));
            process(|| ());
            while !stop.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(CWD, &a, CWD, &b, RenameFlags::EXCHANGE).expect("both names exist");
            }
        });
        // Stops the other thread however this one ends.
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (0..4_000).for_each(&work)));
        stop.store(true, Ordering::Relaxed);
        done.expect("nothing outside is accessed");
    });
    process(|| {
        let names: Vec<_> =
            fs::read_dir(bed.outside("secret")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["passwd"], "nothing was created or removed outside");
        assert_eq!(fs::read_to_string(bed.outside("secret/passwd")).unwrap(), "outside");
    });
}

#[test]
fn a_swapped_link_never_opens_a_file_outside() {
    for links in [FOLLOW, NONE] {
        let bed = Bed::new();
        while_swapping(&bed, |round| {
            let name = ["a/passwd", "b/passwd", "A/PASSWD"][round % 3];
            let Ok(Lookup::Found { node, .. }) = bed.lookup_as(&bed.who, name, links) else { return };
            assert_eq!(content(&node, &bed.who), "inside");
        });
    }
}

#[test]
fn a_swapped_link_never_changes_a_file_outside() {
    let bed = Bed::new();
    while_swapping(&bed, |round| {
        let (new, moved) = (path(&format!("a/new{round}")), path(&format!("b/moved{round}")));
        let what = if round % 2 == 0 { Create::File(BOTH) } else { Create::Directory };
        let kind = if round % 2 == 0 { Kind::File } else { Kind::Directory };
        let file = NewFile { dos_attributes: Some(0x20), ..NewFile::new(what, 0o755) };
        let Ok((node, made)) = block_on(bed.fs.create(&bed.who, &new, file)).map(Created::opened) else { return };
        // The result of each depends on the momentary state.
        let _ = block_on(bed.fs.link(&bed.who, &node, &path(&format!("a/link{round}")), Replace::Any));
        let _ = block_on(bed.fs.rename(&bed.who, RenameRequest::new(&new, made.id, &moved).replacing(Replace::Any)));
        for name in [&new, &moved] {
            let _ = block_on(bed.fs.unlink(&bed.who, name, made.id, kind));
        }
    });
}

#[test]
fn a_swapped_link_is_not_the_root_of_a_view() {
    let bed = Bed::new();
    while_swapping(&bed, |round| {
        let name = ["a", "b"][round % 2];
        let Ok(view) = block_on(bed.fs.beneath(&bed.who, &path(name))) else { return };
        let found = block_on(view.lookup(
            &bed.who,
            &path("passwd"),
            LookupOptions { case: Case::Insensitive, links: FOLLOW, access: Access::default() },
        ));
        let Ok(Lookup::Found { node, .. }) = found else { panic!("a view is of one directory") };
        assert_eq!(content(&node, &bed.who), "inside");
    });
}

#[test]
fn a_swapped_link_never_turns_a_file_outside_into_a_link() {
    let bed = Bed::new();
    while_swapping(&bed, |round| {
        let new = path(&format!("a/new{round}"));
        let file = NewFile::new(Create::File(BOTH), 0o644);
        let Ok(Created { metadata: made, .. }) = block_on(bed.fs.create(&bed.who, &new, file)) else { return };
        // The result of each depends on the momentary state.
        let fifo = |replaces| NewFile::new(Create::Special { file: SpecialFile::Fifo, replaces }, 0o600);
        let turn = |target: &[u8]| match round % 2 {
            0 => NewFile::symlink(target, Some(made.id)),
            _ => fifo(Some(made.id)),
        };
        let _ = block_on(bed.fs.create(&bed.who, &new, turn(b"passwd")));
        let _ = block_on(bed.fs.create(&bed.who, &path("b/passwd"), turn(b"new")));
        let _ = block_on(bed.fs.create(&bed.who, &path(&format!("b/fifo{round}")), fifo(None)));
    });
}

/// A user who may rename in a directory puts a neighbouring directory in the place of the one being created.
#[test]
fn a_swapped_directory_is_never_changed_in_place_of_the_new_one() {
    let bed = Bed::new();
    let (new, neighbour) = (bed.root.join("new"), bed.root.join("neighbour"));
    process(|| {
        fs::create_dir_all(neighbour.join("child")).unwrap();
        chown(&neighbour, Some(bed.who.uid), Some(bed.who.gid)).unwrap();
    });
    let (_, _, before) = bed.found("neighbour");
    // Files may have times that the coarse clock has not reached yet.
    while metadata::coarse_now() <= before.created {
        std::thread::yield_now();
    }
    let stop = AtomicBool::new(false);
    let mut swapped = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            process(|| ());
            while !stop.load(Ordering::Relaxed) {
                // There and back; has no effect if there is no new directory.
                let _ = rustix::fs::renameat_with(CWD, &new, CWD, &neighbour, RenameFlags::EXCHANGE);
            }
        });
        let rounds = std::panic::AssertUnwindSafe(|| {
            for _ in 0..4_000 {
                let directory = NewFile { dos_attributes: Some(0x12), ..NewFile::new(Create::Directory, 0o755) };
                match block_on(bed.fs.create(&bed.who, &path("new"), directory)) {
                    Ok(made) => assert_ne!(made.metadata.id, before.id, "the lookup must not return the neighbour"),
                    Err(error) => swapped += usize::from(error == Errno::STALE),
                }
                // Either of the two may be the new one.
                for name in [&new, &neighbour] {
                    let _ = process(|| fs::remove_dir(name));
                }
            }
        });
        let done = std::panic::catch_unwind(rounds);
        stop.store(true, Ordering::Relaxed);
        done.expect("no link is mistaken for another");
    });
    eprintln!("swapped {swapped} times");
    let name = if bed.is_missing("new") { "neighbour" } else { "new" };
    let (_, _, after) = bed.found(name);
    assert_eq!((after.id, after.mode, after.dos_attributes), (before.id, before.mode, before.dos_attributes));
}
