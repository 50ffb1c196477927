//! Alternate streams read and written by smbclient, and a directory with streams that Samba serves at the same time.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::file;
use crate::fixture::Fixture;
use crate::smbclient::Smbclient;
use crate::suite::Case;
use test_environment::{ALICE, BOB, Server, Target, TestEnvironment};

pub(super) const CASES: &[Case] = &[
    Case::new("streams.there_and_back", there_and_back).frevo_only(),
    Case::new("streams.shared_with_samba", shared_with_samba).frevo_only(),
    Case::new("streams.planted_store", planted_store).needs_root().frevo_only(),
];

/// The configuration of a second server on the directory of the first one's share.
const SAMBA: &str = "[global]\n@TARGET@\n\tread only = no\n[files]\n\tpath = @FILES@\n\tvfs objects = streams_xattr\n";

/// Returns the streams of `name`, sorted.
fn streams(client: Smbclient<'_>, name: &str) -> Result<Vec<String>> {
    let text = client.run(&format!("allinfo {name}"))?.fine()?;
    let lines = text.lines().filter_map(|line| line.strip_prefix("stream: "));
    let mut streams: Vec<String> = lines.map(|line| line.trim().to_owned()).collect();
    streams.sort();
    Ok(streams)
}

/// Fetches `remote` and compares it with `sent`.
fn ensure_fetched(client: Smbclient<'_>, remote: &str, sent: &Path) -> Result<()> {
    let fetched = sent.with_extension("fetched");
    client.run(&format!("get \"{remote}\" {}", fetched.display()))?.fine()?;
    ensure!(fs::read(&fetched)? == fs::read(sent)?, "{remote} differs from {}", sent.display());
    Ok(())
}

/// Returns the number of files in the share's stream store.
fn stored(share: &Path) -> Result<usize> {
    match fs::read_dir(share.join(".frevo-streams")) {
        Ok(entries) => Ok(entries.count()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error.into()),
    }
}

fn there_and_back(fixture: &mut Fixture) -> Result<()> {
    let local = fixture.local("streams")?;
    let share = fixture.share("files");
    fixture.smbclient().run("mkdir streams")?.fine()?;
    // On most file systems an attribute can store the smaller streams, but not the last one.
    for length in [0, 2_000, 50_000, 3 << 20] {
        let sent = local.join("sent");
        file::random(&sent, length)?;
        fixture.smbclient().run(&format!("put {} streams/f:s", sent.display()))?.fine()?;
        ensure_fetched(fixture.smbclient(), "streams/F:S:$DATA", &sent)?;
        let expected = ["[::$DATA], 0 bytes".to_owned(), format!("[:s:$DATA], {length} bytes")];
        ensure!(streams(fixture.smbclient(), "streams/f")? == expected, "{length}");
    }
    ensure!(stored(&share)? == 1, "the large stream is not in the store");
    let listing = fixture.smbclient().run("ls")?.fine()?;
    ensure!(!listing.contains(".frevo-streams"), "the store is visible in\n{listing}");
    // A stream follows its file, even if a local program moves it.
    fs::rename(share.join("streams/f"), share.join("streams/g"))?;
    ensure_fetched(fixture.smbclient(), "streams/g:s", &local.join("sent"))?;
    fixture.smbclient().run("del streams/g; rmdir streams")?.fine()?;
    ensure!(stored(&share)? == 0, "the store keeps orphaned streams");
    Ok(())
}

