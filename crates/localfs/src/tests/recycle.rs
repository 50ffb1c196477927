//! Moves of deleted files to a recycle bin.

use server::vfs::Replace;

use super::*;

impl Bed {
    fn recycle(&self, from: &str, to: &str, replace: Replace) -> Result<()> {
        let (found, _, metadata) = self.found(from);
        block_on(self.fs.rename(
            &self.who,
            RenameRequest {
                to_recycle_bin: true,
                ..RenameRequest::new(&found, metadata.id, &path(to)).replacing(replace)
            },
        ))
    }

    fn local(&self, name: &str, content: &str) {
        process(|| {
            let file = self.root.join(name);
            fs::write(&file, content).expect("the directory exists");
            chown(&file, Some(self.who.uid), Some(self.who.gid)).expect("the process may");
        });
    }

    fn directory(&self, name: &str) {
        process(|| {
            fs::create_dir(self.root.join(name)).expect("the name is free");
            chown(self.root.join(name), Some(self.who.uid), Some(self.who.gid)).expect("the process may");
        });
    }

    fn content(&self, name: &str) -> Option<String> {
        process(|| fs::read_to_string(self.root.join(name)).ok())
    }
}

#[test]
fn deleted_files_are_moved() {
    let bed = Bed::new();
    bed.local("a", "first");
    assert_eq!(bed.recycle("a", "bin/a", Replace::Nothing), Err(Errno::NOENT), "the bin is missing");
    bed.directory("bin");
    assert_eq!(bed.recycle("a", "bin/a", Replace::Nothing), Ok(()));
    bed.local("a", "second");
    assert_eq!(bed.recycle("a", "bin/a", Replace::Nothing), Err(Errno::EXIST));
    assert_eq!(bed.content("bin/a").as_deref(), Some("first"));
    assert_eq!(bed.recycle("a", "bin/a", Replace::Any), Ok(()));
    assert_eq!((bed.content("bin/a").as_deref(), bed.content("a")), (Some("second"), None));
    bed.directory("d");
    assert_eq!(bed.recycle("d", "bin/d", Replace::Nothing), Err(Errno::ISDIR));
    process(|| fs::hard_link(bed.root.join("bin/a"), bed.root.join("a"))).expect("the name is free");
    assert_eq!(bed.recycle("a", "bin/a", Replace::Any), Ok(()), "two names of one file");
    assert_eq!((bed.content("bin/a").as_deref(), bed.content("a")), (Some("second"), None));
}

#[test]
fn a_link_is_moved_itself() {
    let bed = Bed::new();
    bed.directory("bin");
    bed.local("file", "content");
    process(|| symlink("file", bed.root.join("link"))).expect("the name is free");
    assert_eq!(bed.recycle("link", "bin/link", Replace::Nothing), Ok(()));
    let target = process(|| fs::read_link(bed.root.join("bin/link"))).expect("it is a link");
    assert_eq!((target.to_str(), bed.content("file").as_deref()), (Some("file"), Some("content")));
}

#[test]
fn a_bin_that_is_replaced_is_not_used_again() {
    let bed = Bed::new();
    bed.directory("bin");
    bed.directory("other");
    for name in ["a", "b", "c", "d", "e"] {
        bed.local(name, name);
    }
    assert_eq!(bed.recycle("a", "bin/a", Replace::Nothing), Ok(()));
    let rename = |from: &str, to: &str| process(|| fs::rename(bed.root.join(from), bed.root.join(to))).expect(from);
    // Another directory has the name.
    rename("bin", "old");
    bed.directory("bin");
    assert_eq!(bed.recycle("b", "bin/b", Replace::Nothing), Ok(()));
    assert_eq!((bed.content("bin/b").as_deref(), bed.content("old/b")), (Some("b"), None));
    // A link has the name.
    rename("bin", "older");
    for target in ["other", "older", "/tmp", ".."] {
        process(|| symlink(target, bed.root.join("bin"))).expect("the name is free");
        assert_eq!(bed.recycle("c", "bin/c", Replace::Nothing), Err(Errno::LOOP), "{target}");
        process(|| fs::remove_file(bed.root.join("bin"))).expect("it exists");
    }
    // The directory has gone.
    assert_eq!(bed.recycle("d", "bin/d", Replace::Nothing), Err(Errno::NOENT));
    assert_eq!((bed.content("c").as_deref(), bed.content("d").as_deref()), (Some("c"), Some("d")));
    bed.directory("bin");
    assert_eq!(bed.recycle("e", "bin/e", Replace::Nothing), Ok(()));
}

#[test]
fn the_user_needs_permission_for_the_bin() {
    if cannot_switch() {
        return;
    }
    let bed = Bed::new();
    bed.directory("bin");
    bed.local("a", "a");
    bed.local("b", "b");
    assert_eq!(bed.recycle("a", "bin/a", Replace::Nothing), Ok(()), "the directory is open now");
    process(|| {
        fs::set_permissions(bed.root.join("bin"), fs::Permissions::from_mode(0o700)).expect("the process may");
        chown(bed.root.join("bin"), Some(61_009), Some(61_009)).expect("the process may");
    });
    assert_eq!(bed.recycle("b", "bin/b", Replace::Nothing), Err(Errno::ACCES));
    assert_eq!(bed.content("b").as_deref(), Some("b"));
}

#[test]
fn directories_that_stay_open_are_bounded() {
    let bed = Bed::new();
    for number in 0..40 {
        bed.directory(&format!("bin{number}"));
        bed.local("a", "a");
        assert_eq!(bed.recycle("a", &format!("bin{number}/a"), Replace::Nothing), Ok(()));
    }
    assert_eq!(bed.fs.0.bins.len(), 16);
}
