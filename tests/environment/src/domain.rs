//! An Active Directory domain of a test environment: a domain controller (Samba's), a member with winbindd and Frevo,
//! and clients, all in one network namespace that ends with its last process.
//!
//! The controller is 10.99.0.1 and the member 10.99.0.2, both on the namespace's loopback interface, and not visible
//! outside. Each process also has a mount namespace with files of the environment mounted over `/etc/resolv.conf`,
//! `/etc/hosts` and `/run/samba`, because Samba's libraries look for winbindd's socket only there.

use std::ffi::CString;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::network_namespace::{FIRST, NetworkNamespace, SECOND, move_to};
use crate::people::lay_over;
use crate::server::{end_with_parent, frevo, run};
use crate::{People, TestEnvironment, interrupt};

/// The member's DNS name.
pub const MEMBER: &str = "member.dom.test";
/// The domain's administrator.
pub const ADMINISTRATOR: &str = "Administrator%Admin.Pw1";
/// A user of the domain in the group `crew`, with the password.
pub const DORA: &str = r"DOM\dora%Dora.Pw1";
/// A user of the domain that is not in `crew`, with the password.
pub const EMIL: &str = r"DOM\emil%Emil.Pw1";
/// A user of the domain whose account is disabled, with the password.
pub const FAYE: &str = r"DOM\faye%Faye.Pw1";

/// Time limit for the start of the controller, winbindd or Frevo.
const START: Duration = Duration::from_secs(60);

/// Creates the users before the controller runs, in one process, because Samba's own tool takes a second for each.
const MAKE_USERS: &str = "
import sys
from samba.auth import system_session
from samba.param import LoadParm
from samba.samdb import SamDB
parameters = LoadParm()
parameters.load(sys.argv[1])
users = SamDB(session_info=system_session(), lp=parameters)
for name in ['dora', 'emil', 'faye']:
    users.newuser(name, name.capitalize() + '.Pw1')
users.newgroup('crew')
users.add_remove_group_members('crew', ['dora'])
users.disable_account('(sAMAccountName=faye)')
";

/// The domain with its controller and its member, until dropped.
pub struct Domain {
    dir: PathBuf,
    people: People,
    namespace: NetworkNamespace,
    controller: Group,
    winbindd: Option<Group>,
    served: Option<Group>,
}

/// A process and its children, in their own process group.
struct Group(Child);

impl Group {
    fn signal(&self, signal: libc::c_int) {
        let Ok(pid) = libc::pid_t::try_from(self.0.id()) else { return };
        // SAFETY: kill has no memory effects; the group was created by this process.
        unsafe { libc::kill(-pid, signal) };
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        let _ = self.0.wait();
    }
}

/// Selects the files that are mounted over those of the machine.
#[derive(Clone, Copy)]
enum DomainHost {
    Controller,
    Member,
}

impl Domain {
    /// Creates the domain and its controller, and joins the member. winbindd runs, Frevo does not yet.
    pub fn start(environment: &TestEnvironment) -> Result<Domain> {
        let dir = environment.dir().join("domain");
        for part in ["dc/log", "dc/run/winbindd", "member/run/winbindd", "member/frevo"] {
            fs::create_dir_all(dir.join(part))?;
        }
        for part in ["log", "private", "state", "cache", "lock", "ncalrpc"] {
            fs::create_dir_all(dir.join("member").join(part))?;
        }
        fs::create_dir_all("/run/samba")?;
        fs::write(dir.join("resolv.conf"), "search dom.test\nnameserver 10.99.0.1\n")?;
        let hosts = "127.0.0.1 localhost\n10.99.0.1 dc.dom.test dc\n10.99.0.2 member.dom.test member\n";
        fs::write(dir.join("hosts"), hosts)?;
        fs::write(dir.join("krb5.conf"), KRB5_CONF)?;
        fs::write(dir.join("empty.conf"), "")?;
        fs::write(dir.join("dc/smb.conf"), filled(CONTROLLER_CONF, &dir))?;
        fs::write(dir.join("member/smb.conf"), filled(MEMBER_CONF, &dir))?;
        let namespace = NetworkNamespace::start()?;
        let controller = Self::start_controller(&dir, environment.people(), &namespace)?;
        let people = environment.people().clone();
        let mut domain = Domain { dir, people, namespace, controller, winbindd: None, served: None };
        domain.wait_for_controller()?;
        domain.join()?;
        let mut keys = domain.command("net")?;
        run(keys.args(["ads", "keytab", "create", "-U", ADMINISTRATOR, "-s"]).arg(domain.conf()), "")?;
        domain.start_winbindd()?;
        Ok(domain)
    }

