//! `frevo console`: a web page for administrators.
//!
//! It is a process of its own, which asks the running server over the control socket as the other commands do, so the
//! server has no HTTP code and no privileges for it. The crate [`console`](::console) has HTTP, sessions and the page.
//! [`administration`] is what the page shows and changes, and `requests` its arguments. `numbers` and `cost` have the
//! metrics for it. `password` verifies passwords of UNIX users in processes of their own, because PAM modules run
//! there. `openid` is the logon through an issuer. `benchmark` runs `frevo-bench`. With `frevo:console`, the server
//! starts a `keeper`, which keeps the process running.

mod administration;
mod benchmark;
mod cost;
mod keeper;
mod numbers;
mod openid;
mod password;
mod requests;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use console::Console;
use console::listen::{Certificate, Listener, Place};
use smbconf::added::Added;
use smbconf::host::Host;
use smbconf::location::locate;
use smbconf::{ConsoleSettings, Sources};
use tokio::signal::unix::{SignalKind, signal};

use self::administration::Server;
pub(crate) use self::keeper::Keeper;
pub use self::password::{VerifyArgs, verify};

/// Maximum number of threads that wait for the server.
const THREADS: usize = 48;

/// A group that cannot exist (groupadd(8)), so that nobody is its member.
const NO_GROUP: &str = ":";

