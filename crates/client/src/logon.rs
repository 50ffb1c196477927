//! SESSION_SETUP ([MS-SMB2] 3.2.4.2.3, 3.2.5.3): NTLMv2 in SPNEGO, or Kerberos.

use std::io;

use proto::auth::ntlm::{self, Initiator, Random, Sender, nt_hash};
use proto::auth::spnego::{MechType, NegTokenResp, Token, encode_init, encode_mech_types};
use proto::smb2::header::{Command, Flags};
use proto::smb2::negotiate::{Capabilities, Dialect, SecurityMode};
use proto::smb2::session_setup::{SessionFlags, SessionSetupFlags, SessionSetupRequest, SessionSetupResponse};
use proto::status::Status;

use crate::connection::Connection;
use crate::negotiate::Agreed;
use crate::protection::Protection;
use crate::{Credentials, Error, Kerberos, Options, Result, random};

/// The client's workstation name in NTLM.
const WORKSTATION: &str = "CLIENT";

/// The authentication mechanism of a logon.
enum Mechanism {
    Ntlm(Initiator, Option<ntlm::Session>),
    /// `None` after a failed step.
    Kerberos(Option<Kerberos>),
}

impl Mechanism {
    async fn begin(host: &str, options: &Options) -> Result<(Mechanism, Vec<u8>)> {
        let credentials = match &options.credentials {
            Credentials::Password { user, domain, password } => {
                Some(ntlm::Credentials { user: user.clone(), domain: domain.clone(), nt_hash: nt_hash(password) })
            }
            Credentials::Anonymous => None,
            Credentials::Kerberos => {
                let host = host.to_owned();
                let (kerberos, token) = apart(move || Kerberos::initiate(&host)).await?;
                return Ok((Mechanism::Kerberos(Some(kerberos)), token));
            }
        };
        let initiator = Initiator::new(credentials, WORKSTATION, &format!("cifs/{host}"));
        let token = encode_init(&encode_mech_types(&[MechType::NTLMSSP]), Some(initiator.negotiate()));
        Ok((Mechanism::Ntlm(initiator, None), token))
    }

    /// Returns the reply to the server's token.
    async fn step(&mut self, token: &[u8]) -> Result<Vec<u8>> {
        let unreadable = Error::Protocol("its logon token cannot be decoded");
        let (initiator, session) = match self {
            Mechanism::Ntlm(initiator, session) => (initiator, session),
            Mechanism::Kerberos(kerberos) => {
                let done = Error::Protocol("it continued the logon after Kerberos was complete");
                return step_apart(kerberos, token).await?.ok_or(done);
            }
        };
        let challenge = match Token::decode(token)? {
            Token::Resp(NegTokenResp { response_token: Some(challenge), .. }) => challenge,
            Token::RawNtlm(challenge) => challenge,
            _ => return Err(unreadable),
        };
        let random = Random { client_challenge: random()?, session_key: random()? };
        let (proof, agreed) = initiator.authenticate(challenge, &random, 0).map_err(|_| unreadable)?;
        // [MS-SPNG] 3.1.5.1: without the mechListMIC, some servers ask for another round trip.
        let mic = agreed.mech_list_mic(Sender::Client, &encode_mech_types(&[MechType::NTLMSSP]));
        *session = Some(agreed);
        let mech_list_mic = mic.as_ref().map(|mic| &mic[..]);
        Ok(NegTokenResp { response_token: Some(&proof), mech_list_mic, ..NegTokenResp::default() }.encode())
    }

    /// Returns the session key of the mechanism. `token` is the server's last token, which Kerberos needs to
    /// authenticate the server.
    async fn finish(&mut self, token: &[u8]) -> Result<Vec<u8>> {
        let nobody = Error::Protocol("it accepted the logon before the user was authenticated");
        match self {
            Mechanism::Ntlm(_, session) => Ok(session.as_ref().ok_or(nobody)?.key().0.to_vec()),
            Mechanism::Kerberos(kerberos) => {
                if !token.is_empty() {
                    step_apart(kerberos, token).await?;
                }
                kerberos.as_ref().ok_or(nobody)?.session_key()
            }
        }
    }
}

/// Runs `work` on a blocking thread, because Kerberos may wait for a KDC, which must not block other tasks.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::Io(error.into()))?
}

