//! NEGOTIATE, and the SMB1 negotiate packet that clients send first if they do not know the server's dialects
//! ([MS-SMB2] 3.3.5.3, 3.3.5.4).

use std::sync::Arc;

use proto::auth::spnego;
use proto::crypto::preauth::PreauthHash;
use proto::dtyp::{FileTime, Guid};
use proto::smb1::{self, Offer};
use proto::smb2::header::{Command, Header};
use proto::smb2::negotiate::{
    Capabilities, CipherId, Dialect, EncryptionCapabilities, HashAlgorithm, NegotiateContext, NegotiateContextType,
    NegotiateRequest, NegotiateResponse, PosixExtensions, PreauthIntegrityCapabilities, SecurityMode, SigningAlgorithm,
    SigningCapabilities,
};
use proto::status::Status;

use crate::error::{Disconnect, Error, Result};
use crate::policy::limits::DIALECTS;
use crate::policy::{self, Encryption, EncryptionAlgorithm, Policy, Protocol, Signing};
use crate::request::{Hash, Reply, Request};
use crate::state::connection::{Connection, Negotiated};

/// The dialect that asks the client of an SMB1 multi-protocol negotiate to continue with an SMB2 NEGOTIATE.
const WILDCARD: Dialect = Dialect(0x02ff);

pub(crate) fn negotiate(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let connection = request.connection;
    if connection.negotiated().is_some() {
        connection.end(Disconnect("the client sent a second NEGOTIATE"));
        return Err(Error::new(Status::INVALID_PARAMETER));
    }
    let asked = NegotiateRequest::decode(request.message)?;
    if asked.dialects.is_empty() {
        return Err(Error::because(Status::INVALID_PARAMETER, "NEGOTIATE without dialects"));
    }
    // They are kept for the connection, to detect a downgrade.
    if asked.dialects.len() > DIALECTS {
        return Err(Error::because(Status::INVALID_PARAMETER, "NEGOTIATE with too many dialects"));
    }
    let policy = connection.server.policy();
    let dialect = choose_dialect(&asked.dialects, &policy)
        .ok_or(Error::because(Status::NOT_SUPPORTED, "no common dialect within the configured protocol range"))?;
    let mut negotiated = settle(dialect, &asked, &policy, connection);
    let contexts = if dialect == Dialect::SMB_3_1_1 {
        negotiate_contexts(&asked, &mut negotiated, request, &policy)?
    } else {
        Vec::new()
    };
    respond(connection, dialect, &negotiated, &contexts, reply);
    reply.hash = Hash::Connection(Box::new(negotiated));
    Ok(Status::SUCCESS)
}

fn choose_dialect(offered: &[Dialect], policy: &Policy) -> Option<Dialect> {
    let known = [
        (Protocol::Smb3_11, Dialect::SMB_3_1_1),
        (Protocol::Smb3_02, Dialect::SMB_3_0_2),
        (Protocol::Smb3_00, Dialect::SMB_3_0),
        (Protocol::Smb2_10, Dialect::SMB_2_1),
        (Protocol::Smb2_02, Dialect::SMB_2_0_2),
    ];
    let range = policy.server_min_protocol..=policy.server_max_protocol;
    known.iter().find(|(protocol, dialect)| range.contains(protocol) && offered.contains(dialect)).map(|known| known.1)
}

/// Determines everything that does not depend on negotiate contexts.
fn settle(dialect: Dialect, asked: &NegotiateRequest<'_>, policy: &Policy, connection: &Connection) -> Negotiated {
    let smb3 = dialect.0 >= Dialect::SMB_3_0.0;
    // [MS-SMB2] 3.3.5.4: multi-credit from 2.1 on. NetBIOS frames are too short for it.
    let multi_credit = dialect != Dialect::SMB_2_0_2 && connection.peer.local.port() != 139;
    let mut capabilities = Capabilities(0);
    if policy.host_msdfs {
        capabilities |= Capabilities::DFS;
    }
    if multi_credit {
        capabilities |= Capabilities::LARGE_MTU;
    }
    // 3.3.5.4: leases from 2.1 on; directory leases from 3.0 on and only for clients that support them.
    if policy.smb2_leases && dialect != Dialect::SMB_2_0_2 {
        capabilities |= Capabilities::LEASING;
        let asks = asked.capabilities.contains(Capabilities::DIRECTORY_LEASING);
        if smb3 && policy.smb3_directory_leases && asks {
            capabilities |= Capabilities::DIRECTORY_LEASING;
        }
    }
    if smb3 && policy.server_multi_channel_support && asked.capabilities.contains(Capabilities::MULTI_CHANNEL) {
        capabilities |= Capabilities::MULTI_CHANNEL;
    }
    let keeps = || {
        policy.shares.values().any(|share| share.handles.continuously_available) && connection.server.store().is_some()
    };
    if smb3 && asked.capabilities.contains(Capabilities::PERSISTENT_HANDLES) && keeps() {
        capabilities |= Capabilities::PERSISTENT_HANDLES;
    }
    let may_seal = policy.server_smb_encrypt != Encryption::Off;
    let asked_sealing = asked.capabilities.contains(Capabilities::ENCRYPTION);
    let offers_ccm = ciphers(policy).any(|cipher| cipher == CipherId::AES_128_CCM);
    let cipher = if smb3 && dialect != Dialect::SMB_3_1_1 && may_seal && asked_sealing && offers_ccm {
        capabilities |= Capabilities::ENCRYPTION;
        Some(CipherId::AES_128_CCM)
    } else {
        None
    };
    let limit = |bytes: u32| if multi_credit { bytes } else { bytes.min(65536) };
    Negotiated {
        dialect,
        client_guid: Guid(asked.client_guid),
        client_capabilities: asked.capabilities,
        client_security_mode: asked.security_mode,
        client_dialects: asked.dialects.clone(),
        server_capabilities: capabilities,
        server_security_mode: security_mode(policy),
        cipher,
        signing: if smb3 { SigningAlgorithm::AES_CMAC } else { SigningAlgorithm::HMAC_SHA256 },
        multi_credit,
        max_transact: limit(policy.smb2_max_trans),
        max_read: limit(policy.smb2_max_read),
        max_write: limit(policy.smb2_max_write),
        posix: false,
        preauth: None,
    }
}

