//! The servers of one directory: selection of a server and a connection, and failover.
//!
//! Servers are tried in the configured order. A server that fails is skipped for [`DEAD`] while another answers. If all
//! have failed, each is tried again after [`RETRY`], and queries fail at once until then. A query is answered or fails
//! within its time limit, regardless of the number of servers.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use parking_lot::Mutex;
use tokio::sync::Mutex as Turn;
use tokio::time::{Instant, timeout};

use crate::connection::{Closed, Connection, Reply, Way};
use crate::message::{Request, ResultCode};
use crate::uri::Uri;

/// How long a failed server is skipped while another answers.
const DEAD: Duration = Duration::from_secs(5);
/// How long it is skipped if none answers.
const RETRY: Duration = Duration::from_secs(1);
/// Maximum number of connections to one server.
const CONNECTIONS: usize = 4;
/// Another connection is opened when the least busy one has this many pending queries.
const CROWDED: usize = 16;
/// Time limit of opening it, including TLS and the bind.
const RELIEF: Duration = Duration::from_secs(10);

/// No server answered; the text has the reason for each server that was tried.
#[derive(Debug)]
pub struct NoAnswer(String);

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoAnswer {}

/// Makes a [`Way`]. It is called for each connection, so that a new password is used without a restart.
pub type FindWay = Box<dyn Fn() -> Result<Way> + Send + Sync>;

/// The opening of a connection.
pub type Opening = Pin<Box<dyn Future<Output = Result<Connection>> + Send>>;

/// Runs an [`Opening`] with the privileges that it needs to open files and sockets by path.
pub type Around = fn(Opening) -> Opening;

/// The servers, in order.
pub struct Servers {
    servers: Vec<Arc<Server>>,
}

struct Server {
    uri: Uri,
    way: Arc<FindWay>,
    around: Around,
    state: Mutex<State>,
    /// Held by the task that opens a connection.
    turn: Turn<()>,
}

#[derive(Default)]
struct State {
    connections: Vec<Arc<Connection>>,
    failed: Option<(Instant, Arc<str>)>,
}

/// How an attempt at one server failed.
enum Failure {
    /// An existing connection failed, perhaps because it was stale: a new one may work.
    Old(Closed),
    /// The server is unavailable.
    Dead(Arc<str>),
}

impl Servers {
    /// Prepares the servers at `uris`. No connection is opened before the first query.
    pub fn new(uris: &[Uri], way: FindWay, around: Around) -> Servers {
        let way = Arc::new(way);
        let server = |uri: &Uri| {
            let (uri, way) = (uri.clone(), way.clone());
            Arc::new(Server { uri, way, around, state: Mutex::default(), turn: Turn::new(()) })
        };
        Servers { servers: uris.iter().map(server).collect() }
    }

    /// Sends a query within `patience`. The query may be repeated because it changes nothing.
    pub async fn ask(&self, request: &Request<'_>, patience: Duration) -> Result<Reply, NoAnswer> {
        self.ask_until(request, Instant::now() + patience, true).await
    }

    /// Sends a change within `patience`. Once sent it is not repeated, because it may have been made.
    pub async fn change(&self, request: &Request<'_>, patience: Duration) -> Result<Reply, NoAnswer> {
        self.ask_until(request, Instant::now() + patience, false).await
    }

    /// Returns one connection, for related queries.
    pub async fn pin(&self, patience: Duration) -> Result<Arc<Connection>, NoAnswer> {
        let mut reasons = Vec::new();
        for server in self.order(&mut reasons) {
            match timeout(patience, server.connection()).await {
                Ok(Ok((connection, _))) => return Ok(connection),
                Ok(Err(why)) => reasons.push(server.fail(&why)),
                Err(_) => reasons.push(server.fail(&format!("no connection within {patience:?}"))),
            }
        }
        Err(NoAnswer(reasons.join("; ")))
    }

    async fn ask_until(&self, request: &Request<'_>, end: Instant, again: bool) -> Result<Reply, NoAnswer> {
        let mut reasons = Vec::new();
        let order = self.order(&mut reasons);
        for (position, server) in order.iter().enumerate() {
            let left = end.saturating_duration_since(Instant::now());
            // The last server gets all the remaining time; each other one gets half of it.
            let share = if position + 1 == order.len() { left } else { left / 2 };
            match timeout(share, server.ask(request, again)).await {
                Ok(Ok(reply)) if [ResultCode::BUSY, ResultCode::UNAVAILABLE].contains(&reply.outcome.code) => {
                    reasons.push(server.fail(&reply.outcome.to_string()));
                }
                Ok(Ok(reply)) => {
                    server.note_success();
                    return Ok(reply);
                }
                Ok(Err(Failure::Dead(why))) => reasons.push(server.fail(&why)),
                Ok(Err(Failure::Old(closed))) if again => reasons.push(server.fail(&closed.0)),
                Ok(Err(Failure::Old(closed))) => {
                    return Err(NoAnswer(format!("{}: {closed}; the change may have been made", server.uri)));
                }
                Err(_) => {
                    reasons.push(server.fail(&format!("no answer within {share:?}")));
                    if !again {
                        return Err(NoAnswer(format!("{}; the change may have been made", reasons.join("; "))));
                    }
                }
            }
        }
        Err(NoAnswer(reasons.join("; ")))
    }

