//! The requests of the page for logon through an issuer, and for a user's own password.
//!
//! The issuer returns the browser to the page itself, with a code in the URL, and that request has no effect. The page
//! sends the code with a request of its own, which is checked like each change. So no page elsewhere can finish a
//! logon, the token of the session is known to the page alone, and the console never redirects.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use hyper::body::Body;
use hyper::header::{HeaderMap, HeaderValue, SET_COOKIE};
use hyper::http::uri::Authority;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::{info, warn};
use zeroize::Zeroizing;

use super::{Answer, Arrival, PASSWORD_SIZE, Refusal, not_json, not_logged_on, read, refused, set_cookie, turn, with};
use crate::openid::OpenId;
use crate::openid::pending::{Flow, Given};
use crate::sessions::{New, NotBegun, random};
use crate::source::Source;
use crate::{Caller, Console};

/// The path of the page to which the issuer returns the browser.
const RETURN: &str = "openid";
/// The time limit for all that is asked of the issuer in a logon.
const ISSUER_TIME: Duration = Duration::from_secs(30);
/// Maximum bytes of a code.
const CODE_SIZE: usize = 4096;

/// A request.
pub(super) struct Visit<'a> {
    pub(super) console: &'a Arc<Console>,
    pub(super) arrival: &'a Arrival,
    pub(super) host: &'a Authority,
    /// What the request presents to belong to a session.
    pub(super) id: &'a str,
    pub(super) token: &'a str,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Returned {
    state: String,
    code: String,
    /// The issuer, if it names itself (RFC 9207).
    iss: Option<String>,
    ticket: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewPassword {
    password: String,
}

impl Arrival {
    /// The name of the cookie that binds a logon to the browser.
    fn openid_cookie(&self) -> &'static str {
        if self.is_secure { "__Host-frevo-openid" } else { "frevo-openid" }
    }
}

