//! `frevo user machine-sid`: shows or sets the SID of this machine.

use std::io::Read;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use super::{Performer, print};
use crate::admin::message::{UserReply, UserRequest};
use accounts::machine_sid;
use smbconf::location::AccountPlace;

/// Maximum number of bytes read from standard input: one line.
const LONGEST: u64 = 4096;

/// Runs the command.
pub(super) fn run(place: &AccountPlace, set: Option<String>, forget: Option<String>) -> Result<ExitCode> {
    let set = match set {
        Some(sid) if sid == "-" => {
            let mut text = String::new();
            std::io::stdin().lock().take(LONGEST).read_to_string(&mut text).context("standard input")?;
            Some(text)
        }
        set => set,
    };
    let set = set.map(|text| machine_sid::read(&text)).transpose()?.map(|sid| sid.to_string());
    let forget = forget.map(|text| machine_sid::read(&text)).transpose()?.map(|sid| sid.to_string());
    let Some(mut performer) = Performer::open(place, set.is_some())? else {
        bail!("there is no machine SID in {} yet; the first account or start creates it", place.state.display());
    };
    match performer.perform(UserRequest::MachineSid { set, forget })? {
        UserReply::MachineSid(sid) => print(&format!("{sid}\n"))?,
        _ => bail!("the server sent an unexpected answer"),
    }
    Ok(ExitCode::SUCCESS)
}
