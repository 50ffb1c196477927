//! Deletes what a run leaves on the share.

use anyhow::{Context, Result};
use client::{Client, Error, Open};
use proto::bytes::utf16_units;
use proto::fscc::{DirectoryClass, DirectoryEntry, FileAttributes, FileInformationClass};
use proto::status::Status;

use super::plan::LISTING;

/// Deletes a directory and everything in it. A missing directory is not an error.
pub(super) async fn delete(client: &mut Client, path: &str) -> Result<()> {
    // Paths still to delete. The content of a directory comes after it, so that it is deleted first.
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

/// Returns the paths in a directory, and for each whether it is a directory.
async fn entries(client: &mut Client, path: &str) -> Result<Vec<(String, bool)>> {
    let directory = match client.open(&Open::directory(path)).await {
        Err(error) if missing(&error) => return Ok(Vec::new()),
        opened => opened?,
    };
    let class = FileInformationClass::DIRECTORY;
    let form = DirectoryClass::new(class).context("the class is not a directory class")?;
    let mut found = Vec::new();
    while let Some(listed) = client.query_directory(directory, class.0, "*", LISTING).await? {
        for entry in DirectoryEntry::list(form, listed) {
            let entry = entry.map_err(Error::from)?;
            let units = utf16_units(entry.file_name)
                .context("the listing has a name with an odd number of bytes, which is not UTF-16")?;
            let name = String::from_utf16(&units).context("the listing has a name that is not valid UTF-16")?;
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
