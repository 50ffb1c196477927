//! Logon through an OpenID Connect issuer: the authorization code flow with PKCE (OpenID Connect Core 1.0, RFC 7636).
//!
//! - `answer::openid` has the requests of the page, and the flow.
//! - `pending` binds a logon that has begun to the browser and to the tab.
//! - `fetch` makes requests to the issuer, with limits of time and size. `provider` keeps what the issuer publishes.
//! - `token` verifies an ID token.
//! - `own` has the sessions of users who do not administrate the server. They can set their own password and nothing
//!   else. They are not in the table of administrators' sessions, so no other request finds them.

mod fetch;
pub(crate) mod own;
pub(crate) mod pending;
mod provider;
mod secret;
mod token;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use serde::Deserialize;
use tokio::sync::Semaphore;
use zeroize::Zeroizing;

pub use self::secret::read_secret;

use self::fetch::{Call, Client, Failed, encoded, escaped};
use self::pending::Flow;
use self::provider::{Cached, Keys, Provider};
use crate::throttle::Throttle;
use crate::{Caller, source};

/// Logons of one kind of source that wait for the issuer at the same time.
const TURNS: usize = 4;
/// How long what the issuer publishes is valid.
const PUBLISHED: Duration = Duration::from_secs(3600);
/// The issuer asks a user to authenticate again if the last time is longer ago.
pub(crate) const AUTHENTICATED: Duration = Duration::from_secs(300);

/// The settings of the console as a client of the issuer.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The URL of the issuer, as its discovery document has it. Without TLS, it must be of the loopback interface.
    pub issuer: String,
    /// The name with which the console is registered.
    pub client: String,
    /// The secret of the console; `None` for a public client.
    pub secret: Option<Zeroizing<String>>,
    /// The claim that is the exact name of the account.
    pub user_claim: String,
    /// The scopes that are requested.
    pub scopes: Vec<String>,
    /// The URL of the console with a slash at its end; `None` if it is the one by which a browser calls it.
    pub console_url: Option<String>,
}

/// A user that may log on after the issuer has authenticated them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Admitted {
    /// Whether they administrate the server. Other users can set their own password only.
    pub is_administrator: bool,
}

/// The accounts of the server. All functions may block, and are called on threads that may.
pub trait Accounts: Send + Sync + 'static {
    /// Admits a user after an authentication by the issuer, and records the logon.
    ///
    /// # Errors
    /// The user is refused, which is recorded; the text is shown to them.
    fn admit(&self, caller: &Caller) -> Result<Admitted, String>;

    /// Records a logon that is refused because of what the issuer has answered. `name` of the caller is empty.
    fn refused(&self, caller: &Caller, why: &str);

    /// Sets the password of the caller's own account, and records it. Returns a text that is shown.
    ///
    /// # Errors
    /// It is not set; the text is shown.
    fn set_own_password(&self, caller: &Caller, password: &str) -> Result<String, String>;
}

/// The time limits of requests to the issuer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// For an answer of the issuer, from the look-up of its name to the last byte.
    pub(crate) answer: Duration,
    /// How long no request is made after one that failed.
    pub(crate) pause: Duration,
    /// How long keys are not read again for a key that is not among them.
    pub(crate) keys: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        let secs = Duration::from_secs;
        Limits { answer: secs(10), pause: secs(10), keys: secs(60) }
    }
}

/// Logon through an issuer.
pub struct OpenId {
    pub(crate) settings: Settings,
    pub(crate) accounts: Arc<dyn Accounts>,
    pub(crate) pending: pending::Pending,
    pub(crate) own: own::Own,
    pub(crate) throttle: Throttle,
    /// Logons that wait for the issuer, for each kind of source. Logons with a password do not wait for them.
    pub(crate) turns: [Arc<Semaphore>; source::KINDS],
    client: Client,
    provider: Cached<Provider>,
    keys: Cached<Keys>,
    limits: Limits,
}

/// What the issuer says of a user.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Authenticated {
    /// The value of the claim.
    pub(crate) name: String,
}

/// The answer to a request for tokens. The access token has no use here.
#[derive(Deserialize)]
struct Tokens {
    id_token: String,
}

impl OpenId {
    /// Creates the logon through an issuer. Nothing is requested before the first user begins one.
    pub fn new(settings: Settings, accounts: Arc<dyn Accounts>) -> OpenId {
        OpenId::with_limits(settings, accounts, Limits::default())
    }

