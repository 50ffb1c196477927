//! `frevo serve`: starts the server from a configuration, runs it and stops it.

mod completion;
mod discovery;
mod environment;
mod faults;
mod listeners;
mod memory;
mod netbios;
mod notifications;
mod operations;
mod printing;
mod privileges;
mod reload;
mod shares;
mod usage;
mod volumes;

use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result};
use proto::dtyp::Guid;
use server::accounts::Accounts;
use server::background::Restored;
use server::policy::{Limits, Policy};
use server::restrictions::Restrictions;
use server::state::durable::Store;
use server::state::{Server, ServerParts};
use server::tickets::Tickets;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use self::completion::complete;
use self::discovery::Discovery;
use self::listeners::Listeners;
use self::operations::Operations;
use self::shares::RemoteChanges;
use self::volumes::ShareVolumes;
pub(crate) use self::volumes::mount_point;
use crate::admin::{Control, Listener};
use crate::audit::Audits;
use crate::console::Keeper;
use crate::environment::SystemEnvironment;
use crate::event_loops::EventLoops;
use crate::handles::Handles;
use crate::health::{self, Health};
use crate::input::Inputs;
use crate::kerberos::Keytab;
use crate::log::{Log, LogFormat, LogLevel, LogOptions};
use crate::metrics::{self, MetricsServer};
use crate::sandbox::Sandbox;
use crate::socket_file::SocketFile;
use crate::systemd::{self, Notifier};
use crate::welcome::{self, Welcome};
use crate::{limits, listen};
use accounts::Directory;
use accounts::state_dir::StateDir;
use smbconf::added::Added;
use smbconf::host::Host;
use smbconf::interfaces::{interfaces, reachable};
use smbconf::{Daemon, Loaded, LogTarget, NoUsers, Place, Problems, Sources};
use winbind::idmap::OwnDomain;
use winbind::{Member, Winbind, WithDomain};

/// The standard SMB port, and that of the NetBIOS session service.
const SMB_PORT: u16 = 445;
const NETBIOS_PORT: u16 = 139;
/// How long connections may take to finish requests in progress when the server stops.
const STOP_TIME: Duration = Duration::from_secs(10);

/// How long print jobs may then take that are being handed over to the print system.
const PRINT_TIME: Duration = Duration::from_secs(4);

/// How long the last audit lines may take when the server stops.
const AUDIT_TIME: Duration = Duration::from_secs(1);

/// Serves a directory or the shares of a configuration until it is stopped (SIGTERM, Ctrl-C)
#[derive(clap::Args, Debug)]
pub struct ServeArgs {
    /// Directory to share under its own name; needs no configuration
    pub directory: Option<PathBuf>,
    /// Configuration file
    #[arg(short = 'c', long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Name and directory of a share; may be given more than once
    #[arg(long = "share", value_name = "NAME=PATH", value_parser = parse_share)]
    pub shares: Vec<(String, PathBuf)>,
    /// Port to listen on [default: `smb ports`, else 445, else 4450 if 445 is not available]
    #[arg(long, value_name = "PORT")]
    pub port: Option<u16>,
    /// Address to listen on; may be given more than once
    #[arg(long, value_name = "ADDRESS")]
    pub bind: Vec<IpAddr>,
    /// Directory for accounts and other state
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Log level, 0 to 10, as for `log level`
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// Format of log lines
    #[arg(long, value_enum, default_value_t)]
    pub log_format: LogFormat,
}

impl ServeArgs {
    /// Returns the configuration file: the specified one, or the default one if no share is specified either.
    fn configuration(&self) -> Option<PathBuf> {
        match &self.config {
            Some(path) => Some(path.clone()),
            None if self.directory.is_none() && self.shares.is_empty() => smbconf::default_path(),
            None => None,
        }
    }
}

fn parse_share(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok((name.to_string(), PathBuf::from(path))),
        _ => Err("expected NAME=PATH".to_string()),
    }
}