fn shared_with_samba(fixture: &mut Fixture) -> Result<()> {
    let environment = TestEnvironment::make(Target::Samba)?;
    let share = fixture.share("files");
    let template = SAMBA.replace("@FILES@", share.to_str().context("a UTF-8 path")?);
    let samba: Server = environment.start("samba", &template)?;
    let local = fixture.local("both")?;
    let (small, large) = (local.join("small"), local.join("large"));
    file::random(&small, 1_000)?;
    file::random(&large, 1 << 20)?;
    let put = |name: &str| format!("put {} \"both/{name}\"", small.display());
    fixture.smbclient().run(&format!("mkdir both; {}; {}", put("f"), put("f:by frevo")))?.fine()?;
    fixture.smbclient().server(&samba).run(&format!("{}; {}", put("f:by samba"), put("f:Übergröße")))?.fine()?;
    let both = streams(fixture.smbclient(), "both/f")?;
    ensure!(both.len() == 4, "{both:?}");
    ensure!(both == streams(fixture.smbclient().server(&samba), "both/f")?, "the servers show different streams");
    for name in ["both/f:by frevo", "both/f:by samba", "both/f:ÜBERGRÖßE", "both/f:BY SAMBA:$DATA"] {
        ensure_fetched(fixture.smbclient(), name, &small)?;
        ensure_fetched(fixture.smbclient().server(&samba), name, &small)?;
    }
    // A stream that is too large for an attribute is available only through Frevo, and does not disturb Samba.
    fixture.smbclient().run(&format!("put {} both/f:large", large.display()))?.fine()?;
    ensure!(streams(fixture.smbclient().server(&samba), "both/f")? == both, "Samba shows other streams");
    fixture.smbclient().server(&samba).run("rename both/f both/g")?.fine()?;
    ensure_fetched(fixture.smbclient(), "both/g:large", &large)?;
    // Samba truncates a stream of Frevo's, and Frevo one of Samba's.
    let nothing = local.join("nothing");
    fs::write(&nothing, "")?;
    let empty = |name: &str| format!("put {} \"both/g:{name}\"", nothing.display());
    fixture.smbclient().server(&samba).run(&empty("by frevo"))?.fine()?;
    fixture.smbclient().run(&empty("by samba"))?.fine()?;
    for server in [&fixture.server, &samba] {
        let streams = streams(fixture.smbclient().server(server), "both/g")?;
        let emptied = streams.iter().filter(|stream| stream.ends_with(":$DATA], 0 bytes")).count();
        ensure!(emptied == 2, "{streams:?}");
    }
    fixture.smbclient().run("deltree both")?.fine()?;
    ensure!(stored(&share)? == 0, "the store keeps orphaned streams");
    Ok(())
}

/// A user who may write to the share's root replaces the store.
fn planted_store(fixture: &mut Fixture) -> Result<()> {
    let share = fixture.share("files");
    let (store, away) = (share.join(".frevo-streams"), share.join("store-moved-away"));
    let had_one = store.exists();
    if had_one {
        fs::rename(&store, &away)?;
    }
    let done = steal(fixture, &share, &store).and_then(|()| mislead(fixture, &share, &store));
    if had_one {
        fs::rename(&away, &store)?;
    }
    done
}

/// Creates a directory of alice's that contains a moved private file of bob's, to which an attribute of alice's own
/// file refers.
fn steal(fixture: &Fixture, share: &Path, store: &Path) -> Result<()> {
    let (local, mine) = (fixture.local("planted")?, share.join("mine"));
    fs::create_dir(store)?;
    chown(store, Some(ALICE.id), Some(ALICE.id))?;
    fs::write(&mine, "mine")?;
    chown(&mine, Some(ALICE.id), Some(ALICE.id))?;
    let name = format!("{:x}-{:032x}", fs::metadata(&mine)?.ino(), 1);
    let stolen = store.join(&name);
    fs::write(&stolen, "bob: top secret")?;
    fs::set_permissions(&stolen, fs::Permissions::from_mode(0o600))?;
    chown(&stolen, Some(BOB.id), Some(BOB.id))?;
    rustix::fs::setxattr(&mine, "user.FrevoStream.x", name.as_bytes(), rustix::fs::XattrFlags::empty())?;
    let (fetched, sent) = (local.join("fetched"), local.join("sent"));
    fixture.smbclient().run(&format!("get mine:x {}", fetched.display()))?;
    let got = fs::read(&fetched).unwrap_or_default();
    ensure!(got.is_empty(), "alice can read {:?}", String::from_utf8_lossy(&got));
    fs::write(&sent, "alice was here")?;
    fixture.smbclient().run(&format!("put {} mine:x", sent.display()))?;
    fixture.smbclient().run("del mine")?.fine()?;
    ensure!(fs::read(&stolen)? == b"bob: top secret", "bob's file was changed");
    fs::remove_dir_all(store)?;
    Ok(())
}

/// Creates a link in place of the directory.
fn mislead(fixture: &Fixture, share: &Path, store: &Path) -> Result<()> {
    let (local, elsewhere) = (fixture.local("planted")?, share.join("elsewhere"));
    fs::create_dir(&elsewhere)?;
    fs::set_permissions(&elsewhere, fs::Permissions::from_mode(0o700))?;
    symlink("elsewhere", store)?;
    let sent = local.join("large");
    file::random(&sent, 1 << 20)?;
    let said = fixture.smbclient().run(&format!("put {} other:large", sent.display()))?;
    let made = fs::read_dir(&elsewhere)?.count();
    fs::remove_file(store)?;
    fs::remove_dir_all(&elsewhere)?;
    ensure!(made == 0, "the server created {made} files through a link of a user");
    ensure!(!said.success || said.text.contains("NT_STATUS_"), "{}", said.text);
    fixture.smbclient().run("del other")?.fine()?;
    Ok(())
}
