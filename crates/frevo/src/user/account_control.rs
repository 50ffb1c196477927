//! `frevo user account-control`: sets the flags of an account, in Samba's letters.

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use super::change;
use crate::admin::message::UserRequest;
use smbconf::location::AccountPlace;

/// Runs the command.
pub(super) fn run(place: &AccountPlace, name: String, flags: &str) -> Result<ExitCode> {
    let done = format!("account {name} has the flags {flags}");
    change(place, false, request(name, flags)?, &done)
}

/// Builds the request for `flags`. Samba ignores unknown letters, and treats letters without brackets as no flags. Here
/// both are errors, so that a typing error does not enable an account.
fn request(name: String, flags: &str) -> Result<UserRequest> {
    let letters = flags.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let letters = letters.with_context(|| format!("{flags:?} is not valid; use letters in brackets, as in \"[X]\""))?;
    let (mut disabled, mut locked, mut never_expires) = (false, false, false);
    for letter in letters.chars().filter(|letter| *letter != ' ') {
        match letter {
            'D' => disabled = true,
            'L' => locked = true,
            'X' => never_expires = true,
            // pdbedit -L prints this letter for every user.
            'U' => {}
            'N' => bail!("flag N is not supported: logons require a password"),
            other => bail!("flag {other:?} cannot be set; use D, L and X"),
        }
    }
    Ok(UserRequest::AccountControl { name, disabled, locked, never_expires })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_letters_in_brackets() {
        for (flags, wanted) in [
            ("[]", (false, false, false)),
            ("[X]", (false, false, true)),
            ("[DUX        ]", (true, false, true)),
            (" [XL] ", (false, true, true)),
        ] {
            match request("ann".into(), flags).unwrap() {
                UserRequest::AccountControl { name, disabled, locked, never_expires } => {
                    assert_eq!((name.as_str(), (disabled, locked, never_expires)), ("ann", wanted), "{flags}");
                }
                _ => panic!("{flags}"),
            }
        }
        for (flags, word) in [("X", "brackets"), ("", "brackets"), ("[N]", "flag N"), ("[W]", "'W'"), ("[x]", "'x'")] {
            let Err(error) = request("ann".into(), flags) else { panic!("accepted {flags}") };
            assert!(error.to_string().contains(word), "{flags}: {error}");
        }
    }
}
