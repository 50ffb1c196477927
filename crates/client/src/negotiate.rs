//! NEGOTIATE ([MS-SMB2] 3.2.4.2.2, 3.2.5.2).

use proto::crypto::preauth::PreauthHash;
use proto::smb2::header::Command;
use proto::smb2::negotiate::{
    Capabilities, CipherId, Dialect, EncryptionCapabilities, HashAlgorithm, NegotiateContextType, NegotiateRequest,
    NegotiateResponse, PreauthIntegrityCapabilities, SecurityMode, SigningAlgorithm, SigningCapabilities,
};

use crate::connection::Connection;
use crate::{Error, Options, Result, random};

/// The payload covered by one credit, in bytes.
pub(crate) const CREDIT: u32 = 65536;
/// The largest READ or WRITE that is ever requested, in bytes: the most that a frame of this client can hold.
const LARGEST: u32 = 8 * 1024 * 1024;

/// The outcome of NEGOTIATE.
#[derive(Clone)]
pub struct Agreed {
    /// The dialect.
    pub dialect: Dialect,
    /// The ClientGuid that was sent.
    pub(crate) client_guid: [u8; 16],
    /// The signing algorithm.
    pub signing: SigningAlgorithm,
    /// Whether the server refuses unsigned messages.
    pub signing_required: bool,
    /// The cipher for sealing, if there is one.
    pub cipher: Option<CipherId>,
    /// The largest READ, in bytes.
    pub max_read_size: u32,
    /// The largest WRITE, in bytes.
    pub max_write_size: u32,
    /// The largest buffer of the other commands, in bytes.
    pub max_transact_size: u32,
    /// The preauthentication integrity hash of the messages so far. Dialect 3.1.1 derives its keys from it.
    pub(crate) preauth: Option<PreauthHash>,
}

impl Agreed {
    /// The state before the negotiation.
    pub(crate) fn nothing() -> Agreed {
        Agreed {
            dialect: Dialect::SMB_2_0_2,
            client_guid: [0; 16],
            signing: SigningAlgorithm::HMAC_SHA256,
            signing_required: false,
            cipher: None,
            max_read_size: CREDIT,
            max_write_size: CREDIT,
            max_transact_size: CREDIT,
            preauth: None,
        }
    }
}

/// Negotiates on a new connection. `client_guid` identifies the client: its connections have the same one (3.2.1.1).
pub(crate) async fn negotiate(connection: &mut Connection, options: &Options, client_guid: [u8; 16]) -> Result<Agreed> {
    let salt: [u8; 32] = random()?;
    let mut contexts = Vec::new();
    if options.dialects.contains(&Dialect::SMB_3_1_1) {
        let hash_algorithms = vec![HashAlgorithm::SHA_512];
        let ciphers = vec![CipherId::AES_128_GCM, CipherId::AES_128_CCM, CipherId::AES_256_GCM, CipherId::AES_256_CCM];
        let signing_algorithms = vec![SigningAlgorithm::AES_GMAC, SigningAlgorithm::AES_CMAC];
        contexts.push(PreauthIntegrityCapabilities { hash_algorithms, salt: salt.to_vec().into() }.to_context());
        contexts.push(EncryptionCapabilities { ciphers }.to_context());
        contexts.push(SigningCapabilities { signing_algorithms }.to_context());
    }
    let required = if options.sign { SecurityMode::SIGNING_REQUIRED } else { SecurityMode::SIGNING_ENABLED };
    let comes_back = match options.client_guid {
        Some(_) => Capabilities::PERSISTENT_HANDLES | Capabilities::LEASING,
        None => Capabilities(0),
    };
    let channels = if options.multichannel { Capabilities::MULTI_CHANNEL } else { Capabilities(0) };
    let request = NegotiateRequest {
        security_mode: SecurityMode::SIGNING_ENABLED | required,
        capabilities: Capabilities::LARGE_MTU | Capabilities::ENCRYPTION | comes_back | channels,
        client_guid,
        dialects: options.dialects.clone(),
        negotiate_context_list: contexts,
    };
    connection.queue(Command::NEGOTIATE, 1, |out| request.encode(out))?;
    let mut preauth = PreauthHash::new();
    preauth.update(connection.queued());
    connection.flush().await?;
    let response = connection.next().await?;
    preauth.update(response.message);
    response.succeeded()?;
    settle(&NegotiateResponse::decode(response.message)?, options, client_guid, preauth)
}

fn settle(
    response: &NegotiateResponse<'_>,
    options: &Options,
    client_guid: [u8; 16],
    preauth: PreauthHash,
) -> Result<Agreed> {
    let dialect = response.dialect_revision;
    if !options.dialects.contains(&dialect) {
        return Err(Error::Protocol("it chose a dialect that was not offered"));
    }
    let smb3 = dialect.0 >= Dialect::SMB_3_0.0;
    let most = if response.capabilities.contains(Capabilities::LARGE_MTU) { LARGEST } else { CREDIT };
    let limit = |offered: u32| offered.min(most);
    let mut agreed = Agreed {
        dialect,
        client_guid,
        signing: if smb3 { SigningAlgorithm::AES_CMAC } else { SigningAlgorithm::HMAC_SHA256 },
        signing_required: response.security_mode.contains(SecurityMode::SIGNING_REQUIRED),
        cipher: (smb3 && response.capabilities.contains(Capabilities::ENCRYPTION)).then_some(CipherId::AES_128_CCM),
        max_read_size: limit(response.max_read_size),
        max_write_size: limit(response.max_write_size),
        max_transact_size: limit(response.max_transact_size),
        preauth: None,
    };
    if agreed.max_read_size == 0 || agreed.max_write_size == 0 || agreed.max_transact_size == 0 {
        return Err(Error::Protocol("it negotiated a maximum size of 0"));
    }
    if dialect != Dialect::SMB_3_1_1 {
        return Ok(agreed);
    }
    agreed.preauth = Some(preauth);
    agreed.cipher = None;
    for context in &response.negotiate_context_list {
        match context.context_type {
            NegotiateContextType::ENCRYPTION_CAPABILITIES => {
                let chosen = EncryptionCapabilities::decode(&context.data)?.ciphers;
                agreed.cipher = chosen.first().copied().filter(|cipher| cipher.0 != 0);
            }
            NegotiateContextType::SIGNING_CAPABILITIES => {
                let chosen = SigningCapabilities::decode(&context.data)?.signing_algorithms;
                agreed.signing = chosen.first().copied().unwrap_or(agreed.signing);
            }
            _ => {}
        }
    }
    Ok(agreed)
}
