//! Workers that are kept between turns, so that measurements do not include connecting.

use std::cell::RefCell;

use anyhow::Result;
use client::Client;

use crate::load::{self, Pace, Sample, Worker};
use crate::method::{Bench, Server};

/// The workers of one server or directory.
pub struct Crew<W> {
    workers: RefCell<Vec<W>>,
}

impl<W> Default for Crew<W> {
    fn default() -> Crew<W> {
        Crew { workers: RefCell::default() }
    }
}

impl<W: Worker> Crew<W> {
    /// Returns one empty crew for each server.
    pub fn for_each(bench: &Bench) -> Vec<Crew<W>> {
        bench.servers.iter().map(|_| Crew::default()).collect()
    }

    /// Connects until there are `count` workers. Also replaces workers that failed where failures are allowed.
    pub async fn enlist(&self, server: &Server, count: usize, make: impl Fn(Client) -> W) -> Result<()> {
        self.enlist_with(count, async || Ok(make(server.connect().await?))).await
    }

    /// Like [`Crew::enlist`], for workers that do not connect to a server.
    pub async fn enlist_with(&self, count: usize, make: impl AsyncFn() -> Result<W>) -> Result<()> {
        while self.workers.borrow().len() < count {
            let worker = make().await?;
            self.workers.borrow_mut().push(worker);
        }
        Ok(())
    }

    /// Ends all workers, with their connections.
    pub fn dismiss(&self) {
        self.workers.take();
    }

    /// Calls `what` for each worker in turn, with the worker's number.
    pub async fn each(&self, mut what: impl AsyncFnMut(u64, &mut W) -> Result<()>) -> Result<()> {
        let mut workers = self.workers.take();
        for (number, worker) in (0..).zip(&mut workers) {
            what(number, worker).await?;
        }
        self.workers.replace(workers);
        Ok(())
    }

    /// Runs the first `count` workers after `begin` has prepared each of them.
    pub async fn work(&self, count: usize, pace: Pace, mut begin: impl FnMut(u64, &mut W)) -> Result<Sample> {
        self.work_and(count, pace, &mut begin, |_, _| ()).await
    }

    /// Like [`Crew::work`], but `end` then adds data that only the worker has to the sample.
    pub async fn work_and(
        &self,
        count: usize,
        pace: Pace,
        mut begin: impl FnMut(u64, &mut W),
        end: impl Fn(&mut W, &mut Sample),
    ) -> Result<Sample> {
        let mut working = self.workers.take();
        let resting = working.split_off(count.min(working.len()));
        (0..).zip(&mut working).for_each(|(number, worker)| begin(number, worker));
        let (mut sample, mut workers) = load::run(working, pace).await?;
        workers.iter_mut().for_each(|worker| end(worker, &mut sample));
        workers.extend(resting);
        self.workers.replace(workers);
        Ok(sample)
    }
}
