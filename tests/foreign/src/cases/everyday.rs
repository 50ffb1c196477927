//! Common operations with smbclient: list, rename, delete, create and remove directories, show information, archive.

use std::fs;

use anyhow::{Result, ensure};

use crate::file;
use crate::fixture::Fixture;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[
    Case::new("everyday.ls", ls),
    Case::new("everyday.rename", rename),
    Case::new("everyday.del", del),
    Case::new("everyday.mkdir_rmdir", mkdir_rmdir),
    Case::new("everyday.allinfo", allinfo),
    Case::new("everyday.du", du),
    Case::new("everyday.case_insensitive", case_insensitive),
    Case::new("everyday.unicode_names", unicode_names),
    Case::new("everyday.tar", tar),
];

/// Creates a folder in the share `files` with a file in it, and a local one.
fn put_hello(fixture: &Fixture, folder: &str) -> Result<std::path::PathBuf> {
    let local = fixture.local(folder)?;
    fs::write(local.join("hello.txt"), "hello\n")?;
    let commands = format!("mkdir {folder}; cd {folder}; lcd {}; put hello.txt", local.display());
    fixture.smbclient().run(&commands)?.fine()?;
    Ok(fixture.share("files").join(folder))
}

fn ls(fixture: &mut Fixture) -> Result<()> {
    put_hello(fixture, "ls")?;
    let text = fixture.smbclient().run("cd ls; ls")?.fine()?;
    let line = text.lines().find(|line| line.contains("hello.txt")).unwrap_or_default();
    let columns: Vec<&str> = line.split_whitespace().take(3).collect();
    ensure!(columns == ["hello.txt", "A", "6"], "name, attributes and size were {columns:?} in\n{text}");
    let folder = fixture.smbclient().run("ls ls")?.fine()?;
    ensure!(folder.lines().any(|line| line.split_whitespace().take(2).eq(["ls", "D"])), "no folder in\n{folder}");
    fixture.smbclient().run("ls nothing-like-it")?.refused_with("NT_STATUS_NO_SUCH_FILE")
}

fn rename(fixture: &mut Fixture) -> Result<()> {
    let folder = put_hello(fixture, "rename")?;
    fixture.smbclient().run("cd rename; rename hello.txt bye.txt")?.fine()?;
    ensure!(fs::read(folder.join("bye.txt"))? == b"hello\n" && !folder.join("hello.txt").exists());
    fs::write(folder.join("other.txt"), "other")?;
    fixture.smbclient().run("cd rename; rename bye.txt other.txt")?.refused_with("NT_STATUS_OBJECT_NAME_COLLISION")?;
    fixture.smbclient().run("rename rename renamed")?.fine()?;
    ensure!(fixture.share("files").join("renamed/bye.txt").exists(), "the folder was not renamed");
    Ok(())
}

fn del(fixture: &mut Fixture) -> Result<()> {
    let folder = put_hello(fixture, "del")?;
    fs::write(folder.join("second.txt"), "")?;
    fixture.smbclient().run("cd del; del *.txt")?.fine()?;
    ensure!(file::contents(&folder)?.is_empty(), "files were not deleted");
    fixture.smbclient().run("del del/hello.txt")?.refused_with("NT_STATUS_NO_SUCH_FILE")
}

fn mkdir_rmdir(fixture: &mut Fixture) -> Result<()> {
    fixture.smbclient().run("mkdir made; mkdir made/inner")?.fine()?;
    fixture.smbclient().run("mkdir made")?.refused_with("NT_STATUS_OBJECT_NAME_COLLISION")?;
    fixture.smbclient().run("rmdir made")?.refused_with("NT_STATUS_DIRECTORY_NOT_EMPTY")?;
    fixture.smbclient().run("rmdir made/inner; rmdir made")?.fine()?;
    ensure!(!fixture.share("files").join("made").exists(), "the folder was not removed");
    Ok(())
}

fn allinfo(fixture: &mut Fixture) -> Result<()> {
    put_hello(fixture, "allinfo")?;
    let text = fixture.smbclient().run("allinfo allinfo/hello.txt")?.fine()?;
    for what in
        ["create_time:", "access_time:", "write_time:", "change_time:", "attributes: A (20)", "[::$DATA], 6 bytes"]
    {
        ensure!(text.contains(what), "no {what:?} in\n{text}");
    }
    ensure!(!text.contains("create_time:    NTTIME(0)"), "no creation time:\n{text}");
    fixture.smbclient().run("allinfo allinfo")?.says("attributes: D (10)")
}

fn du(fixture: &mut Fixture) -> Result<()> {
    let folder = put_hello(fixture, "du")?;
    fs::create_dir(folder.join("deeper"))?;
    fs::write(folder.join("deeper/file"), [b'x'; 1000])?;
    let text = fixture.smbclient().run("recurse; du du/*")?.fine()?;
    ensure!(text.contains("Total number of bytes: 1006"), "{text}");
    ensure!(text.contains("blocks available"), "no free space in\n{text}");
    Ok(())
}

fn case_insensitive(fixture: &mut Fixture) -> Result<()> {
    put_hello(fixture, "case")?;
    let text = fixture.smbclient().run("cd CASE; get HELLO.TXT -")?.fine()?;
    ensure!(text.contains("hello"), "{text}");
    // The name is shown as it was created.
    fixture.smbclient().run("ls Case/HELLO.txt")?.says("hello.txt")
}

fn unicode_names(fixture: &mut Fixture) -> Result<()> {
    let local = fixture.local("unicode")?;
    let folder = fixture.share("files").join("unicode");
    let names = ["Übergröße.txt", "日本語", "emoji 🎉", "é combined", "Кириллица.doc"];
    for name in names {
        fs::write(local.join(name), name)?;
    }
    let send = format!("mkdir unicode; cd unicode; lcd {}; prompt; mput *", local.display());
    fixture.smbclient().run(&send)?.fine()?;
    for name in names {
        ensure!(fs::read_to_string(folder.join(name))? == name, "{name} differs");
    }
    let text = fixture.smbclient().run("cd unicode; ls")?.fine()?;
    for name in names {
        ensure!(text.contains(name), "no {name} in\n{text}");
    }
    fixture.smbclient().run("get unicode/ÜBERGRÖSSE.TXT -")?.refused_with("NT_STATUS_OBJECT_NAME_NOT_FOUND")?;
    fixture.smbclient().run("get unicode/КИРИЛЛИЦА.DOC -")?.says("Кириллица.doc")
}

fn tar(fixture: &mut Fixture) -> Result<()> {
    let folder = fixture.environment.make_dir("data/files/tar", &test_environment::ALICE, 0o777)?;
    file::tree(&folder, 4, 10)?;
    let local = fixture.local("tar")?;
    let archive = local.join("all.tar");
    fixture.smbclient().run(&format!("tar c {} tar", archive.display()))?.fine()?;
    let saved = fixture.local("tar-saved")?;
    fs::rename(&folder, saved.join("tar"))?;
    fixture.smbclient().run(&format!("tar x {}", archive.display()))?.fine()?;
    let files = file::ensure_same_tree(&saved.join("tar"), &folder)?;
    ensure!(files == 40, "{files} files instead of 40");
    Ok(())
}
