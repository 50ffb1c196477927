//! Deletes what a run leaves on the share.

use anyhow::{Context, Result};
use client::{Client, Error, Open};
use proto::bytes::utf16_units;
use proto::fscc::{DirectoryClass, DirectoryEntry, FileAttributes, FileInformationClass};
use proto::status::Status;

use super::plan::LISTING;

/// Deletes a directory and all below it; fine when it is not there.
pub(super) async fn delete(client: &mut Client, path: &str) -> Result<()> {
    // What is still to be deleted, what is in it before it.
    let mut left = vec![(path.to_owned(), true)];
    while let Some((path, listed)) = left.pop() {
        if listed {
            left.push((path.clone(), false));
            left.extend(entries(client, &path).await.with_context(|| format!("cannot list {path}"))?);
            continue;
        }
        match client.delete(&path).await {
            Err(error) if !missing(&error) => return Err(error).with_context(|| format!("cannot delete {path}")),
            _ => {}
        }
    }
    Ok(())
}

/// Paths in a directory, and whether they have to be listed too.
async fn entries(client: &mut Client, path: &str) -> Result<Vec<(String, bool)>> {
    let directory = match client.open(&Open::directory(path)).await {
        Err(error) if missing(&error) => return Ok(Vec::new()),
        opened => opened?,
    };
    let class = FileInformationClass::DIRECTORY;
    let form = DirectoryClass::new(class).context("a class that lists nothing")?;
    let mut found = Vec::new();
    while let Some(listed) = client.query_directory(directory, class.0, "*", LISTING).await? {
        for entry in DirectoryEntry::list(form, listed) {
            let entry = entry.map_err(Error::from)?;
            let units = utf16_units(entry.file_name).context("a name of half a character")?;
            let name = String::from_utf16(&units).context("a name that is no text")?;
            if name != "." && name != ".." {
                found.push((format!("{path}\\{name}"), entry.file_attributes.contains(FileAttributes::DIRECTORY)));
            }
        }
    }
    client.close(directory).await?;
    Ok(found)
}

fn missing(error: &Error) -> bool {
    matches!(error.status(), Some(Status::OBJECT_NAME_NOT_FOUND | Status::OBJECT_PATH_NOT_FOUND))
}