/// Serves until SIGTERM or SIGINT.
pub fn run(mut args: ServeArgs) -> Result<ExitCode> {
    // Before the look-up, because with shares the default configuration is not read.
    args.shares.extend(environment::shares()?);
    args.config = args.configuration();
    if args.config.is_none() && args.directory.is_none() && args.shares.is_empty() {
        return Ok(usage::nothing_to_serve());
    }
    let mut needs = smbconf::confinement(args.config.as_deref(), &NoUsers);
    // The modules of PAM get the process as it was started.
    let pam = match needs.pam {
        true => Some(pam::Helper::start(&pam::Settings::default()).context("cannot start the PAM helper")?),
        false => None,
    };
    let print = printing::start_helper(std::mem::take(&mut needs.print_commands))?;
    let console = match needs.console {
        true => {
            let kept = Keeper::start(args.config.as_deref(), args.state_dir.as_deref());
            Some(kept.context("cannot start the process that keeps the console running")?)
        }
        false => None,
    };
    let helpers = Helpers { pam, print, _console: console };
    // The server specifies exact modes, so the caller's umask must not apply.
    rustix::process::umask(rustix::fs::Mode::empty());
    limits::forbid_core_dumps();
    limits::bound_heaps();
    // Must precede the first user lookup, which may start threads.
    let sandbox = Sandbox::begin(needs)?;
    let plan = Plan::new(args)?;
    let loaded = match plan.load() {
        Ok(loaded) => loaded,
        Err(problems) => {
            eprintln!("{problems}");
            return Ok(ExitCode::FAILURE);
        }
    };
    // Shares that are not served are reported in the log.
    let said = Problems(loaded.warnings.0.iter().filter(|it| !it.is_of_share()).cloned().collect());
    eprint!("{}", said.brief());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        // A new thread inherits the identity of the thread that started it, which may be impersonating a user.
        .on_thread_start(|| localfs::identity::as_process(|| ()).expect("a switch to the process identity"))
        .build()
        .context("cannot start threads")?;
    runtime.block_on(serve(plan, loaded, sandbox, helpers))?;
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(ExitCode::SUCCESS)
}

/// The command line, kept for reloads.
struct Plan {
    args: ServeArgs,
    host: Host,
    config: Option<PathBuf>,
    shares: Vec<(String, PathBuf)>,
    /// The state directory, once it is open.
    state: Option<PathBuf>,
    /// The sections of the configuration in effect.
    sections: Vec<(String, Option<Place>)>,
}

impl Plan {
    fn new(args: ServeArgs) -> Result<Plan> {
        let mut shares = Vec::new();
        if let Some(directory) = &args.directory {
            let directory = std::fs::canonicalize(directory)
                .with_context(|| format!("cannot share the directory {}", directory.display()))?;
            shares.push((share_name(&directory), directory));
        }
        for (name, path) in &args.shares {
            let path = std::fs::canonicalize(path).with_context(|| format!("cannot share {}", path.display()))?;
            shares.push((name.clone(), path));
        }
        let config = args.config.clone();
        let host = Host::of_process().context("cannot look up this process's user")?;
        Ok(Plan { args, host, config, shares, state: None, sections: Vec::new() })
    }

    fn load(&self) -> Result<Loaded, Problems> {
        let added = Added::StateDirectory(self.state.as_deref().or(self.args.state_dir.as_deref()));
        let sources = Sources { config: self.config.as_deref(), shares: &self.shares, added };
        smbconf::load_from(&sources, &self.host)
    }

    /// Returns the state directory.
    fn state_dir(&self, daemon: &Daemon) -> Result<PathBuf> {
        match (&self.args.state_dir, &daemon.state_directory) {
            (Some(flag), _) => Ok(flag.clone()),
            (None, Some(configured)) => Ok(configured.clone()),
            (None, None) => smbconf::location::default_path(),
        }
    }
}

