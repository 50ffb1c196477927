//! The environment of an attack: the server's address, connections of every kind, and counters.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use client::{Client, Credentials, Options};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::Serialize;
use test_environment::{ALICE, Person};

use crate::wire::{Refusals, Wire};

/// Source address of attackers. It differs from the victim's, so that limits per address apply separately.
pub(crate) const ATTACKER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// The share with the attackers' files.
pub(crate) const SHARE: &str = "attack";
/// The name of the server in paths.
pub(crate) const HOST: &str = "127.0.0.1";
/// Credits that an attacker requests.
const CREDITS: u16 = 8192;
/// Pause between a failed attempt and the next: a refused attacker retries soon, but must not use all processor time.
const AGAIN: Duration = Duration::from_millis(10);

/// Statistics of the attackers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Effort {
    /// Requests sent.
    pub requests: u64,
    /// Connections made.
    pub connections: u64,
    /// The last error that ended an attempt.
    pub trouble: Option<String>,
    /// Number of responses per error status.
    pub refusals: BTreeMap<String, u64>,
}

/// An attack in progress.
pub(crate) struct Scene {
    address: SocketAddr,
    /// The directory behind the attackers' share.
    dir: PathBuf,
    /// A brief run, in which expensive preparations are smaller.
    pub(crate) brief: bool,
    requests: Cell<u64>,
    connections: Cell<u64>,
    numbers: Cell<u64>,
    trouble: RefCell<Option<String>>,
    refusals: Refusals,
}

impl Scene {
    pub(crate) fn new(address: SocketAddr, dir: PathBuf, brief: bool) -> Scene {
        let (requests, connections, numbers) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let (trouble, refusals) = (RefCell::new(None), Refusals::default());
        Scene { address, dir, brief, requests, connections, numbers, trouble, refusals }
    }

    /// Returns a path on the share, for local programs.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Returns `brief` or `full`, depending on the run.
    pub(crate) fn choose<T>(&self, brief: T, full: T) -> T {
        if self.brief { brief } else { full }
    }

    /// Adds to the number of requests sent.
    pub(crate) fn asked(&self, count: u64) {
        self.requests.set(self.requests.get() + count);
    }

    /// Returns the statistics so far.
    pub(crate) fn effort(&self) -> Effort {
        Effort {
            requests: self.requests.get(),
            connections: self.connections.get(),
            trouble: self.trouble.borrow().clone(),
            refusals: self.refusals.borrow().iter().map(|(status, count)| (status.to_string(), *count)).collect(),
        }
    }

    /// Returns the number of requests sent so far.
    pub(crate) fn sent(&self) -> u64 {
        self.requests.get()
    }

    /// Returns a unique number.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.set(self.numbers.get() + 1);
        self.numbers.get()
    }

    /// Continues a client's connection as a raw one.
    pub(crate) fn raw(&self, client: Client) -> Result<Wire> {
        Wire::of(client, self.refusals.clone())
    }

    fn connected(&self) {
        self.connections.set(self.connections.get() + 1);
    }

    /// Repeats `attempt` forever. A failure is recorded and is not an error, because a server should refuse attackers.
    pub(crate) async fn again(&self, attempt: impl AsyncFn() -> Result<()>) -> Result<()> {
        loop {
            if let Err(error) = attempt().await {
                *self.trouble.borrow_mut() = Some(format!("{error:#}"));
                tokio::time::sleep(AGAIN).await;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Like [`Scene::again`], `count` times concurrently.
    pub(crate) async fn crowd(&self, count: usize, attempt: impl AsyncFn() -> Result<()>) -> Result<()> {
        let mut all: FuturesUnordered<_> = (0..count).map(|_| self.again(&attempt)).collect();
        while let Some(ended) = all.next().await {
            ended?;
        }
        Ok(())
    }

    /// Returns the options to log on as `person` from the attackers' address.
    pub(crate) fn options(&self, person: &Person) -> Options {
        let credentials = Credentials::password(person.name, person.password);
        let timeout = Duration::from_secs(10);
        Options { credentials, credits: CREDITS, source: Some(ATTACKER), timeout, ..Options::default() }
    }

    fn strange(&self) -> Options {
        Options { credentials: Credentials::Anonymous, ..self.options(&ALICE) }
    }

    /// Connects as alice to a share.
    pub(crate) async fn alice_on(&self, share: &str) -> Result<Client> {
        let client = Client::connect(self.address, HOST, share, &self.options(&ALICE)).await?;
        self.connected();
        Ok(client)
    }

    /// Connects as alice to the attackers' share.
    pub(crate) async fn alice(&self) -> Result<Client> {
        self.alice_on(SHARE).await
    }

    /// Like [`Scene::alice`], with as many credits as the server grants.
    pub(crate) async fn wealthy(&self) -> Result<Client> {
        let mut client = self.alice().await?;
        for _ in 0..20 {
            client.echo().await?;
        }
        Ok(client)
    }

    /// Logs on as alice without a tree connect.
    pub(crate) async fn logged_on(&self) -> Result<Client> {
        let client = Client::log_on(&[self.address], HOST, &self.options(&ALICE)).await?;
        self.connected();
        Ok(client)
    }

    /// Connects anonymously to IPC$.
    pub(crate) async fn anonymous(&self) -> Result<Client> {
        let client = Client::connect(self.address, HOST, "IPC$", &self.strange()).await?;
        self.connected();
        Ok(client)
    }

    /// Returns the options of [`Scene::anonymous`].
    pub(crate) fn anonymous_options(&self) -> Options {
        self.strange()
    }

    /// Connects and negotiates without a logon.
    pub(crate) async fn negotiated(&self) -> Result<Client> {
        let client = Client::negotiate(&[self.address], &self.strange()).await?;
        self.connected();
        Ok(client)
    }

    /// Connects without sending anything.
    pub(crate) async fn stranger(&self) -> Result<Wire> {
        let wire = Wire::connect(self.address, ATTACKER, self.refusals.clone()).await?;
        self.connected();
        Ok(wire)
    }
}
