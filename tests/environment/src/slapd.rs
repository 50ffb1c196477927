//! An LDAP directory of a test environment: Debian's `slapd` on free ports of 127.0.0.1, with Samba's schema, the users
//! of the environment and any part of the crowd.
//!
//! It listens without TLS (with STARTTLS), with TLS and on a Unix socket. Its certificate, for `localhost` and
//! 127.0.0.1, is signed by an authority that is created with it. The settings for a server are in [`Slapd::globals`].

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::crowd::{Crowd, nt_hash};
use crate::people::{CAROL, CREW, EVERYBODY};
use crate::server::{end_with_parent, run};
use crate::{ReservedPort, Target, TestEnvironment, interrupt};

/// The root of the directory.
pub const SUFFIX: &str = "dc=bed,dc=test";
/// The user with write access.
pub const ADMIN: &str = "cn=admin,dc=bed,dc=test";
/// The password of [`ADMIN`].
pub const PASSWORD: &str = "directory password";
/// The domain's SID.
pub const DOMAIN: &str = "S-1-5-21-101-202-303";
/// The name of the domain. For a standalone server, it is its NetBIOS name.
const NAME: &str = "BED";
/// Time limit for its start and for its end.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time at which the users' passwords were set.
const LAST_SET: u32 = 1_700_000_000;

/// A directory that runs until it is dropped.
pub struct Slapd {
    dir: PathBuf,
    ports: [ReservedPort; 2],
    child: Child,
    filling: Mutex<()>,
}

impl Slapd {
    /// Creates a directory called `name` in the environment with the three users, their group and the first `crowd`
    /// members of the crowd, and starts it. `more` are further entries as LDIF.
    pub fn start(environment: &TestEnvironment, name: &str, crowd: Crowd, more: &str) -> Result<Slapd> {
        let dir = environment.dir().join(name);
        fs::create_dir_all(dir.join("data"))?;
        certificates(&dir)?;
        fs::write(dir.join("slapd.conf"), configuration(&dir))?;
        load(&dir, &(base() + more))?;
        enlarge(&dir, crowd)?;
        let ports = [ReservedPort::any()?, ReservedPort::any()?];
        let child = spawn(&dir, &ports)?;
        let mut slapd = Slapd { dir, ports, child, filling: Mutex::new(()) };
        slapd.wait_until_it_listens()?;
        Ok(slapd)
    }

    /// Adds the members of the crowd that are missing. May be called concurrently.
    pub(crate) fn enlarge(&self, crowd: Crowd) -> Result<()> {
        let _alone = self.filling.lock().unwrap_or_else(PoisonError::into_inner);
        enlarge(&self.dir, crowd)
    }

    /// Returns the file system directory of its data.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the URI without TLS, or with STARTTLS.
    pub fn uri(&self) -> String {
        format!("ldap://127.0.0.1:{}", self.ports[0].number())
    }

    /// Returns the URI with TLS from the first byte.
    pub fn tls_uri(&self) -> String {
        format!("ldaps://localhost:{}", self.ports[1].number())
    }

    /// Returns the URI of the Unix socket.
    pub fn local_uri(&self) -> String {
        format!("ldapi://{}", socket(&self.dir))
    }

