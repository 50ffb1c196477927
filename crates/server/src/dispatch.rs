//! Passes requests to their commands, after the checks of signature, session and tree connect that are common to all
//! ([MS-SMB2] 3.3.5.2.4, 3.3.5.2.9, 3.3.5.2.11).

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use proto::smb2::header::{Command, Flags, Header};
use proto::smb2::negotiate::Dialect;
use proto::status::Status;

use crate::command;
use crate::error::{Disconnect, Error, Result};
use crate::request::{Reply, Request};
use crate::state::session::{Channel, Phase, Session};
use crate::vfs::cancellable;

/// Executes one request and returns the status of the response, whose body is in `reply`.
pub(crate) async fn dispatch(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    #[cfg(feature = "torture")]
    if let Some(answer) = crate::torture::dispatch(request, reply).await {
        return answer;
    }
    let command = request.header.command;
    match command {
        Command::NEGOTIATE => return command::negotiate::negotiate(request, reply),
        Command::SESSION_SETUP => return command::session_setup::session_setup(request, reply).await,
        Command::ECHO => return command::echo::echo(request, reply),
        _ => check_session(request)?,
    }
    match command {
        Command::LOGOFF => return command::logoff::logoff(request, reply).await,
        Command::TREE_CONNECT => return command::tree_connect::tree_connect(request, reply).await,
        _ => check_tree(request)?,
    }
    if let Some(status) = request.inherited_failure()
        && !matches!(command, Command::CREATE | Command::TREE_DISCONNECT)
    {
        return Err(Error::because(status, "the preceding CREATE of the chain failed"));
    }
    let _room = command::audit_room::admit(request)?;
    let done = match command {
        Command::TREE_DISCONNECT => command::tree_disconnect::tree_disconnect(request, reply).await,
        Command::CREATE => command::create::create(request, reply).await,
        Command::CLOSE => command::close::close(request, reply).await,
        Command::FLUSH => command::flush::flush(request, reply).await,
        Command::READ => unless_lost(request, pin!(command::read::read(request, reply))).await,
        Command::WRITE => command::write::write(request, reply).await,
        Command::LOCK => command::lock::lock(request, reply).await,
        Command::IOCTL => command::ioctl::ioctl(request, reply).await,
        Command::QUERY_DIRECTORY => {
            unless_lost(request, pin!(command::query_directory::query_directory(request, reply))).await
        }
        Command::CHANGE_NOTIFY => command::change_notify::change_notify(request, reply).await,
        Command::QUERY_INFO => unless_lost(request, pin!(command::query_info::query_info(request, reply))).await,
        Command::SET_INFO => command::set_info::set_info(request, reply).await,
        Command::OPLOCK_BREAK => command::oplock_break::acknowledge(request, reply),
        // CANCEL has no response and is not dispatched. An unknown code ends the connection, except within a chain.
        _ => Err(Error::new(Status::INVALID_PARAMETER)),
    };
    command::audit::executed(request, reply, &done);
    done
}

/// Executes a command that changes nothing, so that its storage calls may end when its client has gone. Other commands
/// are completed: what follows a change, such as breaking the caches of other clients, must not be left out.
async fn unless_lost(request: &Request<'_>, command: Pin<&mut impl Future<Output = Result<Status>>>) -> Result<Status> {
    cancellable(Arc::clone(&request.connection.lost), command).await
}

/// Checks the signature (3.3.5.2.4). The signature field of `message` is zeroed for the check and then restored.
pub(crate) fn check_signature(
    channel: Option<&Channel>,
    header: &Header,
    message: &mut [u8],
    sealed: bool,
) -> Result<()> {
    if let Some(channel) = channel {
        check_sealed(&channel.session, header.command, sealed)?;
    }
    if sealed {
        return Ok(());
    }
    let signed = header.flags.contains(Flags::SIGNED);
    if header.command == Command::NEGOTIATE {
        return if signed { Err(Error::new(Status::INVALID_PARAMETER)) } else { Ok(()) };
    }
    // A request that binds a session to this connection is signed with the session's key; `session_setup` checks it.
    if channel.is_none() && header.command == Command::SESSION_SETUP && header.session_id != 0 {
        return Ok(());
    }
    let Some(channel) = channel else {
        return if signed { Err(Error::new(Status::USER_SESSION_DELETED)) } else { Ok(()) };
    };
    if signed {
        let Some(key) = channel.signing() else {
            return Err(Error::because(Status::NOT_SUPPORTED, "the request is signed, but the session has no key"));
        };
        if !key.verify(message) {
            return Err(Error::because(Status::ACCESS_DENIED, "invalid signature"));
        }
    } else if channel.session.signing_required.load(Ordering::Relaxed) {
        return Err(Error::because(Status::ACCESS_DENIED, "the request is not signed, but signing is required"));
    } else if header.command == Command::SESSION_SETUP && channel.session.protects_data() {
        // An attacker on the network path must not choose the user of a session in which the client encrypts data.
        return Err(Error::because(Status::ACCESS_DENIED, "unsigned SESSION_SETUP in an encrypted session"));
    }
    Ok(())
}

/// Checks encryption (3.3.5.2.9), also for commands that need no session: in an encrypted session, a plaintext request
/// was sent by someone else. A session that has ended is answered with its own status.
fn check_sealed(session: &Session, command: Command, sealed: bool) -> Result<()> {
    let required = session.encrypt_data.load(Ordering::Relaxed) && session.phase() != Phase::Closed;
    if required && !sealed && command != Command::NEGOTIATE {
        return Err(Error::because(
            Status::ACCESS_DENIED,
            "the request is not encrypted, but the session requires encryption",
        ));
    }
    Ok(())
}

/// Checks the session (3.3.5.2.9).
fn check_session(request: &Request<'_>) -> Result<()> {
    let session = request.session()?;
    let always = matches!(request.header.command, Command::LOGOFF | Command::CLOSE | Command::LOCK);
    session.expire(|| request.connection.server.environment.uptime());
    match session.phase() {
        Phase::Closed => return Err(Error::new(Status::USER_SESSION_DELETED)),
        Phase::Expired if !always => return Err(Error::new(Status::NETWORK_SESSION_EXPIRED)),
        // As Windows servers, <272>.
        Phase::InProgress if !always => return Err(Error::new(Status(0x8009_0302))),
        _ => {}
    }
    check_sealed(session, request.header.command, request.sealed)?;
    // [MS-SMB2] 3.3.5.7: on 3.1.1 a signed or encrypted tree connect proves that the negotiation was not tampered with.
    let plain = !request.sealed && !request.header.flags.contains(Flags::SIGNED);
    let proven = request.connection.dialect() == Dialect::SMB_3_1_1 && session.phase() == Phase::Valid;
    if request.header.command == Command::TREE_CONNECT
        && proven
        && plain
        && session.user().is_some_and(|user| !user.guest && !user.anonymous)
    {
        request.connection.end(Disconnect("TREE_CONNECT on 3.1.1 is neither signed nor encrypted"));
        return Err(Error::new(Status::ACCESS_DENIED));
    }
    Ok(())
}

/// Checks the tree connect (3.3.5.2.11).
fn check_tree(request: &Request<'_>) -> Result<()> {
    let tree = request.tree()?;
    if tree.encrypts() && !request.sealed {
        return Err(Error::because(
            Status::ACCESS_DENIED,
            "the request is not encrypted, but the share requires encryption",
        ));
    }
    Ok(())
}
