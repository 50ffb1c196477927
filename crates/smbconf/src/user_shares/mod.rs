//! Shares that users define with `net usershare`: a file for each in `usershare path`.
//!
//! The files are read when a client names such a share or lists the shares, like those of Samba. A file or directory
//! that somebody else could have changed is ignored, as are paths that the parameters do not allow.

mod directory;
mod file;

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use server::accounts::Unavailable;
use server::answer::Answer;
use server::policy::{Policy, Share, Template, fold};
use tokio::sync::Semaphore;

use super::Names;
use super::problem::{Code, Problems, note, warning};
use super::reader::Reader;
use super::resolve::{self, Settings, Value};
use super::share;
use super::table::share::SHARED_PATH;
use super::table::user_shares as table;
use super::variables::ServerVariables;
use directory::Checked;
use file::Definition;

/// The most look-ups at once: directories of users may be on a file system that hangs.
const AT_A_TIME: usize = 16;
/// How long a client waits.
const LIMIT: Duration = Duration::from_secs(10);

/// `usershare` parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Rules {
    /// `usershare path`.
    path: PathBuf,
    /// `usershare max shares`.
    max_shares: usize,
    /// `usershare owner only`.
    owner_only: bool,
    /// `usershare allow guests`.
    allow_guests: bool,
    /// `usershare prefix allow list`; if empty, all paths are allowed.
    allowed: Vec<PathBuf>,
    /// `usershare prefix deny list`.
    denied: Vec<String>,
    /// `usershare template share`.
    template: String,
}

impl Rules {
    /// Reads the parameters; `None` if there are no such shares.
    fn read(global: &Reader<'_>) -> Option<Rules> {
        let rules = Rules {
            path: global.value(&table::DIRECTORY).text().into(),
            max_shares: global.value(&table::MAX_SHARES).number::<usize>().unwrap_or(0),
            owner_only: global.value(&table::OWNER_ONLY).boolean(),
            allow_guests: global.value(&table::ALLOW_GUESTS).boolean(),
            allowed: global.value(&table::ALLOWED).list().into_iter().map(PathBuf::from).collect(),
            denied: global.value(&table::DENIED).list(),
            template: global.value(&table::TEMPLATE).text(),
        };
        (rules.max_shares > 0 && rules.path.is_absolute()).then_some(rules)
    }
}

/// The shares that users define.
pub(super) struct UserShares {
    inner: Arc<Inner>,
    turns: Arc<Semaphore>,
}

struct Inner {
    rules: Rules,
    global: Settings,
    template: Settings,
    netbios_name: String,
    workgroup: String,
    names: Option<Arc<dyn Names + Send + Sync>>,
}

impl std::fmt::Debug for UserShares {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.rules.fmt(f)
    }
}

impl UserShares {
    /// Builds the shares of a configuration whose sections are `sections`; `None` if there are none.
    pub(super) fn new(global: &Reader<'_>, sections: &[resolve::Share]) -> Option<UserShares> {
        let rules = Rules::read(global)?;
        let folded = fold(&rules.template);
        let template = sections.iter().find(|section| fold(&section.name) == folded);
        if template.is_none() && !rules.template.is_empty() {
            let value = global.value(&table::TEMPLATE);
            let message = format!("there is no share [{}]: shares that users define are not served", rules.template);
            value.report(warning(Code::CopyMissing, message).remedy("name a share of this file, or remove the line"));
        }
        let is_faulty = global.problems.borrow().faulty_shares().any(|share| fold(share) == folded);
        let is_in_volume = share::modules::is_in_volume(&Reader { share: template, ..*global });
        if is_in_volume {
            let message = "shares that users define are not served, because their template is in a GlusterFS volume, \
                           and their directories are on this host";
            let remedy = format!("name a share in a directory of this host in `{}`", table::TEMPLATE.name);
            global.value(&table::TEMPLATE).report(note(Code::Contradiction, message).remedy(remedy));
        }
        let is_complete = !is_faulty && !is_in_volume && (template.is_some() || rules.template.is_empty());
        let inner = Inner {
            global: global.global.clone(),
            template: template.map(|section| section.settings.clone()).unwrap_or_default(),
            netbios_name: global.variables.netbios_name.clone(),
            workgroup: global.variables.workgroup.clone(),
            // Without its template, or in a volume, no share is served.
            names: global.variables.names.owned().filter(|_| is_complete),
            rules,
        };
        Some(UserShares { inner: Arc::new(inner), turns: Arc::new(Semaphore::new(AT_A_TIME)) })
    }

