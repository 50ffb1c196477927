//! Alternate streams as smbclient reads and writes them, and a directory with streams that Samba serves at the same time.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::bed::{Bed, Server, Target};
use crate::file;
use crate::smbclient::Smbclient;
use crate::stage::Stage;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[
    Case::new("streams.there_and_back", there_and_back).frevo_only(),
    Case::new("streams.shared_with_samba", shared_with_samba).frevo_only(),
];

/// A second server on the directory of the first one's share.
const SAMBA: &str = "[global]\n@TARGET@\n\tread only = no\n[files]\n\tpath = @FILES@\n\tvfs objects = streams_xattr\n";

/// What is shown of the streams of `name`, sorted.
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

/// How many files the store of the share has.
fn stored(share: &Path) -> Result<usize> {
    match fs::read_dir(share.join(".frevo-streams")) {
        Ok(entries) => Ok(entries.count()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error.into()),
    }
}

fn there_and_back(stage: &mut Stage) -> Result<()> {
    let local = stage.local("streams")?;
    let share = stage.share("files");
    stage.smbclient().run("mkdir streams")?.fine()?;
    // An attribute of most file systems holds the first two, none holds the last.
    for length in [0, 2_000, 50_000, 3 << 20] {
        let sent = local.join("sent");
        file::random(&sent, length)?;
        stage.smbclient().run(&format!("put {} streams/f:s", sent.display()))?.fine()?;
        ensure_fetched(stage.smbclient(), "streams/F:S:$DATA", &sent)?;
        let expected = ["[::$DATA], 0 bytes".to_owned(), format!("[:s:$DATA], {length} bytes")];
        ensure!(streams(stage.smbclient(), "streams/f")? == expected, "{length}");
    }
    ensure!(stored(&share)? == 1, "the large stream is not in the store");
    let listing = stage.smbclient().run("ls")?.fine()?;
    ensure!(!listing.contains(".frevo-streams"), "the store shows in\n{listing}");
    // The stream goes where its file goes, also behind the server's back.
    fs::rename(share.join("streams/f"), share.join("streams/g"))?;
    ensure_fetched(stage.smbclient(), "streams/g:s", &local.join("sent"))?;
    stage.smbclient().run("del streams/g; rmdir streams")?.fine()?;
    ensure!(stored(&share)? == 0, "the store keeps what belongs to nobody");
    Ok(())
}

fn shared_with_samba(stage: &mut Stage) -> Result<()> {
    let bed = Bed::make(Target::Samba)?;
    let share = stage.share("files");
    let template = SAMBA.replace("@FILES@", share.to_str().context("a path of text")?);
    let samba: Server = bed.start("samba", &template)?;
    let local = stage.local("both")?;
    let (small, large) = (local.join("small"), local.join("large"));
    file::random(&small, 1_000)?;
    file::random(&large, 1 << 20)?;
    let put = |name: &str| format!("put {} \"both/{name}\"", small.display());
    stage.smbclient().run(&format!("mkdir both; {}; {}", put("f"), put("f:by frevo")))?.fine()?;
    stage.smbclient().server(&samba).run(&format!("{}; {}", put("f:by samba"), put("f:Übergröße")))?.fine()?;
    let both = streams(stage.smbclient(), "both/f")?;
    ensure!(both.len() == 4, "{both:?}");
    ensure!(both == streams(stage.smbclient().server(&samba), "both/f")?, "the servers show different streams");
    for name in ["both/f:by frevo", "both/f:by samba", "both/f:ÜBERGRÖßE", "both/f:BY SAMBA:$DATA"] {
        ensure_fetched(stage.smbclient(), name, &small)?;
        ensure_fetched(stage.smbclient().server(&samba), name, &small)?;
    }
    // What an attribute cannot hold is there for one of them only, and the other does it no harm.
    stage.smbclient().run(&format!("put {} both/f:large", large.display()))?.fine()?;
    ensure!(streams(stage.smbclient().server(&samba), "both/f")? == both, "Samba shows something else");
    stage.smbclient().server(&samba).run("rename both/f both/g")?.fine()?;
    ensure_fetched(stage.smbclient(), "both/g:large", &large)?;
    // Samba cuts a stream, and Frevo one of Samba's.
    let nothing = local.join("nothing");
    fs::write(&nothing, "")?;
    let empty = |name: &str| format!("put {} \"both/g:{name}\"", nothing.display());
    stage.smbclient().server(&samba).run(&empty("by frevo"))?.fine()?;
    stage.smbclient().run(&empty("by samba"))?.fine()?;
    for server in [&stage.server, &samba] {
        let streams = streams(stage.smbclient().server(server), "both/g")?;
        let emptied = streams.iter().filter(|stream| stream.ends_with(":$DATA], 0 bytes")).count();
        ensure!(emptied == 2, "{streams:?}");
    }
    stage.smbclient().run("deltree both")?.fine()?;
    ensure!(stored(&share)? == 0, "the store keeps what belongs to nobody");
    Ok(())
}