impl Visit<'_> {
    fn openid(&self) -> Result<&OpenId, Refusal> {
        let missing = || Refusal(StatusCode::NOT_FOUND, "there is no OpenID Connect issuer".into());
        self.console.openid.as_ref().ok_or_else(missing)
    }

    fn now(&self) -> Duration {
        self.console.started.elapsed()
    }

    fn own(&self, openid: &OpenId) -> Result<Caller, Refusal> {
        openid.own.find(self.id, self.token, self.now()).ok_or_else(not_logged_on)
    }

    pub(super) fn get(&self, name: &str) -> Result<Answer, Refusal> {
        match name {
            "issuer" => {
                let issuer = self.console.openid.as_ref().map(|openid| &openid.settings.issuer);
                Ok(with(StatusCode::OK, &json!({ "issuer": issuer })))
            }
            "session" => {
                let Caller { name, .. } = self.own(self.openid()?)?;
                Ok(with(StatusCode::OK, &json!({ "name": name })))
            }
            _ => refused(StatusCode::NOT_FOUND, "there is no such request"),
        }
    }

    pub(super) async fn post<B>(&self, name: &str, headers: &HeaderMap, body: B) -> Result<Answer, Refusal>
    where
        B: Body<Data = Bytes>,
        B::Error: std::error::Error + Send + Sync + 'static,
    {
        let openid = self.openid()?;
        match name {
            "begin" => self.begin(openid).await,
            "finish" => {
                let cookie = super::cookie(headers, self.arrival.openid_cookie()).unwrap_or_default().to_owned();
                self.finish(openid, &cookie, arguments(&read(headers, body).await?)?).await
            }
            "password" => {
                self.own(openid)?;
                let NewPassword { password } = arguments(&read(headers, body).await?)?;
                self.set_password(openid, Zeroizing::new(password)).await
            }
            "logoff" => {
                self.own(openid)?;
                self.end_sessions(openid).await;
                let mut answer = with(StatusCode::OK, &json!({}));
                set_cookie(&mut answer, self.arrival, "", "; Max-Age=0");
                Ok(answer)
            }
            _ => refused(StatusCode::NOT_FOUND, "there is no such request"),
        }
    }

    /// Begins a logon. Returns the URL at the issuer, which the page visits.
    async fn begin(&self, openid: &OpenId) -> Result<Answer, Refusal> {
        let redirect = self.redirect(openid)?;
        let source = Source::of(self.arrival.address);
        // There is no name yet, so each source has one of its own.
        if !openid.throttle.may_try(&format!("{source:?}"), source, self.now()) {
            return refused(StatusCode::TOO_MANY_REQUESTS, "too many logons were tried; wait a minute");
        }
        let _turn = turn(&openid.turns[source.kind()]).await?;
        let (flow, state) = (Flow::new(redirect), random());
        let url = openid.authorization(&flow, &state).await.map_err(unavailable)?;
        let given = openid.pending.begin(flow, state, self.now());
        let Some(Given { cookie, ticket, .. }) = given else {
            return refused(StatusCode::SERVICE_UNAVAILABLE, "too many logons have begun; try later");
        };
        let mut answer = with(StatusCode::OK, &json!({ "url": url, "ticket": ticket }));
        self.add_cookie(&mut answer, &cookie, "; Max-Age=600");
        Ok(answer)
    }

    /// Returns the URL to which the issuer returns the browser.
    fn redirect(&self, openid: &OpenId) -> Result<String, Refusal> {
        let scheme = if self.arrival.is_secure { "https" } else { "http" };
        let Some(url) = &openid.settings.console_url else {
            return Ok(format!("{scheme}://{}/{RETURN}", self.host));
        };
        // The page at another URL does not have what the page here keeps.
        let own = url.split('/').nth(2).unwrap_or_default();
        if !own.eq_ignore_ascii_case(self.host.as_str()) {
            return refused(StatusCode::MISDIRECTED_REQUEST, format!("for this logon, open the console at {url}"));
        }
        Ok(format!("{url}{RETURN}"))
    }

    /// Finishes a logon: exchanges the code, verifies the ID token, and begins a session.
    async fn finish(&self, openid: &OpenId, cookie: &str, returned: Returned) -> Result<Answer, Refusal> {
        let Returned { state, code, iss, ticket } = returned;
        let code = Zeroizing::new(code);
        let Some(flow) = openid.pending.take(&state, cookie, &ticket, self.now()) else {
            let why = "this logon was not begun in this tab, or it is too old or already finished; begin it again";
            return refused(StatusCode::FORBIDDEN, why);
        };
        if code.is_empty() || code.len() > CODE_SIZE || iss.is_some_and(|iss| iss != openid.settings.issuer) {
            return refused(StatusCode::FORBIDDEN, "the answer is not one of the issuer; begin the logon again");
        }
        let source = Source::of(self.arrival.address);
        let turn = turn(&openid.turns[source.kind()]).await?;
        let generation = self.console.sessions.generation();
        let late = || Err(format!("{} does not answer in time", openid.settings.issuer));
        let authenticated = timeout(ISSUER_TIME, openid.authenticated(&flow, &code)).await.unwrap_or_else(|_| late());
        let name = match authenticated {
            Ok(authenticated) => authenticated.name,
            Err(why) => {
                warn!(why, "console: a logon through the issuer is refused");
                let (accounts, caller, text) =
                    (openid.accounts.clone(), self.arrival.caller(String::new()), why.clone());
                let _ = spawn_blocking(move || accounts.refused(&caller, &text)).await;
                return Err(unavailable(why));
            }
        };
        let (accounts, caller) = (openid.accounts.clone(), self.arrival.caller(name));
        let asked = caller.clone();
        let admitted = spawn_blocking(move || {
            let _turn = turn;
            accounts.admit(&asked)
        });
        let internal = |_| Refusal(StatusCode::INTERNAL_SERVER_ERROR, "internal error; see the log".into());
        let admitted = admitted.await.map_err(internal)?.map_err(|why| Refusal(StatusCode::FORBIDDEN, why))?;
        let begun = match admitted.is_administrator {
            true => self.console.sessions.begin(caller.clone(), generation, self.now()),
            false => self.begin_own(openid, &caller, generation),
        };
        let New { id, token } = begun.map_err(|error| match error {
            NotBegun::Full => Refusal(StatusCode::SERVICE_UNAVAILABLE, "too many users have logged on".into()),
            NotBegun::Revoked => Refusal(StatusCode::CONFLICT, "an account was changed meanwhile; try again".into()),
        })?;
        openid.throttle.succeeded(&format!("{source:?}"), source);
        self.end_sessions(openid).await;
        let value = json!({ "name": caller.name, "token": token, "own": !admitted.is_administrator });
        let mut answer = with(StatusCode::OK, &value);
        set_cookie(&mut answer, self.arrival, &id, "");
        self.add_cookie(&mut answer, "", "; Max-Age=0");
        Ok(answer)
    }

    fn begin_own(
        &self,
        openid: &OpenId,
        caller: &Caller,
        generation: crate::sessions::Generation,
    ) -> Result<New, NotBegun> {
        let new = openid.own.begin(caller.clone(), self.now()).ok_or(NotBegun::Full)?;
        if self.console.sessions.generation() == generation {
            return Ok(new);
        }
        openid.own.end(&new.id);
        Err(NotBegun::Revoked)
    }

    async fn set_password(&self, openid: &OpenId, password: Zeroizing<String>) -> Result<Answer, Refusal> {
        if password.len() > PASSWORD_SIZE {
            return refused(StatusCode::BAD_REQUEST, "the password is too long");
        }
        let turn = turn(&self.console.work).await?;
        // The session may have ended while the body or the turn was awaited.
        let caller = self.own(openid)?;
        let (accounts, console, name) = (openid.accounts.clone(), self.console.clone(), caller.name.clone());
        let done = spawn_blocking(move || {
            let _turn = turn;
            let done = accounts.set_own_password(&caller, &password);
            if done.is_ok() {
                console.end_all(&caller.name);
            }
            done
        });
        match done.await {
            Ok(Ok(text)) => {
                info!(user = name, "console: a user has set their own password");
                let mut answer = with(StatusCode::OK, &json!(text));
                set_cookie(&mut answer, self.arrival, "", "; Max-Age=0");
                Ok(answer)
            }
            Ok(Err(why)) => refused(StatusCode::UNPROCESSABLE_ENTITY, why),
            Err(_) => refused(StatusCode::INTERNAL_SERVER_ERROR, "internal error of the console; see its log"),
        }
    }

    /// Ends the session that the request presents.
    async fn end_sessions(&self, openid: &OpenId) {
        super::end_session(self.console, self.id).await;
        if let Some(caller) = openid.own.end(self.id) {
            let administration = self.console.administration.clone();
            let _ = spawn_blocking(move || administration.logged_off(&caller)).await;
        }
    }

    /// Adds the cookie of a logon that has begun. The page itself sends it, so it is as strict as that of the session.
    fn add_cookie(&self, answer: &mut Answer, value: &str, more: &str) {
        let secure = if self.arrival.is_secure { "; Secure" } else { "" };
        let name = self.arrival.openid_cookie();
        let cookie = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{more}");
        let cookie = HeaderValue::from_str(&cookie).expect("a cookie has hexadecimal digits");
        answer.headers_mut().append(SET_COOKIE, cookie);
    }
}

fn arguments<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|_| not_json())
}

fn unavailable(why: String) -> Refusal {
    Refusal(StatusCode::BAD_GATEWAY, format!("{why}; logon with a password is not affected"))
}
