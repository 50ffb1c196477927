//! The answer to one request: a file of the page, a query, a change, a logon.

mod openid;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Body;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HeaderMap, HeaderName, HeaderValue,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::{Method, Request, Response, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{error, warn};
use zeroize::Zeroizing;

use crate::guard::{self, Hosts};
use crate::sessions::{New, NotBegun};
use crate::source::Source;
use crate::{Administration, Caller, Console, LogonError, files};

/// Maximum number of logons of one kind of source that are verified, and of queries and changes that are executed, at
/// the same time. A refused logon counts until it is answered after [`REFUSAL_TIME`], so there are enough for the one
/// each second that the limits of attempts permit.
pub(crate) const LOGONS: usize = 6;
pub(crate) const WORK: usize = 8;
/// Maximum bytes of a request's body, and the time limit for it.
const BODY_SIZE: usize = 64 * 1024;
const BODY_TIME: Duration = Duration::from_secs(10);
/// How long a request waits for others to end.
const TURN_TIME: Duration = Duration::from_secs(10);
/// The time after which a refused logon is answered, whatever the reason is. It is longer than the delays of PAM
/// modules after a wrong password, which are up to 4.5 seconds with `pam_faildelay` as distributions configure it.
/// Otherwise the time would tell which names PAM was asked for.
const REFUSAL_TIME: Duration = Duration::from_secs(5);
/// Maximum bytes of a name and of a password.
const NAME_SIZE: usize = 256;
const PASSWORD_SIZE: usize = 1024;

/// Only files of the console itself, and nothing that a page could be tricked into loading or sending elsewhere.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                              connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; \
                              require-trusted-types-for 'script'";
/// A header by which the page says that no administrator caused the request.
const POLL: HeaderName = HeaderName::from_static("x-frevo-poll");
/// The header with the token of the session.
const TOKEN: HeaderName = HeaderName::from_static("x-frevo-token");

pub(crate) type Answer = Response<Full<Bytes>>;

/// How a request arrived.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// The address of the browser; `None` at a UNIX socket.
    pub(crate) address: Option<IpAddr>,
    /// Whether the connection has TLS.
    pub(crate) is_secure: bool,
}

impl Arrival {
    fn caller(&self, name: String) -> Caller {
        Caller { name, address: self.address.map_or_else(|| "unix".to_owned(), |address| address.to_string()) }
    }

    /// The name of the cookie. Browsers accept the prefix only from this host, with TLS, and for all paths, so that no
    /// other host of the domain can set it.
    fn cookie(&self) -> &'static str {
        if self.is_secure { "__Host-frevo" } else { "frevo" }
    }
}

/// A refusal: the status and the text that the page shows.
struct Refusal(StatusCode, String);

fn refused<T>(status: StatusCode, why: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal(status, why.into()))
}

/// Answers a request.
pub(crate) async fn answer<B>(console: &Arc<Console>, hosts: &Hosts, arrival: &Arrival, request: Request<B>) -> Answer
where
    B: Body<Data = Bytes>,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let answer = route(console, hosts, arrival, request).await;
    let mut answer = answer.unwrap_or_else(|Refusal(status, why)| with(status, &json!({ "error": why })));
    let headers = answer.headers_mut();
    let fixed = [
        (CONTENT_SECURITY_POLICY, CONTENT_POLICY),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

async fn route<B>(
    console: &Arc<Console>,
    hosts: &Hosts,
    arrival: &Arrival,
    request: Request<B>,
) -> Result<Answer, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let Some(host) = hosts.permitted(request.headers()) else {
        let why = "this host name is not one of the console; use localhost, or start it with --host NAME";
        return refused(StatusCode::MISDIRECTED_REQUEST, why);
    };
    let path = request.uri().path().to_owned();
    let is_change = match *request.method() {
        Method::GET | Method::HEAD => false,
        Method::POST if path.starts_with("/api/") => true,
        _ => {
            let mut answer =
                with(StatusCode::METHOD_NOT_ALLOWED, &json!({ "error": "only GET and POST are supported" }));
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD, POST"));
            return Ok(answer);
        }
    };
    let Some(api) = path.strip_prefix("/api/") else { return file(&path) };
    let is_own = match is_change {
        true => guard::is_own_change(request.headers(), &host),
        false => guard::is_own_page(request.headers()),
    };
    if !is_own {
        return refused(StatusCode::FORBIDDEN, "the request does not come from the page of this console");
    }
    let (parts, body) = request.into_parts();
    let headers = parts.headers;
    let id = cookie(&headers, arrival.cookie()).unwrap_or_default();
    if api == "logon" && is_change {
        return log_on(console, arrival, id, &read(&headers, body).await?).await;
    }
    let token = headers.get(TOKEN).and_then(|token| token.to_str().ok()).unwrap_or_default();
    if let Some(name) = api.strip_prefix("openid/") {
        let visit = openid::Visit { console, arrival, host: &host, id, token };
        return if is_change { visit.post(name, &headers, body).await } else { visit.get(name) };
    }
    let is_used = !headers.contains_key(POLL);
    let Some(caller) = console.sessions.find(id, token, console.started.elapsed(), is_used) else {
        return Err(not_logged_on());
    };
    let session = Presented { id: id.to_owned(), token: token.to_owned() };
    if is_change {
        if api == "logoff" {
            return Ok(log_off(console, arrival, id).await);
        }
        let body = read(&headers, body).await?;
        let arguments: Value = serde_json::from_slice(&body).map_err(|_| not_json())?;
        let (name, revoked) = (api.to_owned(), console.administration.revoked(api, &arguments));
        let ending = console.clone();
        return work(console, session, move |it| {
            let _ended = revoked.map(|account| Ending { console: ending, account });
            it.change(&caller, &name, arguments)
        })
        .await;
    }
    match api {
        "session" => Ok(with(StatusCode::OK, &json!({ "name": caller.name }))),
        "history" => {
            let after = argument(parts.uri.query(), "after").and_then(|after| after.parse().ok()).unwrap_or(0);
            let series = console.administration.series();
            Ok(with(StatusCode::OK, &console.history.json(series, after)))
        }
        name => {
            let arguments = argument(parts.uri.query(), "of").map_or(Value::Null, Value::String);
            let name = name.to_owned();
            work(console, session, move |it| it.query(&name, &arguments)).await
        }
    }
}

