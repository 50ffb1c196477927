//! Logons and attacks, with an issuer and a console on real sockets.

mod issuer;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use self::issuer::{CLIENT, Fault, Issuer, SECRET, now};
use super::*;
use crate::listen::Listener;
use crate::{Administration, Console, LogonError, Sample, serve};

/// A server with the administrator `root` and the user `ann`.
#[derive(Default)]
struct Fake {
    recorded: Mutex<Vec<String>>,
    password: Mutex<Option<(String, String)>>,
    /// Queries and changes of administrators.
    executed: AtomicUsize,
}

impl Administration for Fake {
    fn log_on(&self, caller: &Caller, password: &str) -> Result<String, LogonError> {
        if password == "right" { Ok(caller.name.clone()) } else { Err(LogonError::Refused) }
    }

    fn logged_off(&self, caller: &Caller) {
        self.recorded.lock().push(format!("logoff {}", caller.name));
    }

    fn query(&self, _: &str, _: &Value) -> Option<Result<Value, String>> {
        self.executed.fetch_add(1, Ordering::Relaxed);
        Some(Ok(Value::Null))
    }

    fn change(&self, _: &Caller, _: &str, _: Value) -> Option<Result<Value, String>> {
        self.executed.fetch_add(1, Ordering::Relaxed);
        Some(Ok(Value::Null))
    }

    fn revoked(&self, name: &str, arguments: &Value) -> Option<String> {
        (name == "user.delete").then(|| arguments["name"].as_str().unwrap_or_default().to_owned())
    }

    fn series(&self) -> &'static [&'static str] {
        &[]
    }

    fn sample(&self) -> Option<Sample> {
        None
    }
}

impl Accounts for Fake {
    fn admit(&self, caller: &Caller) -> Result<Admitted, String> {
        assert_eq!(caller.address, "127.0.0.1");
        let admitted = match caller.name.as_str() {
            "root" => Ok(Admitted { is_administrator: true }),
            "ann" => Ok(Admitted { is_administrator: false }),
            _ => Err("there is no SMB account with exactly this name".to_owned()),
        };
        self.recorded.lock().push(format!("logon {} {}", caller.name, admitted.is_ok()));
        admitted
    }

    fn refused(&self, caller: &Caller, why: &str) {
        assert_eq!(caller.name, "");
        self.recorded.lock().push(format!("refused {why}"));
    }

    fn set_own_password(&self, caller: &Caller, password: &str) -> Result<String, String> {
        if password.len() < 5 {
            return Err("the password is too short".into());
        }
        *self.password.lock() = Some((caller.name.clone(), password.to_owned()));
        Ok("done".into())
    }
}

struct Test {
    address: SocketAddr,
    fake: Arc<Fake>,
    issuer: Arc<Issuer>,
}

/// A browser at the issuer.
struct Away {
    url: String,
    cookie: String,
    ticket: String,
}

/// The headers of a session.
struct Home {
    headers: String,
    body: Value,
}

impl Test {
    async fn start() -> Test {
        Test::with(|_| {}, Limits::default()).await
    }

