//! Secrets ([MS-LSAD] 3.1.4.6), which are for administrators.
//!
//! The server uses no secret itself: it keeps what programs of administrators store. System secrets, which no client
//! may use, and local ones, which only clients of the same machine may use (3.1.1.4), are refused, and so are those of
//! trusts.

use proto::auth::ntlm::secret;
use proto::dtyp::FileTime;
use proto::rpc::lsarpc::{self, NamedSecret, PrivateData, QuerySecret, SecretResult, SetSecret};
use proto::rpc::ndr::{self, ContextHandle};
use proto::status::Status;

use super::is_open;
use super::objects::{open, refused};
use crate::accounts::lsa::{SecretChange, SecretChangeKind, SecretValue};
use crate::policy::limits::{LSA_SECRET_BYTES, LSA_SECRET_NAME_LIMIT};
use crate::rpc::interface::Call;

/// The object of a context handle: the name of a secret.
#[derive(Clone)]
pub(super) struct SecretObject(String);

/// The callers that may access a secret (3.1.1.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Access {
    /// Administrators: a global secret, or one without a type.
    Remote,
    /// Clients on the same machine, or none.
    NotRemote,
    /// The name is not valid.
    Invalid,
}

/// Returns the access that the name of a secret permits.
fn access(name: &str) -> Access {
    const NOT_REMOTE_PREFIXES: [&str; 6] = ["L$", "M$", "_sc_", "NL$", "RasDialParams", "RasCredentials"];
    const NOT_REMOTE: [&str; 4] = ["$MACHINE.ACC", "SAC", "SAI", "SANSC"];
    let length = name.encode_utf16().count();
    let is_only_prefix = name == "G$" || NOT_REMOTE_PREFIXES.contains(&name);
    // Windows returns the same status for secrets of trusts, which begin with G$$ (note 77).
    let invalid = name.is_empty() || length > LSA_SECRET_NAME_LIMIT || name.contains(['\\', '\0']);
    if invalid || is_only_prefix || name.starts_with("G$$") {
        return Access::Invalid;
    }
    let not_remote = NOT_REMOTE.contains(&name) || NOT_REMOTE_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    if not_remote { Access::NotRemote } else { Access::Remote }
}

/// Checks the caller, the policy handle and the name.
async fn check(call: &Call<'_>, policy: &ContextHandle, name: &str) -> Result<(), Status> {
    if !is_open(call, policy) {
        return Err(Status::INVALID_HANDLE);
    }
    if !call.is_administrator().await {
        return Err(Status::ACCESS_DENIED);
    }
    match access(name) {
        Access::Remote => Ok(()),
        Access::NotRemote => Err(Status::ACCESS_DENIED),
        Access::Invalid => Err(Status::INVALID_PARAMETER),
    }
}

/// Returns the name of an open secret. The caller is checked again, because they may be no administrator any more.
async fn opened(call: &Call<'_>, handle: &ContextHandle) -> Result<String, Status> {
    let object = call.handles.lock().get::<SecretObject>(handle).cloned();
    let SecretObject(name) = object.ok_or(Status::INVALID_HANDLE)?;
    if call.is_administrator().await { Ok(name) } else { Err(Status::ACCESS_DENIED) }
}

/// Changes a secret; `none` is the status if it does not exist.
async fn change(call: &Call<'_>, name: &str, kind: SecretChangeKind, none: Status) -> Result<(), Status> {
    let now = FileTime::from(call.server.environment.now());
    let done = call.server.accounts.lsa.change_secret(name, SecretChange { kind, now }).await;
    done.map_err(|why| refused(call, why, none))
}

/// Returns the session key, which encrypts values. SMB or the pipe's own authentication has it.
fn session_key(call: &Call<'_>) -> Result<proto::crypto::kdf::Key, Status> {
    call.session_key().ok_or(Status::NO_USER_SESSION_KEY)
}

/// The length of the longest value when it is encrypted: with its length and version, and whole blocks.
const CIPHER_BYTES: usize = 8 + LSA_SECRET_BYTES.next_multiple_of(8);

fn decrypt(call: &Call<'_>, cipher: &[u8]) -> Result<SecretValue, Status> {
    if cipher.len() > CIPHER_BYTES {
        return Err(Status::INSUFFICIENT_RESOURCES);
    }
    let key = session_key(call)?;
    let key = key.as_bytes().try_into().map_err(|_| Status::NO_USER_SESSION_KEY)?;
    // Windows up to Vista and Samba return this status (note 82).
    let value = secret::decrypt(cipher, key).ok_or(Status::UNKNOWN_REVISION)?;
    if value.len() > LSA_SECRET_BYTES {
        return Err(Status::INSUFFICIENT_RESOURCES);
    }
    Ok(SecretValue(value.to_vec()))
}

fn encrypt(call: &Call<'_>, value: &SecretValue) -> Result<Vec<u8>, Status> {
    let key = session_key(call)?;
    let key = key.as_bytes().try_into().map_err(|_| Status::NO_USER_SESSION_KEY)?;
    Ok(secret::encrypt(&value.0, key))
}

