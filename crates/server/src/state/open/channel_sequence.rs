//! The ChannelSequence of an open ([MS-SMB2] 3.3.1.10, 3.3.5.2.10). A client that loses a channel repeats unanswered
//! requests over another one with a higher ChannelSequence. The original requests must then have no effect any more,
//! and the repeated ones must not overtake originals that are still being executed.

use std::sync::Arc;

use parking_lot::Mutex;
use proto::smb2::header::{Command, Flags, Header};
use proto::status::Status;

use super::Open;
use crate::error::{Error, Result};

/// `Open.ChannelSequence` and the requests that are being executed.
pub struct ChannelSequence(Mutex<State>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State {
    /// `Open.ChannelSequence`.
    current: u16,
    /// `Open.OutstandingRequestCount`: requests with that sequence number.
    outstanding: u32,
    /// `Open.OutstandingPreRequestCount`: requests with lower ones.
    before: u32,
}

/// The result of the check of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    /// It is executed, and counted until it completes.
    Counted,
    /// It is stale or premature, so it must not change anything.
    Stale,
}

impl ChannelSequence {
    /// Creates the state of an open made by a request with this ChannelSequence.
    pub fn new(current: u16) -> Self {
        ChannelSequence(Mutex::new(State { current, outstanding: 0, before: 0 }))
    }
}

impl State {
    fn admit(&mut self, sequence: u16, replay: bool) -> Verdict {
        let newer = sequence.wrapping_sub(self.current);
        if newer > 0x7fff {
            return Verdict::Stale;
        }
        if newer > 0 {
            self.before += std::mem::take(&mut self.outstanding);
            self.current = sequence;
        }
        if replay && self.before > 0 {
            return Verdict::Stale;
        }
        self.outstanding += 1;
        Verdict::Counted
    }

    fn done(&mut self, sequence: u16) {
        let count = if sequence == self.current { &mut self.outstanding } else { &mut self.before };
        *count = count.saturating_sub(1);
    }
}

/// A request on an open that is counted as outstanding until this is dropped.
pub(crate) struct Outstanding {
    open: Arc<Open>,
    sequence: u16,
}

impl Outstanding {
    /// Counts the request with `header`. `None` if it is not counted. Fails if it would change something, and must not.
    pub(crate) fn begin(open: &Arc<Open>, header: &Header) -> Result<Option<Outstanding>> {
        let sequence = header.channel_sequence();
        let replay = header.flags.contains(Flags::REPLAY_OPERATION);
        match open.sequence.0.lock().admit(sequence, replay) {
            Verdict::Counted => Ok(Some(Outstanding { open: open.clone(), sequence })),
            Verdict::Stale if matches!(header.command, Command::WRITE | Command::SET_INFO | Command::IOCTL) => {
                Err(Error::because(Status::FILE_NOT_AVAILABLE, "the channel sequence number is outdated"))
            }
            Verdict::Stale => Ok(None),
        }
    }

    /// Whether the request is counted on `open`.
    pub(crate) fn is_on(&self, open: &Arc<Open>) -> bool {
        Arc::ptr_eq(&self.open, open)
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        self.open.sequence.0.lock().done(self.sequence);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks requests given as (sequence, replay, whether it is admitted, whether it is still in progress when the
    /// next one arrives).
    fn check(first: u16, requests: &[(u16, bool, bool, bool)]) {
        let mut state = State { current: first, outstanding: 0, before: 0 };
        for (index, &(sequence, replay, admitted, stays)) in requests.iter().enumerate() {
            let verdict = state.admit(sequence, replay);
            assert_eq!(verdict == Verdict::Counted, admitted, "{index}: {requests:?}");
            if verdict == Verdict::Counted && !stays {
                state.done(sequence);
            }
        }
    }

    #[test]
    fn lower_numbers_are_stale_and_higher_ones_take_over() {
        check(
            0,
            &[(0, false, true, false), (1, false, true, false), (0, false, false, false), (1, false, true, false)],
        );
        check(5, &[(4, false, false, false), (5, false, true, false), (0x8004, false, true, false)]);
        check(5, &[(0x8005, false, false, false), (6, false, true, false), (0x8006, false, false, false)]);
        check(0xffff, &[(0, false, true, false), (0xffff, false, false, false)]);
    }

    #[test]
    fn a_replay_waits_for_the_original_request() {
        check(0, &[(0, false, true, true), (0, true, true, false), (1, true, false, false), (1, false, true, false)]);
        check(0, &[(0, false, true, false), (1, true, true, false), (1, true, true, false)]);
    }

    #[test]
    fn finished_requests_are_not_counted() {
        let mut state = State { current: 0, outstanding: 0, before: 0 };
        assert_eq!(state.admit(0, false), Verdict::Counted);
        assert_eq!(state.admit(1, true), Verdict::Stale);
        assert_eq!(state, State { current: 1, outstanding: 0, before: 1 });
        state.done(0);
        assert_eq!(state.admit(1, true), Verdict::Counted);
        state.done(1);
        assert_eq!(state, State { current: 1, outstanding: 0, before: 0 });
    }
}