/// Derives a share name from the last component of the directory, without characters that are not allowed.
fn share_name(directory: &Path) -> String {
    let name = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let legal: String = name.chars().filter(|letter| !r#""/\[]:|<>+=;,*?"#.contains(*letter)).take(80).collect();
    if legal.trim().is_empty() { "share".to_string() } else { legal }
}

/// The processes with the privileges with which the server was started.
struct Helpers {
    pam: Option<pam::Helper>,
    print: Option<::printing::Helper>,
    /// The console ends with it.
    _console: Option<Keeper>,
}

async fn serve(mut plan: Plan, loaded: Loaded, sandbox: Sandbox, helpers: Helpers) -> Result<()> {
    let log = start_log(&plan, &loaded.daemon)?;
    let notifier = Notifier::of_process();
    faults::log(&loaded.warnings);
    let means = Means { descriptors: limits::raise_open_files(), memory: limits::memory() };
    let state_path = plan.state_dir(&loaded.daemon)?;
    let state = Arc::new(StateDir::create(&state_path)?);
    plan.state = Some(state_path.clone());
    plan.sections = loaded.sections;
    let accounts = {
        let (state, backends) = (state.clone(), loaded.daemon.passdb_backend.clone());
        let open = move || {
            let accounts = Directory::of_server(&state, &backends)?;
            environment::create_account(&accounts)?;
            anyhow::Ok(accounts)
        };
        Arc::new(tokio::task::spawn_blocking(open).await??)
    };
    let Listeners { sockets, changes, interfaces } = Listeners::start(&plan, &loaded.daemon)?;
    let bound: Vec<SocketAddr> = sockets.iter().filter_map(|listener| listener.local_addr().ok()).collect();
    let metrics_ports = metrics_ports(loaded.daemon.metrics_port);
    let binder = match loaded.daemon.netbios_name_service {
        true => Some(netbios::start()?),
        false => None,
    };
    sandbox.close()?;
    let environment = Arc::new(SystemEnvironment::new());
    let guid = Guid(random());
    let policy = complete(loaded.policy, &loaded.daemon, &accounts, &state, means);
    let own_domain = {
        let state = state.clone();
        tokio::task::spawn_blocking(move || OwnDomain::open(state)).await?
    };
    let winbind = Winbind::of_server(own_domain, accounts.users().clone());
    winbind.configure(policy.membership.as_ref(), loaded.daemon.idmap.clone());
    let ids = Arc::new(WithDomain::new(accounts.clone(), winbind.clone()));
    look_at_winbind(&policy, &winbind).await;
    let keytab = match loaded.daemon.kerberos.clone() {
        Some(settings) => tokio::task::spawn_blocking(move || Keytab::of_server(settings)).await?,
        None => None,
    };
    let audits = Arc::new(Audits::new());
    let remote_changes = Arc::new(RemoteChanges::default());
    let print_system = printing::start(&loaded.daemon.printing, helpers.print)?;
    let parts = ServerParts {
        environment,
        accounts: Accounts { ids, ..accounts.clone().into() },
        volumes: Arc::new(ShareVolumes::default()),
        domain: Some(Arc::new(Member(winbind.clone()))),
        restrictions: helpers.pam.map(restrictions).transpose()?,
        tickets: keytab.map(|keytab| Arc::new(keytab) as Arc<dyn Tickets>),
        interfaces: Some(interfaces.network.clone()),
        store: open_handles(state.clone()).await,
        audit: Some(audits.clone()),
        share_changes: Some(remote_changes.clone()),
        print_system: Some(print_system.clone()),
    };
    let server = Server::new(policy, guid, parts);
    restore(&server).await;
    let dead_time = loaded.daemon.dead_time;
    let (stop, stopping) = watch::channel(false);
    let stop = Arc::new(stop);
    if plan.args.directory.is_some() && plan.config.is_none() {
        greet(&plan, &accounts, &bound, &state_path).await?;
    }
    for address in &bound {
        tracing::info!(%address, "listening");
    }
    let machine = accounts.machine_sid(None, None)?;
    let health = Arc::<Health>::default();
    let discovery = Arc::new(Discovery::start(interfaces.network.clone(), machine, binder));
    discovery.configure(&server.policy(), &loaded.daemon);
    let control = Arc::new(Operations {
        server: server.clone(),
        accounts,
        state: state.clone(),
        winbind,
        plan: Mutex::new(plan),
        log,
        audits: audits.clone(),
        stop: stop.clone(),
        started: server.environment.now(),
        daemon: loaded.daemon,
        means,
        notifier: notifier.clone(),
        health: health.clone(),
        interfaces,
        discovery: discovery.clone(),
        print_system: print_system.clone(),
    });
    remote_changes.start(&control);
    let admin = Listener::bind(state.clone())?;
    let metrics = MetricsServer::start(&server, &health, metrics_socket(state), metrics_ports);
    let mut admin = tokio::spawn(admin.serve(control.clone()));
    let inputs = Arc::new(Inputs::new(server.policy().limits.kept_buffers()));
    let loops = EventLoops::start()?;
    let mut accepting = tokio::spawn(listen::accept(
        sockets,
        changes,
        server.clone(),
        inputs.clone(),
        loops.clone(),
        dead_time,
        stopping,
    ));
    let releasing = tokio::spawn(memory::release_memory(server.clone(), inputs));
    let scavenged = server.clone();
    let scavenging = tokio::spawn(async move { scavenged.scavenge().await });
    let stalls = tokio::spawn(audits.clone().watch());
    let status = status_text(server.clone(), health.clone());
    let first = status();
    let watching = {
        let (notifier, status) = (notifier.clone(), status_text(server.clone(), health.clone()));
        tokio::spawn(health::watch(server.clone(), loops.clone(), health, move || notifier.status(&status())))
    };
    let watched = loops.clone();
    let answers = move || watched.clone().answer();
    let reporting = tokio::spawn(systemd::report(notifier.clone(), systemd::watchdog_time(), status, answers));
    wait_for_signals(&control, || notifier.ready(&first)).await?;
    tracing::info!("stopping");
    notifier.stopping();
    stop.send_replace(true);
    let finished = tokio::time::timeout(STOP_TIME, &mut accepting);
    // Clients whose jobs are given up must learn it while they are connected.
    let (finished, (), ()) = tokio::join!(finished, discovery.stop(), print_system.stop(PRINT_TIME));
    if finished.is_err() {
        tracing::warn!("some connections did not finish in time");
        accepting.abort();
    }
    print_system.stop(PRINT_TIME).await;
    drop(metrics);
    scavenging.abort();
    stalls.abort();
    releasing.abort();
    server.close_detached().await;
    let _ = tokio::task::spawn_blocking(move || audits.drain(AUDIT_TIME)).await;
    admin.abort();
    let _ = (&mut admin).await;
    // The watchdog also applies while the server stops.
    reporting.abort();
    watching.abort();
    Ok(())
}

/// Returns a function that describes the server in one line, for `systemctl status`.
fn status_text(server: Arc<Server>, health: Arc<Health>) -> impl Fn() -> String + Send + 'static {
    move || {
        let (shares, connections) = (server.policy().shares.len(), server.connections.all().len());
        let serving = format!("serving; {shares} shares, {connections} connections");
        match &health.faults()[..] {
            [] => serving,
            [fault] => format!("{serving}; {fault}"),
            [first, others @ ..] => format!("{serving}; {first}; {} more faults", others.len()),
        }
    }
}