    async fn with(change: impl FnOnce(&mut Settings), limits: Limits) -> Test {
        let (fake, issuer) = (Arc::new(Fake::default()), Issuer::start().await);
        let mut settings = Settings {
            issuer: issuer.url.clone(),
            client: CLIENT.into(),
            secret: Some(Zeroizing::new(SECRET.into())),
            user_claim: "preferred_username".into(),
            scopes: vec!["openid".into(), "profile".into()],
            console_url: None,
        };
        change(&mut settings);
        let openid = OpenId::with_limits(settings, fake.clone(), limits);
        let console = Console::with_openid(fake.clone(), Some(openid));
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), None, vec!["nas.example".into()]).unwrap();
        let address = listener.url().trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
        tokio::spawn(serve(console, listener));
        Test { address, fake, issuer }
    }

    async fn raw(&self, request: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), head.to_owned(), body.to_owned())
    }

    async fn get(&self, path: &str, more: &str) -> (u16, String) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{more}\r\n", self.address);
        let (status, _, body) = self.raw(&request).await;
        (status, body)
    }

    async fn post(&self, path: &str, more: &str, body: &Value) -> (u16, String, String) {
        let (address, body) = (self.address, body.to_string());
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n{more}\r\n{body}",
            body.len()
        );
        self.raw(&request).await
    }

    /// Begins a logon.
    async fn begin(&self) -> Result<Away, (u16, String)> {
        let (status, head, body) = self.post("/api/openid/begin", "", &json!({})).await;
        if status != 200 {
            return Err((status, body));
        }
        let cookie = cookies(&head).find(|it| it.starts_with("frevo-openid=")).expect("a cookie");
        assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict; Max-Age=600"), "{cookie}");
        let value: Value = serde_json::from_str(&body).unwrap();
        let text = |name: &str| value[name].as_str().unwrap().to_owned();
        Ok(Away {
            url: text("url"),
            cookie: format!("Cookie: {}\r\n", cookie.split(';').next().unwrap()),
            ticket: text("ticket"),
        })
    }

    async fn finish(&self, away: &Away, state: &str, code: &str) -> Result<Home, (u16, String)> {
        let body = json!({ "state": state, "code": code, "iss": null, "ticket": away.ticket });
        let (status, head, body) = self.post("/api/openid/finish", &away.cookie, &body).await;
        if status != 200 {
            assert!(!head.contains("set-cookie"), "{head}");
            return Err((status, body));
        }
        let cookie = cookies(&head).find(|it| it.starts_with("frevo=")).expect("a cookie");
        let body: Value = serde_json::from_str(&body).unwrap();
        let (cookie, token) = (cookie.split(';').next().unwrap(), body["token"].as_str().unwrap());
        Ok(Home { headers: format!("Cookie: {cookie}\r\nX-Frevo-Token: {token}\r\n"), body })
    }

    /// Logs on as a user.
    async fn log_on(&self, user: &str) -> Result<Home, (u16, String)> {
        *self.issuer.user.lock() = user.to_owned();
        let away = self.begin().await?;
        let (state, code) = self.issuer.authorize(&away.url);
        self.finish(&away, &state, &code).await
    }

    /// Logs on with another token than the right one. Returns the status and the text.
    async fn forged(&self, forge: impl Fn(&Issuer, Value) -> String + Send + Sync + 'static) -> (u16, String) {
        *self.issuer.forge.lock() = Some(Box::new(forge));
        self.log_on("ann").await.err().unwrap_or((200, String::new()))
    }
}

fn cookies(head: &str) -> impl Iterator<Item = &str> {
    head.lines().filter_map(|line| line.strip_prefix("set-cookie: "))
}

fn rs256() -> Value {
    json!({ "alg": "RS256", "kid": "first" })
}

fn with(mut claims: Value, name: &str, value: Value) -> Value {
    claims[name] = value;
    claims
}

