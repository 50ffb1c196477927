//! The answer to one request: a file of the page, a query, a change, a logon.

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
use tokio::time::{Instant, sleep_until, timeout};
use zeroize::Zeroizing;

use crate::guard::{self, Hosts};
use crate::sessions::{self, New};
use crate::{Administration, Caller, Console, LogonError, files};

/// Maximum number of logons that are verified, and of queries and changes that are executed, at the same time.
pub(crate) const LOGONS: usize = 2;
pub(crate) const WORK: usize = 8;
/// Maximum bytes of a request's body, and the time limit for it.
const BODY_SIZE: usize = 64 * 1024;
const BODY_TIME: Duration = Duration::from_secs(10);
/// How long a request waits for others to end.
const TURN_TIME: Duration = Duration::from_secs(10);
/// The time after which a refused logon is answered, whatever the reason is.
const REFUSAL_TIME: Duration = Duration::from_secs(2);
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
    /// The address of the browser, or `unix`.
    pub(crate) address: String,
    /// Whether the connection has TLS.
    pub(crate) is_secure: bool,
}

impl Arrival {
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
    if api == "logon" && is_change {
        return log_on(console, arrival, &read(&headers, body).await?).await;
    }
    let id = cookie(&headers, arrival.cookie()).unwrap_or_default();
    let is_poll = headers.contains_key(POLL);
    let Some((caller, token)) = console.sessions.find(id, console.started.elapsed(), !is_poll) else {
        return refused(StatusCode::UNAUTHORIZED, "log on first");
    };
    if is_change {
        let sent = headers.get(TOKEN).and_then(|token| token.to_str().ok()).unwrap_or_default();
        if !sessions::is_same(sent, &token) {
            return refused(StatusCode::FORBIDDEN, "the request has not the token of the session; load the page again");
        }
        if api == "logoff" {
            return Ok(log_off(console, arrival, id).await);
        }
        let body = read(&headers, body).await?;
        let arguments = serde_json::from_slice(&body).map_err(|_| not_json())?;
        let name = api.to_owned();
        return work(console, move |it| it.change(&caller, &name, arguments)).await;
    }
    match api {
        "session" => Ok(with(StatusCode::OK, &json!({ "name": caller.name, "token": token }))),
        "history" => {
            let after = argument(parts.uri.query(), "after").and_then(|after| after.parse().ok()).unwrap_or(0);
            let series = console.administration.series();
            Ok(with(StatusCode::OK, &console.history.json(series, after)))
        }
        name => {
            let arguments = argument(parts.uri.query(), "of").map_or(Value::Null, Value::String);
            let name = name.to_owned();
            work(console, move |it| it.query(&name, &arguments)).await
        }
    }
}

fn file(path: &str) -> Result<Answer, Refusal> {
    let Some(file) = files::find(path) else { return refused(StatusCode::NOT_FOUND, "there is no such page") };
    let mut answer = Response::new(Full::from(Bytes::from_static(file.content)));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(file.kind));
    Ok(answer)
}

/// Executes a query or a change on a thread that may block.
async fn work(
    console: &Arc<Console>,
    done: impl FnOnce(&dyn Administration) -> Option<Result<Value, String>> + Send + 'static,
) -> Result<Answer, Refusal> {
    let busy = || Refusal(StatusCode::SERVICE_UNAVAILABLE, "too many requests are being executed; try again".into());
    let turn = timeout(TURN_TIME, console.work.acquire()).await;
    let _turn = turn.ok().and_then(Result::ok).ok_or_else(busy)?;
    let administration = console.administration.clone();
    match tokio::task::spawn_blocking(move || done(&*administration)).await {
        Ok(Some(Ok(value))) => Ok(with(StatusCode::OK, &value)),
        Ok(Some(Err(why))) => refused(StatusCode::UNPROCESSABLE_ENTITY, why),
        Ok(None) => refused(StatusCode::NOT_FOUND, "there is no such request"),
        Err(_) => refused(StatusCode::INTERNAL_SERVER_ERROR, "internal error of the console; see its log"),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Credentials {
    name: String,
    password: String,
}

async fn log_on(console: &Arc<Console>, arrival: &Arrival, body: &[u8]) -> Result<Answer, Refusal> {
    let end = Instant::now() + REFUSAL_TIME;
    let Credentials { name, password } = serde_json::from_slice(body).map_err(|_| not_json())?;
    let password = Zeroizing::new(password);
    if name.is_empty() || name.len() > NAME_SIZE || password.len() > PASSWORD_SIZE || name.contains(char::is_control) {
        return refused(StatusCode::BAD_REQUEST, "the name or the password is too long, or the name is not valid");
    }
    let later = || Refusal(StatusCode::TOO_MANY_REQUESTS, "too many logons were tried; wait a minute".into());
    let Ok(turn) = console.logons.try_acquire() else { return Err(later()) };
    if !console.throttle.may_try(&name, &arrival.address, console.started.elapsed()) {
        return Err(later());
    }
    let caller = Caller { name: name.clone(), address: arrival.address.clone() };
    let (administration, asked) = (console.administration.clone(), caller.clone());
    let outcome = tokio::task::spawn_blocking(move || administration.log_on(&asked, &password)).await;
    drop(turn);
    match outcome {
        Ok(Ok(admitted)) => {
            console.throttle.succeeded(&name, &arrival.address);
            let caller = Caller { name: admitted, ..caller };
            let Some(New { id, token }) = console.sessions.begin(caller.clone(), console.started.elapsed()) else {
                return refused(StatusCode::SERVICE_UNAVAILABLE, "too many administrators have logged on; try later");
            };
            let mut answer = with(StatusCode::OK, &json!({ "name": caller.name, "token": token }));
            set_cookie(&mut answer, arrival, &id, "");
            Ok(answer)
        }
        Ok(Err(LogonError::Refused)) => {
            sleep_until(end).await;
            let why = "the name or the password is wrong, or the account does not administrate this server";
            refused(StatusCode::UNAUTHORIZED, why)
        }
        Ok(Err(LogonError::Unavailable(why))) => refused(StatusCode::SERVICE_UNAVAILABLE, why),
        Err(_) => refused(StatusCode::INTERNAL_SERVER_ERROR, "internal error of the console; see its log"),
    }
}

async fn log_off(console: &Arc<Console>, arrival: &Arrival, id: &str) -> Answer {
    if let Some(caller) = console.sessions.end(id) {
        let administration = console.administration.clone();
        let _ = tokio::task::spawn_blocking(move || administration.logged_off(&caller)).await;
    }
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