/// Returns the sockets at the port for metrics. The server also serves without them.
fn metrics_ports(port: u16) -> Vec<TcpListener> {
    if port == 0 {
        return Vec::new();
    }
    metrics::loopback(port).unwrap_or_else(|error| {
        tracing::error!("{error:#}");
        Vec::new()
    })
}

/// Returns the UNIX socket for metrics.
fn metrics_socket(state: Arc<StateDir>) -> Option<SocketFile> {
    let bound = SocketFile::bind(state, metrics::SOCKET);
    bound.inspect_err(|error| tracing::error!("metrics are not available: {error:#}")).ok()
}

/// Returns the restrictions of PAM. If the library is missing, they admit nobody.
fn restrictions(helper: pam::Helper) -> Result<Arc<dyn Restrictions>> {
    match helper.absent() {
        Some(why) => tracing::error!(why, "users cannot log on because PAM cannot be asked"),
        None => tracing::info!("logons need the consent of PAM (`obey pam restrictions`)"),
    }
    Ok(Arc::new(pam::Pam::new(helper).context("cannot use the PAM helper")?))
}

/// Logs the state of the domain, if there is one. Without winbindd, its users cannot log on, but all others can.
async fn look_at_winbind(policy: &Policy, winbind: &Arc<Winbind>) {
    let Some(membership) = &policy.membership else { return };
    let domain = &membership.workgroup;
    match winbind.details().await {
        Ok(details) if details.netbios_domain.eq_ignore_ascii_case(domain) => {
            tracing::info!(domain, winbind = details.version, "member of a domain");
        }
        Ok(details) => {
            let theirs = details.netbios_domain;
            tracing::error!(domain, theirs, "winbindd is a member of another domain; run `frevo join` for help");
        }
        Err(why) => tracing::error!(domain, why, "users of the domain cannot log on; run `frevo join` for help"),
    }
}