    pub(crate) fn with_limits(settings: Settings, accounts: Arc<dyn Accounts>, limits: Limits) -> OpenId {
        OpenId {
            client: Client::new(limits.answer),
            settings,
            accounts,
            pending: pending::Pending::default(),
            own: own::Own::default(),
            throttle: Throttle::default(),
            turns: std::array::from_fn(|_| Arc::new(Semaphore::new(TURNS))),
            provider: Cached::default(),
            keys: Cached::default(),
            limits,
        }
    }

    /// Returns the URL at the issuer that a browser visits to log on.
    ///
    /// # Errors
    /// The issuer does not answer, or its answer is wrong; the text is shown.
    pub(crate) async fn authorization(&self, flow: &Flow, state: &str) -> Result<String, String> {
        let provider = self.provider().await?;
        let Settings { client, scopes, .. } = &self.settings;
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, flow.verifier.as_bytes()));
        let most = AUTHENTICATED.as_secs().to_string();
        let query = encoded(&[
            ("response_type", "code"),
            ("client_id", client),
            ("redirect_uri", &flow.redirect),
            ("scope", &scopes.join(" ")),
            ("state", state),
            ("nonce", &flow.nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("max_age", &most),
        ]);
        let joint = if provider.authorization.contains('?') { '&' } else { '?' };
        Ok(format!("{}{joint}{query}", provider.authorization))
    }

    /// Exchanges the code for an ID token, and verifies it.
    ///
    /// # Errors
    /// The issuer does not answer, or its answer is wrong; the text is shown.
    pub(crate) async fn authenticated(&self, flow: &Flow, code: &str) -> Result<Authenticated, String> {
        let provider = self.provider().await?;
        let answer = self.exchanged(&provider, flow, code).await?;
        let Tokens { id_token } = serde_json::from_slice(&answer)
            .map_err(|_| format!("{} did not return an ID token; check `frevo:openid scopes`", provider.token))?;
        let id_token = Zeroizing::new(id_token);
        let header = token::header(&id_token)?;
        let mut key = self.keys(&provider, PUBLISHED).await?.find(&header);
        if key.is_none() {
            // The issuer may have changed its keys since.
            key = self.keys(&provider, self.limits.keys).await?.find(&header);
        }
        let key = key.ok_or("the issuer has signed the ID token with a key that it does not publish; try later")?;
        token::verified(&id_token, &header, &key, &self.settings, &flow.nonce)
    }

    /// Exchanges the code. If the issuer refuses the secret in `Authorization`, it is sent in the body, because an
    /// issuer that takes both may expect one of them of this client.
    async fn exchanged(&self, provider: &Provider, flow: &Flow, code: &str) -> Result<Bytes, Failed> {
        let in_body = provider.in_body.load(Ordering::Relaxed);
        let answer = self.client.fetch(&provider.token, self.exchange(flow, code, in_body)).await;
        match answer {
            Err(failed)
                if failed.is_invalid_client && !in_body && provider.takes_body && self.settings.secret.is_some() =>
            {
                let answer = self.client.fetch(&provider.token, self.exchange(flow, code, true)).await;
                provider.in_body.store(answer.is_ok(), Ordering::Relaxed);
                answer
            }
            answer => answer,
        }
    }

    /// Returns the request that exchanges the code, with the secret in the body or in `Authorization`.
    fn exchange(&self, flow: &Flow, code: &str, in_body: bool) -> Call {
        let Settings { client, secret, .. } = &self.settings;
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &flow.redirect),
            ("code_verifier", &flow.verifier),
        ];
        let mut authorization = None;
        match secret {
            Some(secret) if in_body => {
                form.extend([("client_id", client.as_str()), ("client_secret", secret.as_str())])
            }
            // RFC 6749 2.3.1: both parts are encoded as in a form.
            Some(secret) => {
                let pair = Zeroizing::new(format!("{}:{}", escaped(client), escaped(secret)));
                authorization = Some(format!("Basic {}", STANDARD.encode(pair.as_bytes())));
            }
            None => form.push(("client_id", client)),
        }
        Call::Form { body: encoded(&form), authorization }
    }

    async fn provider(&self) -> Result<Arc<Provider>, String> {
        let discovered = async || Provider::discovered(&self.client, &self.settings.issuer).await;
        self.provider.get(PUBLISHED, self.limits.pause, discovered).await
    }

    /// Returns the keys of the issuer, read at most `age` ago.
    async fn keys(&self, provider: &Provider, age: Duration) -> Result<Arc<Keys>, String> {
        let read = async || Keys::read(&self.client, &provider.keys).await;
        self.keys.get(age, self.limits.pause, read).await
    }
}

#[cfg(test)]
mod tests;
