//! The web console: an HTTP server for administrators, and the page that it serves.
//!
//! - [`Administration`] is what the page shows and changes. The program implements it; this crate knows neither the
//!   configuration nor the control socket.
//! - [`listen`] has the addresses, UNIX sockets and TLS, and `connections` the limits of connections.
//! - `answer` routes a request. `guard` checks where it comes from, `sessions` that its administrator has logged on,
//!   and `throttle` how often logons are tried; `source` is what counts as one client for that.
//! - [`openid`] is the logon through an OpenID Connect issuer, and the sessions in which users set their own passwords.
//! - `history` keeps the last hour in memory. `files` has the page: HTML, a style sheet and JavaScript modules, all
//!   embedded.
//!
//! What an administrator may do is everything, so the rules are strict: no request from another origin, no host name
//! that another party may have chosen, nothing but the page itself without the token of the session.
#![deny(unsafe_code)]

mod answer;
mod connections;
mod files;
pub mod guard;
mod history;
pub mod listen;
pub mod openid;
mod sessions;
mod source;
mod throttle;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Semaphore;

pub use self::connections::serve;

/// How often the history gets a sample.
pub const INTERVAL: Duration = Duration::from_secs(10);

/// An administrator who makes a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Caller {
    /// The name with which they have logged on.
    pub name: String,
    /// The address of their browser, or `unix` if it is connected to a UNIX socket.
    pub address: String,
}

/// Why a logon failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogonError {
    /// The name or the password is wrong, or the account does not administrate the server.
    Refused,
    /// It cannot be verified; the text, which is for the log only, says why.
    Unavailable(String),
}

/// A sample of the history.
#[derive(Clone, PartialEq, Debug)]
pub struct Sample {
    /// Seconds since 1970, UTC.
    pub time: i64,
    /// A value for each of [`Administration::series`].
    pub values: Vec<f64>,
}

/// What the console shows and changes. All functions may block, and are called on threads that may.
pub trait Administration: Send + Sync + 'static {
    /// Verifies a password. Returns the name of the administrator as it is recorded.
    ///
    /// # Errors
    /// The logon fails.
    fn log_on(&self, caller: &Caller, password: &str) -> Result<String, LogonError>;

    /// Records the end of a session.
    fn logged_off(&self, caller: &Caller);

    /// Returns what the page shows under `name`; `None` if there is no such query.
    ///
    /// # Errors
    /// It cannot be determined; the text is shown.
    fn query(&self, name: &str, arguments: &Value) -> Option<Result<Value, String>>;

    /// Makes the change called `name` and records it; `None` if there is no such change.
    ///
    /// # Errors
    /// The change is not made; the text is shown.
    fn change(&self, caller: &Caller, name: &str, arguments: Value) -> Option<Result<Value, String>>;

    /// Returns the account whose sessions end with this change, also if it fails, because it may be made in part.
    fn revoked(&self, name: &str, arguments: &Value) -> Option<String>;

    /// The names of the values in a sample.
    fn series(&self) -> &'static [&'static str];

    /// Returns the present values; `None` if the server does not answer.
    fn sample(&self) -> Option<Sample>;
}

/// The console.
pub struct Console {
    administration: Arc<dyn Administration>,
    sessions: sessions::Sessions,
    throttle: throttle::Throttle,
    history: history::History,
    /// Logons that are verified at the same time, for each kind of source.
    logons: [Arc<Semaphore>; source::KINDS],
    /// Queries and changes that are executed at the same time.
    work: Arc<Semaphore>,
    openid: Option<openid::OpenId>,
    started: std::time::Instant,
}

impl Console {
    /// Creates the console of a server.
    pub fn new(administration: Arc<dyn Administration>) -> Arc<Console> {
        Console::with_openid(administration, None)
    }

    /// Creates the console of a server, with logon through an issuer if there is one.
    pub fn with_openid(administration: Arc<dyn Administration>, openid: Option<openid::OpenId>) -> Arc<Console> {
        Arc::new(Console {
            administration,
            sessions: sessions::Sessions::default(),
            throttle: throttle::Throttle::default(),
            history: history::History::default(),
            logons: std::array::from_fn(|_| Arc::new(Semaphore::new(answer::LOGONS))),
            work: Arc::new(Semaphore::new(answer::WORK)),
            openid,
            started: std::time::Instant::now(),
        })
    }

    /// Ends all sessions of an account, and refuses its logons that are being verified.
    fn end_all(&self, account: &str) {
        // A logon that begins a session of its own compares the generation afterwards.
        self.sessions.end_all(account);
        if let Some(openid) = &self.openid {
            openid.own.end_all(account);
        }
    }

    /// Samples the history, until the future is dropped.
    pub async fn observe(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let administration = self.administration.clone();
            if let Ok(Some(sample)) = tokio::task::spawn_blocking(move || administration.sample()).await {
                self.history.add(sample);
            }
        }
    }
}
