//! The memory that a connection holds for requests and responses in transit, and its limits.

use std::sync::Arc;

use super::Connection;
use crate::accounting::{Charge, Payer, Resource};

/// Amounts are recorded in steps of this size, so that a busy connection that holds little does not update accounts.
const STEP: usize = 16 * 1024;
/// Memory that a connection may hold even if its user's bound is reached. Without it, a client could not even close
/// files.
const ALWAYS: usize = 128 * 1024;
/// Memory that a connection may hold before a user has logged on, even if its account's bound is reached.
const ALWAYS_BEFORE_LOGON: usize = 16 * 1024;

/// Memory held by a connection's transport, in bytes as allocated.
#[derive(Clone, Copy, Default, Debug)]
pub struct Transit {
    /// Buffers of received data that is not executed yet.
    pub input: usize,
    /// Requests that are executed or wait.
    pub requests: usize,
    /// A response that is partly written to the socket.
    pub unsent: usize,
}

/// The charges of one connection.
pub(super) struct Usage {
    connection: Charge,
    input: Charge,
    requests: Charge,
    responses: Charge,
    /// [`Transit::unsent`] as last recorded.
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
    /// Returns the payer for this connection.
    pub fn payer(&self) -> Arc<Payer> {
        self.usage.lock().payer().clone()
    }

    /// Records what the transport holds. Call it when that has changed and before the connection waits.
    pub fn record(&self, transit: Transit) {
        let mut usage = self.usage.lock();
        usage.input.record(transit.input.next_multiple_of(STEP));
        usage.requests.record(transit.requests.next_multiple_of(STEP));
        usage.unsent = transit.unsent;
        usage.record_responses(self.outbox.bytes());
    }

    /// Records the responses that are queued now.
    pub(crate) fn record_responses(&self) {
        self.usage.lock().record_responses(self.outbox.bytes());
    }

    /// Returns whether the next request may be accepted, if the transport holds `transit` and would hold `more` bytes
    /// more.
    pub fn may_take(&self, transit: Transit, more: usize) -> bool {
        let backlog = transit.unsent + self.outbox.bytes();
        if backlog >= self.backlog_limit() {
            return false;
        }
        let payer = self.payer();
        if self.is_always_allowed(transit, more) { !payer.is_server_overdrawn() } else { payer.has_room(more) }
    }

    /// Charges an input buffer of `size` bytes before its allocation; returns `false` if it may not be allocated now.
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

    /// Returns whether the connection would stay within its guaranteed memory.
    fn is_always_allowed(&self, transit: Transit, more: usize) -> bool {
        let always = if self.is_logged_on() { ALWAYS } else { ALWAYS_BEFORE_LOGON };
        transit.input + transit.requests + transit.unsent + self.outbox.bytes() + more <= always
    }

    /// Returns the bytes of queued responses at which reading and executing stop.
    pub(crate) fn backlog_limit(&self) -> usize {
        let limits = &self.server.policy().limits;
        if self.is_logged_on() { limits.backlog } else { limits.backlog_before_logon }
    }
}
