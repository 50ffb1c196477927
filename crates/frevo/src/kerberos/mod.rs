//! Acceptance of Kerberos tickets: the host's library ([`gssapi`], a crate) with the keys of a keytab (RFC 4121,
//! [MS-KILE] 3.4.5).
//!
//! The library reads the keytab for each ticket, so new keys are used immediately, and it maintains its replay cache.
//! It uses files and blocks, so it runs on a bounded number of blocking threads. Obtaining and renewing keys is not
//! implemented.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gssapi::{Accepted, Context, Failure, Keys, Library, LogonBuffer};
use parking_lot::Mutex;
use proto::auth::kerberos::{EncryptionType, Envelope};
use proto::auth::pac::LogonInfo;
use server::answer::Answer;
use server::tickets::{Cause, ClientName, Refusal, Signatures, Ticket, Tickets};
use tokio::sync::Semaphore;

use smbconf::kerberos::Settings;

/// Maximum number of tickets processed concurrently, so that a hanging disk does not occupy all blocking threads of the
/// runtime.
const AT_A_TIME: usize = 16;

/// How long the result of a check for the keytab is cached.
const SEEN_TIME: Duration = Duration::from_secs(1);

/// Maximum length of a client name, in bytes.
const LONGEST_NAME: usize = 1024;

/// Accepts tickets with the keys of one keytab.
pub struct Keytab {
    settings: Arc<Settings>,
    gate: Arc<Semaphore>,
    seen: Mutex<Option<(Instant, bool)>>,
}

impl Keytab {
    /// Creates the acceptor for a server. Problems are logged; the keytab may be created later. Returns `None` if the
    /// host does not have the library. Blocks.
    pub fn of_server(settings: Settings) -> Option<Keytab> {
        let library = Library::get()
            .map_err(|missing| tracing::error!("Kerberos is configured but not available: {missing}"))
            .ok()?;
        if let Err(failure) = Keys::of(library, &name(&settings.keytab)) {
            let keytab = settings.keytab.display();
            tracing::warn!(
                "Kerberos is configured but has no keys yet: keytab {keytab}: {}; create it with `kadmin ktadd -k \
                 {keytab} cifs/HOST` (MIT), `ktutil` or `net ads keytab create`",
                failure.text
            );
        }
        Some(Keytab { settings: Arc::new(settings), gate: Arc::new(Semaphore::new(AT_A_TIME)), seen: Mutex::default() })
    }
}

impl Tickets for Keytab {
    fn ready(&self) -> bool {
        let mut seen = self.seen.lock();
        match *seen {
            Some((since, there)) if since.elapsed() < SEEN_TIME => there,
            _ => {
                let there = localfs::identity::as_process(|| self.settings.keytab.is_file()).unwrap_or(false);
                *seen = Some((Instant::now(), there));
                there
            }
        }
    }

    fn accept(&self, token: Vec<u8>) -> Answer<Result<Ticket, Refusal>> {
        let (settings, gate) = (self.settings.clone(), self.gate.clone());
        Answer::later(async move {
            let turn = gate.acquire_owned().await.expect("the gate is never closed");
            let accepted = tokio::task::spawn_blocking(move || {
                // The permit is held as long as the thread is used, even if the request was cancelled.
                let _turn = turn;
                localfs::identity::as_process(|| accept(&settings, &token))
            });
            match accepted.await {
                Ok(Ok(accepted)) => accepted,
                Ok(Err(error)) => Err(unavailable(format!("cannot act as the process: {error}"))),
                Err(error) => Err(unavailable(error.to_string())),
            }
        })
    }
}

/// Signatures made with an established security context.
struct Signer(Context);

impl Signatures for Signer {
    fn sign(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        self.0.mic(message).ok()
    }

    fn verify(&mut self, message: &[u8], signature: &[u8]) -> bool {
        self.0.verify_mic(message, signature).is_ok()
    }
}

/// Returns the library's name for the keytab at `path`.
fn name(path: &Path) -> String {
    format!("FILE:{}", path.display())
}

fn unavailable(why: String) -> Refusal {
    Refusal { cause: Cause::Unavailable, why, reply: Vec::new() }
}

