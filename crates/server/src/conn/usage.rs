//! What a connection holds for requests and responses on their way, and whether it may hold more.

use std::sync::Arc;

use super::Connection;
use crate::accounting::{Charge, Payer, Resource};

/// Amounts are recorded in steps of so many bytes: a connection that is busy, but holds little, changes no account.
const STEP: usize = 16 * 1024;
/// What a connection may hold however much its user's others do: without it, a client could not even close files.
const ALWAYS: usize = 128 * 1024;
/// The same before a user has logged on.
const ALWAYS_BEFORE_LOGON: usize = 16 * 1024;

/// Bytes, as allocated, that a connection's transport holds.
#[derive(Clone, Copy, Default, Debug)]
pub struct Transit {
    /// Buffers of what has arrived and is not executed.
    pub input: usize,
    /// Requests that are executed or wait.
    pub requests: usize,
    /// A response of which the socket has taken only a part.
    pub unsent: usize,
}

/// The charges of one connection.
pub(super) struct Usage {
    connection: Charge,
    input: Charge,
    requests: Charge,
    responses: Charge,
    /// [`Transit::unsent`] as it was recorded last.
    unsent: usize,
}

impl Usage {
    pub(super) fn new(payer: &Arc<Payer>) -> Usage {
        Usage {
            connection: Charge::recorded(payer, Resource::Connections, 1),
            input: Charge::nothing(payer, Resource::Input),
            requests: Charge::nothing(payer, Resource::Requests),
            responses: Charge::nothing(payer, Resource::Responses),
            unsent: 0,
        }
    }

    pub(super) fn payer(&self) -> &Arc<Payer> {
        self.connection.payer()
    }

    fn record_responses(&mut self, queued: usize) {
        self.responses.record((self.unsent + queued).next_multiple_of(STEP));
    }

    pub(super) fn transfer(&mut self, payer: &Arc<Payer>) {
        for charge in [&mut self.connection, &mut self.input, &mut self.requests, &mut self.responses] {
            charge.transfer(payer);
        }
    }
}

impl Connection {
    /// The accounts that pay for this connection.
    pub fn payer(&self) -> Arc<Payer> {
        self.usage.lock().payer().clone()
    }

    /// Records what the transport holds now. To be called when that has changed and before the connection waits.
    pub fn record(&self, transit: Transit) {
        let mut usage = self.usage.lock();
        usage.input.record(transit.input.next_multiple_of(STEP));
        usage.requests.record(transit.requests.next_multiple_of(STEP));
        usage.unsent = transit.unsent;
        usage.record_responses(self.outbox.bytes());
    }

    /// Records the responses that are queued now.
    pub(super) fn record_responses(&self) {
        self.usage.lock().record_responses(self.outbox.bytes());
    }

    /// Whether the next request may be taken, where the transport holds `transit` and would hold `more` bytes more.
    pub fn may_take(&self, transit: Transit, more: usize) -> bool {
        let backlog = transit.unsent + self.outbox.bytes();
        if backlog >= self.backlog_limit() {
            return false;
        }
        let payer = self.payer();
        if self.is_always_allowed(transit, more) { !payer.is_server_overdrawn() } else { payer.has_room(more) }
    }

    /// Charges an input buffer of `size` bytes before it is made; `false` where it may not be made now.
    pub fn reserve_input(&self, transit: Transit, size: usize) -> bool {
        let (more, size) = (size.saturating_sub(transit.input), size.next_multiple_of(STEP));
        let always = self.is_always_allowed(transit, more);
        let mut usage = self.usage.lock();
        if always {
            usage.input.record(size);
            return true;
        }
        usage.input.grow(size).is_ok()
    }

    /// Whether the connection would hold no more than it may in any case.
    fn is_always_allowed(&self, transit: Transit, more: usize) -> bool {
        let always = if self.is_logged_on() { ALWAYS } else { ALWAYS_BEFORE_LOGON };
        transit.input + transit.requests + transit.unsent + self.outbox.bytes() + more <= always
    }

    /// How many bytes of responses may wait before nothing further is read or executed.
    pub(super) fn backlog_limit(&self) -> usize {
        let limits = &self.server.policy().limits;
        if self.is_logged_on() { limits.backlog } else { limits.backlog_before_logon }
    }
}
