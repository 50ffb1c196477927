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
struct Frames {
    waiting: VecDeque<Frame>,
    /// Bytes of all frames there ever were.
    total: u64,
}

#[derive(Default)]
pub(crate) struct Outbox {
    frames: Mutex<Frames>,
    bytes: AtomicUsize,
    ready: Notify,
}

impl Outbox {
    /// Queues a frame and answers where in the stream of all frames it ends.
    pub(crate) fn push(&self, frame: Frame) -> u64 {
        let length = frame.as_bytes().len();
        self.bytes.fetch_add(length, Ordering::Relaxed);
        let end = {
            let mut frames = self.frames.lock();
            frames.total += length as u64;
            frames.waiting.push_back(frame);
            frames.total
        };
        self.ready.notify_one();
        end
    }

    pub(crate) fn pop(&self) -> Option<Frame> {
        let frame = self.frames.lock().waiting.pop_front()?;
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
