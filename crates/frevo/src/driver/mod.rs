//! One task per connection, which turns bytes from the socket into frames and sends response frames.
//!
//! An idle connection owns no buffer. Requests are executed on this task as soon as they arrive. A request that must
//! wait (for a disk, a lock) is set aside and finished later, while the next requests run.

mod receive;

use std::future::{Future, poll_fn};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::BytesMut;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use rustix::net::SendFlags;
use rustix::pipe::{SpliceFlags, splice};
use server::frame::{Arrival, Chain, Cost, Execution, Start};
use server::state::connection::{Connection, Frame, Transit};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::acknowledgment::Watch;
use crate::event_loops::Place;
use crate::input::Inputs;
use crate::low_water::LowWater;
use crate::progress::Progress;

/// Number of bytes of responses that are sent before the next frame is executed. Shorter responses follow together.
const SEND_EARLY: usize = 256 * 1024;
/// Number of frames executed before other connections get their turn.
const TURN: usize = 32;
/// How long a connection waits before it checks again whether the memory budgets that it is charged to have capacity.
const TRY_AGAIN: Duration = Duration::from_millis(20);
/// Requests in progress have this long to finish when the server stops.
const STOP_TIME: Duration = Duration::from_secs(5);
/// Requests that outlive their connection are waiting for a lease or oplock break, which takes no longer than this.
const SURVIVAL_TIME: Duration = Duration::from_secs(60);

/// A pending chain of requests; its output is the cost to release.
struct Running {
    execution: Execution,
    connection: Arc<Connection>,
    cost: Cost,
}

impl Future for Running {
    type Output = Cost;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Cost> {
        let polled = catch_unwind(AssertUnwindSafe(|| self.execution.poll_unpin(context)));
        if matches!(polled, Ok(Poll::Pending)) {
            return Poll::Pending;
        }
        // The connection's other requests are finished, because dropping one halfway leaves its effects in place.
        if polled.is_err() {
            let connection = &self.connection;
            tracing::error!(connection = connection.id, peer = %connection.peer.remote, "a request panicked");
            connection.end(server::error::Disconnect("a request panicked"));
        }
        Poll::Ready(self.cost)
    }
}

/// Serves `connection` over `stream` until either side ends it or `stop` becomes true. Must be called on the event loop
/// of `place`; the connection may move to others. With `dead_time`, a connection that was silent for that long and has
/// no open files is closed.
pub(crate) async fn drive(
    stream: TcpStream,
    connection: Arc<Connection>,
    inputs: Arc<Inputs>,
    place: Place,
    dead_time: Option<Duration>,
    mut stop: watch::Receiver<bool>,
) {
    let driver = Box::new(Driver::new(stream, connection.clone(), inputs, place, dead_time));
    let guard = Guard(Some(connection.clone()));
    let mut state = driver.serve(stop.clone()).await;
    while let State::Moves(driver, place) = state {
        let handle = place.handle().clone();
        let stop = stop.clone();
        let elsewhere = async move { Ok::<_, io::Error>(driver.move_to(place)?.serve(stop).await) };
        state = match Aborting(handle.spawn(elsewhere)).await {
            Ok(Ok(state)) => state,
            Ok(Err(error)) => {
                tracing::warn!(%error, "a connection cannot move to another event loop");
                return;
            }
            // It has panicked, or the runtime ends.
            Err(_) => return,
        };
    }
    let State::Ended(driver) = state else { return };
    // Requests in progress are cancelled, and finish in order to release what they hold (such as a position in a lock
    // queue), because a session with other channels continues.
    let Driver { stream, mut running, arrival, .. } = *driver;
    drop(arrival);
    // Its state, of 4 KiB, is allocated when it is needed and not with the task of each idle connection.
    let close = Box::pin(async {
        connection.close().await;
        guard.dismiss();
        // A client that waits for the end of the stream sees it only after everything is closed.
        drop(stream);
    });
    let (_, ()) = tokio::join!(tokio::time::timeout(STOP_TIME, settle(&mut running)), close);
    if connection.has_survivors() {
        tokio::select! {
            _ = tokio::time::timeout(SURVIVAL_TIME, settle(&mut running)) => {}
            () = stopped(&mut stop) => {}
        }
    }
    // A sleeping disk or a server behind the mount may take longer. These requests still have to finish, because
    // dropping one halfway leaves its effects in place: a file whose last handle was being closed could not be opened
    // again.
    if !running.is_empty() {
        tokio::spawn(async move { settle(&mut running).await });
    }
}

/// The state in which a connection leaves an event loop.
enum State {
    Ended(Box<Driver>),
    Moves(Box<Driver>, Place),
}

/// A task that is aborted when it is dropped.
struct Aborting<T>(tokio::task::JoinHandle<T>);

