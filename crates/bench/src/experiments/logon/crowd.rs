//! The users that log on: any number of users named by a pattern. Some log on repeatedly, the others once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, Result};
use client::{Client, Credentials};

use crate::load::{Done, Worker};
use crate::random::Random;
use crate::target::Target;

/// The users that log on.
#[derive(Clone)]
pub(super) struct Crowd {
    pub(super) pattern: Option<String>,
    pub(super) count: u64,
    pub(super) password: Option<String>,
    /// Number of users that log on repeatedly.
    pub(super) visitors: u64,
    pub(super) order: Order,
}

impl Crowd {
    /// Returns the user at this position of the order.
    pub(super) fn nth(&self, target: &Target, place: u64) -> Result<Credentials> {
        let mut target = target.clone();
        if let Some(pattern) = &self.pattern {
            target.user = numbered(pattern, 1 + self.order.nth(place))?;
        }
        if self.password.is_some() {
            target.password.clone_from(&self.password);
        }
        target.credentials()
    }
}

/// A permutation of all numbers below a count, in an order that looks random and needs no memory.
#[derive(Clone, Copy)]
pub(super) struct Order {
    count: u64,
    factor: u64,
    offset: u64,
}

impl Order {
    pub(super) fn new(count: u64, seed: u64) -> Order {
        let mut random = Random::new(seed ^ count);
        let mut factor = random.below(count);
        // Multiplication by the factor is a permutation if it and the count have no common divisor.
        while divisor(factor, count) != 1 {
            factor += 1;
        }
        Order { count, factor, offset: random.below(count) }
    }

    fn nth(self, place: u64) -> u64 {
        let number = u128::from(self.factor) * u128::from(place) + u128::from(self.offset);
        (number % u128::from(self.count)) as u64
    }
}

/// Returns the greatest common divisor.
fn divisor(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// Selects the next user.
#[derive(Clone)]
pub(super) enum Next {
    /// A random one of the users that log on repeatedly.
    Anyone(Random),
    /// All users that log on repeatedly, in turn: the next position, and the step.
    Each(u64, u64),
    /// A user that has not logged on yet. All clients share the counter of used positions.
    Newcomer(Arc<AtomicU64>),
}

impl Next {
    fn place(&mut self, visitors: u64) -> u64 {
        match self {
            Next::Anyone(random) => random.below(visitors),
            Next::Each(place, step) => {
                let this = *place % visitors;
                *place += *step;
                this
            }
            Next::Newcomer(given) => given.fetch_add(1, Ordering::Relaxed),
        }
    }
}

/// Replaces `%d` or `%05d` in `pattern` with `number`.
fn numbered(pattern: &str, number: u64) -> Result<String> {
    let form = || format!("'{pattern}' has no placeholder for a number: add %d or %05d");
    let (before, rest) = pattern.split_once('%').with_context(form)?;
    let (width, after) = rest.split_once('d').with_context(form)?;
    let digits: usize = if width.is_empty() { 0 } else { width.parse().ok().with_context(form)? };
    Ok(format!("{before}{number:0digits$}{after}"))
}

/// A worker that repeatedly logs on and off.
pub(super) struct Visitor {
    pub(super) target: Target,
    pub(super) options: client::Options,
    pub(super) crowd: Crowd,
    pub(super) next: Next,
}

impl Worker for Visitor {
    async fn step(&mut self) -> Result<Done> {
        self.options.credentials = match self.options.credentials {
            Credentials::Password { .. } => self.crowd.nth(&self.target, self.next.place(self.crowd.visitors))?,
            ref other => other.clone(),
        };
        let Target { host, port, share, .. } = &self.target;
        let client = Client::connect((host.as_str(), *port), host, share, &self.options).await;
        client.with_context(|| format!("{:?}", self.options.credentials))?.log_off().await?;
        Ok(Done::one(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_contains_every_number_once() {
        for (count, seed) in [(1, 0), (2, 7), (10, 1), (12, 2), (97, 3), (1000, 4)] {
            let order = Order::new(count, seed);
            let mut all: Vec<u64> = (0..count).map(|place| order.nth(place)).collect();
            all.sort_unstable();
            assert!(all.iter().copied().eq(0..count), "{count}");
        }
    }

    #[test]
    fn the_next_user_is_chosen_by_the_mode() {
        let mut each = Next::Each(1, 2);
        assert_eq!([(); 4].map(|()| each.place(5)), [1, 3, 0, 2]);
        let given = Arc::new(AtomicU64::new(5));
        let mut newcomers = [Next::Newcomer(given.clone()), Next::Newcomer(given)];
        assert_eq!([newcomers[0].place(5), newcomers[1].place(5), newcomers[0].place(5)], [5, 6, 7]);
        let mut anyone = Next::Anyone(Random::new(3));
        assert!((0..100).all(|_| anyone.place(5) < 5));
    }

    #[test]
    fn users_are_numbered() {
        assert_eq!(numbered("u%05d", 17).unwrap(), "u00017");
        assert_eq!(numbered("user-%d@x", 17).unwrap(), "user-17@x");
        for wrong in ["u", "u%", "u%s", "u%xd"] {
            assert!(numbered(wrong, 1).is_err(), "{wrong}");
        }
    }
}