/// LsarCreateSecret (3.1.4.6.1).
pub(super) async fn create_secret(call: &Call<'_>, asked: NamedSecret) -> Vec<u8> {
    let mut checked = check(call, &asked.handle, &asked.name).await;
    if checked.is_ok() {
        checked = change(call, &asked.name, SecretChangeKind::Create, Status::OBJECT_NAME_NOT_FOUND).await;
    }
    open(call, checked.map(|()| SecretObject(asked.name)))
}

/// LsarOpenSecret (3.1.4.6.2).
pub(super) async fn open_secret(call: &Call<'_>, asked: NamedSecret) -> Vec<u8> {
    let mut checked = check(call, &asked.handle, &asked.name).await;
    if checked.is_ok() {
        let found = call.server.accounts.lsa.secret(&asked.name).await;
        checked = found.map(|_| ()).map_err(|why| refused(call, why, Status::OBJECT_NAME_NOT_FOUND));
    }
    open(call, checked.map(|()| SecretObject(asked.name)))
}

/// LsarSetSecret (3.1.4.6.3).
pub(super) async fn set_secret(call: &Call<'_>, asked: SetSecret) -> Vec<u8> {
    let done = async {
        let name = opened(call, &asked.handle).await?;
        let value = |cipher: Option<Vec<u8>>| cipher.map(|cipher| decrypt(call, &cipher)).transpose();
        let kind = SecretChangeKind::Set { current: value(asked.current)?, old: value(asked.old)? };
        change(call, &name, kind, Status::INVALID_HANDLE).await
    };
    ndr::status_response(done.await.err().unwrap_or(Status::SUCCESS))
}

/// LsarQuerySecret (3.1.4.6.4).
pub(super) async fn query_secret(call: &Call<'_>, asked: QuerySecret) -> Vec<u8> {
    let found = async {
        let name = opened(call, &asked.handle).await?;
        let found = call.server.accounts.lsa.secret(&name).await;
        let found = found.map_err(|why| refused(call, why, Status::INVALID_HANDLE))?;
        let value = |value: &Option<SecretValue>, wanted: bool| {
            value.as_ref().filter(|_| wanted).map(|value| encrypt(call, value)).transpose()
        };
        Ok([
            SecretResult { cipher: value(&found.current, asked.current)?, time: found.current_time },
            SecretResult { cipher: value(&found.old, asked.old)?, time: found.old_time },
        ])
    };
    lsarpc::query_secret_response(&asked, found.await.as_ref().map_err(|status| *status))
}

/// LsarStorePrivateData (3.1.4.6.5).
pub(super) async fn store_private_data(call: &Call<'_>, asked: PrivateData) -> Vec<u8> {
    let done = async {
        check(call, &asked.handle, &asked.name).await?;
        let kind = match &asked.data {
            Some(cipher) => SecretChangeKind::Store(decrypt(call, cipher)?),
            None => SecretChangeKind::Delete,
        };
        change(call, &asked.name, kind, Status::OBJECT_NAME_NOT_FOUND).await
    };
    ndr::status_response(done.await.err().unwrap_or(Status::SUCCESS))
}

/// LsarRetrievePrivateData (3.1.4.6.6).
pub(super) async fn retrieve_private_data(call: &Call<'_>, asked: PrivateData) -> Vec<u8> {
    let found = async {
        check(call, &asked.handle, &asked.name).await?;
        let found = call.server.accounts.lsa.secret(&asked.name).await;
        let found = found.map_err(|why| refused(call, why, Status::OBJECT_NAME_NOT_FOUND))?;
        found.current.as_ref().map(|value| encrypt(call, value)).transpose()
    };
    match found.await {
        Ok(cipher) => lsarpc::private_data_response(cipher.as_deref(), Status::SUCCESS),
        Err(status) => lsarpc::private_data_response(None, status),
    }
}

/// Deletes an open secret.
pub(super) async fn delete(call: &Call<'_>, SecretObject(name): SecretObject) -> Result<(), Status> {
    if !call.is_administrator().await {
        return Err(Status::ACCESS_DENIED);
    }
    change(call, &name, SecretChangeKind::Delete, Status::INVALID_HANDLE).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_decides_on_the_access() {
        for (name, expected) in [
            ("secret", Access::Remote),
            ("G$secret", Access::Remote),
            ("G$", Access::Invalid),
            ("G$$TRUST", Access::Invalid),
            ("L$secret", Access::NotRemote),
            ("L$", Access::Invalid),
            ("_sc_service", Access::NotRemote),
            ("$MACHINE.ACC", Access::NotRemote),
            ("$machine.acc", Access::Remote),
            ("SAC", Access::NotRemote),
            ("SACK", Access::Remote),
            ("", Access::Invalid),
            ("a\\b", Access::Invalid),
            (&"a".repeat(128), Access::Remote),
            (&"a".repeat(129), Access::Invalid),
        ] {
            assert_eq!(access(name), expected, "{name}");
        }
    }
}