impl<T> Future for Aborting<T> {
    type Output = Result<T, tokio::task::JoinError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_unpin(context)
    }
}

impl<T> Drop for Aborting<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Closes a connection whose task ends unexpectedly: by a panic, or because it is aborted.
struct Guard(Option<Arc<Connection>>);

impl Guard {
    fn dismiss(mut self) {
        self.0 = None;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let Some(connection) = self.0.take() else { return };
        tracing::error!(connection = connection.id, "a connection's task ended without closing it");
        connection.end(server::error::Disconnect("its task ended"));
        // Without a runtime the process is ending.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { connection.close().await });
        }
    }
}

/// Finishes the requests in progress. Their answers are no longer sent.
async fn settle(running: &mut FuturesUnordered<Running>) {
    while running.next().await.is_some() {}
}

/// Waits until the server is asked to stop.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, so the server has already stopped.
    let _ = stop.wait_for(|&stop| stop).await;
}

/// Waits until the next check of a break's acknowledgment is due.
async fn until(watch: Option<&Watch>) {
    match watch {
        Some(watch) => tokio::time::sleep_until(watch.next()).await,
        None => std::future::pending().await,
    }
}

struct Driver {
    stream: TcpStream,
    connection: Arc<Connection>,
    place: Place,
    /// When the client connected.
    began: tokio::time::Instant,
    dead_time: Option<Duration>,
    /// Source of buffers for `input`.
    inputs: Arc<Inputs>,
    /// Bytes of an incomplete frame; without capacity between frames.
    input: BytesMut,
    /// How the frame that begins in `input` can be executed; `None` until its header shows it.
    start: Option<Start>,
    /// The data of the request that is executed while it arrives.
    arrival: Option<Arrival>,
    /// Capacity of `input` when the buffer was taken; 0 if it is not worth parking.
    input_size: usize,
    low_water: LowWater,
    /// No memory was granted for the input; the request is repeated after a while.
    starved: bool,
    /// A frame that the socket has accepted only in part, with the number of bytes sent.
    unsent: Option<(Frame, usize)>,
    /// Number of frame bytes that the socket has accepted.
    sent: u64,
    /// Number of frames that have arrived.
    frames: u64,
    running: FuturesUnordered<Running>,
    /// The total cost of `running`.
    held: Cost,
}

impl Driver {
    fn new(
        stream: TcpStream,
        connection: Arc<Connection>,
        inputs: Arc<Inputs>,
        place: Place,
        dead_time: Option<Duration>,
    ) -> Driver {
        Driver {
            stream,
            connection,
            place,
            began: tokio::time::Instant::now(),
            dead_time,
            inputs,
            input: BytesMut::new(),
            start: None,
            arrival: None,
            input_size: 0,
            low_water: LowWater::new(),
            starved: false,
            unsent: None,
            sent: 0,
            frames: 0,
            running: FuturesUnordered::new(),
            held: Cost::default(),
        }
    }