/// Accepts a client's token. Blocks.
fn accept(settings: &Settings, token: &[u8]) -> Result<Ticket, Refusal> {
    let refused = |why: String| Refusal { cause: Cause::Other, why, reply: Vec::new() };
    let envelope = Envelope::decode(token).map_err(|_| refused("the token is not a Kerberos request".into()))?;
    check_type(settings, envelope.encryption, "ticket").map_err(refused)?;
    let library = Library::get().map_err(unavailable)?;
    let keys = Keys::of(library, &name(&settings.keytab))
        .map_err(|failure| unavailable(format!("keytab {}: {}", settings.keytab.display(), failure.text)))?;
    let accepted = keys.accept(token).map_err(|failure| explain(settings, &envelope, failure))?;
    let Accepted { client, service, logon, lifetime, reply, key, key_type, context } = accepted;
    let own_realm = own_realm(settings, &service).map_err(refused)?;
    let key_type = key_type.ok_or_else(|| refused("the session key is of an unknown type".into()))?;
    check_type(settings, EncryptionType(key_type), "session key").map_err(refused)?;
    let client = client_name(&client, &own_realm).ok_or_else(|| refused(format!("{client:?} is not a client name")))?;
    let logon = match logon {
        LogonBuffer::Absent => None,
        LogonBuffer::Unsigned => {
            return Err(refused(format!(
                "the ticket of {client} contains a PAC that is not signed with the server's key"
            )));
        }
        LogonBuffer::Signed(bytes) => Some(
            LogonInfo::decode(&bytes)
                .map_err(|wrong| refused(format!("the PAC in the ticket of {client} is malformed: {wrong}")))?,
        ),
    };
    let lifetime = lifetime.map(|seconds| Duration::from_secs(seconds.into()));
    Ok(Ticket { client, logon, reply, key, lifetime, signatures: Box::new(Signer(context)) })
}

/// Returns the realm whose users are the server's own: `realm`, or else that of the keytab's principal whose key
/// decrypted the ticket. The realm that the ticket contains in clear text is chosen by the sender. The principal must
/// be a file server's, because a ticket for another service in the keytab must not be accepted as a logon.
fn own_realm(settings: &Settings, service: &str) -> Result<String, String> {
    let name = client_name(service, "").ok_or_else(|| format!("{service:?} is not a service name"))?;
    let is_file_server = match &name.components[..] {
        // Clients request cifs. A domain controller uses one key for all names of a computer account, including host.
        [kind, _] => ["cifs", "host"].iter().any(|known| kind.eq_ignore_ascii_case(known)),
        [account] => account.ends_with('$'),
        _ => false,
    };
    if !is_file_server {
        return Err(format!(
            "the ticket uses the key of {service} in the keytab, not of a file server (cifs/NAME, host/NAME or NAME$); \
             add a key for cifs/NAME to the keytab that no other service has"
        ));
    }
    Ok(if settings.realm.is_empty() { name.realm } else { settings.realm.clone() })
}

fn check_type(settings: &Settings, encryption: EncryptionType, of: &str) -> Result<(), String> {
    if settings.encryption.permits(encryption) {
        return Ok(());
    }
    Err(format!(
        "the {of} uses {encryption}, which `kerberos encryption types` does not permit; create AES keys for this \
         server's account and a new keytab, or permit it"
    ))
}

/// Describes why the library refused a token, and what the administrator can do about it.
fn explain(settings: &Settings, envelope: &Envelope, failure: Failure) -> Refusal {
    let Failure { minor, text, token, .. } = failure;
    let cause = match minor {
        Failure::CLOCK_SKEW => Cause::Clock,
        Failure::TICKET_EXPIRED | Failure::TICKET_NOT_YET_VALID => Cause::Time,
        _ => Cause::Other,
    };
    let keytab = settings.keytab.display();
    let Envelope { realm, service, encryption, key_version } = envelope;
    let kvno = key_version.map_or_else(|| "no version".into(), |version| format!("version {version}"));
    let remedy = match minor {
        Failure::CLOCK_SKEW => "synchronize the clocks of client and server (NTP)".into(),
        Failure::TICKET_EXPIRED | Failure::TICKET_NOT_YET_VALID => "the client needs a new ticket (kinit)".into(),
        Failure::REPLAY => "the same token was sent before; a client that is not attacked sends a new one".into(),
        _ => format!(
            "see `klist -ket {keytab}`: if this key is missing, export the service's keys again; if the keytab has a \
             newer one, the client needs a new ticket"
        ),
    };
    let why = format!(
        "{text}; the ticket is for {service}@{realm}, key {kvno}, {encryption}; the keytab is {keytab}; {remedy}"
    );
    Refusal { cause, why, reply: token }
}

/// Parses `name` in MIT syntax: components separated by slashes, then an at sign and the realm. A backslash escapes
/// these characters.
fn client_name(name: &str, own_realm: &str) -> Option<ClientName> {
    if name.len() > LONGEST_NAME {
        return None;
    }
    let (mut components, mut part, mut in_realm) = (Vec::new(), String::new(), false);
    let mut letters = name.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => part.push(match letters.next()? {
                'n' => '\n',
                't' => '\t',
                'b' => '\u{8}',
                '0' => '\0',
                other => other,
            }),
            '/' if !in_realm => components.push(std::mem::take(&mut part)),
            '@' if in_realm => return None,
            '@' => {
                components.push(std::mem::take(&mut part));
                in_realm = true;
            }
            other => part.push(other),
        }
    }
    let own_realm = part == own_realm;
    (in_realm && !part.is_empty()).then_some(ClientName { components, realm: part, own_realm })
}

#[cfg(test)]
mod tests;
