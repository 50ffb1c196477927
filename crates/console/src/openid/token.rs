//! The verification of an ID token (OpenID Connect Core 3.1.3.7).

use std::time::{SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, DecodingKey, Header, Validation, decode, decode_header};
use serde_json::{Map, Value};
use subtle::ConstantTimeEq;

use super::{AUTHENTICATED, Authenticated, Settings};

/// By how many seconds the clocks of the issuer and of this host may differ.
const SKEW: u64 = 60;
/// The age in seconds at which a token is refused that is still valid, because it was just requested.
const OLDEST: f64 = 600.0;
/// Maximum bytes of a user's name.
const NAME: usize = 256;

/// The algorithms with a public key. Those with a secret (`HS256`) are not among them: a public key could be taken for
/// the secret.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// Returns the header of a token.
///
/// # Errors
/// It does not have one, or an algorithm that is not permitted.
pub(super) fn header(token: &str) -> Result<Header, String> {
    // `none` is not an algorithm of the library.
    let header = decode_header(token).map_err(|error| format!("the ID token cannot be read: {error}"))?;
    if !ALGORITHMS.contains(&header.alg) {
        return Err(format!("the ID token has the algorithm {:?}, which needs no key of the issuer", header.alg));
    }
    // RFC 7515 4.1.11: an extension that is not known must not be ignored.
    if header.crit.is_some() {
        return Err("the ID token needs an extension that is not known".to_owned());
    }
    Ok(header)
}

/// Verifies a token with the key of the issuer.
///
/// # Errors
/// It is not valid; the text has no part of it.
pub(super) fn verified(
    token: &str,
    header: &Header,
    key: &DecodingKey,
    settings: &Settings,
    nonce: &str,
) -> Result<Authenticated, String> {
    let mut rules = Validation::new(header.alg);
    rules.leeway = SKEW;
    rules.validate_nbf = true;
    rules.set_issuer(&[&settings.issuer]);
    rules.set_audience(&[&settings.client]);
    rules.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    let claims: Map<String, Value> =
        decode(token, key, &rules).map_err(|error| format!("the ID token is not valid: {error}"))?.claims;
    check(&claims, settings, nonce).map_err(|why| format!("the ID token is not valid: {why}"))?;
    match claims.get(&settings.user_claim) {
        Some(Value::String(name)) if !name.is_empty() && name.len() <= NAME && !name.contains(char::is_control) => {
            Ok(Authenticated { name: name.clone() })
        }
        _ => Err(format!(
            "the ID token has no name in the claim {}; check `frevo:openid user claim` and `frevo:openid scopes`",
            settings.user_claim
        )),
    }
}

/// Checks what the library does not.
fn check(claims: &Map<String, Value>, settings: &Settings, nonce: &str) -> Result<(), &'static str> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    let number = |name: &str| claims.get(name).and_then(Value::as_f64);
    // The library accepts a list.
    if text("iss") != Some(&settings.issuer) {
        return Err("it is of another issuer");
    }
    // Others for which a token is issued, too, could use it here.
    let is_shared = claims.get("aud").and_then(Value::as_array).is_some_and(|all| all.len() > 1);
    if (is_shared || claims.contains_key("azp")) && text("azp") != Some(&settings.client) {
        // Canaille lists further audiences that an administrator has entered, and never names the client.
        return Err(if claims.contains_key("azp") {
            "it is issued to another client"
        } else {
            "it is for other clients, too, and `azp` does not name this one; remove its other audiences at \
             the issuer"
        });
    }
    if !bool::from(text("nonce").unwrap_or_default().as_bytes().ct_eq(nonce.as_bytes())) {
        return Err("its nonce is not that of this logon");
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let skew = SKEW as f64;
    let issued = number("iat").ok_or("it does not say when it was issued")?;
    if issued > now + skew || issued < now - OLDEST {
        return Err("it was issued at another time; compare the clocks of the issuer and of this host");
    }
    // Some issuers leave it out, although it was requested with `max_age`. Then the time of the logon counts.
    if claims.contains_key("auth_time") {
        let authenticated = number("auth_time").ok_or("it does not say when the user authenticated")?;
        if authenticated > now + skew || authenticated < now - AUTHENTICATED.as_secs_f64() - skew {
            return Err("the user has authenticated too long ago; log off at the issuer and try again");
        }
    }
    Ok(())
}