/// Returns the ciphers of `server smb3 encryption algorithms`, in order of preference.
fn ciphers(policy: &Policy) -> impl Iterator<Item = CipherId> {
    policy.server_smb3_encryption_algorithms.iter().map(|algorithm| match algorithm {
        EncryptionAlgorithm::Aes128Gcm => CipherId::AES_128_GCM,
        EncryptionAlgorithm::Aes128Ccm => CipherId::AES_128_CCM,
        EncryptionAlgorithm::Aes256Gcm => CipherId::AES_256_GCM,
        EncryptionAlgorithm::Aes256Ccm => CipherId::AES_256_CCM,
    })
}

/// Returns the algorithms of `server smb3 signing algorithms`, in order of preference.
fn signing_algorithms(policy: &Policy) -> impl Iterator<Item = SigningAlgorithm> {
    policy.server_smb3_signing_algorithms.iter().map(|algorithm| match algorithm {
        policy::SigningAlgorithm::Aes128Gmac => SigningAlgorithm::AES_GMAC,
        policy::SigningAlgorithm::Aes128Cmac => SigningAlgorithm::AES_CMAC,
        policy::SigningAlgorithm::HmacSha256 => SigningAlgorithm::HMAC_SHA256,
    })
}

fn security_mode(policy: &Policy) -> SecurityMode {
    match policy.server_signing {
        Signing::Enabled => SecurityMode::SIGNING_ENABLED,
        Signing::Required => SecurityMode::SIGNING_ENABLED | SecurityMode::SIGNING_REQUIRED,
    }
}

/// Evaluates the negotiate contexts of 3.1.1 (3.3.5.4): at most one context of each kind, exactly one for
/// preauthentication integrity.
fn negotiate_contexts(
    asked: &NegotiateRequest<'_>,
    negotiated: &mut Negotiated,
    request: &Request<'_>,
    policy: &Policy,
) -> Result<Vec<NegotiateContext<'static>>> {
    let find = |kind| find_context(asked, kind);
    let preauth = find(NegotiateContextType::PREAUTH_INTEGRITY_CAPABILITIES)?;
    find(NegotiateContextType::COMPRESSION_CAPABILITIES)?;
    find(NegotiateContextType::RDMA_TRANSFORM_CAPABILITIES)?;
    let preauth =
        preauth.ok_or(Error::because(Status::INVALID_PARAMETER, "3.1.1 without preauthentication integrity"))?;
    let preauth = PreauthIntegrityCapabilities::decode(preauth)?;
    if preauth.hash_algorithms.is_empty() {
        return Err(Error::new(Status::INVALID_PARAMETER));
    }
    if !preauth.hash_algorithms.contains(&HashAlgorithm::SHA_512) {
        return Err(Error::new(Status::SMB_NO_PREAUTH_INTEGRITY_HASH_OVERLAP));
    }
    let mut hash = PreauthHash::new();
    hash.update(request.message);
    negotiated.preauth = Some(hash);
    let salt = request.connection.server.random::<32>().to_vec();
    let sha_512 = PreauthIntegrityCapabilities { hash_algorithms: vec![HashAlgorithm::SHA_512], salt: salt.into() };
    let mut answer = vec![sha_512.to_context()];
    if let Some(offered) = find(NegotiateContextType::ENCRYPTION_CAPABILITIES)?
        && policy.server_smb_encrypt != Encryption::Off
    {
        let offered = EncryptionCapabilities::decode(offered)?.ciphers;
        if offered.is_empty() {
            return Err(Error::because(Status::INVALID_PARAMETER, "encryption context without ciphers"));
        }
        negotiated.cipher = ciphers(policy).find(|cipher| offered.contains(cipher));
        // If there is no common cipher, the response contains cipher 0.
        let ciphers = vec![negotiated.cipher.unwrap_or(CipherId(0))];
        answer.push(EncryptionCapabilities { ciphers }.to_context());
        if negotiated.cipher.is_some() {
            negotiated.server_capabilities |= Capabilities::ENCRYPTION;
        }
    }
    if let Some(offered) = find(NegotiateContextType::SIGNING_CAPABILITIES)? {
        let offered = SigningCapabilities::decode(offered)?.signing_algorithms;
        if offered.is_empty() {
            return Err(Error::because(Status::INVALID_PARAMETER, "signing context without algorithms"));
        }
        if let Some(best) = signing_algorithms(policy).find(|algorithm| offered.contains(algorithm)) {
            negotiated.signing = best;
            answer.push(SigningCapabilities { signing_algorithms: vec![best] }.to_context());
        }
    }
    if policy.smb3_unix_extensions
        && let Some(offered) = find(NegotiateContextType::POSIX_EXTENSIONS_AVAILABLE)?
        && PosixExtensions::decode(offered)?.versions.contains(&PosixExtensions::VERSION)
    {
        negotiated.posix = true;
        answer.push(PosixExtensions { versions: vec![PosixExtensions::VERSION] }.to_context());
    }
    Ok(answer)
}

