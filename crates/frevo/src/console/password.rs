//! Passwords of UNIX users, verified by PAM in a process of its own: `frevo verify-password`, which is not shown. It
//! reads the password from its standard input. Modules may hang or crash, so the process is killed after a time.

use std::io::{Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use accounts::unix::user_by_name;
use anyhow::{Context, Result, ensure};
use pam::{NotVerified, Settings, verify_password};
use zeroize::Zeroizing;

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
    /// Address of the client
    #[arg(long)]
    client: String,
}

/// Runs the command. Exit status: 0 verified, 3 refused, 1 cannot be verified.
pub fn verify(args: &VerifyArgs) -> Result<ExitCode> {
    let mut password = Zeroizing::new(String::new());
    std::io::stdin().lock().take(LONGEST).read_to_string(&mut password).context("cannot read the password")?;
    let settings = Settings { service: args.service.clone(), ..Settings::default() };
    match verify_password(&settings, &args.name, &password, &args.client) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(NotVerified::Refused(_)) => Ok(ExitCode::from(REFUSED)),
        Err(NotVerified::Unavailable(why)) => anyhow::bail!(why),
    }
}

/// The rules for UNIX administrators.
pub(super) struct Passwords {
    service: String,
    groups: Vec<String>,
}

impl Passwords {
    pub(super) fn new(service: Option<String>, groups: Vec<String>) -> Passwords {
        let own = || {
            ["frevo", "login"].into_iter().find(|name| std::fs::exists(format!("/etc/pam.d/{name}")).is_ok_and(|it| it))
        };
        let service = service.unwrap_or_else(|| own().unwrap_or("frevo").to_owned());
        Passwords { service, groups }
    }

    /// Returns the name of the UNIX user if they administrate this host and the password is right; `None` if not.
    ///
    /// # Errors
    /// It cannot be verified.
    pub(super) fn verified(&self, name: &str, password: &str, client: &str) -> Result<Option<String>> {
        let user = user_by_name(name).with_context(|| format!("cannot look up UNIX user {name:?}"))?;
        let administrates = |user: &accounts::unix::User| {
            user.identity.uid == 0 || user.groups.iter().any(|group| self.groups.iter().any(|it| it == group))
        };
        let Some(user) = user.filter(administrates) else { return Ok(None) };
        // An empty password is not one, whatever the modules think (`nullok`).
        if password.is_empty() {
            return Ok(None);
        }
        Ok(self.ask(&user.name, password, client)?.then_some(user.name))
    }

    fn ask(&self, name: &str, password: &str, client: &str) -> Result<bool> {
        let mut process = Command::new("/proc/self/exe")
            .args(["verify-password", "--service", &self.service, "--client", client, "--", name])
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
    use super::*;

    #[test]
    fn only_administrators_are_asked_for() {
        let passwords = Passwords { service: "frevo-no-such".into(), groups: vec!["no such group".into()] };
        assert_eq!(passwords.verified("nobody", "x", "::1").unwrap(), None);
        assert_eq!(passwords.verified("no such user here", "x", "::1").unwrap(), None);
        assert_eq!(passwords.verified("root", "", "::1").unwrap(), None);
    }
}
