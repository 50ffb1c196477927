//! Signing and sealing of a session's messages ([MS-SMB2] 3.1.4).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proto::crypto::KeyRefused;
use proto::crypto::kdf::{Derivation, Key, KeyLength};
use proto::crypto::seal::{SealingKey, key_length};
use proto::crypto::sign::SigningKey;
use proto::smb2::header::{Flags, Header};
use proto::smb2::negotiate::Dialect;
use proto::smb2::transform::TransformHeader;

use crate::negotiate::Agreed;
use crate::{Error, Result};

/// The keys of a session on one of its connections.
pub(crate) struct Protection {
    /// The key of this connection. That of the session's first connection is the session's.
    signing: SigningKey,
    /// Whether every request is signed, and every response must be.
    pub(crate) signs: bool,
    /// Shared by all connections of the session.
    sealing: Option<Arc<Sealing>>,
    /// Whether every message is sealed.
    pub(crate) seals: bool,
}

/// The keys of both directions and the next nonce.
struct Sealing {
    to_server: SealingKey,
    to_client: SealingKey,
    nonce: AtomicU64,
}

impl Protection {
    /// Derives the keys ([MS-SMB2] 3.2.5.3.1) from the key of the authentication mechanism.
    pub(crate) fn derive(logon_key: &[u8], agreed: &Agreed) -> std::result::Result<Protection, KeyRefused> {
        let session_key = Key::from_session_key(logon_key);
        let signing = signing_key(&session_key, agreed)?;
        let sealing = match (agreed.cipher, derivation(agreed)) {
            (Some(cipher), Some(derivation)) => {
                let length = key_length(cipher).unwrap_or(KeyLength::Bits128);
                // 128-bit ciphers use only the first 16 bytes of a longer key, such as a Kerberos key.
                let whole = if length == KeyLength::Bits256 { logon_key } else { session_key.as_bytes() };
                let to_server = derivation.client_to_server_key(whole, length);
                let to_client = derivation.server_to_client_key(whole, length);
                Some(Arc::new(Sealing {
                    to_server: SealingKey::new(cipher, to_server.as_bytes())?,
                    to_client: SealingKey::new(cipher, to_client.as_bytes())?,
                    nonce: AtomicU64::new(1),
                }))
            }
            _ => None,
        };
        Ok(Protection { signing, signs: false, sealing, seals: false })
    }

    /// Derives the keys of another connection of this session ([MS-SMB2] 3.2.5.3.3): only the signing key is its own.
    pub(crate) fn of_channel(&self, logon_key: &[u8], agreed: &Agreed) -> std::result::Result<Protection, KeyRefused> {
        let signing = signing_key(&Key::from_session_key(logon_key), agreed)?;
        Ok(Protection { signing, signs: self.signs, sealing: self.sealing.clone(), seals: self.seals })
    }

    /// Seals all messages from now on.
    pub(crate) fn seal_everything(&mut self) -> Result<()> {
        if self.sealing.is_none() {
            return Err(Error::Protocol("encryption was requested, but no cipher was negotiated"));
        }
        self.seals = true;
        Ok(())
    }

    /// Drops the sealing keys if nothing is sealed, because they are the larger part of a session.
    pub(crate) fn settle(&mut self) {
        if !self.seals {
            self.sealing = None;
        }
    }

    /// Signs `message`, which begins with its header and ends with its padding.
    pub(crate) fn sign(&self, message: &mut [u8]) {
        if let Some(flags) = message.get_mut(Header::FLAGS_POSITION) {
            *flags |= Flags::SIGNED.0 as u8;
        }
        self.signing.sign(message);
    }

    /// Seals a frame that begins with space for its transform header.
    pub(crate) fn seal(&self, session_id: u64, frame: &mut [u8]) {
        if let Some(sealing) = &self.sealing {
            let nonce = sealing.nonce.fetch_add(1, Ordering::Relaxed);
            sealing.to_server.seal(session_id, nonce, frame);
        }
    }

    /// Opens a sealed frame in place. The plaintext begins after the transform header.
    pub(crate) fn open(&self, frame: &mut [u8]) -> Result<()> {
        let sealing =
            self.sealing.as_ref().ok_or(Error::Protocol("it sent an encrypted response that was not requested"))?;
        sealing
            .to_client
            .open(frame)
            .map_err(|_| Error::Protocol("it sent an encrypted response that cannot be decrypted"))?;
        Ok(())
    }

    /// Checks the signature of a response that is signed or has to be.
    pub(crate) fn verify(&self, message: &mut [u8], header: &Header) -> Result<()> {
        let signed = header.flags.contains(Flags::SIGNED);
        if (signed || self.signs) && !(signed && self.signing.verify(message)) {
            return Err(Error::Protocol("it sent a response without a valid signature"));
        }
        Ok(())
    }

    /// The space that a frame needs before its messages, in bytes.
    pub(crate) fn space(&self) -> usize {
        if self.seals { TransformHeader::SIZE } else { 0 }
    }
}

/// How the keys of a session are derived; `None` if the session key itself signs.
fn derivation(agreed: &Agreed) -> Option<Derivation<'_>> {
    match &agreed.preauth {
        Some(hash) => Some(Derivation::Smb311(hash.value())),
        None => (agreed.dialect.0 >= Dialect::SMB_3_0.0).then_some(Derivation::Smb30),
    }
}

fn signing_key(session_key: &Key, agreed: &Agreed) -> std::result::Result<SigningKey, KeyRefused> {
    match derivation(agreed) {
        Some(derivation) => SigningKey::new(agreed.signing, derivation.signing_key(session_key).as_bytes()),
        None => SigningKey::new(agreed.signing, session_key.as_bytes()),
    }
}
