//! Unread messages of a message-mode pipe, and the READs that wait for them ([MS-SMB2] 3.3.5.12, [MS-FSCC] 2.4.37).
//! Each fragment of a response is one message.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use proto::fscc::{FilePipeInformation, PipeCompletionMode, PipeMode, PipeState};
use proto::rpc::auth::protected_length;
use proto::rpc::pdu::Fragments;
use proto::status::Status;
use tokio::sync::Notify;

use super::security_context::SecurityContext;
use crate::error::{Error, Result};

/// The response to one PDU of the client.
pub(super) enum Response {
    /// A single message.
    Pdu(Vec<u8>),
    /// The results of a call. Each fragment is encoded when the preceding one has been read.
    Results {
        fragments: Fragments,
        /// The fragments are signed or encrypted.
        protected: bool,
    },
}

impl Response {
    /// Returns the memory in bytes.
    pub(super) fn allocated(&self) -> usize {
        match self {
            Response::Pdu(pdu) => pdu.capacity(),
            Response::Results { fragments, .. } => fragments.allocated(),
        }
    }

    /// Returns the number of unread messages and their bytes.
    fn remaining(&self) -> (usize, usize) {
        match self {
            Response::Pdu(pdu) => (1, pdu.len()),
            Response::Results { fragments, protected: true } => fragments.remaining(protected_length),
            Response::Results { fragments, protected: false } => fragments.remaining(|length| length),
        }
    }
}

/// A waiting READ; they are queued in the order of arrival.
pub(super) type WaitingRead = Arc<Notify>;

/// The queue of unread messages.
pub(super) struct MessageQueue {
    /// Whether a READ returns one message or a byte stream, and whether it waits.
    mode: FilePipeInformation,
    /// The rest of the first message; empty if there is no message.
    current: Bytes,
    answers: VecDeque<Response>,
    waiting: VecDeque<WaitingRead>,
    /// The status for READs after the last message, once there will be no more.
    end: Option<Status>,
}

impl Default for MessageQueue {
    fn default() -> Self {
        MessageQueue {
            mode: FilePipeInformation {
                read_mode: PipeMode::MESSAGE,
                completion_mode: PipeCompletionMode::QUEUE_OPERATION,
            },
            current: Bytes::new(),
            answers: VecDeque::new(),
            waiting: VecDeque::new(),
            end: None,
        }
    }
}

impl MessageQueue {
    /// Adds a response.
    pub(super) fn push(&mut self, answer: Response, security: &SecurityContext) {
        self.answers.push_back(answer);
        if self.current.is_empty() {
            self.advance(security);
        }
        self.wake();
    }

    /// Returns the number of responses that are not completely read.
    pub(super) fn answers(&self) -> usize {
        self.answers.len() + usize::from(!self.current.is_empty())
    }

    /// Returns the memory in bytes.
    pub(super) fn allocated(&self) -> usize {
        self.current.len() + self.answers.iter().map(Response::allocated).sum::<usize>()
    }

    /// Returns the number of unread messages and their bytes.
    pub(super) fn available(&self) -> (usize, usize) {
        let first = (usize::from(!self.current.is_empty()), self.current.len());
        self.answers.iter().map(Response::remaining).fold(first, |all, one| (all.0 + one.0, all.1 + one.1))
    }

    /// Returns the rest of the first message; empty if there is no message.
    pub(super) fn first(&self) -> &Bytes {
        &self.current
    }

    /// Ends the queue: READs return `status` after the existing messages.
    pub(super) fn end(&mut self, status: Status) {
        self.end.get_or_insert(status);
        self.wake();
    }

    /// Returns the status with which the queue has ended, if it has.
    pub(super) fn ended(&self) -> Option<Status> {
        self.end
    }

    /// Discards all messages and ends the queue.
    pub(super) fn close(&mut self, status: Status) {
        self.current = Bytes::new();
        self.answers.clear();
        self.end = Some(status);
        self.wake();
    }

