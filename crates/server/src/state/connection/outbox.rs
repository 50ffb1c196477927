//! Frames that wait to be sent: responses, interim responses and notifications.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::vfs::{Payload, Pipe};

/// A frame for the transport: a buffer and the offset of the frame in it (encrypted frames need space for a header).
/// The data of a READ may follow it in a pipe.
pub struct Frame {
    buffer: Vec<u8>,
    start: usize,
    data: Option<Box<dyn Pipe>>,
}

impl Frame {
    /// Creates the frame `buffer[start..]`, which includes the transport header.
    pub(crate) fn new(buffer: Vec<u8>, start: usize) -> Self {
        Frame { buffer, start, data: None }
    }

    /// Returns the frame with data that follows it.
    pub(crate) fn followed_by(self, data: Option<Box<dyn Pipe>>) -> Self {
        Frame { data, ..self }
    }

    /// Returns the bytes of memory that the frame takes, including that to which a pipe refers.
    pub fn allocated(&self) -> usize {
        self.buffer.capacity() + size_of::<Frame>() + self.data.as_ref().map_or(0, |data| data.length())
    }

    /// Returns the number of bytes to send.
    pub fn length(&self) -> usize {
        self.as_bytes().len() + self.data.as_ref().map_or(0, |data| data.length())
    }

    /// Returns the bytes to send first.
    pub fn as_bytes(&self) -> &[u8] {
        &self.buffer[self.start..]
    }

    /// Returns the pipe with the data to send after them.
    pub fn data(&mut self) -> Option<&mut Box<dyn Pipe>> {
        self.data.as_mut()
    }

    /// Returns all bytes to send.
    ///
    /// # Errors
    /// `Errno::IO` if the pipe has less data than it should.
    pub fn into_bytes(self) -> crate::vfs::Result<Vec<u8>> {
        let mut bytes = self.as_bytes().to_vec();
        if let Some(data) = self.data {
            bytes.extend_from_slice(&Payload::Pipe(data).into_memory()?);
        }
        Ok(bytes)
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
        let length = frame.length();
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
