//! Logon to the console through an OpenID Connect issuer: the settings in smb.conf, and the accounts.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;

use accounts::record::{check_name, nt_hash};
use anyhow::{Context, Result, bail, ensure};
use console::Caller;
use console::openid::{Accounts, Admitted, OpenId, Settings, read_secret};
use hyper::Uri;
use smbconf::host::Host;

use super::administration::Server;
use crate::admin::message::{ServerRequest, UserReply, UserRequest};

/// How logons through the issuer are recorded.
const METHOD: &str = "method=openid";
/// The policy of passwords that users set.
const LENGTH: &str = "min password length";

/// Returns the logon through the issuer of a configuration, and the host name by which browsers call the console;
/// `None` without an issuer.
pub(super) fn configured(config: Option<&Path>, server: &Arc<Server>) -> Result<Option<(OpenId, Option<String>)>> {
    let Some(config) = config else { return Ok(None) };
    let host = Host::of_process().context("cannot look up this process's user")?;
    let Some(found) = smbconf::openid(config, &host)? else { return Ok(None) };
    let secret = found.secret_file.as_deref().map(read_secret).transpose().map_err(anyhow::Error::msg)?;
    let settings = Settings {
        issuer: found.issuer,
        client: found.client,
        secret,
        user_claim: found.user_claim,
        scopes: found.scopes,
        console_url: found.console_url,
    };
    let host = settings.console_url.as_deref().map(host_of).transpose()?;
    Ok(Some((OpenId::new(settings, server.clone()), host)))
}

fn host_of(url: &str) -> Result<String> {
    let uri: Uri = url.parse().with_context(|| format!("`frevo:console url` = {url} is not a URL"))?;
    Ok(uri.host().unwrap_or_default().to_owned())
}

impl Server {
    /// Returns whether the user administrates the server.
    ///
    /// # Errors
    /// They are refused, or that cannot be determined.
    fn admitted(&self, caller: &Caller) -> Result<bool> {
        let Caller { name, address } = caller;
        let refused = || {
            format!(
                "the issuer has authenticated {name:?}, and this server has no SMB account with exactly this name that \
                 may log on; ask the administrator for one"
            )
        };
        check_name(name).ok().with_context(refused)?;
        let address = address.parse().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let mut client = self.client()?;
        let admission: Option<bool> = client.ask(&ServerRequest::Admit { name: name.clone(), address })?;
        if admission.with_context(refused)? {
            return Ok(true);
        }
        // The account must be that of the UNIX user, not only have the same name.
        let UserReply::Found(account) = client.user(&UserRequest::Find { name: name.clone() })? else {
            bail!("the server sent an unexpected answer; check that it has the same version");
        };
        let uid = account.context("the account has just been removed")?.uid;
        let user = self.passwords.administrator(name)?;
        Ok(user.is_some_and(|user| user.name == *name && Some(user.identity.uid) == uid))
    }

    fn checked(&self, caller: &Caller, password: &str) -> Result<()> {
        self.admitted(caller)?;
        let UserReply::Policies(policies) = self.client()?.user(&UserRequest::Policy { set: None })? else {
            bail!("the server sent an unexpected answer; check that it has the same version");
        };
        let least = policies.iter().find(|policy| policy.name == LENGTH).map_or(1, |policy| policy.value.max(1));
        let length = i64::try_from(password.encode_utf16().count()).unwrap_or(i64::MAX);
        ensure!(length >= least, "the password is too short: use at least {least} characters");
        Ok(())
    }
}

impl Accounts for Server {
    fn admit(&self, caller: &Caller) -> Result<Admitted, String> {
        let admitted = self.admitted(caller).map_err(|error| format!("{error:#}"));
        let failure = admitted.as_ref().err().cloned();
        self.note(caller, "console.logon", vec![METHOD.to_owned()], failure);
        admitted.map(|is_administrator| Admitted { is_administrator })
    }

    fn refused(&self, caller: &Caller, why: &str) {
        self.note(caller, "console.logon", vec![METHOD.to_owned()], Some(why.to_owned()));
    }

    fn set_own_password(&self, caller: &Caller, password: &str) -> Result<String, String> {
        let (name, operation) = (caller.name.clone(), "user.passwd");
        let hash = self.checked(caller, password).and_then(|()| nt_hash(password)).inspect_err(|error| {
            self.note(caller, operation, vec![name.clone()], Some(format!("{error:#}")));
        });
        let done = hash.and_then(|hash| {
            let request = UserRequest::Passwd { name: name.clone(), nt_hash: Some(hash) };
            self.user(caller, operation, vec![name.clone()], &request)
        });
        done.map(|_| "You can connect to the shares with it now.".to_owned()).map_err(|error| format!("{error:#}"))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::super::password::Passwords;
    use super::*;

    #[test]
    fn the_settings_are_those_of_the_configuration() {
        let directory = tempfile::tempdir().unwrap();
        let (conf, secret) = (directory.path().join("smb.conf"), directory.path().join("secret"));
        let passwords = Passwords::new(Some("frevo-no-such".into()), Vec::new());
        let server = Arc::new(Server::new(directory.path().join("state"), Some(conf.clone()), passwords));
        let configured = |text: &str| {
            fs::write(&conf, format!("[global]\n{text}")).unwrap();
            configured(Some(&conf), &server).map(|found| found.map(|(_, host)| host)).map_err(|it| format!("{it:#}"))
        };
        assert_eq!(configured(""), Ok(None));
        let base = format!(
            "frevo:openid issuer = https://id.example\nfrevo:openid client id = nas\n\
             frevo:openid client secret file = {}\n",
            secret.display()
        );
        assert!(configured(&base).unwrap_err().contains("cannot read"));
        fs::write(&secret, "a secret\n").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(configured(&base).unwrap_err().contains("chmod 600"));
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(configured(&base), Ok(Some(None)));
        let with_url = format!("{base}frevo:console url = https://nas.example:8443/console\n");
        assert_eq!(configured(&with_url), Ok(Some(Some("nas.example".to_owned()))));
        assert!(configured("frevo:openid issuer = http://id.example").unwrap_err().contains("https://HOST"));
    }

    #[test]
    fn nobody_is_admitted_without_a_server() {
        let directory = tempfile::tempdir().unwrap();
        let passwords = Passwords::new(Some("frevo-no-such".into()), Vec::new());
        let server = Server::new(directory.path().join("state"), None, passwords);
        let caller = |name: &str| Caller { name: name.into(), address: "::1".into() };
        assert!(server.admit(&caller("root")).unwrap_err().contains("no server runs"));
        assert!(server.admit(&caller("a/b")).unwrap_err().contains("no SMB account"));
        assert!(server.set_own_password(&caller("root"), "a long password").unwrap_err().contains("no server runs"));
    }
}