    /// Returns the state of the pipe for the client.
    pub(super) fn state(&self) -> PipeState {
        if self.end.is_some() { PipeState::CLOSING } else { PipeState::CONNECTED }
    }

    /// Returns the read mode.
    pub(super) fn mode(&self) -> FilePipeInformation {
        self.mode
    }

    /// Sets the read mode ([MS-FSCC] 2.4.37).
    pub(super) fn set_mode(&mut self, mode: FilePipeInformation) -> Result<()> {
        let known = [PipeMode::BYTE_STREAM, PipeMode::MESSAGE].contains(&mode.read_mode)
            && [PipeCompletionMode::QUEUE_OPERATION, PipeCompletionMode::COMPLETE_OPERATION]
                .contains(&mode.completion_mode);
        if !known || (self.mode.read_mode == PipeMode::BYTE_STREAM && mode.read_mode != PipeMode::BYTE_STREAM) {
            return Err(Error::because(Status::INVALID_PARAMETER, "the pipe does not support this mode"));
        }
        if mode.completion_mode == PipeCompletionMode::COMPLETE_OPERATION && !self.waiting.is_empty() {
            return Err(Error::because(Status::PIPE_BUSY, "non-blocking mode cannot be set while a READ waits"));
        }
        self.mode = mode;
        Ok(())
    }

    /// Returns the result of a READ of `space` bytes; `slot` is its slot in the queue if it has waited. Returns `None`
    /// if it has to wait.
    pub(super) fn take(
        &mut self,
        space: usize,
        slot: Option<&WaitingRead>,
        security: &SecurityContext,
    ) -> Option<Result<(Bytes, Status)>> {
        let first = self.waiting.front();
        if first.is_some_and(|first| slot.is_none_or(|slot| !Arc::ptr_eq(first, slot))) && self.end.is_none() {
            return None;
        }
        if self.current.is_empty() {
            let blocking = self.mode.completion_mode == PipeCompletionMode::QUEUE_OPERATION;
            let otherwise = if blocking { None } else { Some(Status::PIPE_EMPTY) };
            return self.end.or(otherwise).map(|status| Err(Error::new(status)));
        }
        if self.mode.read_mode == PipeMode::BYTE_STREAM {
            return Some(Ok((self.take_stream(space, security), Status::SUCCESS)));
        }
        let message = self.take_part(space, security);
        // The rest of the message is kept for the next READ.
        let whole = message.1;
        Some(Ok((message.0, if whole { Status::SUCCESS } else { Status::BUFFER_OVERFLOW })))
    }

    /// Adds a waiting READ.
    pub(super) fn wait(&mut self) -> WaitingRead {
        let slot = WaitingRead::default();
        self.waiting.push_back(slot.clone());
        slot
    }

    /// Removes a waiting READ.
    pub(super) fn leave(&mut self, slot: &WaitingRead) {
        self.waiting.retain(|waiting| !Arc::ptr_eq(waiting, slot));
        self.wake();
    }

    /// Returns at most `space` bytes of the first message, and whether they complete it.
    fn take_part(&mut self, space: usize, security: &SecurityContext) -> (Bytes, bool) {
        let part = self.current.split_to(self.current.len().min(space));
        let whole = self.current.is_empty();
        if whole {
            self.advance(security);
        }
        (part, whole)
    }

    fn take_stream(&mut self, space: usize, security: &SecurityContext) -> Bytes {
        let mut stream = BytesMut::new();
        while stream.len() < space && !self.current.is_empty() {
            stream.extend_from_slice(&self.take_part(space - stream.len(), security).0);
        }
        stream.freeze()
    }

    /// Makes the next message the first.
    fn advance(&mut self, security: &SecurityContext) {
        let (message, finished) = match self.answers.front_mut() {
            Some(Response::Pdu(pdu)) => (std::mem::take(pdu), true),
            Some(Response::Results { fragments, protected }) => {
                let mut fragment = fragments.next().unwrap_or_default();
                if *protected {
                    security.protect(&mut fragment);
                }
                (fragment, fragments.is_finished())
            }
            None => return self.current = Bytes::new(),
        };
        self.current = message.into();
        if finished {
            self.answers.pop_front();
        }
    }

