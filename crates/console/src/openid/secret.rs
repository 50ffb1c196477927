//! The file with the secret of the console at the issuer.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use zeroize::Zeroizing;

use crate::listen::is_trusted;

/// Maximum bytes of the file.
const SIZE: u64 = 4096;
/// The permissions of other users.
const OTHERS: u32 = 0o077;

/// Reads the secret in a file that only root, or the user of the console, may read.
///
/// # Errors
/// The file cannot be read, or others may read it; the text has the remedy.
pub fn read_secret(path: &Path) -> Result<Zeroizing<String>, String> {
    let shown = path.display();
    // A FIFO must not block.
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path);
    let file =
        file.map_err(|error| format!("cannot read {shown}: {error}; write the secret of the console into it"))?;
    let about = file.metadata().map_err(|error| format!("cannot read {shown}: {error}"))?;
    if !about.is_file() {
        return Err(format!("{shown} is not a regular file; write the secret of the console into one"));
    }
    if !is_trusted(about.uid()) || about.mode() & OTHERS != 0 {
        return Err(format!("other users can read {shown}; `chown root {shown}` and `chmod 600 {shown}`"));
    }
    let mut text = Zeroizing::new(String::new());
    let read = file.take(SIZE + 1).read_to_string(&mut text);
    read.map_err(|error| format!("cannot read {shown}: {error}; a text with the secret is expected"))?;
    let secret = Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_owned());
    if text.len() as u64 > SIZE || secret.is_empty() || secret.contains(char::is_control) {
        return Err(format!("{shown} is not one line with a secret; write the secret of the console into it"));
    }
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_secret_is_private() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("secret");
        let with = |text: &str, mode: u32| {
            write(&path, text).expect("a file");
            set_permissions(&path, Permissions::from_mode(mode)).expect("the mode");
            read_secret(&path).map(|secret| secret.to_string())
        };
        assert_eq!(with("a secret\n", 0o600).as_deref(), Ok("a secret"));
        assert_eq!(with("a secret", 0o400).as_deref(), Ok("a secret"));
        for mode in [0o640, 0o604, 0o660] {
            assert!(with("a secret", mode).unwrap_err().contains("chmod 600"), "{mode:o}");
        }
        for text in ["", "\n", "two\nlines", &"x".repeat(5000)] {
            assert!(with(text, 0o600).unwrap_err().contains("one line"), "{text}");
        }
        assert!(read_secret(directory.path()).unwrap_err().contains("regular file"));
        assert!(read_secret(&directory.path().join("none")).unwrap_err().contains("cannot read"));
    }
}
