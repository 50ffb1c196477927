//! Shares that are added, changed and removed while the server runs.

use std::sync::{Arc, OnceLock, Weak};

use anyhow::Result;
use proto::dtyp::sddl;
use server::named_pipe::BoxFuture;
use server::policy::{CscPolicy, ShareChange, ShareChanges, ShareRefusal, fold};
use smbconf::added::{Change, Refusal, literal};

use super::Operations;
use crate::admin::message::{ShareReply, ShareRequest};
use crate::share::{Prepared, file_of, prepare, views};

impl Operations {
    /// Performs a request of `frevo share`. Must be called on a thread that may block.
    pub(super) fn perform(&self, request: ShareRequest) -> Result<ShareReply> {
        Ok(match request {
            ShareRequest::List {} => {
                let plan = self.plan();
                ShareReply::List(views(&self.server.policy(), &plan.sections, &file_of(self.state.path())))
            }
            ShareRequest::Change(change) => {
                self.change_shares(&change, None)?;
                ShareReply::Done {}
            }
        })
    }

    /// Makes a change and puts it into effect, with an ACL in SDDL for a share that is added or changed. The rest of
    /// the configuration is read again, too. Must be called on a thread that may block.
    ///
    /// # Errors
    /// If the change is not possible. Then nothing has changed.
    pub(super) fn change_shares(&self, change: &Change, acl: Option<String>) -> Result<(), Refusal> {
        let mut plan = self.plan();
        let prepared = prepare(&self.state, plan.config.as_deref(), &plan.shares, &plan.host, change)?;
        let name = change.name();
        // No client may connect to a new share before it has its ACL, nor with the ACL of a former share of its name.
        let sets_acl = acl.is_some() || matches!(change, Change::Add { .. });
        let former = sets_acl.then(|| self.acl_of(name)).transpose()?;
        if former.as_ref().is_some_and(|former| *former != acl) {
            self.set_acl(name, acl)?;
        }
        if let Err(error) = prepared.write(&self.state) {
            if let Some(former) = former {
                self.set_acl(name, former)?;
            }
            return Err(failed(&error));
        }
        let Prepared { loaded, .. } = prepared;
        let summary = self.apply(&mut plan, loaded).map_err(|error| failed(&error))?;
        tracing::info!(share = name, "an administrator has changed the shares: {summary}");
        // A share of the administrator with the same name keeps its clients and its ACL.
        if !matches!(change, Change::Remove { .. }) || self.server.policy().share(name).is_some() {
            return Ok(());
        }
        let has_acl = self.acl_of(name).map(|acl| acl.is_some());
        let removed = has_acl.and_then(|has_acl| if has_acl { self.set_acl(name, None) } else { Ok(()) });
        // Files may take long to close.
        drop(plan);
        crate::close::disconnect(&self.server, name).map_err(|error| failed(&error))?;
        removed
    }

    /// Returns the ACL of a share in SDDL.
    fn acl_of(&self, name: &str) -> Result<Option<String>, Refusal> {
        let acls = self.accounts.share_acls(None).map_err(|error| failed(&error))?;
        let is_meant = |share: &str| fold(share) == fold(name);
        Ok(acls.into_iter().find(|acl| is_meant(&acl.share)).map(|acl| acl.sddl))
    }

    /// Sets or removes the ACL of a share.
    pub(super) fn set_acl(&self, name: &str, acl: Option<String>) -> Result<(), Refusal> {
        self.accounts.share_acls(Some((name.to_owned(), acl))).map(drop).map_err(|error| failed(&error))
    }
}

fn failed(error: &anyhow::Error) -> Refusal {
    Refusal::Failed(format!("{error:#}"))
}

/// The changes that administrators make through pipes.
#[derive(Default)]
pub(super) struct RemoteChanges(OnceLock<Weak<Operations>>);

impl RemoteChanges {
    /// Lets changes be made.
    pub(super) fn start(&self, operations: &Arc<Operations>) {
        let _ = self.0.set(Arc::downgrade(operations));
    }
}

impl ShareChanges for RemoteChanges {
    fn change(&self, change: ShareChange) -> BoxFuture<'static, Result<(), ShareRefusal>> {
        let operations = self.0.get().and_then(Weak::upgrade);
        Box::pin(async move {
            let operations = operations.ok_or_else(|| ShareRefusal::Failed("the server starts or stops".into()))?;
            let work = tokio::task::spawn_blocking(move || operations.change_remotely(change));
            work.await.unwrap_or_else(|error| Err(ShareRefusal::Failed(error.to_string())))
        })
    }
}

