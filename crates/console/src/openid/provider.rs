//! What the issuer publishes: its endpoints (OpenID Connect Discovery 1.0) and its keys (RFC 7517).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use jsonwebtoken::jwk::{AlgorithmParameters, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, Header};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::fetch::{Call, Client, Endpoint};

/// Maximum number of keys.
const KEYS: usize = 64;

/// The endpoints of the issuer.
#[derive(Debug)]
pub(super) struct Provider {
    /// A URL for the browser.
    pub(super) authorization: String,
    pub(super) token: Endpoint,
    pub(super) keys: Endpoint,
    /// Whether the secret may be sent in the body of the request.
    pub(super) takes_body: bool,
    /// Whether it is sent there, and not in `Authorization`. That is so if the issuer takes it there only, or has
    /// refused it in `Authorization`: the document has what it accepts of some client, and not of which.
    pub(super) in_body: AtomicBool,
}

#[derive(Deserialize)]
struct Document {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

impl Provider {
    pub(super) async fn discovered(client: &Client, issuer: &str) -> Result<Provider, String> {
        let url = format!("{}/.well-known/openid-configuration", issuer.trim_end_matches('/'));
        let place = Endpoint::parse(&url, true).ok_or_else(|| format!("{url} is not a URL that can be used"))?;
        let answer = client.fetch(&place, Call::Get).await?;
        let wrong = |what: &str| format!("{place} {what}; check `frevo:openid issuer`");
        let document: Document =
            serde_json::from_slice(&answer).map_err(|_| wrong("does not answer with a discovery document"))?;
        // OpenID Connect Discovery 4.3: they are identical.
        if document.issuer != issuer {
            return Err(wrong("is the document of another issuer"));
        }
        let endpoint = |url: &str| {
            let refused = || wrong("names a URL without TLS");
            Endpoint::parse(url, !place.is_secure()).ok_or_else(refused)
        };
        endpoint(&document.authorization_endpoint)?;
        // An issuer that does not say how expects it in `Authorization`.
        let methods = document.token_endpoint_auth_methods_supported.unwrap_or_default();
        let takes = |method: &str| methods.iter().any(|it| it == method);
        let takes_body = takes("client_secret_post");
        Ok(Provider {
            token: endpoint(&document.token_endpoint)?,
            keys: endpoint(&document.jwks_uri)?,
            authorization: document.authorization_endpoint,
            in_body: AtomicBool::new(takes_body && !takes("client_secret_basic")),
            takes_body,
        })
    }
}

/// The keys of the issuer.
pub(super) struct Keys(Vec<Key>);

struct Key {
    id: Option<String>,
    /// The only algorithm that it is for, if the issuer names one.
    algorithm: Option<String>,
    family: AlgorithmFamily,
    key: DecodingKey,
}

impl Keys {
    pub(super) async fn read(client: &Client, place: &Endpoint) -> Result<Keys, String> {
        #[derive(Deserialize)]
        struct Set {
            keys: Vec<Value>,
        }
        let answer = client.fetch(place, Call::Get).await?;
        let set: Set = serde_json::from_slice(&answer).map_err(|_| format!("{place} does not answer with keys"))?;
        Ok(Keys(set.keys.into_iter().take(KEYS).filter_map(Key::of).collect()))
    }

    /// Returns the key of a token; `None` if there is no such key, or more than one.
    pub(super) fn find(&self, header: &Header) -> Option<DecodingKey> {
        let name = algorithm_name(header.alg);
        let mut fitting = self.0.iter().filter(|key| {
            header.kid.as_ref().is_none_or(|id| key.id.as_ref() == Some(id))
                && key.family == header.alg.family()
                && key.algorithm.as_ref().is_none_or(|it| *it == name)
        });
        fitting.next().filter(|_| fitting.next().is_none()).map(|key| key.key.clone())
    }
}

impl Key {
    /// Returns a key for signatures; `None` for another one, and for secrets.
    fn of(value: Value) -> Option<Key> {
        let algorithm = value.get("alg").and_then(Value::as_str).map(str::to_owned);
        // A kind of key that is not known must not make the others useless.
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        if jwk.common.public_key_use.as_ref().is_some_and(|it| *it != PublicKeyUse::Signature) {
            return None;
        }
        let family = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => AlgorithmFamily::Rsa,
            AlgorithmParameters::EllipticCurve(_) => AlgorithmFamily::Ec,
            AlgorithmParameters::OctetKeyPair(_) => AlgorithmFamily::Ed,
            _ => return None,
        };
        Some(Key { key: DecodingKey::from_jwk(&jwk).ok()?, id: jwk.common.key_id, algorithm, family })
    }
}

/// Returns the name of an algorithm in JSON.
fn algorithm_name(algorithm: Algorithm) -> String {
    format!("{algorithm:?}")
}

/// What was read of the issuer, or why not.
type Outcome<T> = Result<Arc<T>, String>;

/// The latest outcome, and its time.
pub(super) struct Cached<T>(Mutex<Option<(Instant, Outcome<T>)>>);

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Cached(Mutex::default())
    }
}

impl<T> Cached<T> {
    /// Returns what was read at most `age` ago, else reads it. A failure is returned again for `pause`, so that users
    /// who wait for a read do not wait for one each.
    pub(super) async fn get(
        &self,
        age: Duration,
        pause: Duration,
        read: impl AsyncFnOnce() -> Result<T, String>,
    ) -> Outcome<T> {
        let mut kept = self.0.lock().await;
        if let Some((at, result)) = &*kept
            && at.elapsed() < if result.is_ok() { age } else { pause }
        {
            return result.clone();
        }
        let result = read().await.map(Arc::new);
        *kept = Some((Instant::now(), result.clone()));
        result
    }
}
