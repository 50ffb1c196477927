//! A Kerberos realm of a test environment: MIT's KDC on a free port, a keytab for servers, tickets for users.

use std::fs;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::server::{end_with_parent, run};
use crate::{Person, ReservedPort, TestEnvironment, interrupt};

/// The realm.
pub const REALM: &str = "BED.TEST";
/// Time limit for the KDC's start.
const START: Duration = Duration::from_secs(30);

/// A KDC that runs until it is dropped.
pub struct Kdc {
    dir: PathBuf,
    child: Child,
    _port: ReservedPort,
}

impl Kdc {
    /// Creates a realm in which `services` have keys in [`Kdc::keytab`] and `people` have passwords, and starts its
    /// KDC.
    ///
    /// Its tickets contain no PAC, because Samba rejects PACs when it is not a domain member.
    pub fn start(environment: &TestEnvironment, services: &[&str], people: &[Person]) -> Result<Kdc> {
        Kdc::start_as(environment, "kdc", "aes256-cts", services, people)
    }

    /// Same as [`Kdc::start`], in a directory called `name` and only with keys of `encryption`.
    pub fn start_as(
        environment: &TestEnvironment,
        name: &str,
        encryption: &str,
        services: &[&str],
        people: &[Person],
    ) -> Result<Kdc> {
        let dir = environment.dir().join(name);
        fs::create_dir_all(&dir)?;
        let reserved = ReservedPort::tcp_and_udp()?;
        let port = reserved.number();
        fs::write(dir.join("krb5.conf"), client_conf(port))?;
        fs::write(dir.join("kdc.conf"), kdc_conf(port, encryption, &dir.display().to_string()))?;
        run(in_realm(&dir, "kdb5_util").args(["create", "-s", "-r", REALM, "-P", "of no account"]), "")?;
        let mut orders = String::new();
        for service in services {
            orders += &format!("addprinc -randkey {service}\nktadd -k {} {service}\n", dir.join("keytab").display());
        }
        for person in people {
            orders += &format!("addprinc -pw {} {}\n", person.password, person.name);
        }
        run(&mut in_realm(&dir, "kadmin.local"), &orders)?;
        let log = fs::File::create(dir.join("output"))?;
        let mut command = in_realm(&dir, "krb5kdc");
        command.arg("-n").stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
        // SAFETY: between fork and exec the closure makes one system call.
        unsafe { command.pre_exec(end_with_parent) };
        let child = command.spawn().context("cannot start krb5kdc")?;
        let mut kdc = Kdc { dir, child, _port: reserved };
        kdc.wait_until_it_listens(port)?;
        Ok(kdc)
    }

    /// Returns the path of the configuration for members of the realm.
    pub fn conf(&self) -> PathBuf {
        self.dir.join("krb5.conf")
    }

    /// Returns the path of the services' keytab.
    pub fn keytab(&self) -> PathBuf {
        self.dir.join("keytab")
    }

    /// Gets a ticket for a user. Returns the environment variables with which Kerberos finds it.
    pub fn log_on(&self, person: &Person) -> Result<[(&'static str, String); 2]> {
        self.log_on_as(person.name, person.password, &[])
    }

    /// Same as [`Kdc::log_on`] for any principal, with options for kinit.
    pub fn log_on_as(&self, principal: &str, password: &str, options: &[&str]) -> Result<[(&'static str, String); 2]> {
        let path = self.cache(principal);
        // An existing cache may contain service tickets, which a new ticket would not replace.
        let _ = fs::remove_file(&path);
        let cache = format!("FILE:{}", path.display());
        let mut kinit = in_realm(&self.dir, "kinit");
        run(kinit.args(["-c", &cache]).args(options).arg(principal), &format!("{password}\n"))?;
        Ok([("KRB5_CONFIG", self.dir.join("krb5.conf").display().to_string()), ("KRB5CCNAME", cache)])
    }

    /// Returns the path of a principal's credential cache.
    pub fn cache(&self, principal: &str) -> PathBuf {
        self.dir.join(format!("tickets.{}", principal.replace('/', ".")))
    }

    /// Runs kadmin commands, one per line.
    pub fn order(&self, orders: &str) -> Result<()> {
        run(&mut in_realm(&self.dir, "kadmin.local"), orders)
    }

    /// Makes clients and servers of this realm tolerate clock differences of this many seconds.
    pub fn bear_with(&self, seconds: u32) -> Result<()> {
        let path = self.dir.join("krb5.conf");
        let conf = fs::read_to_string(&path)?;
        Ok(fs::write(path, conf.replace("[libdefaults]", &format!("[libdefaults]\n\tclockskew = {seconds}")))?)
    }

    fn wait_until_it_listens(&mut self, port: u16) -> Result<()> {
        let end = Instant::now() + START;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            interrupt::check()?;
            let said = || fs::read_to_string(self.dir.join("output")).unwrap_or_default();
            if let Some(status) = self.child.try_wait()? {
                bail!("krb5kdc ended at once ({status}):\n{}", said());
            }
            if Instant::now() > end {
                bail!("krb5kdc does not listen after {START:?}:\n{}", said());
            }
            std::thread::sleep(Duration::from_millis(30));
        }
        Ok(())
    }
}

impl Drop for Kdc {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn in_realm(dir: &std::path::Path, program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("KRB5_CONFIG", dir.join("krb5.conf")).env("KRB5_KDC_PROFILE", dir.join("kdc.conf"));
    command
}

/// Returns the client configuration. Host names are used as given, without resolving `localhost`.
fn client_conf(port: u16) -> String {
    format!(
        "[libdefaults]
\tdefault_realm = {REALM}
\tdns_lookup_kdc = false
\tdns_lookup_realm = false
\tdns_canonicalize_hostname = false
\trdns = false
[realms]
\t{REALM} = {{
\t\tkdc = 127.0.0.1:{port}
\t}}
[domain_realm]
\tlocalhost = {REALM}
\t.bed.test = {REALM}
"
    )
}

fn kdc_conf(port: u16, encryption: &str, dir: &str) -> String {
    format!(
        "[kdcdefaults]
\tkdc_listen = 127.0.0.1:{port}
\tkdc_tcp_listen = 127.0.0.1:{port}
[realms]
\t{REALM} = {{
\t\tdatabase_name = {dir}/principal
\t\tkey_stash_file = {dir}/stash
\t\tacl_file = {dir}/acl
\t\tdisable_pac = true
\t\tsupported_enctypes = {encryption}:normal
\t}}
[logging]
\tkdc = FILE:{dir}/log
"
    )
}
