//! `frevo share`: adds, changes, removes and lists shares.
//!
//! The added shares are in `shares.conf` in the state directory, which the server reads after its configuration. Shares
//! of the configuration are listed and never changed. If a server runs with the same state directory, it makes the
//! change, which takes effect at once. Otherwise the file is replaced here, while this process has the accounts of the
//! state directory open, as a server would have. Exit status: 0 success, 1 refused, 2 wrong usage.

mod change;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};
use server::policy::{Policy, fold};
use smbconf::added::{Added, Change, check_owner, literal};
use smbconf::host::Host;
use smbconf::location::{AccountPlace, locate_accounts};
use smbconf::{Place, Sources};

pub(crate) use self::change::{Prepared, file_of, prepare};
use crate::admin::message::{ServerRequest, ShareReply, ShareRequest, UserRequest};
use crate::table::table;
use crate::user::{Performer, print};
use accounts::state_dir::StateDir;

/// Adds, changes, removes and lists shares; those of smb.conf are only listed
#[derive(Args, Debug)]
pub struct ShareArgs {
    #[command(subcommand)]
    command: ShareCommand,
    /// State directory of the server, which has the added shares
    #[arg(long, value_name = "DIR", global = true)]
    state_dir: Option<PathBuf>,
    /// Configuration file [default: /etc/frevo/smb.conf, else /etc/samba/smb.conf]
    #[arg(short = 'c', long = "config", value_name = "FILE", global = true)]
    config: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
enum ShareCommand {
    /// Adds a share
    Add {
        /// Name of the share
        name: String,
        /// The directory, which must exist
        path: String,
        #[command(flatten)]
        settings: SettingArgs,
    },
    /// Changes a share that was added; connected clients keep its former settings until they connect again
    Set {
        /// Name of the share
        name: String,
        /// The directory, which must exist
        #[arg(long)]
        path: Option<String>,
        /// Parameter whose default applies again; may be given more than once
        #[arg(long, value_name = "PARAMETER")]
        unset: Vec<String>,
        #[command(flatten)]
        settings: SettingArgs,
    },
    /// Removes a share that was added, with its ACL, and disconnects its clients; the files stay
    Remove {
        /// Name of the share
        name: String,
    },
    /// Lists all shares, and where each is defined
    List {
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
}

/// Settings of a share.
#[derive(Args, Debug)]
struct SettingArgs {
    /// Comment that clients see
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Clients cannot write
    #[arg(long)]
    read_only: bool,
    /// Clients can write as far as the files' permissions allow
    #[arg(long, conflicts_with = "read_only")]
    writable: bool,
    /// Number of clients that may be connected at once; 0 is no limit
    #[arg(long, value_name = "N")]
    max_connections: Option<u32>,
    /// Any parameter of a share in smb.conf, as 'name = value'; may be given more than once
    #[arg(long, value_name = "NAME=VALUE", value_parser = option)]
    option: Vec<(String, String)>,
}

fn option(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.trim().to_owned())),
        _ => Err("expected 'name = value'".to_owned()),
    }
}

impl SettingArgs {
    /// Returns the settings as parameters.
    fn parameters(self, path: Option<&str>) -> Result<Vec<(String, String)>> {
        let SettingArgs { comment, read_only, writable, max_connections, option } = self;
        let mut settings = Vec::new();
        let mut set = |name: &str, value: String| settings.push((name.to_owned(), value));
        if let Some(path) = path {
            set("path", literal("path", path)?);
        }
        if let Some(comment) = comment {
            set("comment", literal("comment", &comment)?);
        }
        if read_only || writable {
            set("read only", if read_only { "yes" } else { "no" }.to_owned());
        }
        if let Some(most) = max_connections {
            set("max connections", most.to_string());
        }
        settings.extend(option);
        Ok(settings)
    }
}

/// Returns the parameters of a share with this directory, comment and further settings.
pub(crate) fn parameters(
    path: Option<&str>,
    comment: Option<String>,
    option: Vec<(String, String)>,
) -> Result<Vec<(String, String)>> {
    let settings = SettingArgs { comment, read_only: false, writable: false, max_connections: None, option };
    settings.parameters(path)
}

/// A share in a list.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Debug)]
pub struct ShareView {
    /// Its name.
    pub name: String,
    /// Its directory.
    pub path: PathBuf,
    /// Its comment.
    pub comment: String,
    /// Whether it was added, so that it can be changed and removed.
    pub added: bool,
    /// The file that defines it; none for a share of the command line.
    pub file: Option<PathBuf>,
    /// The line in the file.
    pub line: Option<u32>,
}