impl Operations {
    /// Makes the change of an administrator. Must be called on a thread that may block.
    fn change_remotely(&self, change: ShareChange) -> Result<(), ShareRefusal> {
        let (change, acl) = match change {
            ShareChange::Add { name, path, comment, max_connections, acl } => {
                let path = path.to_str().ok_or_else(|| ShareRefusal::BadValue("path".into()))?;
                let settings = [
                    Some(("path", literal("path", path).map_err(refusal)?)),
                    some_text("comment", Some(comment).filter(|comment| !comment.is_empty()))?,
                    Some(max_connections).filter(|most| *most > 0).map(|most| ("max connections", most.to_string())),
                    // As on Windows, the ACL of the share and the permissions of files decide.
                    Some(("read only", "no".to_owned())),
                ];
                let settings = settings.into_iter().flatten().map(|(name, value)| (name.to_owned(), value)).collect();
                (Change::Add { name, settings }, acl)
            }
            ShareChange::Set { name, comment, max_connections, csc_policy, hide_unreadable, acl } => {
                let settings = [
                    some_text("comment", comment)?,
                    max_connections.map(|most| ("max connections", most.to_string())),
                    csc_policy.map(|policy| ("csc policy", csc_value(policy).to_owned())),
                    hide_unreadable.map(|hides| ("hide unreadable", if hides { "yes" } else { "no" }.to_owned())),
                ];
                let settings = settings.into_iter().flatten().map(|(name, value)| (name.to_owned(), Some(value)));
                (Change::Set { name, settings: settings.collect() }, acl)
            }
            ShareChange::Remove { name } => (Change::Remove { name }, None),
        };
        let acl = acl.map(|acl| sddl::encode(&acl).map_err(|_| ShareRefusal::BadAcl)).transpose()?;
        match (&change, acl) {
            // A share of the configuration can have an ACL, too.
            (Change::Set { name, settings }, Some(acl)) if settings.is_empty() => {
                let _unchanged = self.plan();
                match self.server.policy().share(name) {
                    Some(_) => self.set_acl(name, Some(acl)).map_err(|_| ShareRefusal::BadAcl),
                    None => Err(ShareRefusal::NotFound),
                }
            }
            (Change::Set { name, .. } | Change::Remove { name }, _) if !self.is_added(name) => {
                Err(ShareRefusal::NotOurs)
            }
            (change, acl) => self.change_shares(change, acl).map_err(refusal),
        }
    }

    /// Returns whether the share in effect is one that was added, and not one of the same name in the configuration.
    fn is_added(&self, name: &str) -> bool {
        let file = file_of(self.state.path());
        let plan = self.plan();
        let mut meant = plan.sections.iter().filter(|(section, _)| fold(section) == fold(name));
        meant.any(|(_, place)| place.as_ref().is_some_and(|place| *place.file == *file))
    }
}

fn some_text(parameter: &'static str, text: Option<String>) -> Result<Option<(&'static str, String)>, ShareRefusal> {
    let literal = |text: String| literal(parameter, &text).map(|text| (parameter, text));
    text.map(literal).transpose().map_err(refusal)
}

/// Returns the value of `csc policy`.
fn csc_value(policy: CscPolicy) -> &'static str {
    match policy {
        CscPolicy::Manual => "manual",
        CscPolicy::Documents => "documents",
        CscPolicy::Programs => "programs",
        CscPolicy::Disable => "disable",
    }
}

fn refusal(refusal: Refusal) -> ShareRefusal {
    match refusal {
        Refusal::BadName(_) => ShareRefusal::BadName,
        Refusal::BadSetting { parameter, .. } => ShareRefusal::BadValue(parameter),
        Refusal::Exists(_) => ShareRefusal::Exists,
        Refusal::NotFound(_) => ShareRefusal::NotFound,
        Refusal::NotOurs(_) => ShareRefusal::NotOurs,
        Refusal::NoDirectory(_) => ShareRefusal::NoDirectory,
        Refusal::Failed(why) => ShareRefusal::Failed(why),
    }
}
