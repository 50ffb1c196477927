//! The threads that serve connections, one per processor.
//!
//! Each thread has its own event loop, and a connection's task stays on one. If the threads shared a loop, many events
//! would wake a thread that has nothing to do, because another one already executes the connection's task. A connection
//! moves to another loop only if its own is overloaded and another one is not.
//!
//! The first connections of a client share a loop, which executes their requests in the order in which they arrive. On
//! different threads, a change over one connection could overtake a CHANGE_NOTIFY that was sent before it over another.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use parking_lot::Mutex;
use server::per_processor::{self, number_thread};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle};

/// How often the loads are compared, while connections execute requests.
const PERIOD: Duration = Duration::from_millis(100);
/// A loop that is busy for this share of a period is overloaded if it has several active connections.
const OVERLOADED: f64 = 0.8;

/// Up to this number, the connections of a client share a loop.
const TOGETHER: usize = 4;

/// The event loops.
#[derive(Clone)]
pub(crate) struct EventLoops(Arc<Shared>);

struct Shared {
    loops: Vec<EventLoop>,
    start: Instant,
    /// The number of the current period, and its end in microseconds after the start.
    period: AtomicU32,
    end: AtomicU64,
    /// The busy time of each loop at the start of the current period.
    sample: Mutex<Sample>,
    /// The number of connections of each client, and the loop of the last one.
    clients: Mutex<HashMap<IpAddr, (usize, usize)>>,
    /// A move that one connection is asked to make: the two loops, as of [`pack`], or [`NO_MOVE`].
    wanted: AtomicU64,
}

struct EventLoop {
    handle: Handle,
    connections: AtomicUsize,
    /// The number of connections that have executed requests in the current period.
    active: AtomicUsize,
}

struct Sample {
    at: Instant,
    busy: Vec<Duration>,
}

const NO_MOVE: u64 = u64::MAX;

fn pack(from: usize, to: usize) -> u64 {
    (from as u64) << 32 | to as u64
}

/// The load of a loop in a period.
#[derive(Clone, Copy, Debug)]
struct Load {
    /// The share of the time in which it was busy.
    busy: f64,
    active: usize,
}

/// Returns the loops from which and to which a connection should move. The receiving loop then has less to do than the
/// giving one had, so that the connection does not move back.
fn advise(loads: &[Load]) -> Option<(usize, usize)> {
    let by_busy = |(_, a): &(usize, &Load), (_, b): &(usize, &Load)| a.busy.total_cmp(&b.busy);
    let (from, most) = loads.iter().enumerate().filter(|(_, load)| load.active > 1).max_by(by_busy)?;
    let (to, least) = loads.iter().enumerate().min_by(by_busy)?;
    let moved = most.busy / most.active as f64;
    (from != to && most.busy >= OVERLOADED && least.busy + moved < most.busy).then_some((from, to))
}

impl EventLoops {
    /// Starts one thread per processor.
    pub(crate) fn start() -> Result<EventLoops> {
        EventLoops::with_threads(per_processor::count())
    }

    pub(crate) fn with_threads(count: usize) -> Result<EventLoops> {
        let loops = (0..count).map(EventLoop::start).collect::<Result<Vec<_>>>()?;
        let start = Instant::now();
        let sample = Mutex::new(Sample { at: start, busy: vec![Duration::ZERO; loops.len()] });
        let (period, end, wanted) = (AtomicU32::new(1), AtomicU64::new(0), AtomicU64::new(NO_MOVE));
        let clients = Mutex::default();
        Ok(EventLoops(Arc::new(Shared { loops, start, period, end, sample, clients, wanted })))
    }

    /// Returns a place for a new connection of a client: on the loop of its others if they are few, otherwise on the
    /// loop with the fewest connections.
    pub(crate) fn place(&self, client: IpAddr) -> Place {
        let others = self.0.clients.lock().get(&client).copied();
        if let Some((_, index)) = others.filter(|&(count, _)| count < TOGETHER) {
            return self.place_on(index, client);
        }
        let connections = |(_, it): &(usize, &EventLoop)| it.connections.load(Ordering::Relaxed);
        let fewest = self.0.loops.iter().enumerate().min_by_key(connections);
        self.place_on(fewest.map_or(0, |(index, _)| index), client)
    }

    /// Returns the loops.
    pub(crate) fn handles(&self) -> impl Iterator<Item = &Handle> {
        self.0.loops.iter().map(|each| &each.handle)
    }