/// Returns all shares of a configuration in the order of its sections. `added` is the file of the added shares.
pub(crate) fn views(policy: &Policy, sections: &[(String, Option<Place>)], added: &Path) -> Vec<ShareView> {
    let view = |(name, place): &(String, Option<Place>)| {
        let homes = policy.homes.as_ref().map(|homes| homes.section()).filter(|_| fold(name) == "homes");
        let share = policy.shares.get(&fold(name)).map(|share| &**share).or(homes)?;
        Some(ShareView {
            name: name.clone(),
            path: share.path.clone(),
            comment: share.comment.clone(),
            added: place.as_ref().is_some_and(|place| *place.file == *added),
            file: place.as_ref().map(|place| place.file.to_path_buf()),
            line: place.as_ref().map(|place| place.line),
        })
    };
    sections.iter().filter_map(view).collect()
}

/// Runs the command.
pub fn run(args: ShareArgs) -> Result<ExitCode> {
    let place = locate_accounts(args.state_dir.as_deref(), args.config.as_deref())?;
    let config = args.config.or_else(|| {
        let is_standard = args.state_dir.is_none() && rustix::process::geteuid().is_root();
        is_standard.then(smbconf::default_path).flatten()
    });
    let (change, done) = match args.command {
        ShareCommand::Add { name, path, settings } => {
            let done = format!("share [{name}] added");
            (Change::Add { name, settings: settings.parameters(Some(&path))? }, done)
        }
        ShareCommand::Set { name, path, unset, settings } => {
            let set = settings.parameters(path.as_deref())?.into_iter().map(|(name, value)| (name, Some(value)));
            let settings: Vec<_> = unset.into_iter().map(|name| (name, None)).chain(set).collect();
            if settings.is_empty() {
                bail!("nothing to change; give at least one setting, see `frevo share set --help`");
            }
            let done = format!("share [{name}] changed");
            (Change::Set { name, settings }, done)
        }
        ShareCommand::Remove { name } => {
            let done = format!("share [{name}] removed");
            (Change::Remove { name }, done)
        }
        ShareCommand::List { json } => return list(&place, config, json),
    };
    let adds = matches!(change, Change::Add { .. });
    let host = Host::of_process().context("cannot look up this process's user")?;
    let Some(performer) = Performer::open(&place, adds)? else {
        let loaded = smbconf::load_from(&Sources { config: config.as_deref(), ..Sources::default() }, &host)?;
        check_owner(&loaded, change.name(), &file_of(&place.state))?;
        bail!("there are no added shares in {}", place.state.display());
    };
    match performer {
        Performer::Server(mut client) => {
            let _: ShareReply = client.ask(&ServerRequest::Shares { what: ShareRequest::Change(change) })?;
        }
        Performer::Own(accounts) => {
            let state = StateDir::create(&place.state)?;
            prepare(&state, config.as_deref(), &[], &host, &change)?.write(&state)?;
            if let Change::Remove { name } = change {
                // Another share of this name must not get the ACL.
                let set = Some((name, None));
                let _ = crate::admin::perform(&accounts, UserRequest::ShareAcls { set });
            }
        }
    }
    print(&format!("{done}\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn list(place: &AccountPlace, config: Option<PathBuf>, json: bool) -> Result<ExitCode> {
    let client = StateDir::open(&place.state)?.map(|state| crate::admin::Client::connect(&state)).transpose()?;
    let shares = match client.flatten() {
        Some(mut client) => match client.ask(&ServerRequest::Shares { what: ShareRequest::List {} })? {
            ShareReply::List(shares) => shares,
            ShareReply::Done {} => bail!("the server sent an unexpected answer"),
        },
        None => {
            let host = Host::of_process().context("cannot look up this process's user")?;
            let added = Added::StateDirectory(Some(&place.state));
            let sources = Sources { config: config.as_deref(), added, ..Sources::default() };
            let loaded = smbconf::load_from(&sources, &host)?;
            views(&loaded.policy, &loaded.sections, &file_of(&place.state))
        }
    };
    if json {
        print(&format!("{}\n", serde_json::to_string_pretty(&shares)?))?;
    } else if shares.is_empty() {
        eprintln!("there are no shares");
    } else {
        let row = |share: &ShareView| {
            let defined = match (&share.file, share.line) {
                (Some(_), _) if share.added => "frevo share".to_owned(),
                (Some(file), line) => format!("{}:{}", file.display(), line.unwrap_or_default()),
                (None, _) => "command line".to_owned(),
            };
            vec![share.name.clone(), share.path.display().to_string(), defined, share.comment.clone()]
        };
        print(&table(&["Name", "Path", "Defined by", "Comment"], &shares.iter().map(row).collect::<Vec<_>>()))?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
