//! Finds the share that contains a local path, and opens the server's view of it.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use proto::dtyp::sddl::Domains;
use server::accounts::DomainSid;
use server::policy::{Policy, Share};
use server::security::admin::AclAdmin;
use server::vfs::{RelPath, SymlinkPolicy};

use super::names::{self, Lookups};
use crate::environment::SystemEnvironment;
use smbconf::added::Added;
use smbconf::host::Host;
use smbconf::location::locate_accounts;
use smbconf::{Loaded, Sources};

/// Location of the configuration and the accounts.
#[derive(clap::Args, Debug)]
pub(super) struct Where {
    /// Configuration file [default: /etc/frevo/smb.conf, else /etc/samba/smb.conf]
    #[arg(short = 'c', long = "config", value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// State directory of the server
    #[arg(long, value_name = "DIR")]
    pub(super) state_dir: Option<PathBuf>,
}

impl Where {
    /// Loads the configuration.
    pub(super) fn load(&self) -> Result<Loaded> {
        let path = self.config.clone().or_else(smbconf::default_path).context(
            "neither /etc/frevo/smb.conf nor /etc/samba/smb.conf exists; specify a configuration file with -c",
        )?;
        let host = Host::of_process().context("cannot look up this process's user")?;
        let added = Added::StateDirectory(self.state_dir.as_deref());
        let sources = Sources { config: Some(&path), added, ..Sources::default() };
        smbconf::load_from(&sources, &host).map_err(|problems| anyhow!("{problems}"))
    }

    /// Returns the share called `name`. Fails unless it stores descriptors synthesized from POSIX ACLs and has a single
    /// directory.
    pub(super) fn converting_share(&self, name: &str) -> Result<Arc<Share>> {
        let loaded = self.load()?;
        let share = loaded.policy.share(name).with_context(|| format!("there is no share [{name}]"))?;
        let Some(acls) = &share.acls.stored else {
            bail!("[{}] stores no security descriptors; set vfs objects = acl_xattr for it", share.name);
        };
        if acls.ignore_system_acls {
            bail!("[{}] does not convert POSIX ACLs because of acl_xattr:ignore system acls = yes", share.name);
        }
        check_is_directory(share)?;
        if share.path_template.is_some() {
            bail!("[{}] has a directory per session ({}); specify another share", share.name, share.path.display());
        }
        Ok(share.clone())
    }

    /// Loads the configuration and opens the accounts.
    pub(super) fn open(&self) -> Result<Opened> {
        let loaded = self.load()?;
        let (accounts, domains) = self.accounts(&loaded.policy)?;
        Ok(Opened { loaded, accounts, domains })
    }

    /// Opens the accounts, and returns the domains to which SDDL aliases refer.
    fn accounts(&self, policy: &Policy) -> Result<(Lookups, Domains)> {
        let member = policy.membership.is_some();
        let place = locate_accounts(self.state_dir.as_deref(), self.config.as_deref())?;
        let accounts = names::accounts(&place, member)?;
        let machine = Some(accounts.ids.domain()).filter(|domain| *domain != DomainSid([0; 3])).map(DomainSid::sid);
        Ok((accounts, Domains { machine, domain: machine.filter(|_| !member) }))
    }
}

/// A share opened for the administrator.
pub(super) struct Counter {
    pub(super) desk: AclAdmin,
    pub(super) accounts: Lookups,
    pub(super) domains: Domains,
}

impl Counter {
    /// Opens the share that contains `path`, or the one called `share`. Also returns the path relative to the share.
    pub(super) fn of(place: &Where, path: &Path, share: Option<&str>) -> Result<(Counter, RelPath)> {
        place.open()?.counter(path, share)
    }
}

/// Configuration and accounts, to be shared by all paths of a command. If no server runs, only one process at a time
/// can open the database.
pub(super) struct Opened {
    pub(super) loaded: Loaded,
    pub(super) accounts: Lookups,
    pub(super) domains: Domains,
}

impl Opened {
    /// Same as [`Counter::of`].
    pub(super) fn counter(&self, path: &Path, share: Option<&str>) -> Result<(Counter, RelPath)> {
        let path = path.canonicalize().with_context(|| path.display().to_string())?;
        let (share, inside) = share_of(&self.loaded.policy, &path, share)?;
        let (accounts, domains) = (self.accounts.clone(), self.domains);
        Ok((Counter { desk: desk(share, accounts.clone())?, accounts, domains }, inside))
    }
}

