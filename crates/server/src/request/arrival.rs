//! The data of a WRITE that is executed while it arrives, so that it is written while it is in the processor's cache.
//!
//! The driver has one end ([`Arrival`]) and the command the other ([`Rest`]). The command asks for a part, and the
//! driver receives it, so at most one part is in memory.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;

use crate::error::Disconnect;

/// The data is divided at multiples of this in the file, so that no part begins within a page or within a block of the
/// file system.
const STEP: u64 = 64 * 1024;
/// The longest part; parts end at multiples of it. In a processor's cache it leaves space for its copy.
const PART: u64 = 512 * 1024;
/// Shorter messages are received as a whole: a WRITE of 1 MiB is still in the cache then.
pub(crate) const WORTHWHILE: usize = 2 * 1024 * 1024;

/// The reason why the connection ends if the data does not arrive.
const INCOMPLETE: Disconnect = Disconnect("the client did not complete its request");

/// The driver's end.
pub struct Arrival {
    shared: Arc<Mutex<State>>,
    /// The position in the file of the byte that arrives next.
    position: u64,
    /// The number of bytes that have not arrived.
    left: usize,
    /// The number of bytes that have arrived.
    passed: usize,
}

/// The command's end. If it is dropped, the driver drops what still arrives.
pub(crate) struct Rest {
    shared: Arc<Mutex<State>>,
    length: usize,
}

#[derive(Default)]
struct State {
    wish: Wish,
    part: Option<Bytes>,
    /// All bytes have arrived.
    is_complete: bool,
    /// No more bytes will arrive.
    is_lost: bool,
    command: Option<Waker>,
    driver: Option<Waker>,
}

/// What the command does with the next bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Wish {
    /// It is busy.
    #[default]
    None,
    Part,
    /// It drops them.
    Nothing,
}

/// Creates both ends for `length` bytes, which are written from `position`.
pub(crate) fn arrival(position: u64, length: usize) -> (Arrival, Rest) {
    let shared = Arc::<Mutex<State>>::default();
    (Arrival { shared: shared.clone(), position, left: length, passed: 0 }, Rest { shared, length })
}

impl Arrival {
    /// The most memory that the data of one request takes.
    pub const MEMORY: usize = PART as usize;

    /// Returns whether bytes may be passed.
    pub fn is_awaited(&self) -> bool {
        self.shared.lock().wish != Wish::None
    }

    /// Waits until bytes may be passed.
    pub async fn awaited(&self) {
        poll_fn(|context| {
            let mut state = self.shared.lock();
            if state.wish != Wish::None {
                return Poll::Ready(());
            }
            state.driver = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Returns the number of bytes to receive before the next ones can be passed, the most that can be passed at once,
    /// and whether the most are the last ones.
    pub fn wanted(&self) -> (usize, usize, bool) {
        let until = |step: u64| self.left.min((step - self.position % step) as usize);
        let (least, most) = (until(STEP), until(PART));
        (least, most, most == self.left)
    }

    /// Returns how many of `received` bytes can be passed now.
    pub fn count(&self, received: usize) -> usize {
        let (least, most, _) = self.wanted();
        let count = received.min(most);
        if count < least {
            return 0;
        }
        if count == self.left { count } else { count - ((self.position + count as u64) % STEP) as usize }
    }

    /// Returns how many bytes have been passed.
    pub fn passed(&self) -> usize {
        self.passed
    }

    /// Passes the next bytes, which must be awaited. Returns `true` after the last ones.
    pub fn pass(&mut self, bytes: BytesMut) -> bool {
        self.left = self.left.saturating_sub(bytes.len());
        self.passed += bytes.len();
        self.position += bytes.len() as u64;
        let mut state = self.shared.lock();
        state.is_complete = self.left == 0;
        if state.wish == Wish::Part {
            state.part = Some(bytes.freeze());
            state.wish = Wish::None;
        }
        if let Some(command) = state.command.take() {
            command.wake();
        }
        state.is_complete
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.is_lost = !state.is_complete;
        if let Some(command) = state.command.take() {
            command.wake();
        }
    }
}

impl Rest {
    /// Returns the number of bytes, including those that have arrived.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Returns the next bytes; `None` at the end.
    pub(crate) async fn next(&self) -> Result<Option<Bytes>, Disconnect> {
        self.wait(Wish::Part).await
    }

    /// Waits until all bytes have arrived, and drops them.
    pub(crate) async fn discard(&self) -> Result<(), Disconnect> {
        self.wait(Wish::Nothing).await.map(|_| ())
    }

    async fn wait(&self, wish: Wish) -> Result<Option<Bytes>, Disconnect> {
        poll_fn(|context| {
            let mut state = self.shared.lock();
            if let Some(part) = state.part.take().filter(|_| wish == Wish::Part) {
                return Poll::Ready(Ok(Some(part)));
            }
            if state.is_complete {
                return Poll::Ready(Ok(None));
            }
            if state.is_lost {
                return Poll::Ready(Err(INCOMPLETE));
            }
            state.command = Some(context.waker().clone());
            state.wishes(wish);
            Poll::Pending
        })
        .await
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        self.shared.lock().wishes(Wish::Nothing);
    }
}

impl State {
    fn wishes(&mut self, wish: Wish) {
        self.wish = wish;
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }
}
