//! `frevo user`: manages the accounts that may log on.
//!
//! If a server runs with the same state directory, the change is made through its control socket and takes effect
//! immediately. Otherwise the database is opened here. Exit status: 0 success, 1 refused or partly refused (an import
//! with bad lines), 2 wrong usage.

mod account_control;
mod import;
mod ldap_password;
mod machine_sid;
mod policy;
mod sids;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use zeroize::Zeroizing;

use crate::admin::message::{AccountView, UserReply, UserRequest};
use crate::admin::{self, Client};
use crate::password;
use crate::table::table;
use accounts::Directory;
use accounts::embedded::OpenError;
use accounts::record::{check_name, nt_hash};
use accounts::state_dir::StateDir;
use accounts::when;
use smbconf::location::{AccountPlace, locate_accounts};

/// How long to wait if another process has the database open and no server answers. That process may be a server that
/// is starting, or another `frevo user`.
const PATIENCE: Duration = Duration::from_secs(10);

/// Manages the accounts that may log on
#[derive(Args, Debug)]
pub struct UserArgs {
    #[command(subcommand)]
    command: UserCommand,
    /// State directory that contains the account database
    #[arg(long, value_name = "DIR", global = true)]
    state_dir: Option<PathBuf>,
    /// Configuration file that specifies the state directory if --state-dir is not given
    #[arg(short = 'c', long = "config", value_name = "FILE", global = true)]
    config: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
enum UserCommand {
    /// Adds an account; asks for its password
    Add {
        /// Name to log on with; also the name of the UNIX user unless --uid is given
        name: String,
        /// Read the password from the first line of standard input
        #[arg(long)]
        password_stdin: bool,
        /// Full name of the user
        #[arg(long, value_name = "TEXT", default_value = "")]
        full_name: String,
        /// UNIX user that the account acts as, if it has another name
        #[arg(long, value_name = "UID")]
        uid: Option<u32>,
    },
    /// Sets a new password; asks for it
    Passwd {
        /// Name of the account
        name: String,
        /// Read the password from the first line of standard input
        #[arg(long)]
        password_stdin: bool,
    },
    /// Lists the accounts
    List {
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Disables an account: its logons are refused
    Disable {
        /// Name of the account
        name: String,
    },
    /// Enables a disabled account
    Enable {
        /// Name of the account
        name: String,
    },
    /// Sets all flags of an account, as `pdbedit -c` of Samba does: X its password never expires, D it is disabled, L
    /// it is locked
    AccountControl {
        /// Name of the account
        name: String,
        /// Letters in brackets, such as "[X]" or "[DX]"; "[]" clears all flags
        flags: String,
    },
    /// Removes an account
    Delete {
        /// Name of the account
        name: String,
    },
    /// Shows all account policies or one of them, or sets it: password rules and account lockout
    Policy {
        /// Name as used by pdbedit -P of Samba, such as "bad lockout attempt"
        name: Option<String>,
        /// New value
        #[arg(allow_negative_numbers = true)]
        value: Option<i64>,
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Shows the SID of this machine, or sets it to that of a Samba server as printed by `net getlocalsid`. Accounts
    /// whose SIDs there were recorded with `frevo user sids` then use those; their previous SIDs remain valid
    MachineSid {
        /// New SID, or - to read it from standard input
        #[arg(long, value_name = "SID")]
        set: Option<String>,
        /// SID that this machine had by mistake and that belongs to another machine or a domain; until it is forgotten,
        /// users do not get SIDs of that domain
        #[arg(long, value_name = "SID", conflicts_with = "set")]
        forget: Option<String>,
    },
    /// Adds and updates accounts from Samba, from a smbpasswd file or the output of `pdbedit -L -w`
    Import {
        /// Input file, or - for standard input
        file: PathBuf,
        /// Only report what would be done
        #[arg(long)]
        dry_run: bool,
    },
    /// Stores the password for `ldap admin dn`; asks for it
    LdapPassword {
        /// Read the password from the first line of standard input
        #[arg(long)]
        password_stdin: bool,
    },
    /// Records the SIDs that accounts have in Samba, from the output of `pdbedit -L -v`, so that stored ACLs with these
    /// SIDs remain valid
    Sids {
        /// Input file, or - for standard input
        file: PathBuf,
        /// Only report what would be done
        #[arg(long)]
        dry_run: bool,
    },
}

/// Runs the command.
pub fn run(args: UserArgs) -> Result<ExitCode> {
    let place = locate_accounts(args.state_dir.as_deref(), args.config.as_deref())?;
    match args.command {
        UserCommand::Add { name, password_stdin, full_name, uid } => {
            check_name(&name)?;
            let password = new_password(&place, &name, password_stdin, false)?;
            let nt_hash = Some(nt_hash(&password)?);
            drop(password);
            let done = format!("account {name} added");
            change(&place, true, UserRequest::Add { name, nt_hash, full_name, uid }, &done)
        }
        UserCommand::Passwd { name, password_stdin } => {
            let password = new_password(&place, &name, password_stdin, true)?;
            let nt_hash = Some(nt_hash(&password)?);
            drop(password);
            let done = format!("password of {name} set");
            change(&place, false, UserRequest::Passwd { name, nt_hash }, &done)
        }
        UserCommand::List { json } => list(&place, json),
        UserCommand::Disable { name } => enable(&place, name, false),
        UserCommand::Enable { name } => enable(&place, name, true),
        UserCommand::AccountControl { name, flags } => account_control::run(&place, name, &flags),
        UserCommand::Delete { name } => {
            let done = format!("account {name} deleted");
            change(&place, false, UserRequest::Delete { name }, &done)
        }
        UserCommand::Policy { name, value, json } => policy::run(&place, name, value, json),
        UserCommand::MachineSid { set, forget } => machine_sid::run(&place, set, forget),
        UserCommand::Import { file, dry_run } => import::run(&place, &file, dry_run),
        UserCommand::LdapPassword { password_stdin } => ldap_password::run(&place, password_stdin),
        UserCommand::Sids { file, dry_run } => sids::run(&place, &file, dry_run),
    }
}

/// Reads the new password of `name`. Checks the name first, so that the user does not type the password in vain.
fn new_password(place: &AccountPlace, name: &str, from_stdin: bool, exists: bool) -> Result<Zeroizing<String>> {
    if from_stdin {
        return password::read_line(std::io::stdin().lock());
    }
    let found = match Performer::open(place, false)? {
        Some(mut performer) => performer.perform(UserRequest::Find { name: name.to_owned() })?,
        None => UserReply::Found(None),
    };
    match found {
        UserReply::Found(None) if exists => bail!("there is no account {name:?}"),
        UserReply::Found(Some(_)) if !exists => {
            bail!("account {name} exists already; use `frevo user passwd` to change its password")
        }
        _ => password::ask(name),
    }
}

fn enable(place: &AccountPlace, name: String, enabled: bool) -> Result<ExitCode> {
    let done = format!("account {name} {}", if enabled { "enabled" } else { "disabled" });
    change(place, false, UserRequest::Enable { name, enabled }, &done)
}

fn change(place: &AccountPlace, create: bool, request: UserRequest, done: &str) -> Result<ExitCode> {
    let Some(mut performer) = Performer::open(place, create)? else {
        bail!("there are no accounts in {}", place.state.display());
    };
    let UserReply::Done(note) = performer.perform(request)? else { bail!("the server sent an unexpected answer") };
    print(&format!("{done}\n"))?;
    if let Some(note) = note {
        eprintln!("note: {note}");
    }
    Ok(ExitCode::SUCCESS)
}

fn list(place: &AccountPlace, json: bool) -> Result<ExitCode> {
    let mut accounts: Vec<AccountView> = Vec::new();
    if let Some(mut performer) = Performer::open(place, false)? {
        loop {
            let after = accounts.last().map(|account| account.name.clone());
            let UserReply::List(page) = performer.perform(UserRequest::List { after })? else {
                bail!("the server sent an unexpected answer");
            };
            if page.is_empty() {
                break;
            }
            accounts.extend(page);
        }
    }
    if json {
        print(&format!("{}\n", serde_json::to_string_pretty(&accounts)?))?;
    } else if accounts.is_empty() {
        eprintln!("there are no accounts in {}", place.state.display());
    } else {
        let rows: Vec<Vec<String>> = accounts.iter().map(row).collect();
        print(&table(&["Name", "State", "UNIX user", "Password set", "SID", "Full name"], &rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(account: &AccountView) -> Vec<String> {
    let state = match account {
        AccountView { disabled: true, .. } => "disabled",
        AccountView { locked: true, .. } => "locked",
        AccountView { has_password: false, .. } => "no password",
        AccountView { problem: Some(_), .. } => "no UNIX user",
        AccountView { must_change: true, .. } => "password expired",
        _ => "ok",
    };
    let unix_user = match (&account.unix_user, account.uid) {
        (Some(name), Some(uid)) => format!("{name} ({uid})"),
        _ => account.problem.clone().unwrap_or_else(|| "-".into()),
    };
    let set = account.password_last_set.map_or_else(|| "-".into(), when::utc);
    vec![
        account.name.clone(),
        state.into(),
        unix_user,
        set + if account.never_expires { ", never expires" } else { "" },
        account.sid.clone(),
        account.full_name.clone(),
    ]
}

/// Prints to standard output. A closed pipe is not an error.
pub(crate) fn print(text: &str) -> Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error).context("cannot write to stdout"),
        _ => Ok(()),
    }
}

/// The component that performs a request.
pub(crate) enum Performer {
    /// The server that has the database open.
    Server(Client),
    /// This process.
    Own(Box<Directory>),
}

impl Performer {
    /// Returns the performer for the accounts in `place`. Returns `None` if there are none, unless `create` requests a
    /// database.
    pub(crate) fn open(place: &AccountPlace, create: bool) -> Result<Option<Self>> {
        let state = match create {
            true => StateDir::create(&place.state)?,
            false => match StateDir::open(&place.state)? {
                Some(state) => state,
                None => return Ok(None),
            },
        };
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(client) = Client::connect(&state)? {
                return Ok(Some(Performer::Server(client)));
            }
            match Directory::of_command(&state, &place.backends, create) {
                Ok(directory) => return Ok(directory.map(|directory| Performer::Own(Box::new(directory)))),
                Err(OpenError::Damaged(error) | OpenError::Failed(error)) => return Err(error),
                Err(OpenError::Busy) if Instant::now() >= end => bail!(
                    "another process has the account database in {} open but does not answer on its control socket",
                    place.state.display()
                ),
                Err(OpenError::Busy) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    pub(crate) fn perform(&mut self, request: UserRequest) -> Result<UserReply> {
        match self {
            Performer::Server(client) => client.user(&request),
            Performer::Own(directory) => admin::perform(directory, request),
        }
    }
}

#[cfg(test)]
mod tests;
