//! Limits on the number and duration of logons in progress on one connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Connection;
use crate::accounting::{Charge, Full, Payer, Resource};
use crate::state::session::{Channel, LOGON_BYTES, Phase, Session};
use crate::user::User;

/// The sessions that are being bound to a connection, the oldest binding first. Each is charged like a logon.
#[derive(Default)]
pub(crate) struct Bindings(Vec<(Arc<Channel>, Charge)>);

impl Bindings {
    /// Returns the channel of a session.
    pub(crate) fn get(&self, session: &Arc<Session>) -> Option<&Arc<Channel>> {
        self.0.iter().map(|(channel, _)| channel).find(|channel| Arc::ptr_eq(&channel.session, session))
    }

    /// Adds the channel of a session that has none here. If there would be more than `most`, the oldest is removed.
    pub(crate) fn add(&mut self, channel: &Arc<Channel>, payer: &Arc<Payer>, most: usize) {
        self.0.retain(|(channel, _)| channel.session.phase() != Phase::Closed);
        let too_many = (self.0.len() + 1).saturating_sub(most);
        self.0.drain(..too_many.min(self.0.len()));
        self.0.push((channel.clone(), Charge::recorded(payer, Resource::Logons, LOGON_BYTES)));
    }

    /// Removes the channel of the session with this id.
    pub(crate) fn remove(&mut self, session_id: u64) {
        self.0.retain(|(channel, _)| channel.session.id != session_id);
    }

    /// Returns the number of bindings.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Connection {
    /// Returns the most logons that may be in progress, and the most bindings.
    pub(crate) fn most_logons(&self) -> usize {
        let limits = &self.server.policy().limits;
        if self.is_logged_on() { limits.logons_per_connection } else { limits.logons_before_logon }
    }

    /// Records a logon, possibly as guest, but not anonymous. `payer` pays for the connection from now on, and the
    /// client may have `credits` credits.
    pub(crate) fn logged_on(&self, payer: &Arc<Payer>, credits: u16) {
        self.server.connections.set_authenticated(self);
        self.state.lock().window.set_max(credits);
        if !self.logged_on.swap(true, Ordering::AcqRel) {
            self.usage.lock().transfer(payer);
        }
    }

    /// Refuses a user who has the maximum number of connections, unless this one already belongs to a user.
    pub(crate) fn check_share(&self, payer: &Payer) -> Result<(), Full> {
        if self.is_logged_on() {
            return Ok(());
        }
        payer.may_take_over(&self.payer(), Resource::Connections, 1)
    }

    /// Returns the payer for what `user` does over this connection.
    pub(crate) fn payer_for(&self, user: &User) -> Arc<Payer> {
        self.server.accounting.user(user, self.peer.remote.ip().into())
    }

    /// Called when another logon begins: removes logons that have taken too long, and the oldest one if there are too
    /// many.
    pub(crate) fn bound_logons(&self) {
        let limits = &self.server.policy().limits;
        let is_under_way =
            |channel: &Arc<Channel>| channel.session.phase() == Phase::InProgress && channel.session.keys().is_none();
        let mut begun: Vec<_> = self.state.lock().channels.values().filter(|it| is_under_way(it)).cloned().collect();
        let latest =
            self.server.environment.now().secs - i64::try_from(limits.logon_time.as_secs()).unwrap_or(i64::MAX);
        begun.sort_by_key(|channel| (channel.session.created.secs, channel.session.created.nanos));
        let too_many = (begun.len() + 1).saturating_sub(self.most_logons());
        let too_old = begun.iter().take_while(|channel| channel.session.created.secs < latest).count();
        for channel in &begun[..too_many.max(too_old)] {
            let session = &channel.session;
            // Such a session has no opens, and nothing waits in it except for the response to a token.
            session.close();
            session.take_channels();
            self.server.sessions.remove(session);
            self.state.lock().channels.remove(&session.id);
        }
    }
}
