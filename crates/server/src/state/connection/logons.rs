//! Limits on the number and duration of logons in progress on one connection.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Connection;
use crate::accounting::{Full, Payer, Resource};
use crate::state::session::{Channel, Phase};
use crate::user::User;

impl Connection {
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
        let most = if self.is_logged_on() { limits.logons_per_connection } else { limits.logons_before_logon };
        let too_many = (begun.len() + 1).saturating_sub(most);
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