    fn start_controller(dir: &Path, people: &People, namespace: &NetworkNamespace) -> Result<Group> {
        let in_it = |command: &mut Command| -> Result<()> {
            enter(command, dir, people, namespace, DomainHost::Controller)?;
            run(command, "")
        };
        let mut provision = Command::new("samba-tool");
        provision.args(["domain", "provision", "--realm=DOM.TEST", "--domain=DOM", "--host-name=dc"]);
        provision.args(["--host-ip=10.99.0.1", "--server-role=dc", "--dns-backend=SAMBA_INTERNAL"]);
        provision.args(["--adminpass=Admin.Pw1", "--option=interfaces=10.99.0.1", "--option=bind interfaces only=yes"]);
        provision.arg(format!("--targetdir={}", dir.join("dc").display())).arg("-s").arg(dir.join("empty.conf"));
        in_it(&mut provision)?;
        let mut users = Command::new("/usr/bin/python3");
        in_it(users.args(["-c", MAKE_USERS]).arg(dir.join("dc/smb.conf")))?;
        let mut samba = Command::new("samba");
        samba.args(["--foreground", "--no-process-group", "-s"]).arg(dir.join("dc/smb.conf"));
        enter(&mut samba, dir, people, namespace, DomainHost::Controller)?;
        spawn(samba, &dir.join("dc/log/output"))
    }