#[tokio::test]
async fn an_administrator_logs_on() {
    let test = Test::start().await;
    let issuer = json!({ "issuer": test.issuer.url }).to_string();
    assert_eq!(test.get("/api/openid/issuer", "").await, (200, issuer));
    let home = test.log_on("root").await.unwrap_or_else(|(_, why)| panic!("{why}"));
    assert_eq!((&home.body["name"], &home.body["own"]), (&json!("root"), &json!(false)));
    assert_eq!(test.get("/api/session", &home.headers).await, (200, r#"{"name":"root"}"#.into()));
    assert_eq!(test.get("/api/overview", &home.headers).await.0, 200);
    assert_eq!(test.get("/api/openid/session", &home.headers).await.0, 401);
    assert_eq!(*test.fake.recorded.lock(), ["logon root true"]);
    assert_eq!(test.post("/api/logoff", &home.headers, &json!({})).await.0, 200);
    assert_eq!(test.get("/api/session", &home.headers).await.0, 401);
}

#[tokio::test]
async fn a_user_reaches_their_own_password_only() {
    let test = Test::start().await;
    let home = test.log_on("ann").await.unwrap_or_else(|(_, why)| panic!("{why}"));
    assert_eq!(home.body["own"], true);
    assert_eq!(test.get("/api/openid/session", &home.headers).await, (200, r#"{"name":"ann"}"#.into()));
    for query in
        ["session", "history", "overview", "clients", "users", "shares", "health", "check", "files?of=x", "acl?of=x"]
    {
        assert_eq!(test.get(&format!("/api/{query}"), &home.headers).await.0, 401, "{query}");
    }
    for change in [
        "share.add",
        "share.set",
        "share.remove",
        "user.add",
        "user.passwd",
        "user.enable",
        "user.delete",
        "close",
        "file.restore",
        "acl.set",
        "reload",
        "logoff",
    ] {
        let answer = test.post(&format!("/api/{change}"), &home.headers, &json!({ "name": "ann" })).await;
        assert_eq!(answer.0, 401, "{change}");
    }
    assert_eq!(test.fake.executed.load(Ordering::Relaxed), 0);
    // The attempts have not ended the session. Without the token, and from elsewhere, nothing happens.
    let new = json!({ "password": "a new secret" });
    let cookie = home.headers.lines().next().unwrap().to_owned() + "\r\n";
    assert_eq!(test.post("/api/openid/password", &cookie, &new).await.0, 401);
    let foreign = format!("{}Sec-Fetch-Site: cross-site\r\n", home.headers);
    assert_eq!(test.post("/api/openid/password", &foreign, &new).await.0, 403);
    let other = json!({ "password": "a new secret", "name": "root" });
    assert_eq!(test.post("/api/openid/password", &home.headers, &other).await.0, 400);
    let short = test.post("/api/openid/password", &home.headers, &json!({ "password": "x" })).await;
    assert_eq!((short.0, short.2.contains("too short")), (422, true));
    assert_eq!(*test.fake.password.lock(), None);
    assert_eq!(test.post("/api/openid/password", &home.headers, &new).await.0, 200);
    assert_eq!(*test.fake.password.lock(), Some(("ann".into(), "a new secret".into())));
    // The session ends with the old password.
    assert_eq!(test.post("/api/openid/password", &home.headers, &new).await.0, 401);
}

#[tokio::test]
async fn a_session_ends_with_its_account() {
    let test = Test::start().await;
    let (ann, root) = (test.log_on("ann").await.ok().unwrap(), test.log_on("root").await.ok().unwrap());
    assert_eq!(test.post("/api/user.delete", &root.headers, &json!({ "name": "Ann" })).await.0, 200);
    assert_eq!(test.get("/api/openid/session", &ann.headers).await.0, 401);
    let ann = test.log_on("ann").await.ok().unwrap();
    assert_eq!(test.post("/api/openid/logoff", &ann.headers, &json!({})).await.0, 200);
    assert_eq!(test.get("/api/openid/session", &ann.headers).await.0, 401);
    assert_eq!(test.fake.recorded.lock().last().map(String::as_str), Some("logoff ann"));
}

#[tokio::test]
async fn a_user_without_an_account_is_refused() {
    let test = Test::start().await;
    let (status, why) = test.log_on("bob").await.err().expect("refused");
    assert!(status == 403 && why.contains("no SMB account with exactly this name"), "{status} {why}");
    assert_eq!(*test.fake.recorded.lock(), ["logon bob false"]);
}

#[tokio::test]
async fn an_elliptic_curve_and_a_list_of_audiences_are_right() {
    let test = Test::start().await;
    assert_eq!(test.forged(|it, claims| it.es256(&json!({ "alg": "ES256", "kid": "ec" }), &claims)).await.0, 200);
    // Without an id, the only key of the kind is meant.
    assert_eq!(test.forged(|it, claims| it.es256(&json!({ "alg": "ES256" }), &claims)).await.0, 200);
    let shared = |it: &Issuer, claims| {
        it.rs256(&rs256(), &with(with(claims, "aud", json!([CLIENT, "other"])), "azp", json!(CLIENT)))
    };
    assert_eq!(test.forged(shared).await.0, 200);
    // The time of the authentication may be missing.
    let without = |it: &Issuer, mut claims: Value| {
        claims.as_object_mut().unwrap().remove("auth_time");
        it.rs256(&rs256(), &claims)
    };
    assert_eq!(test.forged(without).await.0, 200);
}

#[tokio::test]
async fn claims_that_are_wrong_are_refused() {
    let past = || json!(now() - 1000);
    for (name, value, why) in [
        ("nonce", json!("another"), "nonce"),
        ("nonce", Value::Null, "nonce"),
        ("aud", json!("other"), "InvalidAudience"),
        ("aud", json!([CLIENT, "other"]), "remove its other audiences"),
        ("aud", Value::Null, "aud"),
        ("azp", json!("other"), "another client"),
        ("azp", json!(1), "another client"),
        ("iss", json!("http://127.0.0.1/realms/b"), "InvalidIssuer"),
        ("iss", json!(["http://127.0.0.1/realms/b"]), "InvalidIssuer"),
        ("iss", Value::Null, "iss"),
        ("exp", past(), "ExpiredSignature"),
        ("exp", Value::Null, "exp"),
        ("nbf", json!(now() + 1000), "ImmatureSignature"),
        ("iat", past(), "issued at another time"),
        ("iat", json!(now() + 1000), "issued at another time"),
        ("iat", Value::Null, "does not say when it was issued"),
        ("auth_time", past(), "too long ago"),
        ("auth_time", json!("now"), "does not say when the user authenticated"),
        ("sub", Value::Null, "sub"),
        ("preferred_username", Value::Null, "no name in the claim"),
        ("preferred_username", json!(["ann"]), "no name in the claim"),
        ("preferred_username", json!(""), "no name in the claim"),
        ("preferred_username", json!("ann\n"), "no name in the claim"),
    ] {
        // Each has a server of its own, because attempts are limited.
        let test = Test::start().await;
        let shown = value.clone();
        let refused = test.forged(move |it, claims| it.rs256(&rs256(), &with(claims, name, value.clone()))).await;
        assert!(refused.0 == 502 && refused.1.contains(why), "{name} = {shown}: {refused:?}");
        let recorded = test.fake.recorded.lock();
        assert!(recorded.len() == 1 && recorded[0].starts_with("refused "), "{recorded:?}");
    }
    let test = Test::start().await;
    let list = |it: &Issuer, claims: Value| it.rs256(&rs256(), &with(claims.clone(), "iss", json!([claims["iss"]])));
    assert!(test.forged(list).await.1.contains("another issuer"));
}

#[tokio::test]
async fn signatures_that_are_wrong_are_refused() {
    let test = Test::start().await;
    let other = Issuer::start().await;
    let refused = test.forged(move |_, claims| other.rs256(&rs256(), &claims)).await;
    assert!(refused.0 == 502 && refused.1.contains("InvalidSignature"), "{refused:?}");
    for alg in ["none", "None", ""] {
        let refused = test.forged(move |_, claims| Issuer::unsigned(&json!({ "alg": alg }), &claims)).await;
        assert!(refused.0 == 502 && refused.1.contains("cannot be read"), "{refused:?}");
    }
    let refused = test.forged(|_, claims| Issuer::unsigned(&rs256(), &claims)).await;
    assert!(refused.0 == 502 && refused.1.contains("InvalidSignature"), "{refused:?}");
    for kid in ["first", "oct", "ec"] {
        let test = Test::start().await;
        let header = json!({ "alg": "HS256", "kid": kid });
        let refused = test.forged(move |it, claims| it.hs256(&header, &claims)).await;
        assert!(refused.0 == 502 && refused.1.contains("HS256"), "{refused:?}");
    }
    let test = Test::start().await;
    // The algorithm is not that of the key, or the header needs an extension.
    let header = json!({ "alg": "RS256", "kid": "ec" });
    let refused = test.forged(move |it, claims| it.rs256(&header, &claims)).await;
    assert!(refused.0 == 502 && refused.1.contains("does not publish"), "{refused:?}");
    let header = json!({ "alg": "RS256", "kid": "first", "crit": ["b64"], "b64": false });
    let refused = test.forged(move |it, claims| it.rs256(&header, &claims)).await;
    assert!(refused.0 == 502 && refused.1.contains("extension"), "{refused:?}");
    assert!(test.forged(|_, _| "not a token".into()).await.1.contains("cannot be read"));
}

#[tokio::test]
async fn keys_are_read_again_rarely() {
    let test = Test::start().await;
    let unknown = |it: &Issuer, claims: Value| it.rs256(&json!({ "alg": "RS256", "kid": "new key" }), &claims);
    for _ in 0..3 {
        let refused = test.forged(unknown).await;
        assert!(refused.0 == 502 && refused.1.contains("does not publish"), "{refused:?}");
    }
    assert_eq!(test.issuer.key_reads.load(Ordering::Relaxed), 1, "they were read a moment ago");
    // As if that were a minute ago.
    let limits = Limits { keys: Duration::ZERO, ..Limits::default() };
    let test = Test::with(|_| {}, limits).await;
    assert!(test.log_on("ann").await.is_ok());
    *test.issuer.key_id.lock() = "second".into();
    assert!(test.log_on("ann").await.is_ok(), "the issuer has changed its key");
    assert!(test.log_on("ann").await.is_ok());
    assert_eq!(test.issuer.key_reads.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_logon_is_finished_once_in_its_browser() {
    let test = Test::start().await;
    let away = test.begin().await.ok().unwrap();
    let (state, code) = test.issuer.authorize(&away.url);
    assert!(test.finish(&away, &state, &code).await.is_ok());
    assert_eq!(test.finish(&away, &state, &code).await.err().unwrap().0, 403, "it is replayed");
    // A state that nobody has begun, and the state of another browser.
    assert_eq!(test.finish(&away, &"0".repeat(64), &code).await.err().unwrap().0, 403);
    let [mut away, other] = [test.begin().await.ok().unwrap(), test.begin().await.ok().unwrap()];
    let (state, code) = test.issuer.authorize(&away.url);
    away.cookie = other.cookie.clone();
    assert_eq!(test.finish(&away, &state, &code).await.err().unwrap().0, 403, "the cookie is of another browser");
    assert_eq!(*test.fake.recorded.lock(), ["logon ann true"], "the issuer was not asked");
    // A code that was used.
    let away = test.begin().await.ok().unwrap();
    let (state, _) = test.issuer.authorize(&away.url);
    let refused = test.finish(&away, &state, "used").await.err().unwrap();
    assert!(refused.0 == 502 && refused.1.contains("invalid_grant"), "{refused:?}");
}

#[tokio::test]
async fn a_page_elsewhere_begins_and_finishes_nothing() {
    let test = Test::start().await;
    let away = test.begin().await.ok().unwrap();
    let (state, code) = test.issuer.authorize(&away.url);
    let body = json!({ "state": state, "code": code, "iss": null, "ticket": away.ticket }).to_string();
    for path in ["begin", "finish"] {
        let request = |host: &str, origin: &str| {
            format!(
                "POST /api/openid/{path} HTTP/1.1\r\nHost: {host}\r\n{origin}Content-Type: application/json\r\n\
                 Content-Length: {}\r\nConnection: close\r\n{}\r\n{body}",
                body.len(),
                away.cookie
            )
        };
        let own = test.address.to_string();
        for origin in ["Origin: http://evil.example\r\n", "Origin: null\r\n", ""] {
            assert_eq!(test.raw(&request(&own, origin)).await.0, 403, "{path} {origin}");
        }
        let rebound = request("evil.example", "Origin: http://evil.example\r\n");
        assert_eq!(test.raw(&rebound).await.0, 421);
    }
    // The return to the page has no effect, whatever is in the URL, and leads nowhere.
    let url = format!("/openid?code={}&state={state}&next=http://evil.example", code.replace(' ', "%20"));
    let request = format!(
        "GET {url} HTTP/1.1\r\nHost: {}\r\nSec-Fetch-Site: cross-site\r\nConnection: close\r\n{}\r\n",
        test.address, away.cookie
    );
    let (status, head, body) = test.raw(&request).await;
    assert!(status == 200 && !head.contains("location:") && !head.contains("set-cookie"), "{head}");
    assert!(head.contains("form-action 'none'") && head.contains("no-referrer") && !body.contains("evil"), "{head}");
    let home = test.finish(&away, &state, &code).await;
    assert!(home.is_ok(), "the right page still finishes it");
}

#[tokio::test]
async fn attempts_are_limited() {
    let test = Test::start().await;
    let mut refused = 0;
    for _ in 0..20 {
        refused += usize::from(test.begin().await.is_err_and(|(status, _)| status == 429));
    }
    assert!(refused >= 14, "{refused}");
    let logon = json!({ "name": "root", "password": "right" });
    assert_eq!(test.post("/api/logon", "", &logon).await.0, 200, "a logon with a password counts apart");
}

#[tokio::test]
async fn an_issuer_that_hangs_or_misleads_is_named() {
    let limits = Limits { answer: Duration::from_millis(500), ..Limits::default() };
    for path in ["/.well-known/openid-configuration", "/token", "/keys"] {
        let elsewhere = Issuer::start().await;
        for (fault, why) in [
            (Fault::Hangs(path), "does not answer within 0.5 s"),
            (Fault::Redirects(path, elsewhere.url.clone()), "redirections are not followed"),
        ] {
            let test = Test::with(|_| {}, limits).await;
            *test.issuer.fault.lock() = Some(fault.clone());
            let (status, text) = test.log_on("ann").await.err().expect("refused");
            let is_clear = text.contains(why) && text.contains(&test.issuer.url) && text.contains("password");
            assert!(status == 502 && is_clear, "{fault:?}: {status} {text}");
            let logon = json!({ "name": "root", "password": "right" });
            assert_eq!(test.post("/api/logon", "", &logon).await.0, 200);
        }
        assert_eq!(elsewhere.key_reads.load(Ordering::Relaxed), 0);
        let test = Test::start().await;
        *test.issuer.fault.lock() = Some(Fault::Huge(path));
        let (status, text) = test.log_on("ann").await.err().expect("refused");
        assert!(status == 502 && text.contains("larger than"), "{status} {text}");
        // More than the limit is in the buffers of the sockets.
        let taken = test.issuer.taken.load(Ordering::Relaxed);
        assert!(taken < 64 << 20, "{taken} bytes were taken");
    }
    let nowhere = |settings: &mut Settings| settings.issuer = "http://127.0.0.1:1/realms/a".into();
    let test = Test::with(nowhere, Limits::default()).await;
    let (status, text) = test.begin().await.err().expect("refused");
    assert!(status == 502 && text.contains("http://127.0.0.1:1/realms/a") && text.contains("refused"), "{text}");
}

#[tokio::test]
async fn the_secret_is_sent_as_the_issuer_takes_it() {
    let (basic, post) = ("client_secret_basic", "client_secret_post");
    for (methods, wants_body, statuses, refusals) in [
        (json!(null), false, [200, 200], 0),
        (json!([basic, post]), false, [200, 200], 0),
        (json!([post]), true, [200, 200], 0),
        // The issuer takes both, but not of this client. That is remembered.
        (json!([post, basic]), true, [200, 200], 1),
        (json!([basic]), true, [502, 502], 2),
        (json!([post]), false, [502, 502], 2),
    ] {
        let test = Test::start().await;
        *test.issuer.methods.lock() = Some(methods.clone());
        test.issuer.wants_body.store(wants_body, Ordering::Relaxed);
        for status in statuses {
            let seen = test.log_on("ann").await.err().unwrap_or((200, String::new()));
            assert_eq!(seen.0, status, "{methods}: {}", seen.1);
            assert!(status == 200 || seen.1.contains("invalid_client"), "{}", seen.1);
        }
        assert_eq!(test.issuer.secrets_refused.load(Ordering::Relaxed), refusals, "{methods}");
    }
}

#[tokio::test]
async fn the_document_must_be_that_of_the_issuer() {
    let test = Test::with(|settings| settings.issuer += "/", Limits::default()).await;
    let (status, text) = test.begin().await.err().expect("refused");
    assert!(status == 502 && text.contains("another issuer"), "{text}");
}

#[tokio::test]
async fn the_browser_returns_to_the_url_of_the_console() {
    let test = Test::start().await;
    let away = test.begin().await.ok().unwrap();
    let redirect = escaped(&format!("http://{}/openid", test.address));
    assert!(away.url.contains(&format!("redirect_uri={redirect}&")), "{}", away.url);
    let url = |settings: &mut Settings| settings.console_url = Some("https://nas.example/frevo/".into());
    let test = Test::with(url, Limits::default()).await;
    let (status, text) = test.begin().await.err().expect("refused");
    assert!(status == 421 && text.contains("open the console at https://nas.example/frevo/"), "{text}");
    let request = "POST /api/openid/begin HTTP/1.1\r\nHost: nas.example\r\nOrigin: https://nas.example\r\n\
                   Content-Length: 0\r\nConnection: close\r\n\r\n";
    let (status, _, body) = test.raw(request).await;
    assert!(status == 200 && body.contains(&escaped("https://nas.example/frevo/openid")), "{body}");
}

#[tokio::test]
async fn without_an_issuer_there_is_no_such_logon() {
    let fake = Arc::new(Fake::default());
    let console = Console::new(fake.clone());
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), None, Vec::new()).unwrap();
    let address = listener.url().trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
    tokio::spawn(serve(console, listener));
    let test = Test { address, fake, issuer: Issuer::start().await };
    assert_eq!(test.get("/api/openid/issuer", "").await, (200, r#"{"issuer":null}"#.into()));
    for path in ["begin", "finish", "password", "logoff"] {
        assert_eq!(test.post(&format!("/api/openid/{path}"), "", &json!({})).await.0, 404, "{path}");
    }
}
