//! Frames that wait to be sent: responses, interim responses and what the server sends unasked.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// One frame for the transport: a buffer and where the frame begins in it (sealed frames need room in front).
pub struct Frame {
    buffer: Vec<u8>,
    start: usize,
}

impl Frame {
    /// The frame is `buffer[start..]`, transport header included.
    pub(crate) fn new(buffer: Vec<u8>, start: usize) -> Self {
        Frame { buffer, start }
    }

    /// The bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// The buffer, to be used again.
    pub fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }
}

#[derive(Default)]
pub(crate) struct Outbox {
    frames: Mutex<VecDeque<Frame>>,
    bytes: AtomicUsize,
    ready: Notify,
}

impl Outbox {
    pub(crate) fn push(&self, frame: Frame) {
        self.bytes.fetch_add(frame.as_bytes().len(), Ordering::Relaxed);
        self.frames.lock().push_back(frame);
        self.ready.notify_one();
    }

    pub(crate) fn pop(&self) -> Option<Frame> {
        let frame = self.frames.lock().pop_front()?;
        self.bytes.fetch_sub(frame.as_bytes().len(), Ordering::Relaxed);
        Some(frame)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn wake(&self) {
        self.ready.notify_one();
    }

    pub(crate) async fn ready(&self, ended: impl Fn() -> bool) {
        while self.bytes() == 0 && !ended() {
            self.ready.notified().await;
        }
    }
}
