//! `frevo close`: closes a session, an open file or the tree connects to a share.
//!
//! Exit status: 0 closed; 1 there is no such thing, or no server runs.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use server::state::Server;
use smbconf::location::locate;

use crate::admin::Client;
use crate::admin::message::{Closing, ServerRequest};
use accounts::state_dir::StateDir;

/// Closes what a client of the running server holds: a session, an open file, or the tree connects to a share
#[derive(clap::Args, Debug)]
pub struct CloseArgs {
    #[command(subcommand)]
    what: What,
}

/// What is closed.
#[derive(clap::Subcommand, Debug)]
enum What {
    /// End a session and close its files, also those that are kept for a disconnected client
    Session {
        /// The session's id in `frevo status`
        #[arg(value_parser = id)]
        id: u64,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Close an open file or directory; data that the client has only cached is lost
    File {
        /// The id of the open in `frevo status --json`
        #[arg(value_parser = id)]
        id: u64,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Disconnect all clients from a share; they may connect again
    Share {
        /// The share's name
        name: String,
        #[command(flatten)]
        server: ServerArgs,
    },
}

/// The options that select the server.
#[derive(clap::Args, Debug)]
struct ServerArgs {
    /// State directory of the server
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Configuration file that specifies the state directory if --state-dir is not given
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Reads an id, which is shown in hexadecimal.
fn id(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16).map_err(|_| "not an id; `frevo status` shows ids as hexadecimal numbers".to_owned())
}

/// Runs the command.
pub fn run(args: CloseArgs) -> Result<ExitCode> {
    let (what, server) = match args.what {
        What::Session { id, server } => (Closing::Session(id), server),
        What::File { id, server } => (Closing::File(id), server),
        What::Share { name, server } => (Closing::Share(name), server),
    };
    let path = locate(server.state_dir.as_deref(), server.config.as_deref())?;
    let client = StateDir::open(&path)?.map(|state| Client::connect(&state)).transpose()?.flatten();
    let Some(mut client) = client else { bail!("no server runs with the state directory {}", path.display()) };
    let result: String = client.ask(&ServerRequest::Close { what })?;
    println!("{result}");
    Ok(ExitCode::SUCCESS)
}

/// Closes it in the server. Must be called on a thread that may block.
pub(crate) fn perform(server: &Arc<Server>, what: Closing) -> Result<String> {
    match what {
        Closing::Session(id) => {
            let closed = on_runtime(server, move |server| async move { server.close_session(id).await })?;
            ensure!(closed, "there is no session {id:016x}; `frevo status` lists the sessions");
            Ok(format!("session {id:016x} is closed"))
        }
        Closing::File(id) => {
            let closed = on_runtime(server, move |server| async move { server.close_file(id).await })?;
            ensure!(closed, "there is no open file {id:016x}; `frevo status --json` lists the opens");
            Ok(format!("open file {id:016x} is closed"))
        }
        Closing::Share(name) => match disconnect(server, &name)? {
            0 => bail!("no client is connected to a share {name:?}; `frevo status` lists the connected shares"),
            1 => Ok(format!("1 client is disconnected from {name:?}")),
            count => Ok(format!("{count} clients are disconnected from {name:?}")),
        },
    }
}

/// Disconnects all clients from a share, and returns how many. Must be called on a thread that may block.
pub(crate) fn disconnect(server: &Arc<Server>, name: &str) -> Result<usize> {
    let name = name.to_owned();
    on_runtime(server, move |server| async move { server.close_share(&name).await })
}

/// Waits for work on the server's state in a task, because closing files gives a thread the identities of users, which
/// a thread for commands must not have.
fn on_runtime<T, F>(server: &Arc<Server>, work: impl FnOnce(Arc<Server>) -> F) -> Result<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let runtime = tokio::runtime::Handle::current();
    runtime.block_on(runtime.spawn(work(server.clone()))).context("internal error; see the log")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_hexadecimal() {
        assert_eq!(id("00000000000000fF"), Ok(255));
        assert!(id("bob").is_err() && id("").is_err() && id("-1").is_err() && id(&"f".repeat(17)).is_err());
    }
}