    /// Serves the connection until it ends or moves.
    async fn serve(mut self: Box<Self>, mut stop: watch::Receiver<bool>) -> State {
        let reason = tokio::select! {
            result = self.run() => Some(result),
            () = stopped(&mut stop) => None,
        };
        let reason = match reason {
            Some(Ok(Some(place))) => return State::Moves(self, place),
            Some(Ok(None)) => Ok(()),
            Some(Err(error)) => Err(error),
            // Requests that have arrived are finished and answered; nothing more is read.
            None => {
                self.arrival = None;
                tokio::time::timeout(STOP_TIME, self.finish()).await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = reason {
            tracing::debug!(connection = self.connection.id, %error, "connection lost");
        }
        State::Ended(self)
    }

    /// Continues on the event loop of `place`.
    fn move_to(self: Box<Self>, place: Place) -> io::Result<Box<Driver>> {
        let driver = *self;
        let stream = place.adopt(driver.stream)?;
        Ok(Box::new(Driver { stream, place, ..driver }))
    }

    /// Returns the new place if the connection has to move.
    async fn run(&mut self) -> io::Result<Option<Place>> {
        let limits = self.connection.server.policy().limits.clone();
        let mut logon = std::pin::pin!(tokio::time::sleep_until(self.began + limits.logon_time));
        let mut watches_logon = true;
        let mut progress = Progress::new(&limits);
        let silence = self.dead_time.unwrap_or(Duration::MAX);
        let mut dead = std::pin::pin!(tokio::time::sleep(silence));
        let mut watch: Option<Watch> = None;
        let connection = self.connection.clone();
        let mut notification = std::pin::pin!(connection.awaits_acknowledgment());
        loop {
            self.send()?;
            if self.connection.ended().is_some() && self.unsent.is_none() {
                return Ok(None);
            }
            let transit = self.transit();
            self.connection.record(transit);
            let starved = std::mem::take(&mut self.starved);
            let may_read = !starved && self.may_go_on(transit);
            if may_read && self.is_ready()? {
                // Gives other connections of this thread their turn.
                tokio::task::yield_now().await;
                self.execute_all().await?;
                continue;
            }
            if may_read {
                self.low_water.set(&self.stream, self.missing()?)?;
            }
            let receives = !self.input.is_empty() || self.arrival.is_some();
            progress.expect(self.unsent.is_some(), receives.then_some(self.frames), may_read);
            tokio::select! {
                // Unlike `readable`, it does not enter the task in a list for each request.
                ready = poll_fn(|context| self.stream.poll_read_ready(context)), if may_read => {
                    ready?;
                    if !self.receive().await? {
                        return Ok(None);
                    }
                    if let Some(place) = self.place.next() {
                        return Ok(Some(place));
                    }
                    if let Some(silence) = self.dead_time {
                        dead.as_mut().reset(tokio::time::Instant::now() + silence);
                    }
                }
                ready = self.stream.writable(), if self.unsent.is_some() => ready?,
                () = self.connection.writable(), if self.unsent.is_none() => {}
                () = receive::awaited(self.arrival.as_ref()), if !may_read && !starved && self.arrival.is_some() => {}
                Some(cost) = self.running.next(), if !self.running.is_empty() => self.release(cost),
                // A connection that was reset is not worth waiting for. While the driver reads, the read itself reports
                // the reset.
                reset = self.stream.ready(Interest::ERROR), if !may_read => {
                    reset?;
                    return Err(io::ErrorKind::ConnectionReset.into());
                }
                // A memory budget is exceeded, possibly by another connection.
                () = async { tokio::time::sleep(TRY_AGAIN).await }, if !may_read => {
                    if !self.connection.is_logged_on() && self.is_left() {
                        return Ok(None);
                    }
                }
                () = progress.time_is_up() => {
                    let received = self.received() + self.low_water.collected(&self.stream)?;
                    if let Some(reason) = progress.judge(self.sent, received) {
                        self.connection.end(reason);
                        return Ok(None);
                    }
                }
                () = &mut dead, if self.dead_time.is_some() => {
                    if !self.connection.has_opens() {
                        self.connection.end(server::error::Disconnect("deadtime"));
                    }
                    dead.as_mut().reset(tokio::time::Instant::now() + silence);
                }
                () = &mut notification, if watch.is_none() => {
                    watch = Some(Watch::new());
                    notification.set(connection.awaits_acknowledgment());
                }
                () = until(watch.as_ref()), if watch.is_some() => {
                    if let Some(watching) = &mut watch
                        && !watching.look(&self.connection, &self.stream, self.sent)?
                    {
                        watch = None;
                    }
                }
                () = &mut logon, if watches_logon => {
                    let anonymous = limits.anonymous_time.saturating_sub(self.began.elapsed());
                    if self.connection.is_logged_on() {
                        watches_logon = false;
                    } else if self.connection.has_session() && !anonymous.is_zero() {
                        logon.as_mut().reset(tokio::time::Instant::now() + anonymous);
                    } else {
                        self.connection.end(server::error::Disconnect("no user logged on in time"));
                        watches_logon = false;
                    }
                }
            }
        }
    }

    /// Returns whether the client has closed its side. Works even if nothing may be read at the moment.
    fn is_left(&self) -> bool {
        let ready = self.stream.ready(Interest::READABLE).now_or_never();
        ready.is_some_and(|ready| ready.is_ok_and(|ready| ready.is_read_closed()))
    }

    /// Finishes the requests in progress and sends the queued frames.
    async fn finish(&mut self) -> io::Result<()> {
        loop {
            self.send()?;
            if self.running.is_empty() && self.unsent.is_none() {
                return Ok(());
            }
            tokio::select! {
                ready = self.stream.writable(), if self.unsent.is_some() => ready?,
                Some(cost) = self.running.next(), if !self.running.is_empty() => self.release(cost),
            }
        }
    }

    /// Returns the memory that the connection holds at the moment.
    fn transit(&self) -> Transit {
        Transit {
            input: self.input.capacity(),
            requests: self.held.requests,
            unsent: self.unsent.as_ref().map_or(0, |(frame, _)| frame.allocated()),
        }
    }

    /// Returns whether further requests may be received and executed. A frame that fits in the buffer may always be
    /// completed, and a request that has begun gets its data.
    fn may_go_on(&self, transit: Transit) -> bool {
        if let Some(arrival) = &self.arrival {
            return arrival.is_awaited();
        }
        let limits = &self.connection.server.policy().limits;
        if self.running.len() >= limits.in_flight || self.held.total() >= limits.in_flight_bytes {
            return false;
        }
        let space = self.input.capacity() - self.input.len();
        let more = match self.header() {
            _ if matches!(self.start, Some(Start::Unknown { .. })) => 0,
            _ if matches!(self.start, Some(Start::Data { .. })) => Arrival::MEMORY.saturating_sub(space),
            Ok(Some((_, length))) => (4 + length).saturating_sub(self.input.len()).saturating_sub(space),
            // An invalid header is detected when it is read.
            _ => 0,
        };
        let is_under_way = more == 0 && !self.input.is_empty() && !matches!(self.has_frame(), Ok(true));
        is_under_way || self.connection.may_take(transit, more)
    }

    fn release(&mut self, cost: Cost) {
        self.held.requests -= cost.requests;
        self.held.response -= cost.response;
    }

    /// Sends as much as the socket accepts now.
    fn send(&mut self) -> io::Result<()> {
        loop {
            let Some((mut frame, mut sent)) = self.unsent.take().or_else(|| Some((self.connection.next_frame()?, 0)))
            else {
                return Ok(());
            };
            while sent < frame.length() {
                match self.send_part(&mut frame, sent) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(count) => {
                        sent += count;
                        self.sent += count as u64;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.unsent = Some((frame, sent));
                        return Ok(());
                    }
                    Err(error) => return Err(error),
                }
            }
            self.connection.server.recycle(frame.into_buffer());
        }
    }

    /// Sends a part of the frame, of which `sent` bytes were sent. Returns its length.
    fn send_part(&self, frame: &mut Frame, sent: usize) -> io::Result<usize> {
        let (head, length) = (frame.as_bytes().len(), frame.length());
        if sent < head && length == head {
            return self.stream.try_write(&frame.as_bytes()[sent..]);
        }
        if sent < head {
            // The kernel waits for the data, so that both leave together.
            let send = || Ok(rustix::net::send(&self.stream, &frame.as_bytes()[sent..], SendFlags::MORE)?);
            return self.stream.try_io(Interest::WRITABLE, send);
        }
        let Some(data) = frame.data() else { return Ok(0) };
        let splice = || Ok(splice(&**data, None, &self.stream, None, length - sent, SpliceFlags::NONBLOCK)?);
        let count = self.stream.try_io(Interest::WRITABLE, splice)?;
        data.spliced(count);
        Ok(count)
    }

    /// Executes the complete frames as far as the connection may continue. The rest stays in `input`.
    async fn execute_all(&mut self) -> io::Result<()> {
        for _ in 0..TURN {
            let done = if self.arrival.is_some() {
                if !self.pass_part() {
                    break;
                }
                self.run_ready().await;
                Ok(())
            } else if let Some(frame) = self.next_frame()? {
                self.execute(frame).await
            } else if let Some(length) = self.start()? {
                self.begin(length).await
            } else {
                break;
            };
            if let Err(reason) = done {
                self.connection.end(reason);
                return Ok(());
            }
            // Data leaves while it is in the processor's cache.
            if self.connection.backlog() >= SEND_EARLY && self.unsent.is_none() {
                self.send()?;
            }
            let transit = self.transit();
            let holds = self.connection.backlog() > 0 || !self.running.is_empty();
            if holds && !self.may_go_on(transit) {
                break;
            }
        }
        if self.input.is_empty() && self.arrival.is_none() {
            self.inputs.park(std::mem::take(&mut self.input), std::mem::take(&mut self.input_size));
        } else {
            self.compact();
        }
        Ok(())
    }

    /// Polls the pending requests and finishes those that are ready.
    async fn run_ready(&mut self) {
        while let Poll::Ready(Some(cost)) = poll_fn(|context| Poll::Ready(self.running.poll_next_unpin(context))).await
        {
            self.release(cost);
        }
    }

    /// Executes a frame as far as possible without waiting. The rest runs concurrently with later frames.
    async fn execute(&mut self, frame: BytesMut) -> Result<(), server::error::Disconnect> {
        if let Some(chain) = self.connection.receive(frame)? {
            self.execute_chain(chain).await;
        }
        Ok(())
    }

    async fn execute_chain(&mut self, chain: Chain) {
        let (cost, cancels) = (chain.cost(), chain.cancels());
        let mut running = Running { execution: chain.execute(), connection: self.connection.clone(), cost };
        let done = poll_fn(|context| Poll::Ready(running.poll_unpin(context).is_ready())).await;
        if !done {
            self.held.requests += cost.requests;
            self.held.response += cost.response;
            self.running.push(running);
        }
        if cancels {
            self.run_ready().await;
        }
    }
}

#[cfg(test)]
mod tests;
