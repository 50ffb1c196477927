//! Attacks on the console, over real sockets.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;
use crate::listen::Listener;
use crate::{Sample, serve};

/// Counts what is verified and changed. The password is `right`, and `down` is a failure.
#[derive(Default)]
struct Fake {
    verified: AtomicUsize,
    changes: AtomicUsize,
    /// A change called `slow`, and a logon with the password `late`, wait for it.
    gate: tokio::sync::Mutex<()>,
}

impl Administration for Fake {
    fn log_on(&self, caller: &Caller, password: &str) -> Result<String, LogonError> {
        self.verified.fetch_add(1, Ordering::Relaxed);
        match password {
            "right" => Ok(caller.name.clone()),
            "down" => Err(LogonError::Unavailable("PAM is broken".into())),
            "panic" => panic!("it fails"),
            "late" => {
                let _open = self.gate.blocking_lock();
                Ok(caller.name.clone())
            }
            _ => Err(LogonError::Refused),
        }
    }

    fn logged_off(&self, _: &Caller) {}

    fn query(&self, name: &str, arguments: &Value) -> Option<Result<Value, String>> {
        (name == "echo").then(|| Ok(arguments.clone()))
    }

    fn change(&self, caller: &Caller, name: &str, arguments: Value) -> Option<Result<Value, String>> {
        self.changes.fetch_add(1, Ordering::Relaxed);
        match name {
            "echo" => Some(Ok(json!([caller.name, arguments]))),
            "slow" => {
                let _open = self.gate.blocking_lock();
                Some(Ok(Value::Null))
            }
            "disable" if arguments["fails"] == true => Some(Err("no".into())),
            "disable" if arguments["panics"] == true => panic!("it fails"),
            "disable" => Some(Ok(Value::Null)),
            "fail" => Some(Err("<b>no</b>".into())),
            _ => None,
        }
    }

    fn revoked(&self, name: &str, arguments: &Value) -> Option<String> {
        (name == "disable").then(|| arguments["name"].as_str().unwrap_or_default().to_owned())
    }

    fn series(&self) -> &'static [&'static str] {
        &["x"]
    }

    fn sample(&self) -> Option<Sample> {
        None
    }
}

struct Test {
    address: SocketAddr,
    fake: Arc<Fake>,
    console: Arc<Console>,
}

impl Test {
    fn start() -> Test {
        let fake = Arc::new(Fake::default());
        let console = Console::new(fake.clone());
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), None, vec!["nas.example".into()]).unwrap();
        let address = listener.url().trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
        tokio::spawn(serve(console.clone(), listener));
        Test { address, fake, console }
    }

    /// Sends bytes, and returns the status, the head and the body of the response.
    async fn raw(&self, request: &[u8]) -> (u16, String, String) {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request).await.unwrap();
        response(&mut stream).await
    }

    async fn get(&self, path: &str, more: &str) -> (u16, String, String) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{more}\r\n", self.address);
        self.raw(request.as_bytes()).await
    }

    async fn post(&self, path: &str, more: &str, body: &str) -> (u16, String, String) {
        let (address, length) = (self.address, body.len());
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\nConnection: close\r\n{more}\r\n{body}"
        );
        self.raw(request.as_bytes()).await
    }

    /// Logs on. Returns the headers with the cookie and the token.
    async fn log_on(&self) -> (String, String) {
        let (status, head, body) = self.post("/api/logon", "", r#"{"name":"ann","password":"right"}"#).await;
        assert_eq!(status, 200, "{body}");
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
        assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
        let body: Value = serde_json::from_str(&body).unwrap();
        let cookie = format!("Cookie: other=1; {}\r\n", cookie.split(';').next().unwrap());
        (cookie, format!("X-Frevo-Token: {}\r\n", body["token"].as_str().unwrap()))
    }
}

/// Waits for something that happens soon, unless the console is wrong.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..6000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not yet after a minute: {what}");
}

async fn response(stream: &mut TcpStream) -> (u16, String, String) {
    let mut bytes = Vec::new();
    // A connection that is closed while a body is still being sent is reset after the response.
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, head.to_owned(), body.to_owned())
}

