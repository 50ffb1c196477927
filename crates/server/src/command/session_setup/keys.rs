//! Derives the keys of a session and its channels from the authentication's key ([MS-SMB2] 3.3.5.5.3, 3.1.4.2).

use std::sync::Arc;

use proto::crypto::KeyRefused;
use proto::crypto::kdf::{Derivation, Key, KeyLength};
use proto::crypto::preauth::PreauthHash;
use proto::crypto::seal::{SealingKey, key_length};
use proto::crypto::sign::SigningKey;
use proto::smb2::negotiate::Dialect;

use crate::state::connection::Negotiated;
use crate::state::session::SessionKeys;

/// Derives the session keys for the negotiated dialect ([MS-SMB2] 3.3.5.5.3 with 3.1.4.2).
pub(super) fn derive(
    exported: &[u8],
    negotiated: &Negotiated,
    preauth: Option<&PreauthHash>,
) -> std::result::Result<SessionKeys, KeyRefused> {
    let session_key = Key::from_session_key(exported);
    let signing = Some(Arc::new(derive_signing(exported, negotiated, preauth)?));
    let derivation = derivation(negotiated, preauth);
    // Below 3.0 it is the session key itself ([MS-SMB2] 3.3.4.6).
    let application = derivation.map_or_else(|| session_key.clone(), |from| from.application_key(&session_key));
    let mut keys = SessionKeys {
        client_to_server: None,
        server_to_client: None,
        signing,
        application: Some(application),
        secret: true,
    };
    let Some(derivation) = derivation else { return Ok(keys) };
    if let Some((cipher, length)) = negotiated.cipher.and_then(|cipher| Some((cipher, key_length(cipher)?))) {
        // AES-256 keys are derived from the full authentication key, which has 16 bytes with NTLM.
        let full = if length == KeyLength::Bits256 { exported } else { session_key.as_bytes() };
        let (to_server, to_client) =
            (derivation.client_to_server_key(full, length), derivation.server_to_client_key(full, length));
        keys.client_to_server = Some(SealingKey::new(cipher, to_server.as_bytes())?);
        keys.server_to_client = Some(SealingKey::new(cipher, to_client.as_bytes())?);
    }
    Ok(keys)
}

/// Derives the signing key of a null session. Clients may sign with it but do not encrypt ([MS-SMB2] 3.2.4.1.8).
pub(super) fn derive_null(
    exported: &[u8],
    negotiated: &Negotiated,
    preauth: Option<&PreauthHash>,
) -> std::result::Result<SessionKeys, KeyRefused> {
    let signing = Some(Arc::new(derive_signing(exported, negotiated, preauth)?));
    Ok(SessionKeys { client_to_server: None, server_to_client: None, signing, application: None, secret: false })
}

/// Derives `Session.SigningKey`, or `Channel.SigningKey` of a further channel.
pub(in crate::command) fn derive_signing(
    exported: &[u8],
    negotiated: &Negotiated,
    preauth: Option<&PreauthHash>,
) -> std::result::Result<SigningKey, KeyRefused> {
    let session_key = Key::from_session_key(exported);
    match derivation(negotiated, preauth) {
        Some(derivation) => SigningKey::new(negotiated.signing, derivation.signing_key(&session_key).as_bytes()),
        None => SigningKey::new(negotiated.signing, session_key.as_bytes()),
    }
}

/// Returns the key derivation; `None` below 3.0, where the authentication's key is used itself.
fn derivation<'a>(negotiated: &Negotiated, preauth: Option<&'a PreauthHash>) -> Option<Derivation<'a>> {
    match (negotiated.dialect, preauth) {
        (Dialect::SMB_3_1_1, Some(hash)) => Some(Derivation::Smb311(hash.value())),
        (dialect, _) if dialect.0 >= Dialect::SMB_3_0.0 => Some(Derivation::Smb30),
        _ => None,
    }
}