    /// Returns the servers to try, in order. The reasons for skipping the others are added to `reasons` if all are
    /// skipped.
    fn order(&self, reasons: &mut Vec<String>) -> Vec<&Arc<Server>> {
        let failed = |server: &Server| server.state.lock().failed.clone();
        let rested =
            |server: &&Arc<Server>, rest: Duration| failed(server).is_none_or(|(since, _)| since.elapsed() >= rest);
        let mut order: Vec<&Arc<Server>> = self.servers.iter().filter(|server| rested(server, DEAD)).collect();
        if order.is_empty() {
            order = self.servers.iter().filter(|server| rested(server, RETRY)).collect();
        }
        if order.is_empty() {
            let why = |server: &Arc<Server>| failed(server).map(|(_, why)| format!("{}: {why}", server.uri));
            reasons.extend(self.servers.iter().filter_map(why));
        }
        order
    }
}

impl Server {
    async fn ask(self: &Arc<Self>, request: &Request<'_>, again: bool) -> Result<Reply, Failure> {
        // A restarted server has closed all connections at once, and each is detected separately.
        for _ in 0..CONNECTIONS {
            let (connection, fresh) = self.connection().await.map_err(Failure::Dead)?;
            match connection.ask(request).await {
                Ok(reply) => return Ok(reply),
                Err(closed) if fresh => return Err(Failure::Dead(closed.0)),
                Err(closed) if !again => return Err(Failure::Old(closed)),
                Err(_) => {}
            }
        }
        let (connection, _) = self.connection().await.map_err(Failure::Dead)?;
        connection.ask(request).await.map_err(Failure::Old)
    }

    /// Returns a connection, and whether it was opened for this query.
    async fn connection(self: &Arc<Self>) -> Result<(Arc<Connection>, bool), Arc<str>> {
        if let Some(connection) = self.open_one() {
            self.relieve(&connection);
            return Ok((connection, false));
        }
        let asked = Instant::now();
        let _turn = self.turn.lock().await;
        if let Some(connection) = self.open_one() {
            return Ok((connection, false));
        }
        // Callers that waited while another task failed to connect do not try again.
        if let Some((since, why)) = &self.state.lock().failed
            && *since >= asked
        {
            return Err(why.clone());
        }
        match self.open().await {
            Ok(connection) => Ok((connection, true)),
            Err(why) => {
                self.fail(&why);
                Err(why.into())
            }
        }
    }

    /// Returns the connection with the fewest pending queries.
    fn open_one(&self) -> Option<Arc<Connection>> {
        let mut state = self.state.lock();
        state.connections.retain(|connection| !connection.is_closed());
        state.connections.iter().min_by_key(|connection| connection.waiting()).cloned()
    }

    /// Opens another connection if `least`, the least busy one, has too many pending queries. Does not wait for it.
    fn relieve(self: &Arc<Self>, least: &Connection) {
        if least.waiting() < CROWDED || self.state.lock().connections.len() >= CONNECTIONS {
            return;
        }
        let server = self.clone();
        tokio::spawn(async move {
            if let Ok(_turn) = server.turn.try_lock() {
                // The attempt needs a time limit, because a server that hangs must not hold the lock forever.
                _ = timeout(RELIEF, server.open()).await;
            }
        });
    }

    async fn open(&self) -> Result<Arc<Connection>, String> {
        let (uri, way) = (self.uri.clone(), self.way.clone());
        let opened = (self.around)(Box::pin(async move { Connection::open(&uri, &way()?).await }));
        let connection = Arc::new(opened.await.map_err(|error| format!("{error:#}"))?);
        self.state.lock().connections.push(connection.clone());
        Ok(connection)
    }

    /// Records that the server does not answer, and closes its connections. Returns the reason with the server's name.
    fn fail(&self, why: &str) -> String {
        let mut state = self.state.lock();
        let known = state.failed.replace((Instant::now(), why.into()));
        state.connections.drain(..).for_each(|connection| connection.close());
        drop(state);
        if known.is_none() {
            tracing::warn!(server = %self.uri, "LDAP server does not answer: {why}");
        }
        format!("{}: {why}", self.uri)
    }

    fn note_success(&self) {
        if self.state.lock().failed.take().is_some() {
            tracing::info!(server = %self.uri, "LDAP server answers again");
        }
    }
}
