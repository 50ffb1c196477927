//! Tests of the client's Kerberos tokens and key against Samba: it signs its answer, and decrypts encrypted messages.
//!
//! SESSION_SETUP is first implemented here, without the client's own logon, so that a wrong use of the key can be
//! distinguished from a wrong key.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use client::{Client, Kerberos, Open};
use proto::bytes::{Writer, utf16_bytes};
use proto::crypto::kdf::{Derivation, Key};
use proto::crypto::preauth::PreauthHash;
use proto::crypto::seal::{SealingKey, TRANSFORM_HEADER, key_length};
use proto::crypto::sign::SigningKey;
use proto::smb2::header::{Command, Flags, Header};
use proto::smb2::negotiate::{
    Capabilities, CipherId, Dialect, EncryptionCapabilities, HashAlgorithm, NegotiateRequest,
    PreauthIntegrityCapabilities, SecurityMode, SigningAlgorithm, SigningCapabilities,
};
use proto::smb2::session_setup::{SessionSetupFlags, SessionSetupRequest, SessionSetupResponse};
use proto::smb2::tree_connect::{TreeConnectFlags, TreeConnectRequest};
use proto::status::Status;

use crate::fixture::{Fixture, TEMPLATE};
use crate::suite::Case;
use test_environment::{ALICE, Kdc, REALM};

pub(super) const CASES: &[Case] = &[Case::new("kerberos.tickets", tickets).needs_root().sets_environment()];

pub(super) const HOST: &str = "localhost";
const CIPHERS: [CipherId; 4] =
    [CipherId::AES_128_GCM, CipherId::AES_128_CCM, CipherId::AES_256_GCM, CipherId::AES_256_CCM];

fn tickets(fixture: &mut Fixture) -> Result<()> {
    let kdc = Kdc::start(&fixture.environment, &["cifs/localhost"], &[ALICE])?;
    let own = format!(
        "[global]\n\trealm = {REALM}\n\tkerberos method = dedicated keytab\n\tdedicated keytab file = {}",
        kdc.keytab().display()
    );
    let _realm = Environment::set(&kdc.log_on(&ALICE)?);
    let server = fixture.environment.start("kerberos", &TEMPLATE.replace("[global]", &own))?;
    for cipher in CIPHERS {
        log_on(server.address(), cipher).with_context(|| format!("with {cipher:?}"))?;
    }
    fs::write(fixture.share("files").join("ticketed"), "let in")?;
    for dialect in client::Options::default().dialects {
        for seal in [false, true] {
            if !seal || dialect.0 >= Dialect::SMB_3_0.0 {
                fetch(server.address(), dialect, seal).with_context(|| format!("{dialect:?}, sealed: {seal}"))?;
            }
        }
    }
    unknown_host("unknown.test")
}

/// Lets the client log on by itself and read a file, signed or encrypted.
fn fetch(address: SocketAddr, dialect: Dialect, seal: bool) -> Result<()> {
    let credentials = client::Credentials::Kerberos;
    let options = client::Options { credentials, dialects: vec![dialect], sign: !seal, seal, ..Default::default() };
    let read = async {
        let mut client = Client::connect(address, HOST, "files", &options).await?;
        let open = client.open(&Open::existing("ticketed")).await?;
        client.read(open, 0, 100).await.map(|bytes| bytes.to_vec())
    };
    let bytes = tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(read)?;
    ensure!(bytes == b"let in", "{:?} was read", String::from_utf8_lossy(&bytes));
    Ok(())
}

/// An unknown host is named in the error.
fn unknown_host(host: &str) -> Result<()> {
    let said = Kerberos::initiate(host).err().context("a ticket to an unknown host")?.to_string();
    ensure!(said.contains(&format!("cifs@{host}")) && said.contains("not found in Kerberos database"), "{said}");
    Ok(())
}

