//! The operations of the running server for the control socket.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use accounts::Directory;
use accounts::state_dir::StateDir;
use anyhow::Result;
use server::accounts::NtHash;
use server::state::Server;
use smbconf::Daemon;
use tokio::sync::watch;
use winbind::Winbind;

use super::discovery::Discovery;
use super::listeners::Interfaces;
use super::{Means, Plan};
use crate::admin::message::{Closing, OnBehalf, ShareReply, ShareRequest, UserReply, UserRequest};
use crate::admin::names::{self, Names, NamesRequest};
use crate::admin::{self, Control};
use crate::audit::Audits;
use crate::health::{self, Health};
use crate::log::Log;
use crate::metrics;
use crate::status::HeldResources;
use crate::systemd::Notifier;

/// What the operations need.
pub(super) struct Operations {
    pub(super) server: Arc<Server>,
    pub(super) accounts: Arc<Directory>,
    pub(super) state: Arc<StateDir>,
    pub(super) winbind: Arc<Winbind>,
    pub(super) plan: Mutex<Plan>,
    pub(super) log: Log,
    pub(super) audits: Arc<Audits>,
    pub(super) stop: Arc<watch::Sender<bool>>,
    pub(super) started: server::vfs::Time,
    /// The settings with which the process was started.
    pub(super) daemon: Daemon,
    pub(super) means: Means,
    pub(super) notifier: Notifier,
    pub(super) health: Arc<Health>,
    pub(super) interfaces: Interfaces,
    pub(super) discovery: Arc<Discovery>,
    pub(super) print_system: Arc<::printing::Printing>,
}

impl Control for Operations {
    fn status(&self, most: usize) -> server::status::Snapshot {
        server::status::first(&self.server, self.started, most)
    }

    fn metrics(&self) -> String {
        metrics::of(&self.server, &self.health)
    }

    fn health(&self) -> health::Report {
        self.health.report(*self.stop.borrow())
    }

    fn user(&self, request: UserRequest) -> Result<UserReply> {
        let forgiven = match &request {
            UserRequest::Passwd { name, .. }
            | UserRequest::Enable { name, enabled: true }
            | UserRequest::AccountControl { name, locked: false, .. } => Some(name.clone()),
            // Wrong passwords given for the name earlier must not count against a new account.
            UserRequest::Add { name, .. } | UserRequest::Delete { name } => Some(name.clone()),
            _ => None,
        };
        let mut reply = admin::perform(&self.accounts, request)?;
        if let Some(name) = forgiven {
            self.server.logons.clear_lockout(&name);
        }
        let shown = match &mut reply {
            UserReply::Found(Some(account)) => std::slice::from_mut(account),
            UserReply::List(accounts) => accounts.as_mut_slice(),
            _ => &mut [],
        };
        shown.iter_mut().for_each(|account| account.locked |= self.server.logons.is_locked_out(&account.name));
        Ok(reply)
    }

    fn names(&self, request: NamesRequest) -> Result<Names> {
        tokio::runtime::Handle::current().block_on(names::answer(request, &*self.server.accounts.ids))
    }

    fn reload(&self) -> Result<String> {
        self.notifier.reloading();
        let outcome = self.read_again();
        match &outcome {
            Ok(done) => tracing::info!("{done}"),
            Err(error) => tracing::error!("cannot reload the configuration: {error:#}"),
        }
        self.notifier.ready(match &outcome {
            Ok(done) => done,
            Err(_) => "the configuration has errors, the previous one remains in effect; see the log",
        });
        outcome
    }

    fn close(&self, what: Closing) -> Result<String> {
        crate::close::perform(&self.server, what)
    }

    fn shares(&self, request: ShareRequest) -> Result<ShareReply> {
        self.perform(request)
    }

    fn held(&self) -> HeldResources {
        self.server.accounting.report().into()
    }

    fn log_on(&self, name: &str, nt_hash: &NtHash, address: IpAddr) -> Result<Option<String>> {
        let runtime = tokio::runtime::Handle::current();
        runtime.block_on(self.server.log_on_administrator(name, nt_hash, address)).map_err(anyhow::Error::msg)
    }

    fn admit(&self, name: &str, address: IpAddr) -> Result<Option<bool>> {
        tokio::runtime::Handle::current()
            .block_on(self.server.admit_to_console(name, address))
            .map_err(anyhow::Error::msg)
    }

    fn record(&self, change: OnBehalf, failure: Option<String>) {
        let OnBehalf { user, address, operation, arguments } = change;
        self.server.record_administration([user, address, operation], arguments, failure);
    }

    fn stop(&self) {
        self.stop.send_replace(true);
    }
}
