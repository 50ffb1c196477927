//! An issuer on the loopback interface.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use aws_lc_rs::{digest, hmac};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The client and its secret, which are escaped in `Authorization`.
pub(super) const CLIENT: &str = "nas:1";
pub(super) const SECRET: &str = "a secret";

/// What the issuer does wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// It never answers at this path.
    Hangs(&'static str),
    /// It answers with a gigabyte at this path.
    Huge(&'static str),
    /// It leads from this path to another server.
    Redirects(&'static str, String),
}

/// Makes the token from the claims that are right.
type Forge = Box<dyn Fn(&Issuer, Value) -> String + Send + Sync>;

pub(super) struct Issuer {
    pub(super) url: String,
    rsa: RsaKeyPair,
    ec: EcdsaKeyPair,
    /// The claim with the name of the user.
    pub(super) user: Mutex<String>,
    pub(super) fault: Mutex<Option<Fault>>,
    pub(super) forge: Mutex<Option<Forge>>,
    /// The id of the RSA key.
    pub(super) key_id: Mutex<String>,
    /// The queries of the authorizations whose codes were not used.
    codes: Mutex<HashMap<String, HashMap<String, String>>>,
    /// The ways in which it says that it takes the secret, and whether it takes it in the body only.
    pub(super) methods: Mutex<Option<Value>>,
    pub(super) wants_body: AtomicBool,
    /// How often it has refused the secret.
    pub(super) secrets_refused: AtomicUsize,
    /// How often the keys were read, and how many bytes of a huge answer were taken.
    pub(super) key_reads: AtomicUsize,
    pub(super) taken: AtomicUsize,
}

pub(super) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Returns the pairs of a form or a query.
fn pairs(text: &str) -> HashMap<String, String> {
    let pair = |pair: &str| pair.split_once('=').map(|(name, value)| (unescaped(name), unescaped(value)));
    text.split('&').filter_map(pair).collect()
}

fn unescaped(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        if *first == b'%' {
            bytes.push(u8::from_str_radix(std::str::from_utf8(&after[..2]).unwrap(), 16).unwrap());
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn encoded(value: &Value) -> String {
    URL_SAFE_NO_PAD.encode(value.to_string())
}

impl Issuer {
    pub(super) async fn start() -> Arc<Issuer> {
        let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let issuer = Arc::new(Issuer {
            url: format!("http://{}/realms/a", socket.local_addr().unwrap()),
            rsa: RsaKeyPair::generate(KeySize::Rsa2048).unwrap(),
            ec: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap(),
            user: Mutex::new("ann".into()),
            fault: Mutex::default(),
            forge: Mutex::default(),
            key_id: Mutex::new("first".into()),
            codes: Mutex::default(),
            methods: Mutex::default(),
            wants_body: AtomicBool::new(false),
            secrets_refused: AtomicUsize::new(0),
            key_reads: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
        });
        let serving = issuer.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = socket.accept().await {
                let issuer = serving.clone();
                tokio::spawn(async move { issuer.serve(stream).await });
            }
        });
        issuer
    }

    /// Logs the user on, as a browser at this URL would. Returns the state and the code.
    pub(super) fn authorize(&self, url: &str) -> (String, String) {
        let query = pairs(url.strip_prefix(&format!("{}/authorize?", self.url)).expect("the URL of the issuer"));
        for (name, value) in [
            ("response_type", "code"),
            ("client_id", CLIENT),
            ("scope", "openid profile"),
            ("code_challenge_method", "S256"),
            ("max_age", "300"),
        ] {
            assert_eq!(query[name], value, "{name}");
        }
        let (state, code) = (query["state"].clone(), format!("code of {}", query["state"]));
        self.codes.lock().insert(code.clone(), query);
        (state, code)
    }

    pub(super) fn rs256(&self, header: &Value, claims: &Value) -> String {
        let text = format!("{}.{}", encoded(header), encoded(claims));
        let mut signature = vec![0; self.rsa.public_modulus_len()];
        self.rsa.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature).unwrap();
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    pub(super) fn es256(&self, header: &Value, claims: &Value) -> String {
        let text = format!("{}.{}", encoded(header), encoded(claims));
        let signature = self.ec.sign(&SystemRandom::new(), text.as_bytes()).unwrap();
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }

    pub(super) fn unsigned(header: &Value, claims: &Value) -> String {
        format!("{}.{}.", encoded(header), encoded(claims))
    }

    /// Signs with a secret that everybody knows: the public key.
    pub(super) fn hs256(&self, header: &Value, claims: &Value) -> String {
        let text = format!("{}.{}", encoded(header), encoded(claims));
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.rsa.public_key().as_ref());
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(hmac::sign(&key, text.as_bytes())))
    }

    fn keys(&self) -> Value {
        self.key_reads.fetch_add(1, Ordering::Relaxed);
        let big = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let rsa = self.rsa.public_key();
        let point = self.ec.public_key().as_ref();
        json!({ "keys": [
            { "kty": "RSA", "kid": *self.key_id.lock(), "use": "sig", "alg": "RS256",
              "n": big(rsa.modulus().big_endian_without_leading_zero()),
              "e": big(rsa.exponent().big_endian_without_leading_zero()) },
            { "kty": "EC", "kid": "ec", "crv": "P-256", "x": big(&point[1..33]), "y": big(&point[33..]) },
            { "kty": "oct", "kid": "oct", "k": big(rsa.as_ref()) },
            { "kty": "of the future", "kid": "new" },
        ] })
    }

    fn discovery(&self) -> Value {
        let url = &self.url;
        json!({
            "issuer": url,
            "authorization_endpoint": format!("{url}/authorize"),
            "token_endpoint": format!("{url}/token"),
            "jwks_uri": format!("{url}/keys"),
            "token_endpoint_auth_methods_supported": *self.methods.lock(),
        })
    }

    fn token(&self, head: &str, form: &str) -> (u16, Value) {
        let form = pairs(form);
        let pair = STANDARD.encode("nas%3A1:a%20secret");
        let in_head = head.contains(&format!("authorization: Basic {pair}"));
        let in_body = form.get("client_secret").is_some_and(|it| it == SECRET) && form["client_id"] == CLIENT;
        assert!(in_head != in_body, "{head}");
        if in_body != self.wants_body.load(Ordering::Relaxed) {
            self.secrets_refused.fetch_add(1, Ordering::Relaxed);
            return (401, json!({ "error": "invalid_client" }));
        }
        let Some(begun) = self.codes.lock().remove(&form["code"]) else {
            return (400, json!({ "error": "invalid_grant" }));
        };
        let challenge =
            URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, form["code_verifier"].as_bytes()).as_ref());
        if challenge != begun["code_challenge"] || form["redirect_uri"] != begun["redirect_uri"] {
            return (400, json!({ "error": "invalid_grant" }));
        }
        let claims = json!({
            "iss": self.url,
            "sub": "1",
            "aud": CLIENT,
            "exp": now() + 60,
            "iat": now(),
            "auth_time": now() - 10,
            "nonce": begun["nonce"],
            "preferred_username": *self.user.lock(),
        });
        let token = match &*self.forge.lock() {
            Some(forge) => forge(self, claims),
            None => self.rs256(&json!({ "alg": "RS256", "kid": *self.key_id.lock() }), &claims),
        };
        (200, json!({ "access_token": "x", "token_type": "Bearer", "id_token": token }))
    }

    async fn serve(&self, mut stream: TcpStream) {
        let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
        let (head, body) = loop {
            let Ok(count @ 1..) = stream.read(&mut chunk).await else { return };
            bytes.extend_from_slice(&chunk[..count]);
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                break (head.to_owned(), body.to_owned());
            }
        };
        let full = head.split(' ').nth(1).unwrap();
        let path = full.strip_prefix("/realms/a").unwrap_or(full);
        let fault = self.fault.lock().clone();
        match fault {
            Some(Fault::Hangs(at)) if at == path => return tokio::time::sleep(Duration::from_secs(3600)).await,
            Some(Fault::Huge(at)) if at == path => {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 1 << 30);
                let _ = stream.write_all(head.as_bytes()).await;
                let blanks = vec![b' '; 1 << 16];
                for _ in 0..1 << 14 {
                    if stream.write_all(&blanks).await.is_err() {
                        return;
                    }
                    self.taken.fetch_add(blanks.len(), Ordering::Relaxed);
                }
                return;
            }
            Some(Fault::Redirects(at, to)) if at == path => {
                let answer = format!("HTTP/1.1 302 Found\r\nLocation: {to}{path}\r\nContent-Length: 0\r\n\r\n");
                return stream.write_all(answer.as_bytes()).await.unwrap();
            }
            _ => {}
        }
        let (status, value) = match path {
            "/.well-known/openid-configuration" => (200, self.discovery()),
            "/keys" => (200, self.keys()),
            "/token" => self.token(&head, &body),
            _ => (404, json!({})),
        };
        let text = value.to_string();
        let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{text}", text.len());
        let _ = stream.write_all(answer.as_bytes()).await;
    }
}
