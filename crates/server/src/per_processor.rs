//! A value for each processor, so that threads on different ones do not write to the same memory.

use std::cell::Cell;
use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::available_parallelism;

/// Returns the number of processors that this process may use.
pub fn count() -> usize {
    available_parallelism().map_or(1, NonZero::get)
}

/// As many values as there are processors. A thread always uses the same one; several threads may use one.
pub struct PerProcessor<T>(Box<[Lines<T>]>);

/// A value that shares no cache line with others. Processors fetch pairs of lines of 64 bytes.
#[repr(align(128))]
struct Lines<T>(T);

thread_local!(static THREAD: Cell<Option<usize>> = const { Cell::new(None) });

/// Chooses the calling thread's value. As many threads as there are processors, with the numbers from 0, have one each.
/// Other threads are numbered when they first use a value.
pub fn number_thread(number: usize) {
    THREAD.set(Some(number));
}

impl<T> PerProcessor<T> {
    /// Creates the values. `new` gets their number.
    pub fn new(new: impl Fn(usize) -> T) -> PerProcessor<T> {
        PerProcessor::with_count(count(), new)
    }

    /// Creates this number of values.
    pub fn with_count(count: usize, new: impl Fn(usize) -> T) -> PerProcessor<T> {
        PerProcessor((0..count.max(1)).map(|_| Lines(new(count))).collect())
    }

    /// Returns the value of the calling thread.
    pub fn own(&self) -> &T {
        static OTHERS: AtomicUsize = AtomicUsize::new(0);
        let number = THREAD.get().unwrap_or_else(|| {
            let next = OTHERS.fetch_add(1, Ordering::Relaxed);
            number_thread(next);
            next
        });
        &self.0[number % self.0.len()].0
    }

    /// Returns all values.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|Lines(value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_always_gets_the_same_value() {
        let values = PerProcessor::with_count(64, |_| AtomicUsize::new(0));
        let add = || values.own().fetch_add(1, Ordering::Relaxed);
        number_thread(65);
        assert_eq!((add(), add()), (0, 1));
        assert_eq!(values.0[1].0.load(Ordering::Relaxed), 2);
        let other = std::thread::scope(|scope| scope.spawn(add).join()).expect("no panic");
        assert_eq!((other, add()), (0, 2));
        assert_eq!(values.iter().map(|value| value.load(Ordering::Relaxed)).sum::<usize>(), 4);
    }
}