    /// Wakes the READs that can continue.
    fn wake(&self) {
        if self.end.is_some() {
            self.waiting.iter().for_each(|slot| slot.notify_one());
        } else if !self.current.is_empty()
            && let Some(first) = self.waiting.front()
        {
            first.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(messages: &[&[u8]]) -> (MessageQueue, SecurityContext) {
        let (mut output, security) = (MessageQueue::default(), SecurityContext::default());
        messages.iter().for_each(|message| output.push(Response::Pdu(message.to_vec()), &security));
        (output, security)
    }

    fn taken(got: Option<Result<(Bytes, Status)>>) -> (Vec<u8>, Status) {
        match got.expect("the read does not wait") {
            Ok((bytes, status)) => (bytes.to_vec(), status),
            Err(error) => (Vec::new(), error.status),
        }
    }

    #[test]
    fn a_read_returns_at_most_the_rest_of_one_message() {
        let (mut output, security) = output(&[b"first", b"second"]);
        assert_eq!(output.available(), (2, 11));
        assert_eq!(taken(output.take(3, None, &security)), (b"fir".to_vec(), Status::BUFFER_OVERFLOW));
        assert_eq!((output.available(), &output.first()[..]), ((2, 8), &b"st"[..]));
        assert_eq!(taken(output.take(0, None, &security)), (Vec::new(), Status::BUFFER_OVERFLOW));
        assert_eq!(taken(output.take(100, None, &security)), (b"st".to_vec(), Status::SUCCESS));
        assert_eq!(taken(output.take(6, None, &security)), (b"second".to_vec(), Status::SUCCESS));
        assert_eq!((output.available(), output.answers(), output.allocated()), ((0, 0), 0, 0));
        assert!(output.take(100, None, &security).is_none());
    }

    #[test]
    fn a_byte_stream_has_no_messages_and_stays_one() {
        let (mut output, security) = output(&[b"first", b"second"]);
        let mut mode = FilePipeInformation { read_mode: PipeMode::BYTE_STREAM, ..output.mode() };
        assert!(output.set_mode(mode).is_ok());
        assert_eq!(taken(output.take(7, None, &security)), (b"firstse".to_vec(), Status::SUCCESS));
        assert_eq!(taken(output.take(100, None, &security)), (b"cond".to_vec(), Status::SUCCESS));
        mode.read_mode = PipeMode::MESSAGE;
        assert_eq!(output.set_mode(mode).map_err(|error| error.status), Err(Status::INVALID_PARAMETER));
    }

    #[test]
    fn reads_are_served_in_order_of_arrival() {
        let (mut output, security) = output(&[]);
        let (first, second) = (output.wait(), output.wait());
        output.push(Response::Pdu(b"one".to_vec()), &security);
        assert!(output.take(9, None, &security).is_none(), "a READ that has just arrived");
        assert!(output.take(9, Some(&second), &security).is_none());
        assert_eq!(taken(output.take(9, Some(&first), &security)), (b"one".to_vec(), Status::SUCCESS));
        output.leave(&first);
        output.push(Response::Pdu(b"two".to_vec()), &security);
        assert_eq!(taken(output.take(9, Some(&second), &security)), (b"two".to_vec(), Status::SUCCESS));
    }

    #[test]
    fn data_sent_before_the_end_is_read_after_it() {
        let (mut output, security) = output(&[b"last"]);
        output.end(Status::PIPE_BROKEN);
        assert_eq!(output.state(), PipeState::CLOSING);
        assert_eq!(taken(output.take(9, None, &security)), (b"last".to_vec(), Status::SUCCESS));
        assert_eq!(taken(output.take(9, None, &security)), (Vec::new(), Status::PIPE_BROKEN));
    }
}
