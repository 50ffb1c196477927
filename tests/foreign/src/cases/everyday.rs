//! Common operations with smbclient: list, rename, delete, create and remove directories, show information, archive.

use std::fs;

use anyhow::{Result, ensure};

use crate::file;
use crate::stage::Stage;
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
fn put_hello(stage: &Stage, folder: &str) -> Result<std::path::PathBuf> {
    let local = stage.local(folder)?;
    fs::write(local.join("hello.txt"), "hello\n")?;
    let commands = format!("mkdir {folder}; cd {folder}; lcd {}; put hello.txt", local.display());
    stage.smbclient().run(&commands)?.fine()?;
    Ok(stage.share("files").join(folder))
}

fn ls(stage: &mut Stage) -> Result<()> {
    put_hello(stage, "ls")?;
    let text = stage.smbclient().run("cd ls; ls")?.fine()?;
    let line = text.lines().find(|line| line.contains("hello.txt")).unwrap_or_default();
    let columns: Vec<&str> = line.split_whitespace().take(3).collect();
    ensure!(columns == ["hello.txt", "A", "6"], "name, attributes and size were {columns:?} in\n{text}");
    let folder = stage.smbclient().run("ls ls")?.fine()?;
    ensure!(folder.lines().any(|line| line.split_whitespace().take(2).eq(["ls", "D"])), "no folder in\n{folder}");
    stage.smbclient().run("ls nothing-like-it")?.refused_with("NT_STATUS_NO_SUCH_FILE")
}

fn rename(stage: &mut Stage) -> Result<()> {
    let folder = put_hello(stage, "rename")?;
    stage.smbclient().run("cd rename; rename hello.txt bye.txt")?.fine()?;
    ensure!(fs::read(folder.join("bye.txt"))? == b"hello\n" && !folder.join("hello.txt").exists());
    fs::write(folder.join("other.txt"), "other")?;
    stage.smbclient().run("cd rename; rename bye.txt other.txt")?.refused_with("NT_STATUS_OBJECT_NAME_COLLISION")?;
    stage.smbclient().run("rename rename renamed")?.fine()?;
    ensure!(stage.share("files").join("renamed/bye.txt").exists(), "the folder was not renamed");
    Ok(())
}

fn del(stage: &mut Stage) -> Result<()> {
    let folder = put_hello(stage, "del")?;
    fs::write(folder.join("second.txt"), "")?;
    stage.smbclient().run("cd del; del *.txt")?.fine()?;
    ensure!(file::contents(&folder)?.is_empty(), "files were not deleted");
    stage.smbclient().run("del del/hello.txt")?.refused_with("NT_STATUS_NO_SUCH_FILE")
}

fn mkdir_rmdir(stage: &mut Stage) -> Result<()> {
    stage.smbclient().run("mkdir made; mkdir made/inner")?.fine()?;
    stage.smbclient().run("mkdir made")?.refused_with("NT_STATUS_OBJECT_NAME_COLLISION")?;
    stage.smbclient().run("rmdir made")?.refused_with("NT_STATUS_DIRECTORY_NOT_EMPTY")?;
    stage.smbclient().run("rmdir made/inner; rmdir made")?.fine()?;
    ensure!(!stage.share("files").join("made").exists(), "the folder was not removed");
    Ok(())
}

fn allinfo(stage: &mut Stage) -> Result<()> {
    put_hello(stage, "allinfo")?;
    let text = stage.smbclient().run("allinfo allinfo/hello.txt")?.fine()?;
    for what in
        ["create_time:", "access_time:", "write_time:", "change_time:", "attributes: A (20)", "[::$DATA], 6 bytes"]
    {
        ensure!(text.contains(what), "no {what:?} in\n{text}");
    }
    ensure!(!text.contains("create_time:    NTTIME(0)"), "no creation time:\n{text}");
    stage.smbclient().run("allinfo allinfo")?.says("attributes: D (10)")
}

fn du(stage: &mut Stage) -> Result<()> {
    let folder = put_hello(stage, "du")?;
    fs::create_dir(folder.join("deeper"))?;
    fs::write(folder.join("deeper/file"), [b'x'; 1000])?;
    let text = stage.smbclient().run("recurse; du du/*")?.fine()?;
    ensure!(text.contains("Total number of bytes: 1006"), "{text}");
    ensure!(text.contains("blocks available"), "no free space in\n{text}");
    Ok(())
}

fn case_insensitive(stage: &mut Stage) -> Result<()> {
    put_hello(stage, "case")?;
    let text = stage.smbclient().run("cd CASE; get HELLO.TXT -")?.fine()?;
    ensure!(text.contains("hello"), "{text}");
    // The name is shown as it was created.
    stage.smbclient().run("ls Case/HELLO.txt")?.says("hello.txt")
}

fn unicode_names(stage: &mut Stage) -> Result<()> {
    let local = stage.local("unicode")?;
    let folder = stage.share("files").join("unicode");
    let names = ["Übergröße.txt", "日本語", "emoji 🎉", "é combined", "Кириллица.doc"];
    for name in names {
        fs::write(local.join(name), name)?;
    }
    let send = format!("mkdir unicode; cd unicode; lcd {}; prompt; mput *", local.display());
    stage.smbclient().run(&send)?.fine()?;
    for name in names {
        ensure!(fs::read_to_string(folder.join(name))? == name, "{name} differs");
    }
    let text = stage.smbclient().run("cd unicode; ls")?.fine()?;
    for name in names {
        ensure!(text.contains(name), "no {name} in\n{text}");
    }
    stage.smbclient().run("get unicode/ÜBERGRÖSSE.TXT -")?.refused_with("NT_STATUS_OBJECT_NAME_NOT_FOUND")?;
    stage.smbclient().run("get unicode/КИРИЛЛИЦА.DOC -")?.says("Кириллица.doc")
}

fn tar(stage: &mut Stage) -> Result<()> {
    let folder = stage.bed.make_dir("data/files/tar", &crate::bed::ALICE, 0o777)?;
    file::tree(&folder, 4, 10)?;
    let local = stage.local("tar")?;
    let archive = local.join("all.tar");
    stage.smbclient().run(&format!("tar c {} tar", archive.display()))?.fine()?;
    let saved = stage.local("tar-saved")?;
    fs::rename(&folder, saved.join("tar"))?;
    stage.smbclient().run(&format!("tar x {}", archive.display()))?.fine()?;
    let files = file::ensure_same_tree(&saved.join("tar"), &folder)?;
    ensure!(files == 40, "{files} files instead of 40");
    Ok(())
}