#[tokio::test]
async fn a_session_permits_queries_and_changes() {
    let test = Test::start();
    assert_eq!(test.get("/api/echo", "").await.0, 401);
    let (cookie, token) = test.log_on().await;
    let both = format!("{cookie}{token}");
    assert_eq!(test.get("/api/echo?of=a%2F%C3%A4", &both).await.2, "\"a/\u{e4}\"");
    assert_eq!(test.post("/api/echo", &both, "{}").await.2, r#"["ann",{}]"#);
    let failed = test.post("/api/fail", &both, "{}").await;
    assert_eq!((failed.0, failed.2.as_str()), (422, r#"{"error":"<b>no</b>"}"#));
    assert!(failed.1.contains("content-type: application/json") && failed.1.contains("nosniff"), "{}", failed.1);
    assert_eq!(test.get("/api/session", &both).await.2, r#"{"name":"ann"}"#);
    assert_eq!(test.post("/api/logoff", &both, "").await.0, 200);
    assert_eq!(test.get("/api/session", &both).await.0, 401);
}

/// Another server on this host sees the cookie, because browsers send it to every port.
#[tokio::test]
async fn the_cookie_alone_is_nothing() {
    let test = Test::start();
    let (cookie, token) = test.log_on().await;
    for path in ["/api/session", "/api/echo", "/api/history?after=0"] {
        for headers in [&cookie, &token] {
            let (status, _, body) = test.get(path, headers).await;
            assert_eq!((status, body.as_str()), (401, r#"{"error":"log on first"}"#), "{path}");
        }
        let (status, _, body) = test.get(path, &format!("{cookie}{token}")).await;
        assert!(status == 200 && !body.contains(token.trim().rsplit(' ').next().unwrap()), "{path}: {body}");
    }
}

#[tokio::test]
async fn the_sessions_of_a_revoked_account_end() {
    let test = Test::start();
    for (account, status, expected) in [
        (json!({ "name": "bob" }), 200, 200),
        (json!({ "name": "Ann" }), 200, 401),
        (json!({ "name": "ann", "fails": true }), 422, 401),
        (json!({ "name": "ann", "panics": true }), 500, 401),
    ] {
        let (cookie, token) = test.log_on().await;
        let both = format!("{cookie}{token}");
        assert_eq!(test.post("/api/disable", &both, &account.to_string()).await.0, status, "{account}");
        assert_eq!(test.get("/api/session", &both).await.0, expected, "{account}");
    }
}

#[tokio::test]
async fn a_request_that_waits_ends_with_its_session() {
    let test = Test::start();
    let (cookie, token) = test.log_on().await;
    let head = format!(
        "POST /api/echo HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nContent-Type: application/json\r\n\
         {cookie}{token}Content-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n",
        test.address
    );
    let mut stream = TcpStream::connect(test.address).await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    // The session was valid when the console asks for the body.
    let mut begin = [0; b"HTTP/1.1 100 Continue\r\n\r\n".len()];
    stream.read_exact(&mut begin).await.unwrap();
    assert!(begin.starts_with(b"HTTP/1.1 100 "));
    let done = test.post("/api/disable", &format!("{cookie}{token}"), r#"{"name":"ann"}"#).await;
    assert_eq!(done.0, 200);
    stream.write_all(b"{}").await.unwrap();
    assert_eq!(response(&mut stream).await.0, 401);
    assert_eq!(test.fake.changes.load(Ordering::Relaxed), 1, "only the other request made a change");
}

#[tokio::test]
async fn a_logon_that_waits_ends_with_the_account() {
    let test = Arc::new(Test::start());
    let (cookie, token) = test.log_on().await;
    let gate = test.fake.gate.lock().await;
    let late = test.clone();
    let late = tokio::spawn(async move { late.post("/api/logon", "", r#"{"name":"ann","password":"late"}"#).await });
    until("the password is being verified", || test.fake.verified.load(Ordering::Relaxed) == 2).await;
    let done = test.post("/api/disable", &format!("{cookie}{token}"), r#"{"name":"ann"}"#).await;
    assert_eq!(done.0, 200);
    drop(gate);
    let (status, head, _) = late.await.unwrap();
    assert!(status == 401 && !head.contains("set-cookie"), "{head}");
}

#[tokio::test]
async fn a_logon_replaces_the_session_of_its_browser() {
    let test = Test::start();
    let (cookie, token) = test.log_on().await;
    let both = format!("{cookie}{token}");
    let wrong = test.post("/api/logon", &cookie, r#"{"name":"ann","password":"wrong"}"#).await;
    assert_eq!(wrong.0, 401);
    assert_eq!(test.get("/api/session", &both).await.0, 200, "a wrong password ends nothing");
    let right = test.post("/api/logon", &cookie, r#"{"name":"ann","password":"right"}"#).await;
    assert_eq!(right.0, 200);
    assert_eq!(test.get("/api/session", &both).await.0, 401);
}

/// Otherwise the time that others wait would tell how long a verification took.
#[tokio::test]
async fn a_refused_logon_keeps_its_turn_when_its_browser_has_gone() {
    let test = Test::start();
    let turns = test.console.logons[Source::Loopback.kind()].clone();
    let (address, body, since) = (test.address, r#"{"name":"ann","password":"wrong"}"#, Instant::now());
    let request = format!(
        "POST /api/logon HTTP/1.1\r\nHost: {address}\r\nOrigin: http://{address}\r\nContent-Type: \
         application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    until("it is verified", || test.fake.verified.load(Ordering::Relaxed) == 1).await;
    drop(stream);
    until("the turn ends", || turns.available_permits() == LOGONS).await;
    assert!(since.elapsed() >= REFUSAL_TIME, "others could go on at once");
}

#[tokio::test]
async fn a_failure_is_answered_as_a_wrong_password() {
    let test = Test::start();
    let try_one = async |password: &str| {
        let since = Instant::now();
        let body = json!({ "name": "ann", "password": password }).to_string();
        let (status, _, body) = test.post("/api/logon", "", &body).await;
        assert!(since.elapsed() >= REFUSAL_TIME, "{password} was answered at once");
        (status, body)
    };
    let [wrong, down, panic] = [try_one("wrong").await, try_one("down").await, try_one("panic").await];
    assert_eq!(wrong.0, 401);
    assert!(wrong == down && wrong == panic, "{down:?} {panic:?}");
}

/// What is executed counts until it ends, also when its client has gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_disconnects_keeps_its_turn() {
    let test = Test::start();
    let (cookie, token) = test.log_on().await;
    let gate = test.fake.gate.lock().await;
    let request = format!(
        "POST /api/slow HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nContent-Type: application/json\r\n\
         {cookie}{token}Content-Length: 2\r\n\r\n{{}}",
        test.address
    );
    let send = async || {
        let mut stream = TcpStream::connect(test.address).await.unwrap();
        let _ = stream.write_all(request.as_bytes()).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    for _ in 0..1000 {
        if test.console.work.available_permits() == 0 {
            break;
        }
        send().await;
    }
    assert_eq!(test.console.work.available_permits(), 0, "they do not keep their turns");
    for _ in 0..2 * WORK {
        send().await;
    }
    // Those that have gone are noticed meanwhile.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(test.console.work.available_permits(), 0);
    assert_eq!(test.fake.changes.load(Ordering::Relaxed), WORK);
    drop(gate);
    until("all have ended", || test.console.work.available_permits() == WORK).await;
}

#[tokio::test]
async fn each_answer_has_the_headers_that_protect_it() {
    let test = Test::start();
    for path in ["/", "/style.css", "/missing", "/api/session"] {
        let head = test.get(path, "").await.1;
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self';",
            "frame-ancestors 'none'",
            "cache-control: no-store",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
        ] {
            assert!(head.contains(header), "{path}: {header} in {head}");
        }
    }
}

#[tokio::test]
async fn a_foreign_origin_changes_nothing() {
    let test = Test::start();
    let (cookie, token) = test.log_on().await;
    let address = test.address;
    for origin in ["Origin: http://evil.example", "Origin: null", "X: y", "Origin: http://127.0.0.1:1"] {
        let head = format!("Host: {address}\r\n{origin}\r\nContent-Type: application/json\r\nConnection: close");
        for path in ["echo", "logon"] {
            let request =
                format!("POST /api/{path} HTTP/1.1\r\n{head}\r\nContent-Length: 2\r\n{cookie}{token}\r\n{{}}");
            assert_eq!(test.raw(request.as_bytes()).await.0, 403, "{path} {origin}");
        }
    }
    assert_eq!(test.get("/api/echo", &format!("{cookie}{token}Sec-Fetch-Site: cross-site\r\n")).await.0, 403);
    let preflight = format!("OPTIONS /api/echo HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let (status, head, _) = test.raw(preflight.as_bytes()).await;
    assert!(status == 405 && !head.contains("access-control"), "{head}");
    assert_eq!(test.fake.changes.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_change_without_the_token_is_refused() {
    let test = Test::start();
    let (cookie, token) = test.log_on().await;
    let (_, other) = test.log_on().await;
    for wrong in ["", &other, "X-Frevo-Token: \r\n", &token.to_uppercase()] {
        assert_eq!(test.post("/api/echo", &format!("{cookie}{wrong}"), "{}").await.0, 401, "{wrong}");
    }
    assert_eq!(test.post("/api/echo", &token, "{}").await.0, 401);
    // As a form of a page elsewhere would send it.
    let both = format!("{cookie}{token}");
    let plain = format!(
        "POST /api/echo HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nContent-Type: text/plain\r\n{both}\
         Content-Length: 2\r\nConnection: close\r\n\r\n{{}}",
        test.address
    );
    assert_eq!(test.raw(plain.as_bytes()).await.0, 415);
    assert_eq!(test.fake.changes.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_host_that_was_rebound_is_refused() {
    let test = Test::start();
    let (cookie, token) = test.log_on().await;
    for (host, status) in [("nas.example", 200), ("attacker.example", 421), ("10.0.0.1", 421), ("", 421)] {
        for path in ["/", "/api/session"] {
            let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{cookie}{token}\r\n");
            assert_eq!(test.raw(request.as_bytes()).await.0, status, "{host} {path}");
        }
    }
    assert_eq!(test.raw(b"GET / HTTP/1.0\r\n\r\n").await.0, 421);
}

#[tokio::test]
async fn a_path_leads_to_no_other_file() {
    let test = Test::start();
    for path in [
        "/../Cargo.toml",
        "/..%2f..%2fetc/passwd",
        "/%2e%2e/style.css",
        "//etc/passwd",
        "/style.css/..",
        "/./style.css",
        "/style.css%00",
        "/page/style.css",
        "/index.html",
    ] {
        assert_eq!(test.get(path, "").await.0, 404, "{path}");
    }
    assert_eq!(test.get("/api/../style.css", "").await.0, 401);
}

#[tokio::test]
async fn ten_thousand_wrong_passwords_are_hardly_tried() {
    let test = Test::start();
    let hosts = Hosts::default();
    let wrong = |number: usize, address: Option<IpAddr>| {
        let (console, hosts) = (test.console.clone(), hosts.clone());
        let body = format!(r#"{{"name":"user {number}","password":"wrong {number}"}}"#);
        let request = Request::builder().method("POST").uri("/api/logon").header("host", "localhost");
        let request = request.header("origin", "http://localhost").header("content-type", "application/json");
        let request = request.body(Full::from(body)).unwrap();
        tokio::spawn(
            async move { answer(&console, &hosts, &Arrival { address, is_secure: false }, request).await.status() },
        )
    };
    let all: Vec<_> = (0..10_000).map(|number| wrong(number, Some([127, 0, 0, 1].into()))).collect();
    let mut refused = 0;
    for one in all {
        refused += usize::from(one.await.unwrap() == StatusCode::TOO_MANY_REQUESTS);
    }
    let verified = test.fake.verified.load(Ordering::Relaxed);
    assert!(verified <= 10 && refused + verified == 10_000, "{verified} were verified, {refused} refused");
    // An administrator at another address can log on meanwhile.
    let body = r#"{"name":"ann","password":"right"}"#;
    let arrival = Arrival { address: Some([10, 0, 0, 2].into()), is_secure: true };
    let answer =
        log_on(&test.console, &arrival, "", body.as_bytes()).await.unwrap_or_else(|Refusal(_, why)| panic!("{why}"));
    let cookie = answer.headers()[SET_COOKIE].to_str().unwrap();
    assert!(cookie.starts_with("__Host-frevo=") && cookie.ends_with("; Secure"), "{cookie}");
}

#[tokio::test]
async fn a_large_body_is_not_read() {
    let test = Test::start();
    let (cookie, token) = test.log_on().await;
    let head = format!(
        "POST /api/echo HTTP/1.1\r\nHost: {0}\r\nOrigin: http://{0}\r\nContent-Type: application/json\r\n\
         {cookie}{token}",
        test.address
    );
    // The response comes without a byte of the body.
    let (status, ..) = test.raw(format!("{head}Content-Length: 1073741824\r\n\r\n").as_bytes()).await;
    assert_eq!(status, 413);
    // Without a length, the console stops reading, and the sender cannot get rid of more than the buffers hold.
    let mut stream = TcpStream::connect(test.address).await.unwrap();
    stream.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes()).await.unwrap();
    let chunk = [format!("{:x}\r\n", 1 << 20).into_bytes(), vec![b' '; 1 << 20], b"\r\n".to_vec()].concat();
    let mut sent = 0;
    while sent < 1024 && stream.write_all(&chunk).await.is_ok() {
        sent += 1;
    }
    assert!(sent < 64, "{sent} MiB were read");
    assert_eq!(test.fake.changes.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn slow_and_large_heads_end() {
    let test = Test::start();
    // More than there are places for, none of which ever sends the end of its head.
    let mut slow = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(test.address).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nX: ").await.unwrap();
        slow.push(stream);
    }
    // Connections beyond those of one source are closed. A place becomes free.
    while test.get("/", "").await.0 != 200 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let ended = response(&mut slow.remove(0)).await;
    assert!(ended.0 == 408 || ended.0 == 0, "{}", ended.1);
    let (status, ..) = test.get("/", &format!("X: {}\r\n", "x".repeat(100_000))).await;
    assert!(status == 431 || status == 0, "{status}");
}