    fn wait_for_controller(&mut self) -> Result<()> {
        let end = Instant::now() + START;
        for port in [53, 88, 389, 445] {
            while self.in_network(|| TcpStream::connect(SocketAddr::from((FIRST, port))).is_err())? {
                interrupt::check()?;
                let said = || fs::read_to_string(self.dir.join("dc/log/output")).unwrap_or_default();
                if let Some(status) = self.controller.0.try_wait()? {
                    bail!("samba ended at once ({status}):\n{}", said());
                }
                ensure!(Instant::now() < end, "samba does not listen on port {port} after {START:?}:\n{}", said());
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        Ok(())
    }

    /// Joins the member. Retries until all services of the controller run.
    fn join(&self) -> Result<()> {
        let end = Instant::now() + START;
        loop {
            interrupt::check()?;
            let mut net = self.command("net")?;
            net.args(["ads", "join", "--no-dns-updates", "-U", ADMINISTRATOR, "-s"]).arg(self.conf());
            match run(&mut net, "") {
                Ok(()) => return Ok(()),
                Err(error) if Instant::now() > end => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(200)),
            }
        }
    }

    /// Starts the member's winbindd and waits until it answers.
    pub fn start_winbindd(&mut self) -> Result<()> {
        let mut command = self.command("winbindd")?;
        command.args(["--foreground", "--no-process-group", "-s"]).arg(self.conf());
        self.winbindd = Some(spawn(command, &self.dir.join("member/log/winbindd"))?);
        let end = Instant::now() + START;
        while !self.command("wbinfo")?.arg("-t").output()?.status.success() {
            interrupt::check()?;
            let log = || fs::read_to_string(self.dir.join("member/log/winbindd")).unwrap_or_default();
            ensure!(Instant::now() < end, "winbindd does not answer after {START:?}:\n{}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Kills winbindd, as a crash would.
    pub fn kill_winbindd(&mut self) {
        self.winbindd = None;
    }

    /// Suspends winbindd, so that it does not answer, or resumes it.
    pub fn hold_winbindd(&self, hold: bool) {
        if let Some(winbindd) = &self.winbindd {
            winbindd.signal(if hold { libc::SIGSTOP } else { libc::SIGCONT });
        }
    }

    /// Starts Frevo on the member with `shares` appended to the configuration that winbindd also uses. Ends a running
    /// one first.
    pub fn serve(&mut self, shares: &str) -> Result<()> {
        self.served = None;
        let conf = self.conf();
        fs::write(&conf, filled(MEMBER_CONF, &self.dir) + &shares.replace("@DIR@", &self.dir.display().to_string()))?;
        let mut command = self.command(frevo())?;
        command.arg("serve").arg("-c").arg(&conf).arg("--state-dir").arg(self.state());
        // The controller's address is also on the loopback interface, on which servers always listen.
        command.args(["--bind", "10.99.0.2"]);
        let mut served = spawn(command, &self.log())?;
        let end = Instant::now() + START;
        while self.in_network(|| TcpStream::connect(SocketAddr::from((SECOND, 445))).is_err())? {
            interrupt::check()?;
            if let Some(status) = served.0.try_wait()? {
                bail!("frevo ended at once ({status}):\n{}", self.logged());
            }
            ensure!(Instant::now() < end, "frevo does not listen after {START:?}:\n{}", self.logged());
            std::thread::sleep(Duration::from_millis(30));
        }
        self.served = Some(served);
        Ok(())
    }

    /// Returns the path of the member's configuration, used by winbindd and Frevo.
    pub fn conf(&self) -> PathBuf {
        self.dir.join("member/smb.conf")
    }

    /// Returns Frevo's state directory.
    pub fn state(&self) -> PathBuf {
        self.dir.join("member/frevo")
    }

    fn log(&self) -> PathBuf {
        self.dir.join("member/log/frevo")
    }

    /// Returns the last lines that Frevo has logged.
    pub fn logged(&self) -> String {
        let files = [self.log(), self.dir.join("member/log/log.frevo")];
        let log: String = files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// Returns a command that will run on the member.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Result<Command> {
        let mut command = Command::new(program);
        enter(&mut command, &self.dir, &self.people, &self.namespace, DomainHost::Member)?;
        command.stdin(Stdio::null());
        Ok(command)
    }

    /// Runs `work` in the domain's network.
    pub fn in_network<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        let network = self.namespace.network.as_raw_fd();
        std::thread::scope(|scope| {
            let moved = scope.spawn(move || {
                // SAFETY: setns moves only this thread, which ends with the work.
                match unsafe { libc::setns(network, libc::CLONE_NEWNET) } {
                    0 => Ok(work()),
                    _ => Err(std::io::Error::last_os_error()),
                }
            });
            moved.join().map_err(|_| anyhow::anyhow!("the work panicked"))?.context("cannot enter the network")
        })
    }
}

/// Makes `command` run in the domain's network, with the files of `place` mounted over the machine's.
fn enter(
    command: &mut Command,
    dir: &Path,
    people: &People,
    namespace: &NetworkNamespace,
    place: DomainHost,
) -> Result<()> {
    let People::Many(over) = people else { bail!("only root can create a domain") };
    let own = match place {
        DomainHost::Controller => "dc/run",
        DomainHost::Member => "member/run",
    };
    let files = [("resolv.conf", "/etc/resolv.conf"), ("hosts", "/etc/hosts"), (own, "/run/samba")];
    let files = files.map(|(file, place)| (dir.join(file), place));
    let text = |path: &[u8]| CString::new(path).context("a path with a zero byte");
    let pairs: Vec<(CString, CString)> = over
        .iter()
        .chain(&files)
        .map(|(file, place)| Ok((text(file.as_os_str().as_bytes())?, text(place.as_bytes())?)))
        .collect::<Result<_>>()?;
    let network = namespace.network.as_raw_fd();
    command.env("KRB5_CONFIG", dir.join("krb5.conf"));
    // SAFETY: between fork and exec the closure makes only system calls, without allocations or locks.
    unsafe {
        command.pre_exec(move || {
            move_to(network)?;
            lay_over(&pairs)
        });
    }
    Ok(())
}

/// Starts a server in its own process group that ends with this process.
fn spawn(mut command: Command, log: &Path) -> Result<Group> {
    let log = File::options().create(true).append(true).open(log)?;
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
    // SAFETY: between fork and exec the closure makes one system call.
    unsafe { command.pre_exec(end_with_parent) };
    Ok(Group(command.spawn().with_context(|| format!("cannot start {:?}", command.get_program()))?))
}

fn filled(template: &str, dir: &Path) -> String {
    template.replace("@DIR@", &dir.display().to_string())
}

const KRB5_CONF: &str = "[libdefaults]
	default_realm = DOM.TEST
	dns_lookup_kdc = true
	dns_lookup_realm = false
	dns_canonicalize_hostname = false
	rdns = false
[domain_realm]
	.dom.test = DOM.TEST
";

const CONTROLLER_CONF: &str = "[global]
	netbios name = DC
	realm = DOM.TEST
	workgroup = DOM
	server role = active directory domain controller
	server services = s3fs, rpc, ldap, cldap, kdc, winbindd, dns
	interfaces = 10.99.0.1
	bind interfaces only = yes
	disable netbios = yes
	dns forwarder = 0.0.0.0
	private dir = @DIR@/dc/private
	state directory = @DIR@/dc/state
	cache directory = @DIR@/dc/cache
	lock directory = @DIR@/dc
	pid directory = @DIR@/dc
	ncalrpc dir = @DIR@/dc/ncalrpc
	binddns dir = @DIR@/dc/bind-dns
	ntp signd socket directory = @DIR@/dc/ntp
	log file = @DIR@/dc/log/log.%m
	load printers = no
	usershare max shares = 0
[sysvol]
	path = @DIR@/dc/state/sysvol
[netlogon]
	path = @DIR@/dc/state/sysvol/dom.test/scripts
";

const MEMBER_CONF: &str = "[global]
	netbios name = MEMBER
	realm = DOM.TEST
	workgroup = DOM
	security = ads
	kerberos method = dedicated keytab
	dedicated keytab file = @DIR@/member/krb5.keytab
	idmap config * : backend = tdb
	idmap config * : range = 60000-60999
	idmap config DOM : backend = rid
	idmap config DOM : range = 61000-63999
	interfaces = 10.99.0.2
	bind interfaces only = yes
	disable netbios = yes
	private dir = @DIR@/member/private
	state directory = @DIR@/member/state
	cache directory = @DIR@/member/cache
	lock directory = @DIR@/member/lock
	pid directory = @DIR@/member
	ncalrpc dir = @DIR@/member/ncalrpc
	log file = @DIR@/member/log/log.%m
	logging = file
	map to guest = never
";