async fn step_apart(kerberos: &mut Option<Kerberos>, token: &[u8]) -> Result<Option<Vec<u8>>> {
    let mut under_way = kerberos.take().ok_or(Error::Protocol("the logon has already failed"))?;
    let token = token.to_vec();
    let (under_way, next) = apart(move || under_way.step(&token).map(|next| (under_way, next))).await?;
    *kerberos = Some(under_way);
    Ok(next)
}

/// Logs on in a new session.
pub(crate) async fn log_on(connection: &mut Connection, host: &str, options: &Options) -> Result<()> {
    set_up(connection, host, options, None).await
}

/// Logs on in the session of the connection `first`, of which `connection` becomes another channel. `options` have the
/// credentials of the session's user.
pub(crate) async fn bind(connection: &mut Connection, first: &Connection, host: &str, options: &Options) -> Result<()> {
    let keys = first.protection.as_ref().ok_or_else(|| {
        Error::Io(io::Error::new(io::ErrorKind::InvalidInput, "an anonymous session cannot have further connections"))
    })?;
    connection.session_id = first.session_id;
    set_up(connection, host, options, Some(keys)).await
}

/// `session` has the keys of the session that is bound; for a new one it is not set.
async fn set_up(
    connection: &mut Connection,
    host: &str,
    options: &Options,
    session: Option<&Protection>,
) -> Result<()> {
    let (mut mechanism, mut token) = Mechanism::begin(host, options).await?;
    let mut agreed = connection.agreed.clone();
    loop {
        let setup = SessionSetupRequest {
            flags: if session.is_some() { SessionSetupFlags::BINDING } else { SessionSetupFlags(0) },
            security_mode: if options.sign { SecurityMode::SIGNING_REQUIRED } else { SecurityMode::SIGNING_ENABLED },
            capabilities: Capabilities(0),
            previous_session_id: 0,
            buffer: &token,
        };
        connection.queue(Command::SESSION_SETUP, 1, |out| setup.encode(out))?;
        // 3.2.4.2.3: this proves that the client has the session.
        if let Some(session) = session {
            connection.sign_queued(session);
        }
        if let Some(preauth) = &mut agreed.preauth {
            preauth.update(connection.queued());
        }
        connection.flush().await?;
        let response = connection.next().await?;
        let session_id = response.header.session_id;
        match response.header.status {
            Status::MORE_PROCESSING_REQUIRED => {
                if let Some(preauth) = &mut agreed.preauth {
                    preauth.update(response.message);
                }
                token = mechanism.step(SessionSetupResponse::decode(response.message)?.buffer).await?;
                connection.session_id = session_id;
            }
            Status::SUCCESS => {
                let setup = SessionSetupResponse::decode(response.message)?;
                let (session_flags, token) = (setup.session_flags, setup.buffer.to_vec());
                // The last response is signed with the new keys. A server that does not have them fails this check.
                let mut last = response.message.to_vec();
                let header = response.header;
                connection.session_id = session_id;
                if session_flags.contains(SessionFlags::IS_NULL) || session_flags.contains(SessionFlags::IS_GUEST) {
                    return guest(options, &agreed);
                }
                let key = mechanism.finish(&token).await?;
                let derived = match session {
                    None => Protection::derive(&key, &agreed),
                    Some(session) => session.of_channel(&key, &agreed),
                };
                let mut protection =
                    derived.map_err(|_| Error::Protocol("the session key does not fit the algorithm"))?;
                protection.signs =
                    session.is_some() || agreed.dialect == Dialect::SMB_3_1_1 || header.flags.contains(Flags::SIGNED);
                protection.verify(&mut last, &header)?;
                match session {
                    Some(session) => protection.signs = session.signs,
                    None => {
                        protection.signs = options.sign || agreed.signing_required;
                        if options.seal || session_flags.contains(SessionFlags::ENCRYPT_DATA) {
                            protection.seal_everything()?;
                        }
                    }
                }
                connection.protection = Some(protection);
                return Ok(());
            }
            _ => return Err(response.refused()),
        }
    }
}

/// A guest has no keys, so nothing can be signed or sealed.
fn guest(options: &Options, agreed: &Agreed) -> Result<()> {
    let anonymous = matches!(options.credentials, Credentials::Anonymous);
    if options.sign || options.seal || agreed.signing_required || !anonymous {
        return Err(Error::Protocol("it accepted the user only as a guest; check the user name"));
    }
    Ok(())
}
