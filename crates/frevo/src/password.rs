//! Password input: from a terminal without echo, or one line of standard input. Never from the command line, which
//! every user of the machine can read.

use std::io::{BufRead, BufReader, Read};

use anyhow::{Context, Result, bail, ensure};
use zeroize::Zeroizing;

/// Maximum line length in bytes: 256 UTF-16 units are at most 768 bytes of UTF-8, plus the line end.
const LONGEST_LINE: u64 = 1024;

/// How often the user may type two different passwords.
const TRIES: usize = 3;

/// Prompts twice on the terminal for a new password of `name`.
pub fn ask(name: &str) -> Result<Zeroizing<String>> {
    let prompt = |text: String| rpassword::prompt_password(text).map(Zeroizing::new);
    for _ in 0..TRIES {
        let first = prompt(format!("New password for {name}: "))
            .context("no terminal to ask for the password; use --password-stdin to read it from standard input")?;
        if first.is_empty() {
            eprintln!("The password cannot be empty.");
            continue;
        }
        if *first == *prompt("Repeat the password: ".into())? {
            return Ok(first);
        }
        eprintln!("The passwords differ.");
    }
    bail!("no password was set");
}

/// Returns the first line of `input`, without its line end.
pub fn read_line(input: impl Read) -> Result<Zeroizing<String>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(LONGEST_LINE as usize + 1));
    // Unbuffered reading would need a system call per byte. The buffer, through which the password passes, is not
    // wiped.
    BufReader::with_capacity(64, input)
        .take(LONGEST_LINE + 1)
        .read_until(b'\n', &mut bytes)
        .context("cannot read standard input")?;
    ensure!(bytes.len() as u64 <= LONGEST_LINE, "the password is longer than {LONGEST_LINE} bytes");
    let end = bytes.strip_suffix(b"\n").map_or(&**bytes, |line| line.strip_suffix(b"\r").unwrap_or(line)).len();
    ensure!(end > 0, "the password is empty");
    let text = std::str::from_utf8(&bytes[..end]).ok().context("the password is not UTF-8")?;
    Ok(Zeroizing::new(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_the_first_line() {
        for (input, password) in [
            ("secret\n", Some("secret")),
            ("secret", Some("secret")),
            ("secret\r\nmore\n", Some("secret")),
            (" with spaces \n", Some(" with spaces ")),
            ("p\u{e4}ss\n", Some("p\u{e4}ss")),
            ("", None),
            ("\n", None),
            ("\r\n", None),
            (&"x".repeat(1025), None),
        ] {
            assert_eq!(read_line(input.as_bytes()).ok().map(|found| found.to_string()), password.map(str::to_owned));
        }
        assert!(read_line(&b"\xff\n"[..]).is_err());
    }
}