/// Serves a web page from which administrators watch and change the running server
#[derive(Args, Debug)]
pub struct ConsoleArgs {
    /// Address and port, or the absolute path of a UNIX socket; may be given more than once [default:
    /// `frevo:console listen`, else 127.0.0.1:7445]
    #[arg(long, value_name = "PLACE")]
    listen: Vec<Place>,
    /// Host name by which browsers may call the console, besides localhost; may be given more than once
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
    /// Certificate and those that lead to its authority, PEM; required for addresses other than 127.0.0.1 and [::1]
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// Private key of the certificate, PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// UNIX group whose members may log on, besides root; may be given more than once [default: sudo and
    /// wheel of /etc/group]
    #[arg(long, value_name = "NAME")]
    admin_group: Vec<String>,
    /// PAM service that verifies passwords [default: frevo if /etc/pam.d has it, else login]
    #[arg(long, value_name = "NAME")]
    pam_service: Option<String>,
    /// Ends when the standard input does, which the server holds open
    #[arg(long, hide = true)]
    until_input_ends: bool,
    /// State directory of the server
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Configuration file of the server [default: /etc/frevo/smb.conf, else /etc/samba/smb.conf]
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Returns the settings of the configuration. If that has errors, which the console shows, it runs with the defaults,
/// except that members of groups are not administrators then.
fn settings(config: Option<&Path>, state: &Path) -> ConsoleSettings {
    let Some(config) = config else { return ConsoleSettings::default() };
    let sources = Sources { config: Some(config), added: Added::StateDirectory(Some(state)), ..Sources::default() };
    let loaded = Host::of_process().map_err(|error| error.to_string());
    let loaded = loaded.and_then(|host| smbconf::load_from(&sources, &host).map_err(|problems| problems.to_string()));
    match loaded {
        Ok(loaded) => loaded.daemon.console,
        Err(why) => {
            eprintln!("the console ignores its parameters in {}, which has errors:\n{why}", config.display());
            ConsoleSettings { admin_groups: vec![NO_GROUP.to_owned()], ..ConsoleSettings::default() }
        }
    }
}

/// Waits for the end of the standard input; never ends if it is not awaited.
async fn end_of_input(is_awaited: bool) {
    if !is_awaited {
        return std::future::pending().await;
    }
    let (ended, end) = tokio::sync::oneshot::channel::<()>();
    // The runtime would wait for a thread of its own.
    let wait = move || {
        let _ended = ended;
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    };
    if std::thread::Builder::new().name("end of input".into()).spawn(wait).is_ok() {
        // The sender is dropped.
        let _ = end.await;
    }
}

/// Returns the places of the command line, else those of the configuration, else the default one.
fn places(given: Vec<Place>, configured: &[String]) -> Result<Vec<Place>> {
    if !given.is_empty() {
        return Ok(given);
    }
    if configured.is_empty() {
        return Ok(vec![Place::default()]);
    }
    let place = |text: &String| text.parse().map_err(|why| anyhow!("`frevo:console listen`: {why}"));
    configured.iter().map(place).collect()
}

/// Runs the command until SIGTERM or SIGINT.
pub fn run(args: ConsoleArgs) -> Result<ExitCode> {
    let ConsoleArgs { listen, host, certificate, key, admin_group, pam_service, until_input_ends, state_dir, config } =
        args;
    // It has passwords in its memory.
    crate::limits::forbid_core_dumps();
    let state = locate(state_dir.as_deref(), config.as_deref())?;
    let config = config.or_else(|| state_dir.is_none().then(smbconf::default_path).flatten());
    let settings = settings(config.as_deref(), &state);
    let or = |given: Vec<String>, configured: Vec<String>| if given.is_empty() { configured } else { given };
    let (admin_group, host) = (or(admin_group, settings.admin_groups), or(host, settings.hosts));
    let passwords = password::Passwords::new(pam_service.or(settings.pam_service), admin_group);
    let places = places(listen, &settings.listen)?;
    let certificate = match certificate.zip(key) {
        Some(given) => Some(given),
        None => match (settings.certificate, settings.key) {
            (Some(chain), Some(key)) => Some((chain, key)),
            (None, None) => None,
            _ => bail!("set both `frevo:console certificate` and `frevo:console key`, or neither"),
        },
    };
    let certificate = certificate.map(|(chain, key)| Certificate { chain, key });
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(tracing::Level::INFO).init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(THREADS)
        .enable_all()
        .build()?;
    let administration = Arc::new(Server::new(state, config.clone(), passwords));
    let openid = openid::configured(config.as_deref(), &administration).unwrap_or_else(|why| {
        eprintln!("the console has no logon through an issuer; correct the configuration and start it again: {why:#}");
        None
    });
    let (openid, named) = openid.unzip();
    let hosts: Vec<String> = host.into_iter().chain(named.flatten()).collect();
    runtime
        .block_on(async {
            let console = Console::with_openid(administration.clone(), openid);
            let mut tasks = tokio::task::JoinSet::new();
            for place in &places {
                let of_place = certificate.as_ref().filter(|_| matches!(place, Place::Address(_)));
                let listener = Listener::bind(place, of_place, hosts.clone())?;
                crate::user::print(&format!("console at {}\n", listener.url()))?;
                tasks.spawn(console::serve(console.clone(), listener));
            }
            ensure!(!tasks.is_empty(), "the console listens nowhere");
            tasks.spawn(console.observe());
            let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                () = end_of_input(until_input_ends) => {}
            }
            // Sockets are removed with the tasks.
            tasks.shutdown().await;
            Ok(())
        })
        .context("the console cannot run")?;
    administration.stop();
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_precedes_the_configuration() {
        let (socket, address): (Place, Place) = ("/run/a".parse().unwrap(), "[::1]:80".parse().unwrap());
        let configured = ["[::1]:80".to_owned()];
        assert_eq!(places(vec![socket.clone()], &configured).unwrap(), [socket]);
        assert_eq!(places(Vec::new(), &configured).unwrap(), [address]);
        assert_eq!(places(Vec::new(), &[]).unwrap(), [Place::default()]);
    }

    #[test]
    fn a_configuration_with_errors_leaves_the_defaults() {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("smb.conf");
        let read = |text: &str| {
            std::fs::write(&config, text).unwrap();
            settings(Some(&config), directory.path())
        };
        let console =
            read("[global]\nfrevo:console = on\nfrevo:console listen = /run/a, ::1\nfrevo:console host = nas\n");
        assert!(console.enabled && console.listen == ["/run/a", "::1"] && console.hosts == ["nas"], "{console:?}");
        let console = read("[global]\nfrevo:console admin groups = staff\nfrevo:console listen = nas:80\n");
        assert_eq!(console, ConsoleSettings { admin_groups: vec![NO_GROUP.into()], ..ConsoleSettings::default() });
    }
}
