//! Negotiation, logon, and one signed or sealed request at a time ([MS-SMB2] 3.2.4.2, 3.2.5).

use proto::auth::ntlm::{Credentials, Initiator, Random, nt_hash};
use proto::bytes::Writer;
use proto::crypto::KeyRefused;
use proto::crypto::kdf::{Derivation, Key, KeyLength};
use proto::crypto::preauth::PreauthHash;
use proto::crypto::seal::{SealingKey, key_length};
use proto::crypto::sign::SigningKey;
use proto::smb2::header::{Command, Flags, Header};
use proto::smb2::negotiate::{
    Capabilities, CipherId, Dialect, EncryptionCapabilities, HashAlgorithm, NegotiateContextType, NegotiateRequest,
    NegotiateResponse, PreauthIntegrityCapabilities, SecurityMode, SigningAlgorithm, SigningCapabilities,
};
use proto::smb2::session_setup::{SessionSetupFlags, SessionSetupRequest, SessionSetupResponse};
use proto::smb2::transform::TransformHeader;
use proto::status::Status;
use tokio::net::TcpStream;

use crate::transport::{receive, send};
use crate::{Error, Options, Result};

/// How many credits are asked for with each request.
const CREDITS: u16 = 64;

/// A logged-on user on a connection.
pub struct Session {
    stream: TcpStream,
    next_message: u64,
    session_id: u64,
    dialect: Dialect,
    signing: Option<SigningKey>,
    sealing: Option<Sealing>,
}

/// Both directions' keys, and the next nonce.
struct Sealing {
    to_server: SealingKey,
    to_client: SealingKey,
    nonce: u64,
}

/// What NEGOTIATE settled.
struct Settled {
    signing: SigningAlgorithm,
    cipher: Option<CipherId>,
    preauth: Option<PreauthHash>,
}

impl Session {
    /// The dialect that was agreed to.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Negotiates and logs on.
    pub async fn log_on(stream: TcpStream, options: &Options) -> Result<Session> {
        let dialect = Dialect::SMB_2_0_2;
        let mut session = Session { stream, next_message: 0, session_id: 0, dialect, signing: None, sealing: None };
        let mut settled = session.negotiate(options).await?;
        let credentials =
            Credentials { user: options.user.clone(), domain: String::new(), nt_hash: nt_hash(&options.password) };
        let initiator = Initiator::new(Some(credentials), "CLIENT", "cifs/server");
        let (status, challenge) = session.session_setup(initiator.negotiate(), &mut settled).await?;
        if status != Status::MORE_PROCESSING_REQUIRED {
            return Err(Error::Refused(status));
        }
        let random = Random { client_challenge: random()?, session_key: random()? };
        let (proof, ntlm) = initiator
            .authenticate(&challenge, &random, 0)
            .map_err(|_| Error::Protocol("the server's challenge does not decode"))?;
        // The keys of 3.1.1 depend on everything said so far, this request included.
        let message = session.setup_message(&proof);
        if let Some(preauth) = &mut settled.preauth {
            preauth.update(&message);
        }
        send(&mut session.stream, &message).await?;
        let response = session.final_response().await?;
        let header = Header::decode(&response)?;
        if header.status != Status::SUCCESS {
            return Err(Error::Refused(header.status));
        }
        session.derive(&ntlm.key().0, &settled, options.seal).map_err(|_| Error::Protocol("keys that do not fit"))?;
        Ok(session)
    }

    async fn negotiate(&mut self, options: &Options) -> Result<Settled> {
        let mut contexts = Vec::new();
        if options.dialects.contains(&Dialect::SMB_3_1_1) {
            let salt: [u8; 32] = random()?;
            let sha_512 = vec![HashAlgorithm::SHA_512];
            let ciphers = vec![CipherId::AES_128_GCM, CipherId::AES_128_CCM];
            let algorithms = vec![SigningAlgorithm::AES_GMAC, SigningAlgorithm::AES_CMAC];
            contexts.push(
                PreauthIntegrityCapabilities { hash_algorithms: sha_512, salt: salt.to_vec().into() }.to_context(),
            );
            contexts.push(EncryptionCapabilities { ciphers }.to_context());
            contexts.push(SigningCapabilities { signing_algorithms: algorithms }.to_context());
        }
        let request = NegotiateRequest {
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities::LARGE_MTU | Capabilities::ENCRYPTION,
            client_guid: random()?,
            dialects: options.dialects.clone(),
            negotiate_context_list: contexts,
        };
        let message = self.compose(Command::NEGOTIATE, 0, 1, |out| request.encode(out));
        send(&mut self.stream, &message).await?;
        let answer = self.final_response().await?;
        let header = Header::decode(&answer)?;
        if header.status != Status::SUCCESS {
            return Err(Error::Refused(header.status));
        }
        let response = NegotiateResponse::decode(&answer)?;
        self.dialect = response.dialect_revision;
        let smb3 = self.dialect.0 >= Dialect::SMB_3_0.0;
        let mut settled = Settled {
            signing: if smb3 { SigningAlgorithm::AES_CMAC } else { SigningAlgorithm::HMAC_SHA256 },
            cipher: response.capabilities.contains(Capabilities::ENCRYPTION).then_some(CipherId::AES_128_CCM),
            preauth: None,
        };
        if self.dialect == Dialect::SMB_3_1_1 {
            let mut preauth = PreauthHash::new();
            preauth.update(&message);
            preauth.update(&answer);
            settled.preauth = Some(preauth);
            for context in &response.negotiate_context_list {
                match context.context_type {
                    NegotiateContextType::ENCRYPTION_CAPABILITIES => {
                        let chosen = EncryptionCapabilities::decode(&context.data)?.ciphers;
                        settled.cipher = chosen.first().copied().filter(|cipher| cipher.0 != 0);
                    }
                    NegotiateContextType::SIGNING_CAPABILITIES => {
                        let chosen = SigningCapabilities::decode(&context.data)?.signing_algorithms;
                        settled.signing = chosen.first().copied().unwrap_or(settled.signing);
                    }
                    _ => {}
                }
            }
        }
        Ok(settled)
    }