fn file(path: &str) -> Result<Answer, Refusal> {
    let Some(file) = files::find(path) else { return refused(StatusCode::NOT_FOUND, "there is no such page") };
    let mut answer = Response::new(Full::from(Bytes::from_static(file.content)));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(file.kind));
    Ok(answer)
}

/// Waits for a turn. It is held by what is done, which continues when the browser disconnects.
async fn turn(of: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Refusal> {
    let busy = || Refusal(StatusCode::SERVICE_UNAVAILABLE, "too many requests are being executed; try again".into());
    timeout(TURN_TIME, of.clone().acquire_owned()).await.ok().and_then(Result::ok).ok_or_else(busy)
}

/// What a request presents to belong to a session.
struct Presented {
    id: String,
    token: String,
}

/// Ends the sessions of an account after a change that revokes it, whatever its result is, and also if the browser has
/// not waited.
struct Ending {
    console: Arc<Console>,
    account: String,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.console.end_all(&self.account);
    }
}

/// Executes a query or a change on a thread that may block.
async fn work(
    console: &Arc<Console>,
    Presented { id, token }: Presented,
    done: impl FnOnce(&dyn Administration) -> Option<Result<Value, String>> + Send + 'static,
) -> Result<Answer, Refusal> {
    let turn = turn(&console.work).await?;
    let own = console.clone();
    let done = move || -> Result<_, Refusal> {
        let _turn = turn;
        // The session may have ended while the body or the turn was awaited.
        own.sessions.find(&id, &token, own.started.elapsed(), false).ok_or_else(not_logged_on)?;
        Ok(done(&*own.administration))
    };
    match tokio::task::spawn_blocking(done).await {
        Ok(Err(refusal)) => Err(refusal),
        Ok(Ok(Some(Ok(value)))) => Ok(with(StatusCode::OK, &value)),
        Ok(Ok(Some(Err(why)))) => refused(StatusCode::UNPROCESSABLE_ENTITY, why),
        Ok(Ok(None)) => refused(StatusCode::NOT_FOUND, "there is no such request"),
        Err(_) => refused(StatusCode::INTERNAL_SERVER_ERROR, "internal error of the console; see its log"),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Credentials {
    name: String,
    password: String,
}

/// Verifies a password and begins a session, which replaces the one with the id `presented`.
async fn log_on(console: &Arc<Console>, arrival: &Arrival, presented: &str, body: &[u8]) -> Result<Answer, Refusal> {
    let Credentials { name, password } = serde_json::from_slice(body).map_err(|_| not_json())?;
    let password = Zeroizing::new(password);
    if name.is_empty() || name.len() > NAME_SIZE || password.len() > PASSWORD_SIZE || name.contains(char::is_control) {
        return refused(StatusCode::BAD_REQUEST, "the name or the password is too long, or the name is not valid");
    }
    let source = Source::of(arrival.address);
    if !console.throttle.may_try(&name, source, console.started.elapsed()) {
        return refused(StatusCode::TOO_MANY_REQUESTS, "too many logons were tried; wait a minute");
    }
    let turn = turn(&console.logons[source.kind()]).await?;
    let end = Instant::now() + REFUSAL_TIME;
    let generation = console.sessions.generation();
    let caller = arrival.caller(name.clone());
    let verified = tokio::spawn(verified(console.administration.clone(), caller.clone(), password, turn, end)).await;
    let begun = verified.ok().flatten().map(|admitted| {
        let caller = Caller { name: admitted, ..caller };
        let begun = console.sessions.begin(caller.clone(), generation, console.started.elapsed());
        (caller, begun)
    });
    match begun {
        Some((caller, Ok(New { id, token }))) => {
            console.throttle.succeeded(&name, source);
            end_session(console, presented).await;
            let mut answer = with(StatusCode::OK, &json!({ "name": caller.name, "token": token }));
            set_cookie(&mut answer, arrival, &id, "");
            Ok(answer)
        }
        Some((_, Err(NotBegun::Full))) => {
            refused(StatusCode::SERVICE_UNAVAILABLE, "too many administrators have logged on; try later")
        }
        refusal => {
            // One answer after one time, because the reason would tell which names administrate, and which passwords
            // are right.
            if let Some((_, Err(NotBegun::Revoked))) = refusal {
                warn!(name, "console: an account was changed during the logon, which is refused");
            }
            sleep_until(end).await;
            let why = "the name or the password is wrong, the account does not administrate this server, or it cannot \
                       be verified now; the log of the console has the reason";
            refused(StatusCode::UNAUTHORIZED, why)
        }
    }
}

/// Verifies a password. Returns the administrator; `None` if the logon is refused. The turn is then held until `end`,
/// also if the browser has gone. Otherwise the time that others wait would tell how long the verification took.
async fn verified(
    administration: Arc<dyn Administration>,
    caller: Caller,
    password: Zeroizing<String>,
    turn: OwnedSemaphorePermit,
    end: Instant,
) -> Option<String> {
    let _turn = turn;
    let name = caller.name.clone();
    let why = match tokio::task::spawn_blocking(move || administration.log_on(&caller, &password)).await {
        Ok(Ok(admitted)) => return Some(admitted),
        Ok(Err(LogonError::Refused)) => None,
        Ok(Err(LogonError::Unavailable(why))) => Some(why),
        Err(error) => Some(error.to_string()),
    };
    if let Some(why) = why {
        error!(name, why, "console: a logon cannot be verified");
    }
    sleep_until(end).await;
    None
}

async fn end_session(console: &Arc<Console>, id: &str) {
    if let Some(caller) = console.sessions.end(id) {
        let administration = console.administration.clone();
        let _ = tokio::task::spawn_blocking(move || administration.logged_off(&caller)).await;
    }
}

async fn log_off(console: &Arc<Console>, arrival: &Arrival, id: &str) -> Answer {
    end_session(console, id).await;
    let mut answer = with(StatusCode::OK, &json!({}));
    set_cookie(&mut answer, arrival, "", "; Max-Age=0");
    answer
}

fn set_cookie(answer: &mut Answer, arrival: &Arrival, value: &str, more: &str) {
    let secure = if arrival.is_secure { "; Secure" } else { "" };
    let cookie = format!("{}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{more}", arrival.cookie());
    let cookie = HeaderValue::from_str(&cookie).expect("a cookie has hexadecimal digits");
    answer.headers_mut().insert(SET_COOKIE, cookie);
}

/// Reads the body of a change, which is JSON. Pages elsewhere cannot send this type without asking first.
async fn read<B>(headers: &HeaderMap, body: B) -> Result<Zeroizing<Vec<u8>>, Refusal>
where
    B: Body<Data = Bytes>,
    B::Error: std::error::Error + Send + Sync + 'static,
{
    let too_large = || Refusal(StatusCode::PAYLOAD_TOO_LARGE, format!("a request has at most {BODY_SIZE} bytes"));
    if headers.get(CONTENT_TYPE).is_none_or(|kind| kind != "application/json") {
        return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE, "a change is of the type application/json");
    }
    if body.size_hint().lower() > BODY_SIZE as u64 {
        return Err(too_large());
    }
    let body = std::pin::pin!(Limited::new(body, BODY_SIZE));
    match timeout(BODY_TIME, body.collect()).await {
        Ok(Ok(body)) => Ok(Zeroizing::new(body.to_bytes().to_vec())),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(_)) => refused(StatusCode::BAD_REQUEST, "the body of the request is incomplete"),
        Err(_) => refused(StatusCode::REQUEST_TIMEOUT, "the body of the request did not arrive in time"),
    }
}