    /// Returns the certificate of the authority that has signed the directory's certificate.
    pub fn authority(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    /// Returns lines for `[global]` that make one or several directories the accounts of a server. `uris` is in the
    /// format of `passdb backend`.
    pub fn globals(uris: &str, tls: bool) -> String {
        format!(
            "\tnetbios name = {NAME}
\tpassdb backend = ldapsam:\"{uris}\"
\tldap suffix = {SUFFIX}
\tldap user suffix = ou=people
\tldap group suffix = ou=groups
\tldap machine suffix = ou=people
\tldap admin dn = {ADMIN}
\tldap ssl = {}
",
            if tls { "start tls" } else { "off" }
        )
    }

    /// Applies changes in `ldapmodify` format.
    pub fn modify(&self, changes: &str) -> Result<()> {
        run(&mut self.tool("ldapmodify"), changes)
    }

    /// Sets another password for an account.
    pub fn set_password(&self, name: &str, password: &str) -> Result<()> {
        self.modify(&format!(
            "dn: {}\nchangetype: modify\nreplace: sambaNTPassword\nsambaNTPassword: {}\n",
            dn(name),
            nt_hash(password)
        ))
    }

    /// Returns the result of a search below the root, as LDIF.
    pub fn search(&self, filter: &str, attributes: &[&str]) -> Result<String> {
        let out = self
            .tool("ldapsearch")
            .args(["-LLL", "-o", "ldif-wrap=no", "-b", SUFFIX, filter])
            .args(attributes)
            .output()?;
        anyhow::ensure!(out.status.success(), "ldapsearch: {}", String::from_utf8_lossy(&out.stderr));
        Ok(String::from_utf8(out.stdout)?)
    }

    /// Returns the command of a client program, with its credentials.
    fn tool(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.args(["-x", "-H", &self.uri(), "-D", ADMIN, "-w", PASSWORD]);
        command
    }

    /// Gives the server with the configuration `conf` the password of [`ADMIN`], which is not in any configuration
    /// file.
    pub fn give_password(target: Target, conf: &Path) -> Result<()> {
        match target {
            Target::Samba => run(Command::new("smbpasswd").arg("-c").arg(conf).args(["-w", PASSWORD]), ""),
            Target::Frevo => {
                let mut command = Command::new(crate::frevo());
                run(
                    command.args(["user", "ldap-password", "--password-stdin", "-c"]).arg(conf),
                    &format!("{PASSWORD}\n"),
                )
            }
        }
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills it.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Starts it again after [`Slapd::kill`], with the same ports and content.
    pub fn restart(&mut self) -> Result<()> {
        self.child = spawn(&self.dir, &self.ports)?;
        self.wait_until_it_listens()
    }

    fn wait_until_it_listens(&mut self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while self.ports.iter().any(|port| TcpStream::connect((Ipv4Addr::LOCALHOST, port.number())).is_err()) {
            interrupt::check()?;
            let said = || fs::read_to_string(self.dir.join("output")).unwrap_or_default();
            if let Some(status) = self.child.try_wait()? {
                bail!("slapd ended at once ({status}):\n{}", said());
            }
            if Instant::now() > end {
                bail!("slapd does not listen after {PATIENCE:?}:\n{}", said());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

/// Adds the members of the crowd up to `crowd` that are missing to the directory in `dir`. It may be running, because
/// its database supports a concurrent writer.
fn enlarge(dir: &Path, crowd: Crowd) -> Result<()> {
    let file = dir.join("crowd");
    let before = if file.exists() { fs::read_to_string(&file)?.parse()? } else { 0 };
    let members = crowd.members(Crowd(before));
    if members.is_empty() {
        return Ok(());
    }
    let entries = members.into_iter().map(|member| account(&member.name, member.id, Crowd::PASSWORD, "[U          ]"));
    load(dir, &entries.collect::<String>())?;
    Ok(fs::write(&file, crowd.0.to_string())?)
}

/// Loads entries, given as LDIF.
fn load(dir: &Path, entries: &str) -> Result<()> {
    let file = dir.join("entries.ldif");
    fs::write(&file, entries)?;
    // Quick mode: the entries were just written here and need no checks.
    let mut load = Command::new("/usr/sbin/slapadd");
    run(load.args(["-q", "-f"]).arg(dir.join("slapd.conf")).arg("-l").arg(&file), "")
}

impl Drop for Slapd {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Returns the DN of an account's entry.
pub fn dn(name: &str) -> String {
    format!("uid={name},ou=people,{SUFFIX}")
}

/// Returns the entry of an account that is also a UNIX user; `flags` in Samba's format.
pub fn account(name: &str, id: u32, password: &str, flags: &str) -> String {
    format!(
        "dn: {}\nobjectClass: account\nobjectClass: posixAccount\nobjectClass: sambaSamAccount\ncn: {name}\n\
         uid: {name}\nuidNumber: {id}\ngidNumber: {id}\nhomeDirectory: /nonexistent\nsambaSID: {DOMAIN}-{}\n\
         sambaNTPassword: {}\nsambaAcctFlags: {flags}\nsambaPwdLastSet: {LAST_SET}\n\n",
        dn(name),
        u64::from(id) * 2 + 1000,
        nt_hash(password)
    )
}

/// Returns the entry of a group with members, mapped to a SID of the domain.
pub fn group(name: &str, id: u32, members: &[&str]) -> String {
    let mut text = format!(
        "dn: cn={name},ou=groups,{SUFFIX}\nobjectClass: posixGroup\nobjectClass: sambaGroupMapping\ncn: {name}\n\
         gidNumber: {id}\nsambaSID: {DOMAIN}-{}\nsambaGroupType: 2\n",
        u64::from(id) * 2 + 1001
    );
    for member in members {
        let _ = writeln!(text, "memberUid: {member}");
    }
    text + "\n"
}

/// Returns the entries of the root, its two branches, the domain, the three users and their groups.
fn base() -> String {
    let mut ldif = format!(
        "dn: {SUFFIX}\nobjectClass: domain\ndc: bed\n\n\
         dn: ou=people,{SUFFIX}\nobjectClass: organizationalUnit\nou: people\n\n\
         dn: ou=groups,{SUFFIX}\nobjectClass: organizationalUnit\nou: groups\n\n\
         dn: sambaDomainName={NAME},{SUFFIX}\nobjectClass: sambaDomain\nsambaDomainName: {NAME}\n\
         sambaSID: {DOMAIN}\nsambaAlgorithmicRidBase: 1000\nsambaNextRid: 500000000\n\n"
    );
    for person in EVERYBODY {
        let flags = if person.name == CAROL.name { "[DU         ]" } else { "[U          ]" };
        ldif += &account(person.name, person.id, person.password, flags);
        ldif += &group(person.name, person.id, &[]);
    }
    ldif + &group(CREW.0, CREW.1, &[EVERYBODY[0].name, EVERYBODY[1].name])
}

fn socket(dir: &Path) -> String {
    dir.join("socket").display().to_string().replace('/', "%2F")
}

fn spawn(dir: &Path, ports: &[ReservedPort; 2]) -> Result<Child> {
    let uris = format!(
        "ldap://127.0.0.1:{} ldaps://127.0.0.1:{} ldapi://{}",
        ports[0].number(),
        ports[1].number(),
        socket(dir)
    );
    let log = fs::File::options().create(true).append(true).open(dir.join("output"))?;
    let mut command = Command::new("/usr/sbin/slapd");
    // With any debug level, even 0, it stays in the foreground.
    command.args(["-d", "0", "-h", &uris, "-f"]).arg(dir.join("slapd.conf"));
    command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
    // SAFETY: between fork and exec the closure makes one system call.
    unsafe { command.pre_exec(end_with_parent) };
    command.spawn().context("cannot start slapd; install the package slapd")
}

/// Returns the slapd.conf(5). Users other than [`ADMIN`] can only bind.
fn configuration(dir: &Path) -> String {
    let (dir, schema) = (dir.display(), concat!(env!("CARGO_MANIFEST_DIR"), "/slapd/samba.schema"));
    let mut text = String::new();
    for name in ["core", "cosine", "inetorgperson", "nis"] {
        let _ = writeln!(text, "include /etc/ldap/schema/{name}.schema");
    }
    text + &format!(
        "include {schema}
modulepath /usr/lib/ldap
moduleload back_mdb
TLSCACertificateFile {dir}/ca.pem
TLSCertificateFile {dir}/server.pem
TLSCertificateKeyFile {dir}/server.key
TLSVerifyClient never
threads 4
access to * by anonymous auth
database mdb
maxsize 4294967296
suffix \"{SUFFIX}\"
rootdn \"{ADMIN}\"
rootpw \"{PASSWORD}\"
directory {dir}/data
dbnosync
index objectClass,uid,cn,uidNumber,gidNumber,memberUid,member,sambaSID,sambaDomainName,sambaGroupType,sambaSIDList eq
"
    )
}

/// Creates an authority, and a key with a certificate signed by it.
fn certificates(dir: &Path) -> Result<()> {
    let openssl = |arguments: &str| {
        let mut command = Command::new("openssl");
        run(command.current_dir(dir).args(arguments.split(' ')), "")
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(&format!("req -x509 {key} -keyout ca.key -out ca.pem -days 30 -subj /CN=bed"))?;
    openssl(&format!("req {key} -keyout server.key -out server.csr -subj /CN=localhost"))?;
    fs::write(dir.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n")?;
    openssl("x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names -out server.pem -days 30")
}
