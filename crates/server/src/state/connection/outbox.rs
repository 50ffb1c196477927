//! Frames that wait to be sent: responses, interim responses and notifications.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// A frame for the transport: a buffer and the offset of the frame in it (encrypted frames need space for a header).
pub struct Frame {
    buffer: Vec<u8>,
    start: usize,
}

impl Frame {
    /// Creates the frame `buffer[start..]`, which includes the transport header.
    pub(crate) fn new(buffer: Vec<u8>, start: usize) -> Self {
        Frame { buffer, start }
    }

    /// Returns the bytes of memory that the frame takes.
    pub fn allocated(&self) -> usize {
        self.buffer.capacity() + size_of::<Frame>()
    }

    /// Returns the bytes to send.
    pub fn as_bytes(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Returns the buffer for reuse.
    pub fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }
}

#[derive(Default)]
struct Frames {
    waiting: VecDeque<Frame>,
    /// Total bytes of all frames ever queued.
    total: u64,
}

#[derive(Default)]
pub(crate) struct Outbox {
    frames: Mutex<Frames>,
    /// Memory of the queued frames in bytes.
    bytes: AtomicUsize,
    ready: Notify,
    /// Notified when frames are taken out.
    drained: Notify,
}

impl Outbox {
    /// Queues a frame; returns the offset of its end in the stream of all frames.
    pub(crate) fn push(&self, frame: Frame) -> u64 {
        let length = frame.as_bytes().len();
        self.bytes.fetch_add(frame.allocated(), Ordering::Relaxed);
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
        self.bytes.fetch_sub(frame.allocated(), Ordering::Relaxed);
        self.drained.notify_waiters();
        Some(frame)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Wakes all waiting tasks, because the connection has ended.
    pub(crate) fn wake(&self) {
        self.ready.notify_one();
        self.drained.notify_waiters();
    }

    /// Waits until the queued frames take fewer than `limit` bytes, or the connection has `ended`.
    pub(crate) async fn drained(&self, limit: usize, ended: impl Fn() -> bool) {
        while self.bytes() >= limit && !ended() {
            let mut drained = pin!(self.drained.notified());
            drained.as_mut().enable();
            if self.bytes() >= limit && !ended() {
                drained.await;
            }
        }
    }

    pub(crate) async fn ready(&self, ended: impl Fn() -> bool) {
        while self.bytes() == 0 && !ended() {
            self.ready.notified().await;
        }
    }
}
