//! `frevo acl share`: the ACLs of shares, like Samba's `sharesec`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use proto::dtyp::Sid;
use proto::dtyp::sddl::{self, Domains};

use crate::admin::message::{ShareAcl, UserReply, UserRequest};
use crate::user::{Performer, print};
use smbconf::location::{AccountPlace, locate_accounts};

/// Shows and sets the ACLs of shares, like `sharesec` of Samba; a share without an ACL is open to every user
/// that smb.conf admits
#[derive(Args, Debug)]
pub(super) struct ShareArgs {
    /// The share; without it, all shares that have an ACL are shown
    share: Option<String>,
    /// Set this descriptor, such as "D:(A;;0x1200a9;;;BU)"; sessions that connect later are affected
    #[arg(long, value_name = "SDDL", requires = "share")]
    set: Option<String>,
    /// Remove the ACL
    #[arg(long, requires = "share", conflicts_with = "set")]
    delete: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// State directory that contains the account database
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Configuration file that specifies the state directory if --state-dir is not given
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(args: ShareArgs) -> Result<ExitCode> {
    let place = locate_accounts(args.state_dir.as_deref(), args.config.as_deref())?;
    let changes = args.set.is_some() || args.delete;
    let mut acls = match Performer::open(&place, args.set.is_some())? {
        Some(mut performer) => {
            let set = match &args.share {
                Some(share) if changes => {
                    let text = args.set.map(|text| absolute(&mut performer, &text)).transpose()?;
                    Some((share.clone(), text))
                }
                _ => None,
            };
            match performer.perform(UserRequest::ShareAcls { set })? {
                UserReply::ShareAcls(acls) => acls,
                _ => bail!("the server sent an unexpected answer"),
            }
        }
        None if changes => bail!("{}", nothing(&place)),
        None => Vec::new(),
    };
    if let Some(share) = &args.share {
        acls.retain(|acl| acl.share.to_lowercase() == share.to_lowercase());
    }
    print(&match args.json {
        true => serde_json::to_string_pretty(&acls)? + "\n",
        false => acls.iter().map(|ShareAcl { share, sddl }| format!("[{share}] {sddl}\n")).collect(),
    })?;
    if acls.is_empty() && !args.json && !args.delete {
        eprintln!("{}", nothing(&place));
    }
    Ok(ExitCode::SUCCESS)
}

fn nothing(place: &AccountPlace) -> String {
    format!("there is no such share ACL in {}", place.state.display())
}

/// Returns the descriptor without aliases that depend on the machine's SID.
fn absolute(performer: &mut Performer, text: &str) -> Result<String> {
    let UserReply::MachineSid(sid) = performer.perform(UserRequest::MachineSid { set: None, forget: None })? else {
        bail!("the server sent an unexpected answer");
    };
    let machine: Sid = sid.parse().ok().context("the server sent an unexpected machine SID")?;
    let descriptor = sddl::decode(text, &Domains::standalone(machine)).with_context(|| format!("{text:?}"))?;
    Ok(sddl::encode(&descriptor)?)
}