fn not_logged_on() -> Refusal {
    Refusal(StatusCode::UNAUTHORIZED, "log on first".into())
}

fn not_json() -> Refusal {
    Refusal(StatusCode::BAD_REQUEST, "the body of the request is not what the console expects".into())
}

/// Returns the value of a cookie.
fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let texts = headers.get_all(COOKIE).iter().filter_map(|header| header.to_str().ok());
    texts.flat_map(|text| text.split(';')).find_map(|pair| {
        let (found, value) = pair.trim().split_once('=')?;
        (found == name).then_some(value)
    })
}

/// Returns an argument of the query.
fn argument(query: Option<&str>, name: &str) -> Option<String> {
    let value = query?.split('&').find_map(|pair| pair.split_once('=').filter(|(found, _)| *found == name))?.1;
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.first_chunk::<2>().and_then(|digits| std::str::from_utf8(digits).ok());
        match (first, digits.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(byte)) => (bytes.push(byte), rest = &after[2..]).0,
            (b'%', None) => return None,
            (byte, _) => (bytes.push(*byte), rest = after).0,
        }
    }
    String::from_utf8(bytes).ok()
}

fn with(status: StatusCode, value: &Value) -> Answer {
    let mut answer = Response::new(Full::from(value.to_string()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}

#[cfg(test)]
mod tests;
