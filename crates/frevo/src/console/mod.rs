//! `frevo console`: a web page for administrators.
//!
//! It is a process of its own, which asks the running server over the control socket as the other commands do, so the
//! server has no HTTP code and no privileges for it. The crate [`console`](::console) has HTTP, sessions and the page.
//! [`administration`] is what the page shows and changes, `numbers` reads the metrics for it, and `password` verifies
//! passwords of UNIX users in processes of their own, because PAM modules run there.

mod administration;
mod numbers;
mod password;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use clap::Args;
use console::Console;
use console::listen::{Certificate, Listener, Place};
use smbconf::location::locate;
use tokio::signal::unix::{SignalKind, signal};

use self::administration::Server;
pub use self::password::{VerifyArgs, verify};

/// Maximum number of threads that wait for the server.
const THREADS: usize = 24;

/// Serves a web page from which administrators watch and change the running server
#[derive(Args, Debug)]
pub struct ConsoleArgs {
    /// Address and port, or the absolute path of a UNIX socket; may be given more than once [default: 127.0.0.1:7445]
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
    /// State directory of the server
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Configuration file of the server [default: /etc/frevo/smb.conf, else /etc/samba/smb.conf]
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    config: Option<PathBuf>,
}

/// Runs the command until SIGTERM or SIGINT.
pub fn run(args: ConsoleArgs) -> Result<ExitCode> {
    let ConsoleArgs { listen, host, certificate, key, admin_group, pam_service, state_dir, config } = args;
    let state = locate(state_dir.as_deref(), config.as_deref())?;
    let config = config.or_else(|| state_dir.is_none().then(smbconf::default_path).flatten());
    let passwords = password::Passwords::new(pam_service, admin_group);
    let places = if listen.is_empty() { vec![Place::default()] } else { listen };
    let certificate = certificate.zip(key).map(|(chain, key)| Certificate { chain, key });
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(tracing::Level::INFO).init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(THREADS)
        .enable_all()
        .build()?;
    let administration = Server::new(state, config, passwords);
    runtime
        .block_on(async {
            let console = Console::new(Arc::new(administration));
            let mut tasks = tokio::task::JoinSet::new();
            for place in &places {
                let of_place = certificate.as_ref().filter(|_| matches!(place, Place::Address(_)));
                let listener = Listener::bind(place, of_place, host.clone())?;
                crate::user::print(&format!("console at {}\n", listener.url()))?;
                tasks.spawn(console::serve(console.clone(), listener));
            }
            ensure!(!tasks.is_empty(), "the console listens nowhere");
            tasks.spawn(console.observe());
            let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            // Sockets are removed with the tasks.
            tasks.shutdown().await;
            Ok(())
        })
        .context("the console cannot run")?;
    runtime.shutdown_background();
    Ok(ExitCode::SUCCESS)
}