/// Returns the data of the only context of `kind`; an error if there are two.
fn find_context<'a>(asked: &'a NegotiateRequest<'_>, kind: NegotiateContextType) -> Result<Option<&'a [u8]>> {
    let mut found = asked.negotiate_context_list.iter().filter(|context| context.context_type == kind);
    match (found.next(), found.next()) {
        (_, Some(_)) => Err(Error::because(Status::INVALID_PARAMETER, "duplicate negotiate context")),
        (first, None) => Ok(first.map(|context| &*context.data)),
    }
}

fn respond(
    connection: &Connection,
    dialect: Dialect,
    negotiated: &Negotiated,
    contexts: &[NegotiateContext<'static>],
    reply: &mut Reply,
) {
    let token = spnego::encode_init2(connection.server.mech_types());
    // On 3.1.1, `Connection.ServerCapabilities` includes ENCRYPTION, but the response does not (3.3.5.4).
    let capabilities = match dialect {
        Dialect::SMB_3_1_1 => Capabilities(negotiated.server_capabilities.0 & !Capabilities::ENCRYPTION.0),
        _ => negotiated.server_capabilities,
    };
    NegotiateResponse {
        security_mode: negotiated.server_security_mode,
        dialect_revision: dialect,
        server_guid: connection.server.guid.0,
        capabilities,
        max_transact_size: negotiated.max_transact,
        max_read_size: negotiated.max_read,
        max_write_size: negotiated.max_write,
        system_time: FileTime::from(connection.server.environment.now()).0,
        server_start_time: 0,
        buffer: &token,
        negotiate_context_list: contexts.to_vec(),
    }
    .encode(&mut reply.body());
}

/// Answers SMB1's NEGOTIATE (3.3.5.3) with the wildcard dialect if both sides support 2.1 or later, otherwise with
/// 2.0.2 if both support that. SMB1 itself is not supported.
pub(crate) fn multi_protocol(
    connection: &Arc<Connection>,
    asked: &smb1::Smb1NegotiateRequest<'_>,
) -> std::result::Result<(), Disconnect> {
    let policy = connection.server.policy();
    let wildcard = asked.offer() == Offer::Wildcard && policy.server_max_protocol > Protocol::Smb2_02;
    let plain = asked.dialects.contains(&smb1::DIALECT_SMB_2_002) && policy.server_min_protocol == Protocol::Smb2_02;
    if connection.negotiated().is_some() || !(wildcard || plain) {
        return Err(Disconnect("SMB1 is not served"));
    }
    {
        let mut state = connection.state.lock();
        if state.wildcard || !state.window.charge(0, 1) {
            return Err(Disconnect("the client sent a second SMB1 NEGOTIATE"));
        }
        state.wildcard = wildcard;
    }
    let dialect = if wildcard { WILDCARD } else { Dialect::SMB_2_0_2 };
    let nothing = NegotiateRequest::default();
    let mut negotiated = settle(dialect, &nothing, &policy, connection);
    negotiated.signing = SigningAlgorithm::HMAC_SHA256;
    let header = Header::request(Command::NEGOTIATE, 0);
    Reply::unasked(connection, &header, |reply| {
        respond(connection, dialect, &negotiated, &[], reply);
        if !wildcard {
            reply.hash = Hash::Connection(Box::new(negotiated));
        }
    });
    Ok(())
}