    /// Waits until every loop has executed a task.
    pub(crate) async fn answer(self) {
        for each in &self.0.loops {
            // An error means that the process ends.
            let _ = each.handle.spawn(async {}).await;
        }
    }

    fn place_on(&self, index: usize, client: IpAddr) -> Place {
        self.0.loops[index].connections.fetch_add(1, Ordering::Relaxed);
        let mut clients = self.0.clients.lock();
        let (count, last) = clients.entry(client).or_default();
        (*count, *last) = (*count + 1, index);
        Place { loops: self.clone(), index, client, period: 0 }
    }

    /// Asks one active connection of the loop `from` to move to the loop `to`.
    pub(crate) fn want(&self, from: usize, to: usize) {
        self.0.wanted.store(pack(from, to), Ordering::Relaxed);
    }

    /// Returns whether no connection has made the move yet.
    #[cfg(test)]
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.wanted.load(Ordering::Relaxed) != NO_MOVE
    }

    /// Ends the current period, if it has lasted long enough, and compares the loads.
    fn compare(&self) {
        let shared = &*self.0;
        // Another thread may have begun to compare them.
        let Some(mut last) = shared.sample.try_lock() else { return };
        let (now, passed) = (shared.start.elapsed(), last.at.elapsed());
        if (now.as_micros() as u64) < shared.end.load(Ordering::Relaxed) {
            return;
        }
        shared.end.store((now + PERIOD).as_micros() as u64, Ordering::Relaxed);
        let busy: Vec<_> = shared.loops.iter().map(EventLoop::busy).collect();
        let share = |now: Duration, before: Duration| now.saturating_sub(before).as_secs_f64() / passed.as_secs_f64();
        let loads: Vec<_> = std::iter::zip(&busy, &last.busy)
            .zip(&shared.loops)
            .map(|((&now, &before), each)| Load {
                busy: share(now, before),
                active: each.active.swap(0, Ordering::Relaxed),
            })
            .collect();
        *last = Sample { at: Instant::now(), busy };
        shared.period.fetch_add(1, Ordering::Relaxed);
        match advise(&loads) {
            Some((from, to)) => self.want(from, to),
            None => shared.wanted.store(NO_MOVE, Ordering::Relaxed),
        }
    }
}

impl EventLoop {
    fn start(number: usize) -> Result<EventLoop> {
        // A new thread inherits the identity of the thread that started it, which may be impersonating a user.
        let act_as_process = || localfs::identity::as_process(|| ()).expect("a switch to the process identity");
        let runtime = Builder::new_current_thread()
            .enable_all()
            .on_thread_start(act_as_process)
            .build()
            .context("cannot start an event loop")?;
        let handle = runtime.handle().clone();
        let run = move || {
            act_as_process();
            number_thread(number);
            runtime.block_on(std::future::pending::<()>())
        };
        let named = std::thread::Builder::new().name(format!("event loop {number}"));
        named.spawn(run).context("cannot start the thread of an event loop")?;
        Ok(EventLoop { handle, connections: AtomicUsize::new(0), active: AtomicUsize::new(0) })
    }

    fn busy(&self) -> Duration {
        self.handle.metrics().worker_total_busy_duration(0)
    }
}

/// The place of a connection on one of the loops.
pub(crate) struct Place {
    loops: EventLoops,
    index: usize,
    client: IpAddr,
    /// The last period in which the connection was counted as active.
    period: u32,
}

impl Place {
    /// Returns the loop, on which the connection's task must run.
    pub(crate) fn handle(&self) -> &Handle {
        &self.loops.0.loops[self.index].handle
    }

    /// Registers a socket with the loop.
    pub(crate) fn adopt(&self, stream: TcpStream) -> io::Result<TcpStream> {
        let stream = stream.into_std()?;
        let _inside = self.handle().enter();
        TcpStream::from_std(stream)
    }