    fn ask<T: Send + 'static>(
        &self,
        look_up: impl FnOnce(&Inner) -> T + Send + 'static,
    ) -> Answer<Result<T, Unavailable>> {
        let (inner, turns) = (self.inner.clone(), self.turns.clone());
        let late = || Unavailable("directories of users do not answer; check their file systems".into());
        Answer::later(async move {
            let work = async move {
                let turn = turns.acquire_owned().await.map_err(|_| late())?;
                let done = tokio::task::spawn_blocking(move || {
                    let _turn = turn;
                    look_up(&inner)
                });
                done.await.map_err(|error| Unavailable(format!("look-up of a user's share: {error}")))
            };
            tokio::time::timeout(LIMIT, work).await.unwrap_or_else(|_| Err(late()))
        })
    }
}

impl Inner {
    /// Returns the share in the file `name`, if it is one of the first `usershare max shares`. Blocks.
    fn named(&self, name: &str) -> Option<Arc<Share>> {
        let share = self.share(name)?;
        let is_served = directory::names(&self.rules).any(|served| served == name);
        if !is_served {
            let most = self.rules.max_shares;
            tracing::warn!(share = name, most, "a user's share is beyond `usershare max shares`, and is not served");
        }
        is_served.then_some(share)
    }

    /// Returns the share in the file `name`. Blocks.
    fn share(&self, name: &str) -> Option<Arc<Share>> {
        let names = self.names.as_deref()?;
        let Checked { definition, path, root } = directory::read(&self.rules, name)?;
        let section = self.section(&definition, path.to_str()?);
        let variables = ServerVariables {
            names,
            netbios_name: self.netbios_name.clone(),
            workgroup: self.workgroup.clone(),
            share: Some(section.name.clone()),
        };
        let problems = RefCell::new(Problems::default());
        let reader = Reader { global: &self.global, share: Some(&section), variables: &variables, problems: &problems };
        let mut share = share::build(&reader, &section)?;
        let problems = problems.into_inner();
        if problems.faulty_shares().next().is_some() {
            tracing::error!(share = section.name, "a user's share: {problems}");
            return None;
        }
        share.path_template = Template::parse(&path.to_str()?.replace('%', "%%")).ok();
        share.root = Some(root);
        share.comment = definition.comment;
        share.access.read_only = false;
        share.access.user_share_acl = Some(definition.acl);
        if self.rules.allow_guests {
            share.access.guest_ok = definition.guest_ok;
        }
        Some(Arc::new(share))
    }

    fn section(&self, definition: &Definition, path: &str) -> resolve::Share {
        let mut settings = self.template.clone();
        settings.0.insert(SHARED_PATH.name, Value { text: path.replace('%', "%%"), place: None });
        resolve::Share { name: definition.name.clone(), place: None, settings }
    }
}

impl server::policy::UserShares for UserShares {
    fn share(&self, name: &str) -> Answer<Result<Option<Arc<Share>>, Unavailable>> {
        let folded = fold(name);
        match directory::is_name(&folded) {
            true => self.ask(move |inner| inner.named(&folded)),
            false => Answer::now(Ok(None)),
        }
    }

    fn list(&self) -> Answer<Result<Vec<Arc<Share>>, Unavailable>> {
        self.ask(|inner| directory::names(&inner.rules).filter_map(|name| inner.share(&name)).collect())
    }
}

/// Puts the shares that users define into the policy.
pub(super) fn build(global: &Reader<'_>, sections: &[resolve::Share], policy: &mut Policy) {
    let Some(shares) = UserShares::new(global, sections) else { return };
    policy.user_shares = Some(Arc::new(shares));
}

#[cfg(test)]
mod tests;
