//! `frevo migrate`: takes over what this host's Samba has, and shows the way back.
//!
//! Files, Windows ACLs, streams and DOS attributes are used where they are, and so is smb.conf. What Frevo keeps itself
//! is asked of Samba's programs: accounts, machine SID, group mappings, policies and share ACLs. It is written in one
//! transaction. Exit status: 0 migrated, or nothing to do; 1 conflicts or failed; 2 wrong usage.

mod back;
mod printed;
mod report;
mod samba;
mod services;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use self::report::{Configuration, Report};
use self::samba::{Parts, Programs, Samba};
use crate::admin::message::{LONGEST_REQUEST, MigrationOutcome, UserReply, UserRequest};
use crate::user::{Performer, print};
use accounts::{Directory, PassdbBackend};
use smbconf::host::Host;
use smbconf::location::{AccountPlace, locate_accounts};

/// The configuration of Samba if none is named.
const SAMBA_CONF: &str = "/etc/samba/smb.conf";

/// Takes over accounts, SIDs, groups, policies and share ACLs of this host's Samba, and shows how to swap the services
#[derive(Args, Debug)]
pub struct MigrateArgs {
    /// Samba's configuration file
    #[arg(short = 'c', long = "config", value_name = "FILE", default_value = SAMBA_CONF)]
    config: PathBuf,
    /// Frevo's state directory
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Only report what would be done
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Show the way back to Samba, and what has changed since the migration
    #[arg(long, conflicts_with = "dry_run")]
    back: bool,
    /// Write the changed accounts, and a script that imports all changes in Samba, to this directory
    #[arg(long, value_name = "DIR", requires = "back")]
    write: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &MigrateArgs) -> Result<ExitCode> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "frevo migrate must run as root, because only root can read Samba's accounts"
    );
    let config = std::path::absolute(&args.config)?;
    ensure!(config.exists(), "{} does not exist; name Samba's configuration with --config", config.display());
    let programs = Programs::new(&config);
    match args.back {
        true => back::run(args, &config, &programs),
        false => forth(args, &config, &programs),
    }
}

/// Returns where Frevo keeps its state if it runs with this configuration.
fn place(args: &MigrateArgs, config: &Path) -> Result<AccountPlace> {
    // If Frevo has a configuration of its own, that one has its state directory.
    let own = (args.config == Path::new(SAMBA_CONF)).then(smbconf::default_path).flatten();
    locate_accounts(args.state_dir.as_deref(), Some(own.as_deref().unwrap_or(config)))
}

/// Returns what must be asked of Samba. Accounts in a smbpasswd file or an LDAP directory are used where they are, and
/// so are the groups of a directory.
fn parts(place: &AccountPlace) -> Parts {
    let is_first = |found: fn(&PassdbBackend) -> bool| place.backends.first().is_some_and(found);
    Parts {
        accounts: is_first(|first| matches!(first, PassdbBackend::Embedded)),
        groups: !is_first(|first| matches!(first, PassdbBackend::Ldap(_))),
    }
}

fn unreadable(config: &Path) -> String {
    format!(
        "cannot read what Samba has, so nothing was changed; check that `private dir` and `state directory` of {} are \
         those of Samba",
        config.display()
    )
}

fn forth(args: &MigrateArgs, config: &Path, programs: &Programs) -> Result<ExitCode> {
    let host = Host::of_process().context("cannot look up this process's user")?;
    let configuration = Configuration::read(config, &host);
    if !configuration.starts {
        // Where Frevo's accounts are is unknown.
        let text = if args.json { serde_json::to_string_pretty(&configuration)? + "\n" } else { configuration.text() };
        print(&text)?;
        bail!("Frevo does not start with {}; nothing was changed. Correct the errors first", config.display());
    }
    let place = place(args, config)?;
    let samba = programs.read(parts(&place)).with_context(|| unreadable(config))?;
    let outcome = migrate(&place, &samba, args.dry_run)?;
    let report = Report::new(configuration, &place, samba, outcome, args.dry_run, programs.runs());
    print(&if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { report.text() })?;
    Ok(if report.conflicts() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Migrates in one transaction. A dry run does not create a database.
fn migrate(place: &AccountPlace, samba: &Samba, dry_run: bool) -> Result<MigrationOutcome> {
    let migration = Box::new(samba.migration.clone());
    let performer = Performer::open(place, !dry_run)?;
    let mut performer = match performer {
        Some(performer) => performer,
        None => Performer::Own(Box::new(Directory::in_memory()?)),
    };
    // A running server takes the whole migration as one request, because it is one transaction.
    let too_long = || serde_json::to_vec(&migration).is_ok_and(|bytes| bytes.len() + 1024 > LONGEST_REQUEST);
    if matches!(performer, Performer::Server(_)) && too_long() {
        bail!(
            "Frevo is running, and {} accounts are too many for a running server, which accepts {LONGEST_REQUEST} \
             bytes; run `systemctl stop frevo` first",
            migration.accounts.len()
        );
    }
    match performer.perform(UserRequest::Migrate { migration, dry_run })? {
        UserReply::Migrated(outcome) => Ok(*outcome),
        _ => bail!("the server sent an unexpected answer"),
    }
}
