//! What an attack has at hand: where the server is, connections of every kind, and what it counts.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use client::{Client, Credentials, Options};
use foreign::bed::{ALICE, Person};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde::Serialize;

use crate::wire::{Refusals, Wire};

/// Where attackers come from: another address than the victim's, as bounds for each address are to apply.
pub(crate) const ATTACKER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
/// The share that attackers have files on.
pub(crate) const SHARE: &str = "attack";
/// The name of the server in paths.
pub(crate) const HOST: &str = "127.0.0.1";
/// Credits that an attacker keeps.
const CREDITS: u16 = 8192;
/// Between an attempt that failed and the next: a refused attacker comes back at once, but is not all that runs.
const AGAIN: Duration = Duration::from_millis(10);

/// What attackers did.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Effort {
    /// Requests that they sent.
    pub requests: u64,
    /// Connections that they made.
    pub connections: u64,
    /// What ended an attempt last.
    pub trouble: Option<String>,
    /// How often each error came back.
    pub refusals: BTreeMap<String, u64>,
}

/// One attack under way.
pub(crate) struct Scene {
    address: SocketAddr,
    /// The directory behind the attackers' share.
    dir: PathBuf,
    /// A short run: what takes long to make is made smaller.
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

    /// A place on the share, for local programs.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// `brief` or `full`, as the run is.
    pub(crate) fn choose<T>(&self, brief: T, full: T) -> T {
        if self.brief { brief } else { full }
    }

    /// Notes that so many requests were sent.
    pub(crate) fn asked(&self, count: u64) {
        self.requests.set(self.requests.get() + count);
    }

    /// What was done until now.
    pub(crate) fn effort(&self) -> Effort {
        Effort {
            requests: self.requests.get(),
            connections: self.connections.get(),
            trouble: self.trouble.borrow().clone(),
            refusals: self.refusals.borrow().iter().map(|(status, count)| (status.to_string(), *count)).collect(),
        }
    }

    /// Requests sent until now.
    pub(crate) fn sent(&self) -> u64 {
        self.requests.get()
    }

    /// A number that nobody else has, for what the caller makes.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.set(self.numbers.get() + 1);
        self.numbers.get()
    }

    /// Continues a client's connection by hand.
    pub(crate) fn raw(&self, client: Client) -> Result<Wire> {
        Wire::of(client, self.refusals.clone())
    }

    fn connected(&self) {
        self.connections.set(self.connections.get() + 1);
    }

    /// Does `attempt` again and again. One that fails is noted: a server that refuses an attacker does well.
    pub(crate) async fn again(&self, attempt: impl AsyncFn() -> Result<()>) -> Result<()> {
        loop {
            if let Err(error) = attempt().await {
                *self.trouble.borrow_mut() = Some(format!("{error:#}"));
                tokio::time::sleep(AGAIN).await;
            }
            tokio::task::yield_now().await;
        }
    }

    /// The same `count` times at once.
    pub(crate) async fn crowd(&self, count: usize, attempt: impl AsyncFn() -> Result<()>) -> Result<()> {
        let mut all: FuturesUnordered<_> = (0..count).map(|_| self.again(&attempt)).collect();
        while let Some(ended) = all.next().await {
            ended?;
        }
        Ok(())
    }

    /// How `person` logs on from the attackers' address.
    pub(crate) fn options(&self, person: &Person) -> Options {
        let credentials = Credentials::password(person.name, person.password);
        let timeout = Duration::from_secs(10);
        Options { credentials, credits: CREDITS, source: Some(ATTACKER), timeout, ..Options::default() }
    }

    fn strange(&self) -> Options {
        Options { credentials: Credentials::Anonymous, ..self.options(&ALICE) }
    }

    /// alice on a share.
    pub(crate) async fn alice_on(&self, share: &str) -> Result<Client> {
        let client = Client::connect(self.address, HOST, share, &self.options(&ALICE)).await?;
        self.connected();
        Ok(client)
    }

    /// alice on the attackers' share.
    pub(crate) async fn alice(&self) -> Result<Client> {
        self.alice_on(SHARE).await
    }

    /// The same, with as many credits as the server gives.
    pub(crate) async fn wealthy(&self) -> Result<Client> {
        let mut client = self.alice().await?;
        for _ in 0..20 {
            client.echo().await?;
        }
        Ok(client)
    }

    /// alice, logged on without a share.
    pub(crate) async fn logged_on(&self) -> Result<Client> {
        let client = Client::log_on(&[self.address], HOST, &self.options(&ALICE)).await?;
        self.connected();
        Ok(client)
    }

    /// Somebody without a name, connected to IPC$.
    pub(crate) async fn anonymous(&self) -> Result<Client> {
        let client = Client::connect(self.address, HOST, "IPC$", &self.strange()).await?;
        self.connected();
        Ok(client)
    }

    /// The options of [`Scene::anonymous`].
    pub(crate) fn anonymous_options(&self) -> Options {
        self.strange()
    }

    /// A connection after NEGOTIATE, with nobody logged on.
    pub(crate) async fn negotiated(&self) -> Result<Client> {
        let client = Client::negotiate(&[self.address], &self.strange()).await?;
        self.connected();
        Ok(client)
    }

    /// A connection on which nothing was said.
    pub(crate) async fn stranger(&self) -> Result<Wire> {
        let wire = Wire::connect(self.address, ATTACKER, self.refusals.clone()).await?;
        self.connected();
        Ok(wire)
    }
}