    fn setup_message(&mut self, token: &[u8]) -> Vec<u8> {
        let setup = SessionSetupRequest {
            flags: SessionSetupFlags(0),
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities(0),
            previous_session_id: 0,
            buffer: token,
        };
        self.compose(Command::SESSION_SETUP, 0, 1, |out| setup.encode(out))
    }

    async fn session_setup(&mut self, token: &[u8], settled: &mut Settled) -> Result<(Status, Vec<u8>)> {
        let message = self.setup_message(token);
        send(&mut self.stream, &message).await?;
        let answer = self.final_response().await?;
        if let Some(preauth) = &mut settled.preauth {
            preauth.update(&message);
            preauth.update(&answer);
        }
        let header = Header::decode(&answer)?;
        self.session_id = header.session_id;
        let token = match header.status {
            Status::MORE_PROCESSING_REQUIRED => SessionSetupResponse::decode(&answer)?.buffer.to_vec(),
            _ => Vec::new(),
        };
        Ok((header.status, token))
    }

    fn derive(&mut self, exported: &[u8], settled: &Settled, seal: bool) -> std::result::Result<(), KeyRefused> {
        let session_key = Key::from_session_key(exported);
        let derivation = match &settled.preauth {
            Some(hash) => Derivation::Smb311(hash.value()),
            None if self.dialect.0 >= Dialect::SMB_3_0.0 => Derivation::Smb30,
            None => {
                self.signing = Some(SigningKey::new(settled.signing, session_key.as_bytes())?);
                return Ok(());
            }
        };
        self.signing = Some(SigningKey::new(settled.signing, derivation.signing_key(&session_key).as_bytes())?);
        if let Some(cipher) = settled.cipher.filter(|_| seal) {
            let length = key_length(cipher).unwrap_or(KeyLength::Bits128);
            let (to_server, to_client) =
                (derivation.client_to_server_key(exported, length), derivation.server_to_client_key(exported, length));
            self.sealing = Some(Sealing {
                to_server: SealingKey::new(cipher, to_server.as_bytes())?,
                to_client: SealingKey::new(cipher, to_client.as_bytes())?,
                nonce: 1,
            });
        }
        Ok(())
    }

    fn compose(
        &mut self,
        command: Command,
        tree_id: u32,
        charge: u16,
        encode: impl FnOnce(&mut Writer<'_>),
    ) -> Vec<u8> {
        let mut header = Header::request(command, self.next_message).with_tree_id(tree_id);
        header.session_id = self.session_id;
        header.credits = CREDITS;
        header.credit_charge = charge;
        self.next_message += u64::from(charge);
        let mut message = Vec::new();
        let mut out = Writer::new(&mut message);
        header.encode(&mut out);
        encode(&mut out);
        message
    }

    /// Sends a request and answers the header and all bytes of the final, successful response.
    pub(crate) async fn request(
        &mut self,
        command: Command,
        tree_id: u32,
        charge: u16,
        encode: impl FnOnce(&mut Writer<'_>),
    ) -> Result<(Header, Vec<u8>)> {
        let mut message = self.compose(command, tree_id, charge, encode);
        match (&mut self.sealing, &self.signing) {
            (Some(sealing), _) => {
                let mut sealed = vec![0; TransformHeader::SIZE];
                sealed.append(&mut message);
                sealing.to_server.seal(self.session_id, sealing.nonce, &mut sealed);
                sealing.nonce += 1;
                message = sealed;
            }
            (None, Some(key)) => {
                message[Header::FLAGS_POSITION] |= Flags::SIGNED.0 as u8;
                key.sign(&mut message);
            }
            (None, None) => {}
        }
        send(&mut self.stream, &message).await?;
        let response = self.final_response().await?;
        let header = Header::decode(&response)?;
        if header.command != command {
            return Err(Error::Protocol("the answer to another request"));
        }
        if header.status.is_error() || header.status == Status::NO_MORE_FILES {
            return Err(Error::Refused(header.status));
        }
        Ok((header, response))
    }

    /// The next response that is not interim: opened, its signature checked.
    async fn final_response(&mut self) -> Result<Vec<u8>> {
        loop {
            let mut response = receive(&mut self.stream).await?;
            if response.starts_with(&TransformHeader::PROTOCOL_ID) {
                let sealing = self.sealing.as_ref().ok_or(Error::Protocol("sealed without a key"))?;
                let plain = sealing.to_client.open(&mut response).map_err(|_| Error::Protocol("a forged seal"))?;
                response = plain.to_vec();
            } else if self.sealing.is_some() {
                return Err(Error::Protocol("a plain answer to a sealed request"));
            }
            let header = Header::decode(&response)?;
            if header.status == Status::PENDING || header.message_id == Header::UNSOLICITED {
                continue;
            }
            let signed = header.flags.contains(Flags::SIGNED);
            if let (Some(key), None) = (&self.signing, &self.sealing)
                && !(signed && key.verify(&mut response))
            {
                return Err(Error::Protocol("a response without the right signature"));
            }
            return Ok(response);
        }
    }
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| Error::Protocol("no random numbers to be had"))?;
    Ok(bytes)
}
