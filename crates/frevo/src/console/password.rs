//! Passwords of UNIX users, verified by PAM in a process of its own: `frevo verify-password`, which is not shown. It
//! reads the password from its standard input. Modules may hang or crash, so the process is killed after a time.

use std::io::{Read, Write};
use std::net::IpAddr;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use accounts::unix::{User, user_by_name};
use anyhow::{Context, Result, ensure};
use pam::{NotVerified, Settings, verify_password};
use zeroize::Zeroizing;

/// The file of the groups of this host.
const GROUPS: &str = "/etc/group";
/// The exit status of a password that is not verified.
const REFUSED: u8 = 3;
/// How often the end of the process is looked for.
const PAUSE: Duration = Duration::from_millis(20);
/// Maximum bytes of a password.
const LONGEST: u64 = 4096;

/// Verifies the password on standard input (used by `frevo console`)
#[derive(clap::Args, Debug)]
pub struct VerifyArgs {
    /// Name of the UNIX user
    name: String,
    /// PAM service
    #[arg(long)]
    service: String,
    /// Address of the client, if it has one
    #[arg(long)]
    client: Option<String>,
}

/// Runs the command. Exit status: 0 verified, 3 refused, 1 cannot be verified.
pub fn verify(args: &VerifyArgs) -> Result<ExitCode> {
    let mut password = Zeroizing::new(String::new());
    std::io::stdin().lock().take(LONGEST).read_to_string(&mut password).context("cannot read the password")?;
    let settings = Settings { service: args.service.clone(), ..Settings::default() };
    match verify_password(&settings, &args.name, &password, args.client.as_deref()) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(NotVerified::Refused(why)) => {
            eprintln!("PAM refuses a password with the service {:?}: {why}", args.service);
            Ok(ExitCode::from(REFUSED))
        }
        Err(NotVerified::Unavailable(why)) => anyhow::bail!(why),
    }
}

/// A group whose members administrate this host.
struct AdminGroup {
    name: String,
    /// Whether it may be one that the file of groups does not have, but a name service.
    may_be_elsewhere: bool,
}

impl AdminGroup {
    fn has(&self, user: &User, local: &str) -> bool {
        // A domain may have a group of the same name, whose members are not meant.
        match gid_in(local, &self.name) {
            Some(gid) => user.identity.gid == gid || user.identity.groups.contains(&gid),
            None => self.may_be_elsewhere && user.groups.contains(&self.name),
        }
    }
}

/// Returns the gid of a group in the text of the file of groups.
fn gid_in(groups: &str, name: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    })
}

/// The rules for UNIX administrators.
pub(super) struct Passwords {
    service: String,
    groups: Vec<AdminGroup>,
}

impl Passwords {
    /// `groups` are those that the administrator names; without any, they are `sudo` and `wheel` of this host.
    pub(super) fn new(service: Option<String>, groups: Vec<String>) -> Passwords {
        let own = || {
            ["frevo", "login"].into_iter().find(|name| std::fs::exists(format!("/etc/pam.d/{name}")).is_ok_and(|it| it))
        };
        let service = service.unwrap_or_else(|| own().unwrap_or("frevo").to_owned());
        let may_be_elsewhere = !groups.is_empty();
        let groups = if may_be_elsewhere { groups } else { ["sudo", "wheel"].map(str::to_owned).into() };
        let groups = groups.into_iter().map(|name| AdminGroup { name, may_be_elsewhere }).collect();
        Passwords { service, groups }
    }

    /// Returns the name of the UNIX user if they administrate this host and the password is right; `None` if not.
    /// `client` is the address of the client, if it has one.
    ///
    /// # Errors
    /// It cannot be verified.
    pub(super) fn verified(&self, name: &str, password: &str, client: Option<IpAddr>) -> Result<Option<String>> {
        let Some(user) = self.administrator(name)? else { return Ok(None) };
        // An empty password is not one, whatever the modules think (`nullok`).
        if password.is_empty() {
            return Ok(None);
        }
        Ok(self.ask(&user.name, password, client)?.then_some(user.name))
    }

    /// Returns the UNIX user if they administrate this host; `None` if not.
    ///
    /// # Errors
    /// It cannot be determined.
    pub(super) fn administrator(&self, name: &str) -> Result<Option<User>> {
        let user = user_by_name(name).with_context(|| format!("cannot look up UNIX user {name:?}"))?;
        let Some(user) = user else { return Ok(None) };
        let local = std::fs::read_to_string(GROUPS).with_context(|| format!("cannot read {GROUPS}"))?;
        let is_one = user.identity.uid == 0 || self.groups.iter().any(|group| group.has(&user, &local));
        Ok(is_one.then_some(user))
    }

    fn ask(&self, name: &str, password: &str, client: Option<IpAddr>) -> Result<bool> {
        let client = client.map(|client| format!("--client={client}"));
        let mut process = Command::new("/proc/self/exe")
            .args(["verify-password", "--service", &self.service])
            .args(client)
            .args(["--", name])
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start the process that verifies passwords")?;
        // A process that has ended already is found below.
        let _ = process.stdin.take().context("no standard input")?.write_all(password.as_bytes());
        let end = Instant::now() + pam::LIMIT;
        let status = loop {
            if let Some(status) = process.try_wait()? {
                break status;
            }
            if Instant::now() >= end {
                process.kill()?;
                process.wait()?;
                anyhow::bail!("the PAM modules of the service {:?} do not answer", self.service);
            }
            std::thread::sleep(PAUSE);
        };
        let code = status.code();
        ensure!(
            code == Some(0) || code == Some(REFUSED.into()),
            "PAM cannot verify passwords with the service {:?}; see the log of the console",
            self.service
        );
        Ok(code == Some(0))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use server::vfs::Identity;

    use super::*;

    #[test]
    fn only_administrators_are_asked_for() {
        let passwords = Passwords::new(Some("frevo-no-such".into()), vec!["no such group".into()]);
        assert_eq!(passwords.verified("nobody", "x", None).unwrap(), None);
        assert_eq!(passwords.verified("no such user here", "x", None).unwrap(), None);
        assert_eq!(passwords.verified("root", "", None).unwrap(), None);
    }

    #[test]
    fn a_group_of_a_domain_is_not_the_one_of_this_host() {
        let user = |gids: &[u32]| User {
            name: "ann".into(),
            identity: Arc::new(Identity { uid: 1000, gid: 1000, groups: gids.into() }),
            groups: ["ann".to_owned(), "sudo".to_owned()].into(),
        };
        let group = |may_be_elsewhere| AdminGroup { name: "sudo".into(), may_be_elsewhere };
        let local = "root:x:0:\nsudo:x:27:ann\n";
        for may_be_elsewhere in [false, true] {
            assert!(group(may_be_elsewhere).has(&user(&[27]), local));
            assert!(!group(may_be_elsewhere).has(&user(&[70_001]), local));
        }
        assert!(!group(false).has(&user(&[70_001]), "root:x:0:\n"));
        assert!(group(true).has(&user(&[70_001]), "root:x:0:\n"), "the administrator has named it");
    }
}