    /// Records that the connection executes requests. Returns its new place if it has to move.
    pub(crate) fn next(&mut self) -> Option<Place> {
        let shared = &*self.loops.0;
        if shared.loops.len() == 1 {
            return None;
        }
        let period = shared.period.load(Ordering::Relaxed);
        if self.period != period {
            self.period = period;
            shared.loops[self.index].active.fetch_add(1, Ordering::Relaxed);
        }
        if shared.start.elapsed().as_micros() as u64 >= shared.end.load(Ordering::Relaxed) {
            self.loops.compare();
        }
        let wanted = shared.wanted.load(Ordering::Relaxed);
        if wanted == NO_MOVE || wanted >> 32 != self.index as u64 {
            return None;
        }
        let taken = shared.wanted.compare_exchange(wanted, NO_MOVE, Ordering::Relaxed, Ordering::Relaxed);
        taken.is_ok().then(|| self.loops.place_on(wanted as u32 as usize, self.client))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.loops.0.loops[self.index].connections.fetch_sub(1, Ordering::Relaxed);
        let mut clients = self.loops.0.clients.lock();
        if let Some((count, _)) = clients.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                clients.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn advised(loads: &[(f64, usize)], expected: Option<(usize, usize)>) {
        let loads: Vec<_> = loads.iter().map(|&(busy, active)| Load { busy, active }).collect();
        assert_eq!(advise(&loads), expected, "{loads:?}");
    }

    #[test]
    fn a_connection_moves_from_an_overloaded_loop_to_an_idle_one() {
        advised(&[(1.0, 2), (0.0, 0)], Some((0, 1)));
        advised(&[(0.1, 1), (0.9, 2), (0.0, 0)], Some((1, 2)));
        advised(&[(0.2, 5), (0.95, 3)], Some((1, 0)));
    }

    #[test]
    fn connections_stay_where_moving_would_not_help() {
        advised(&[(1.0, 1), (0.0, 0)], None);
        advised(&[(0.7, 8), (0.0, 0)], None);
        advised(&[(1.0, 2), (0.6, 1)], None);
        advised(&[(1.0, 2), (1.0, 2)], None);
        advised(&[(1.0, 2)], None);
        advised(&[], None);
    }

    #[test]
    fn the_first_connections_of_a_client_share_a_loop() {
        let loops = EventLoops::with_threads(2).expect("threads");
        let of = |client: u8, count: usize| -> Vec<Place> {
            (0..count).map(|_| loops.place(IpAddr::from([192, 0, 2, client]))).collect()
        };
        let indexes = |places: &[Place]| places.iter().map(|place| place.index).collect::<Vec<_>>();
        let (first, second) = (of(1, 3), of(2, 2));
        assert_eq!((indexes(&first), indexes(&second)), (vec![0; 3], vec![1; 2]));
        let many = of(3, TOGETHER + 4);
        assert_eq!(indexes(&many)[..TOGETHER], [1; TOGETHER]);
        assert_eq!(indexes(&many)[TOGETHER..], [0, 0, 0, 0], "where there are fewest");
        drop((first, second, many));
        assert!(loops.0.clients.lock().is_empty());
        assert_eq!(indexes(&of(3, 1)), [0]);
    }

    /// Two connections on one loop compute without pause, and the other loop is idle.
    #[test]
    fn a_busy_connection_gets_a_place_on_the_idle_loop() {
        let loops = EventLoops::with_threads(2).expect("threads");
        let (moved, moves) = std::sync::mpsc::channel();
        for _ in 0..2 {
            let (mut place, moved) = (loops.place_on(0, IpAddr::from([127, 0, 0, 1])), moved.clone());
            let handle = place.handle().clone();
            handle.spawn(async move {
                let end = Instant::now() + Duration::from_secs(30);
                while Instant::now() < end {
                    let pause = Instant::now() + Duration::from_millis(2);
                    while Instant::now() < pause {
                        std::hint::spin_loop();
                    }
                    if let Some(next) = place.next() {
                        let _ = moved.send(next.index);
                        return;
                    }
                    tokio::task::yield_now().await;
                }
            });
        }
        assert_eq!(moves.recv_timeout(Duration::from_secs(30)), Ok(1));
    }

    /// What moves does not move back in the next period.
    #[test]
    fn moves_end() {
        // The loop of each connection, and its load.
        for loads in [vec![0.9, 0.1], vec![0.5, 0.5, 0.5], vec![0.3; 10], vec![1.0, 0.9, 0.2, 0.1], vec![0.05; 40]] {
            let mut places = vec![0; loads.len()];
            let mut moves = 0;
            for _ in 0..100 {
                let on = |index| std::iter::zip(&places, &loads).filter(move |(place, _)| **place == index);
                let load = |index| Load {
                    busy: on(index).map(|(_, load)| load).sum::<f64>().min(1.0),
                    active: on(index).count(),
                };
                let Some((from, to)) = advise(&[load(0), load(1)]) else { break };
                let mover = places.iter().position(|&place| place == from).expect("an active connection");
                places[mover] = to;
                moves += 1;
            }
            assert!(moves < loads.len(), "{loads:?}: {moves} moves");
        }
    }
}