/// Fails if the files of the share are not on this host.
pub(crate) fn check_is_directory(share: &Share) -> Result<()> {
    if !share.storage.is_directory() {
        bail!("[{}] is in a volume of GlusterFS; this command works on directories of this host", share.name);
    }
    Ok(())
}

/// Opens the server's view of `share`.
pub(super) fn desk(share: Arc<Share>, accounts: Lookups) -> Result<AclAdmin> {
    let options = localfs::Options { links: SymlinkPolicy::NONE, root: None };
    let volume = localfs::LocalFs::open(&share.path, options);
    let volume = volume.with_context(|| format!("cannot open {} of [{}]", share.path.display(), share.name))?;
    Ok(AclAdmin::new(share, Arc::new(volume), accounts.ids, accounts.authenticator, Arc::new(SystemEnvironment::new())))
}

/// Finds the share that contains `path` (which has no links) and the path relative to it. The share is the one called
/// `name`, or else the one with the deepest directory.
fn share_of(policy: &Policy, path: &Path, name: Option<&str>) -> Result<(Arc<Share>, RelPath)> {
    let inside = |share: &Share| {
        let is_here = share.path_template.is_none() && share.storage.is_directory();
        let root = share.path.canonicalize().ok().filter(|_| is_here)?;
        Some((root.components().count(), path.strip_prefix(&root).ok()?.to_owned()))
    };
    let found = match name {
        Some(name) => {
            let share = policy.share(name).with_context(|| format!("there is no share [{name}]"))?;
            check_is_directory(share)?;
            let (_, rest) = inside(share).with_context(|| {
                format!(
                    "{} is not below {}, which is the directory of [{}]",
                    path.display(),
                    share.path.display(),
                    share.name
                )
            })?;
            Some((share, rest))
        }
        None => {
            let all = policy.shares.values().filter_map(|share| Some((share, inside(share)?)));
            all.max_by_key(|(_, (depth, _))| *depth).map(|(share, (_, rest))| (share, rest))
        }
    };
    let Some((share, rest)) = found else {
        bail!(
            "{} is not in any share of the configuration ([homes], paths with variables and shares in volumes are not \
             considered)",
            path.display()
        );
    };
    let mut relative = RelPath::root();
    for component in rest.components() {
        if !relative.push(component.as_os_str().as_bytes()) {
            bail!("{}: the path is too long", path.display());
        }
    }
    Ok((share.clone(), relative))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_share_has_a_path() {
        let top = tempfile::tempdir().unwrap();
        let top_path = top.path().canonicalize().unwrap();
        std::fs::create_dir_all(top_path.join("a/b/c")).unwrap();
        let file = top_path.join("smb.conf");
        let (outer, inner) = (top_path.join("a"), top_path.join("a/b"));
        let text = format!(
            "[outer]\npath = {}\n[inner]\npath = {1}\n[volume]\npath = {1}/c\nvfs objects = glusterfs acl_xattr\n",
            outer.display(),
            inner.display()
        );
        std::fs::write(&file, text).unwrap();
        let place = Where { config: Some(file), state_dir: None };
        let loaded = place.load().unwrap();
        let check = |path: &Path, name: Option<&str>, expected: Option<(&str, &str)>| {
            let found = share_of(&loaded.policy, path, name).ok();
            let found =
                found.map(|(share, path)| (share.name.clone(), String::from_utf8_lossy(path.as_bytes()).into_owned()));
            assert_eq!(found, expected.map(|(share, path)| (share.to_owned(), path.to_owned())), "{}", path.display());
        };
        check(&inner.join("c"), None, Some(("inner", "c")));
        check(&inner, None, Some(("inner", "")));
        check(&inner.join("c"), Some("Outer"), Some(("outer", "b/c")));
        check(&outer, None, Some(("outer", "")));
        check(&outer, Some("inner"), None);
        check(&top_path, None, None);
        check(&outer, Some("none"), None);
        let refused = share_of(&loaded.policy, &inner.join("c"), Some("volume")).map(|_| ()).unwrap_err();
        assert!(refused.to_string().starts_with("[volume] is in a volume of GlusterFS"), "{refused}");
        assert_eq!(place.converting_share("volume").unwrap_err().to_string(), refused.to_string());
    }
}
