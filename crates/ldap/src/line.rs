//! The state of a connection that callers share with its reading task: the writing end, and the pending requests.
//!
//! A caller writes its request itself, so no other thread has to be woken for it. Data that the kernel does not accept
//! at once is left to the task, and later requests are queued after it.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Asking, Poll, Waker};

use anyhow::{Context, Result, bail, ensure};
use parking_lot::Mutex;
use tokio::io::{AsyncWrite, WriteHalf};
use tokio::sync::oneshot;
use zeroize::Zeroizing;

use crate::connection::{Closed, Reply, Stream};
use crate::message::{Response, SearchResultEntry, envelope};

/// The maximum number of entries of one search; no page is larger.
const MOST_ENTRIES: usize = 10_000;

/// The receiver of an answer.
type Waiter = oneshot::Sender<Result<Reply, Closed>>;

/// A connection's writing end and its pending requests.
pub(crate) struct Line(Mutex<State>);

struct State {
    write: WriteHalf<Box<dyn Stream>>,
    /// Data not yet written, from `written` on.
    out: Zeroizing<Vec<u8>>,
    written: usize,
    /// The reading task writes; callers must not.
    left_to_task: bool,
    task: Option<Waker>,
    waiting: HashMap<i32, (Vec<SearchResultEntry>, Waiter)>,
    next_id: i32,
    closed: Option<Closed>,
}

/// A request that has been sent. Dropping it discards the answer.
pub(crate) struct Question {
    line: Arc<Line>,
    id: i32,
    answer: oneshot::Receiver<Result<Reply, Closed>>,
}

impl Question {
    /// Waits for the answer.
    pub(crate) async fn answered(mut self) -> Result<Reply, Closed> {
        (&mut self.answer).await.map_err(|_| Closed("the connection was closed".into()))?
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        self.line.0.lock().waiting.remove(&self.id);
    }
}

impl Line {
    pub(crate) fn new(write: WriteHalf<Box<dyn Stream>>) -> Line {
        Line(Mutex::new(State {
            write,
            out: Zeroizing::default(),
            written: 0,
            left_to_task: false,
            task: None,
            waiting: HashMap::new(),
            next_id: 1,
            closed: None,
        }))
    }

    /// Writes a request, or as much of it as possible without blocking.
    pub(crate) fn ask(self: &Arc<Self>, body: &[u8]) -> Result<Question, Closed> {
        let mut state = self.0.lock();
        if let Some(closed) = &state.closed {
            return Err(closed.clone());
        }
        let id = state.next_id;
        state.next_id = id.checked_add(1).unwrap_or(1);
        state.append(&envelope(id, body));
        let (waiter, answer) = oneshot::channel();
        state.waiting.insert(id, (Vec::new(), waiter));
        if !state.left_to_task {
            match state.poll_write(&mut Asking::from_waker(Waker::noop())) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => state.close(&Closed(format!("{error:#}").into())),
                Poll::Pending => {
                    state.left_to_task = true;
                    state.task.iter().for_each(Waker::wake_by_ref);
                }
            }
        }
        Ok(Question { line: self.clone(), id, answer })
    }

    /// For the task: writes the remaining data. It is ready only on failure, or if the connection was closed.
    pub(crate) fn poll_unwritten(&self, context: &mut Asking<'_>) -> Poll<Result<()>> {
        let mut state = self.0.lock();
        if let Some(closed) = &state.closed {
            return Poll::Ready(Err(closed.clone().into()));
        }
        if !state.task.as_ref().is_some_and(|known| known.will_wake(context.waker())) {
            state.task = Some(context.waker().clone());
        }
        if state.left_to_task {
            match state.poll_write(context) {
                Poll::Ready(Ok(())) => state.left_to_task = false,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {}
            }
        }
        Poll::Pending
    }

    /// Delivers a response to its caller.
    pub(crate) fn take(&self, id: i32, response: Response) -> Result<()> {
        let mut state = self.0.lock();
        match response {
            Response::Done(outcome) if id == 0 => bail!("it closes the connection: {outcome}"),
            Response::Done(outcome) => {
                if let Some((found, answer)) = state.waiting.remove(&id) {
                    drop(state);
                    _ = answer.send(Ok(Reply { found, outcome }));
                }
            }
            Response::Entry(entry) => {
                if let Some((found, _)) = state.waiting.get_mut(&id) {
                    ensure!(found.len() < MOST_ENTRIES, "it returns more than {MOST_ENTRIES} entries for one search");
                    found.push(entry);
                }
            }
            Response::Reference => {}
        }
        Ok(())
    }

    /// Closes the connection. All pending callers get `why`, or the first reason if it was already closed.
    pub(crate) fn close(&self, why: &Closed) {
        self.0.lock().close(why);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.lock().closed.is_some()
    }
}

impl State {
    /// Grows the buffer explicitly, because automatic growth would leave passwords and hashes in freed memory.
    fn append(&mut self, message: &[u8]) {
        if self.out.capacity() - self.out.len() < message.len() {
            let left = &self.out[self.written..];
            let mut larger = Zeroizing::new(Vec::with_capacity((left.len() + message.len()).max(2 * left.len())));
            larger.extend_from_slice(left);
            (self.out, self.written) = (larger, 0);
        }
        self.out.extend_from_slice(message);
    }

    fn poll_write(&mut self, context: &mut Asking<'_>) -> Poll<Result<()>> {
        while self.written < self.out.len() {
            match Pin::new(&mut self.write).poll_write(context, &self.out[self.written..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(anyhow::anyhow!("it accepts no more data"))),
                Poll::Ready(written) => self.written += written.context("cannot write")?,
                Poll::Pending => return Poll::Pending,
            }
        }
        (self.out, self.written) = (Zeroizing::default(), 0);
        Pin::new(&mut self.write).poll_flush(context).map(|flushed| flushed.context("cannot write"))
    }

    fn close(&mut self, why: &Closed) {
        let why = self.closed.get_or_insert_with(|| why.clone()).clone();
        for (_, (_, answer)) in self.waiting.drain() {
            _ = answer.send(Err(why.clone()));
        }
        self.task.iter().for_each(Waker::wake_by_ref);
    }
}