/// Opens the store for persistent handles; `None`, after an error in the log, if it is not available.
async fn open_handles(state: Arc<StateDir>) -> Option<Arc<dyn Store>> {
    let opened = tokio::task::spawn_blocking(move || Handles::open(state)).await;
    match opened.map_err(anyhow::Error::from).and_then(|opened| opened) {
        Ok(handles) => Some(Arc::new(handles)),
        Err(error) => {
            tracing::error!("persistent handles are not available: {error:#}");
            None
        }
    }
}

/// Restores the opens of clients of continuously available shares, however the previous server process ended.
async fn restore(server: &Arc<Server>) {
    match server.restore().await {
        Ok(restored) if restored == Restored::default() => {}
        Ok(Restored { opens, lost }) => tracing::info!(opens, lost, "persistent handles wait for their clients"),
        Err(failed) => tracing::error!(%failed, "cannot restore the persistent handles of the previous run"),
    }
}

fn random<const N: usize>() -> [u8; N] {
    use server::environment::Environment;
    let mut bytes = [0; N];
    SystemEnvironment::new().random(&mut bytes);
    bytes
}

fn start_log(plan: &Plan, daemon: &Daemon) -> Result<Log> {
    let level = match &plan.args.log_level {
        Some(level) => LogLevel::parse(level).context("--log-level")?,
        None => LogLevel::from(&daemon.log_level),
    };
    let file = match &daemon.log {
        LogTarget::File(path) => Some(path.clone()),
        LogTarget::StandardError => None,
    };
    Log::start(&LogOptions { level, file, max_size: daemon.max_log_size, format: plan.args.log_format })
}

/// Prints how to connect. Creates an account first if there is none.
async fn greet(plan: &Plan, accounts: &Arc<Directory>, bound: &[SocketAddr], state: &Path) -> Result<()> {
    let (name, directory) = plan.shares.first().context("a directory is shared")?;
    let owner = {
        let accounts = accounts.clone();
        tokio::task::spawn_blocking(move || welcome::owner(&accounts)).await??
    };
    let addresses = reachable(bound, &interfaces().unwrap_or_default());
    let is_default = smbconf::location::default_path().is_ok_and(|default| default == *state);
    let text = Welcome {
        directory,
        share: name,
        owner: &owner,
        host: &smbconf::host::host_name(),
        addresses: &addresses,
        port: bound.first().map_or(SMB_PORT, SocketAddr::port),
        only: accounts.users().only().map(|user| user.name.as_str()),
        state_dir: (!is_default).then_some(state),
    }
    .text();
    // The reader may be gone, which is not a reason to stop serving.
    let _ = writeln!(std::io::stdout(), "{text}");
    Ok(())
}

/// Waits for SIGTERM or SIGINT. Reloads the configuration on SIGHUP. Calls `ready` when a signal has no other effect.
async fn wait_for_signals(control: &Arc<Operations>, ready: impl FnOnce()) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let mut asked = control.stop.subscribe();
    ready();
    loop {
        tokio::select! {
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = asked.wait_for(|&stop| stop) => return Ok(()),
            _ = hangup.recv() => {
                let control = control.clone();
                // The result is in the log.
                let _ = tokio::task::spawn_blocking(move || control.reload()).await?;
            }
        }
    }
}

/// The resources available to the process.
#[derive(Clone, Copy)]
struct Means {
    descriptors: u64,
    /// Memory in bytes of the machine, or of the process's cgroup.
    memory: u64,
}

impl Means {
    fn bound(self, limits: &mut Limits, memory_limit: Option<usize>) {
        let quarter = || usize::try_from(self.memory / 4).unwrap_or(usize::MAX).max(Limits::LEAST_MEMORY);
        limits.memory = memory_limit.unwrap_or_else(quarter);
        limits.fit_descriptors(usize::try_from(self.descriptors).unwrap_or(usize::MAX));
    }
}
