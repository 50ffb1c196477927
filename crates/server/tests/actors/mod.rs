//! The simulation: server, clients, and the model that defines the expected responses.
//!
//! Each client has one request in progress at a time. Its effect appears in the model when the response arrives. Until
//! then, a value being written is one of those that may be read.

mod client;
mod model;

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};

use proto::status::Status;
use server::testing::{ManualClock, TestServer};
use server::vfs::faulty::{Fault, Faulty, Operation, Script, Seeded};

use client::{Actor, Done};
use model::Model;

const ACTORS: usize = 4;
/// Few names, so that clients use the same files.
const NAMES: [&str; 4] = ["a", "b", "report.txt", "Überblick"];
/// Maximum number of polls to wait for a client to acknowledge a lease break.
const PATIENCE: usize = 2_000;

/// A random number generator with the same results on all platforms (xorshift64*).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % below
    }
}

/// Delays only reads and writes of data. Names change at once, so that the model can follow.
struct SlowData(Seeded);

impl Script for SlowData {
    fn decide(&self, operation: Operation, count: u64) -> Fault {
        match operation {
            Operation::Read | Operation::Write => self.0.decide(operation, count),
            _ => Fault::default(),
        }
    }
}

/// The server and its clients.
pub(crate) struct Stage {
    server: TestServer,
    dice: Dice,
    actors: Vec<Actor>,
    model: Model,
    /// Last number used as a written value or lease key; each is used once.
    last_number: u64,
}

impl Stage {
    /// Creates a new server. `forgetful`: it sends no lease breaks.
    pub(crate) fn new(seed: u64, forgetful: bool) -> Stage {
        let script = SlowData(Seeded { seed, delayed: 300, longest: 60, failing: 0, errors: Vec::new() });
        let server = TestServer::builder()
            .clock(ManualClock::new())
            .wrap_volume(|volume| Faulty::new(volume, Arc::new(script)))
            .start();
        if forgetful {
            server.suppress_breaks();
        }
        let actors = (0..ACTORS).map(|number| Actor::new(&server, number as u8)).collect();
        let dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        Stage { server, dice, actors, model: Model::default(), last_number: 0 }
    }

    /// One client acts, and all clients process the server's messages.
    pub(crate) fn step(&mut self) {
        let number = self.dice.next(ACTORS);
        if self.dice.next(60) == 0 {
            self.lose(number);
        } else if !self.actors[number].is_waiting() {
            self.act(number);
        }
        self.listen();
    }

    fn number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    fn act(&mut self, number: usize) {
        let choice = self.dice.next(20);
        let actor = &self.actors[number];
        let used = actor.in_use();
        if used.is_empty() || choice < 4 {
            let name = self.dice.next(NAMES.len());
            if self.actors[number].take_up(NAMES[name]) {
                return;
            }
            let key = self.number();
            return self.actors[number].open(NAMES[name], key);
        }
        let view = used[self.dice.next(used.len())];
        match choice {
            4..=8 => self.read(number, view),
            9..=12 => self.write(number, view),
            13..=14 => self.actors[number].close(view, &mut self.model),
            15 => self.actors[number].lock(view, self.dice.next(2) == 0),
            16 => self.actors[number].unlock(view),
            17..=18 => self.actors[number].rename(view, NAMES[self.dice.next(NAMES.len())]),
            _ => self.actors[number].delete(view),
        }
    }

    fn read(&mut self, number: usize, view: usize) {
        // A write is answered after the lease breaks are sent, so everything received until then must be processed.
        self.learn(number);
        let actor = &mut self.actors[number];
        match actor.cached(view) {
            Some(value) => self.model.check(actor.file(view), value),
            None => actor.read(view),
        }
    }

    fn write(&mut self, number: usize, view: usize) {
        let file = self.actors[number].file(view);
        // The order of two concurrent writes is undefined.
        if self.model.is_being_written(file) {
            return;
        }
        let value = self.number();
        self.actors[number].write(view, value, &mut self.model);
    }

    /// All clients process the server's messages in turn, until that causes no new ones.
    fn listen(&mut self) {
        for _ in 0..3 {
            for number in 0..ACTORS {
                self.hear(number);
            }
        }
    }

    fn learn(&mut self, number: usize) {
        let actor = &mut self.actors[number];
        for (done, status, response) in actor.hear() {
            self.model.learn(actor, done, status, &response);
        }
    }

    fn hear(&mut self, number: usize) {
        self.learn(number);
        let slow = self.dice.next(3) == 0;
        self.actors[number].give_back(slow, &mut self.model);
    }

    /// A client loses its connection and everything unsent, and returns as a new client.
    fn lose(&mut self, number: usize) {
        // Its last request has been executed by now, or never will be.
        self.learn(number);
        let back = Actor::new(&self.server, number as u8);
        std::mem::replace(&mut self.actors[number], back).vanish(&mut self.model);
        clean(&self.server);
    }

    /// All clients finish; no state may be left over.
    pub(crate) fn end(mut self) {
        for _ in 0..PATIENCE {
            if !self.actors.iter().any(Actor::is_busy) {
                break;
            }
            self.listen();
        }
        assert!(!self.actors.iter().any(Actor::is_busy), "a request remains unanswered");
        for actor in self.actors {
            actor.vanish(&mut self.model);
        }
        clean(&self.server);
        assert_eq!((self.server.open_count(), self.server.lease_count()), (0, 0), "no open or lease may remain");
    }
}

/// Has the server close the opens through which a change was in progress when they were to be closed.
fn clean(server: &TestServer) {
    let mut cleaning = pin!(server.scavenge());
    for _ in 0..100 {
        assert!(cleaning.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
}

/// Checks the status of a response.
#[track_caller]
pub(crate) fn expect(what: &Done, status: Status, expected: Status) {
    assert_eq!(status, expected, "{what:?}");
}
