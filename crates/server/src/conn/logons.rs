//! Logons of one connection that are under way: how many there may be, and for how long.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::Connection;
use crate::accounting::{Full, Payer, Resource};
use crate::session::{Channel, Phase, User};

impl Connection {
    /// A user has logged on here, a guest perhaps, but not an anonymous one: `payer` pays for the connection from now on,
    /// and the client may have `credits`.
    pub(crate) fn logged_on(&self, payer: &Arc<Payer>, credits: u16) {
        self.server.no_newcomer(self);
        self.state.lock().window.set_max(credits);
        if !self.logged_on.swap(true, Ordering::AcqRel) {
            self.usage.lock().transfer(payer);
        }
    }

    /// Refuses a user with as many connections as they may have, where this one is not theirs already.
    pub(crate) fn check_share(&self, payer: &Payer) -> Result<(), Full> {
        if self.is_logged_on() {
            return Ok(());
        }
        payer.may_take_over(&self.payer(), Resource::Connections, 1)
    }

    /// The accounts that pay for what `user` does over this connection.
    pub(crate) fn payer_for(&self, user: &User) -> Arc<Payer> {
        self.server.accounting.user(user, self.peer.remote.ip().into())
    }

    /// Another logon begins: those that were begun too long ago end, and so does the oldest of too many.
    pub(crate) fn bound_logons(&self) {
        let limits = &self.server.policy().limits;
        let is_under_way =
            |channel: &Arc<Channel>| channel.session.phase() == Phase::InProgress && channel.session.keys().is_none();
        let mut begun: Vec<_> = self.state.lock().channels.values().filter(|it| is_under_way(it)).cloned().collect();
        let latest = self.server.world.now().secs - i64::try_from(limits.logon_time.as_secs()).unwrap_or(i64::MAX);
        begun.sort_by_key(|channel| (channel.session.created.secs, channel.session.created.nanos));
        let most = if self.is_logged_on() { limits.logons_per_connection } else { limits.logons_before_logon };
        let too_many = (begun.len() + 1).saturating_sub(most);
        let too_old = begun.iter().take_while(|channel| channel.session.created.secs < latest).count();
        for channel in &begun[..too_many.max(too_old)] {
            let session = &channel.session;
            // Nothing can be open in it, and nobody waits for more than the answer to a token.
            session.close();
            session.take_channels();
            self.server.drop_session(session);
            self.state.lock().channels.remove(&session.id);
        }
    }
}