/// Environment variables of this process, which the Kerberos library reads, until dropped.
pub(super) struct Environment(Vec<&'static str>);

impl Environment {
    pub(super) fn set(variables: &[(&'static str, String)]) -> Environment {
        for (name, value) in variables {
            // SAFETY: a case that sets variables runs while no other case does, and no other thread reads them.
            unsafe { std::env::set_var(name, value) };
        }
        Environment(variables.iter().map(|(name, _)| *name).collect())
    }
}

impl Drop for Environment {
    fn drop(&mut self) {
        for name in &self.0 {
            // SAFETY: see `set`.
            unsafe { std::env::remove_var(name) };
        }
    }
}

/// Logs on, checks the signature of the last answer, and connects to a share with encryption in both directions.
fn log_on(address: SocketAddr, cipher: CipherId) -> Result<()> {
    let (kerberos, mut talk) = set_up_session(address, cipher)?;
    let key = kerberos.session_key()?;
    ensure!(key.len() == 32, "the realm has only AES-256 keys, but this one has {} bytes", key.len());
    let session_key = Key::from_session_key(&key);
    let derivation = Derivation::Smb311(talk.preauth.value());
    let signing = derivation.signing_key(&session_key);
    let signing = SigningKey::new(SigningAlgorithm::AES_CMAC, signing.as_bytes()).context("a signing key")?;
    ensure!(Header::decode(&talk.answer)?.flags.contains(Flags::SIGNED), "the last answer is not signed");
    ensure!(signing.verify(&mut talk.answer), "the server signs with a different key");

    let length = key_length(cipher).context("a known cipher")?;
    let whole = match cipher {
        CipherId::AES_128_GCM | CipherId::AES_128_CCM => session_key.as_bytes(),
        _ => &key,
    };
    let to_server = SealingKey::new(cipher, derivation.client_to_server_key(whole, length).as_bytes());
    let to_client = SealingKey::new(cipher, derivation.server_to_client_key(whole, length).as_bytes());
    let path = utf16_bytes(&format!(r"\\{HOST}\files"));
    let request = TreeConnectRequest { flags: TreeConnectFlags(0), path: &path, tree_connect_contexts: Vec::new() };
    let mut frame = vec![0; TRANSFORM_HEADER];
    frame.extend(talk.compose(Command::TREE_CONNECT, |out| request.encode(out)));
    to_server.context("a key")?.seal(talk.session_id, 1, &mut frame);
    talk.send(&frame)?;
    let answer = to_client.context("a key")?.open(&mut talk.answer).context("the server encrypts with another key")?;
    let status = Header::decode(answer)?.status;
    ensure!(status == Status::SUCCESS, "TREE_CONNECT answered with {status}");
    Ok(())
}

/// Opens a connection with dialect 3.1.1.
pub(super) fn negotiate(address: SocketAddr, cipher: CipherId) -> Result<Talk> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut talk = Talk { stream, preauth: PreauthHash::new(), messages: 0, session_id: 0, answer: Vec::new() };
    let (hash_algorithms, salt) = (vec![HashAlgorithm::SHA_512], vec![7; 32].into());
    let signing_algorithms = vec![SigningAlgorithm::AES_CMAC];
    let request = NegotiateRequest {
        security_mode: SecurityMode::SIGNING_ENABLED,
        capabilities: Capabilities::ENCRYPTION,
        client_guid: [7; 16],
        dialects: vec![Dialect::SMB_3_1_1],
        negotiate_context_list: vec![
            PreauthIntegrityCapabilities { hash_algorithms, salt }.to_context(),
            EncryptionCapabilities { ciphers: vec![cipher] }.to_context(),
            SigningCapabilities { signing_algorithms }.to_context(),
        ],
    };
    talk.exchange(Command::NEGOTIATE, |out| request.encode(out))?;
    talk.preauth.update(&talk.answer);
    Ok(talk)
}

/// Sends NEGOTIATE and SESSION_SETUP until the server reports success.
fn set_up_session(address: SocketAddr, cipher: CipherId) -> Result<(Kerberos, Talk)> {
    let mut talk = negotiate(address, cipher)?;
    let (mut kerberos, mut token) = Kerberos::initiate(HOST)?;
    ensure!(kerberos.session_key().is_err(), "there is a key before the first answer");
    loop {
        let status = talk.set_up(&token)?;
        let more = status == Status::MORE_PROCESSING_REQUIRED;
        ensure!(more || status == Status::SUCCESS, "SESSION_SETUP answered with {status}");
        let next = kerberos.step(SessionSetupResponse::decode(&talk.answer)?.buffer)?;
        if !more {
            ensure!(next.is_none(), "the server has finished, but the client has another token");
            return Ok((kerberos, talk));
        }
        talk.preauth.update(&talk.answer);
        token = next.context("the server expects another token, but the client has none")?;
    }
}

/// A connection with one request at a time, and the last answer.
pub(super) struct Talk {
    stream: TcpStream,
    preauth: PreauthHash,
    messages: u64,
    session_id: u64,
    answer: Vec<u8>,
}

impl Talk {
    fn compose(&mut self, command: Command, encode: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
        let mut header = Header::request(command, self.messages);
        header.session_id = self.session_id;
        header.credit_charge = 1;
        header.credits = 8;
        self.messages += 1;
        let mut message = Vec::new();
        let mut out = Writer::new(&mut message);
        header.encode(&mut out);
        encode(&mut out);
        message
    }

    /// Sends one SESSION_SETUP and returns the status.
    pub(super) fn set_up(&mut self, token: &[u8]) -> Result<Status> {
        let request = SessionSetupRequest {
            flags: SessionSetupFlags(0),
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities(0),
            previous_session_id: 0,
            buffer: token,
        };
        self.exchange(Command::SESSION_SETUP, |out| request.encode(out))?;
        let header = Header::decode(&self.answer)?;
        self.session_id = header.session_id;
        Ok(header.status)
    }

    fn exchange(&mut self, command: Command, encode: impl FnOnce(&mut Writer<'_>)) -> Result<()> {
        let message = self.compose(command, encode);
        self.preauth.update(&message);
        self.send(&message)
    }

    fn send(&mut self, message: &[u8]) -> Result<()> {
        self.stream.write_all(&u32::try_from(message.len())?.to_be_bytes())?;
        self.stream.write_all(message)?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).context("no answer")?;
        self.answer = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut self.answer).context("an incomplete answer")
    }
}
