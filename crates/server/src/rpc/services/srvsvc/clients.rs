//! Sessions, open files and tree connects. Only administrators see and close them, as in Samba.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use proto::dtyp::AccessMask;
use proto::rpc::enumeration::{self, Levelled, Request, error};
use proto::rpc::srvsvc::clients::{
    ACCESS_ATRIB, ACCESS_DELETE, ACCESS_EXEC, ACCESS_PERM, Connection, FILE_LEVELS, File, PERM_FILE_CREATE,
    PERM_FILE_READ, PERM_FILE_WRITE, SESS_GUEST, Session,
};
use proto::rpc::srvsvc::shares::{STYPE_DISKTREE, STYPE_IPC, STYPE_PRINTQ, STYPE_SPECIAL};
use proto::rpc::srvsvc::{ConnectionEnum, FileClose, FileEnum, FileGetInfo, SessionDel, SessionEnum, status_response};

use super::{number, windows_path};
use crate::policy::fold;
use crate::rpc::interface::Call;
use crate::rpc::listing::Listing;
use crate::state::Server;
use crate::state::open::Open;
use crate::state::session;
use crate::streams;
use crate::tree::TreeKind;
use crate::user::User;
use crate::vfs::Time;

/// The longest qualifier of a call, in UTF-16 units and with its NUL.
const QUALIFIER_UNITS: usize = 1024;

/// NetrSessionEnum (3.1.4.5).
pub(super) async fn session_enum(call: &Call<'_>, asked: SessionEnum) -> Vec<u8> {
    let request = match admitted(call, asked.request).await {
        Ok(request) => request,
        Err(refused) => return refused,
    };
    let (client, user) = (qualifier(asked.client), qualifier(asked.user));
    if let Err(status) = check_length(&client).and(check_length(&user)) {
        return enumeration::refused(&request, status);
    }
    if client.as_ref().is_some_and(|client| !is_computer(client)) {
        return enumeration::refused(&request, error::INVALID_COMPUTER);
    }
    let (mut list, mut found) = (Listing::new(request, call), false);
    let now = call.server.environment.now();
    let _ = call
        .server
        .walk_sessions(|session, of| {
            let address = client_of(session);
            let matches = is_client(&client, &address) && is_user(&user, shown_name(of));
            found |= matches;
            if list.offer_now(matches) {
                list.add(&Session {
                    client: address,
                    user: shown_name(of).to_owned(),
                    opens: number(session.open_count()),
                    seconds: seconds_since(session.created, now),
                    // The time of the last request is not recorded.
                    idle_seconds: 0,
                    flags: if of.guest { SESS_GUEST } else { 0 },
                });
            }
            ControlFlow::Continue(())
        })
        .await;
    match (found, client, user) {
        (false, Some(_), _) => enumeration::refused(&request, error::CLIENT_NAME_NOT_FOUND),
        (false, None, Some(_)) => enumeration::refused(&request, error::USER_NOT_FOUND),
        _ => list.finish(),
    }
}

/// NetrFileEnum (3.1.4.2).
pub(super) async fn file_enum(call: &Call<'_>, asked: FileEnum) -> Vec<u8> {
    let request = match admitted(call, asked.request).await {
        Ok(request) => request,
        Err(refused) => return refused,
    };
    let (base, user) = (qualifier(asked.base), qualifier(asked.user));
    if let Err(status) = check_length(&base).and(check_length(&user)) {
        return enumeration::refused(&request, status);
    }
    let base = base.map(|base| fold(&base));
    let mut list = Listing::new(request, call);
    let _ = call
        .server
        .walk_opens(|open, of| {
            if !open.is_pipe() {
                let is_below = |base: &String| fold(&path_of(open)).starts_with(base);
                let matches = is_user(&user, of) && base.as_ref().is_none_or(is_below);
                if list.offer_now(matches) {
                    list.add(&describe(call.server, open, of));
                }
            }
            ControlFlow::Continue(())
        })
        .await;
    list.finish()
}

/// NetrFileGetInfo (3.1.4.3).
pub(super) async fn file_get_info(call: &Call<'_>, asked: FileGetInfo) -> Vec<u8> {
    let mut found = Err(error::ACCESS_DENIED);
    if call.is_administrator().await {
        found = Err(error::FILE_NOT_FOUND);
        let _ = call
            .server
            .walk_opens(|open, of| match !open.is_pipe() && open.file_number() == asked.id {
                true => {
                    found = Ok(describe(call.server, open, of));
                    ControlFlow::Break(())
                }
                false => ControlFlow::Continue(()),
            })
            .await;
    }
    enumeration::info(asked.level, FILE_LEVELS, found.as_ref().map_err(|status| *status))
}

/// NetrConnectionEnum (3.1.4.1).
pub(super) async fn connection_enum(call: &Call<'_>, asked: ConnectionEnum) -> Vec<u8> {
    let request = match admitted(call, asked.request).await {
        Ok(request) => request,
        Err(refused) => return refused,
    };
    let wanted = qualifier(asked.qualifier);
    let Some(wanted) = wanted.filter(|wanted| check_length(&Some(wanted.clone())).is_ok()) else {
        return enumeration::refused(&request, error::INVALID_PARAMETER);
    };
    let by_client = is_computer(&wanted).then(|| wanted.clone());
    let share = fold(&wanted);
    let mut list = Listing::new(request, call);
    let now = call.server.environment.now();
    let _ = call
        .server
        .walk_sessions(|session, of| {
            let client = client_of(session);
            if by_client.is_some() && !is_client(&by_client, &client) {
                return ControlFlow::Continue(());
            }
            let mut trees = session.trees();
            trees.sort_unstable_by_key(|tree| tree.id);
            let mut opens = None;
            for tree in trees {
                if list.offer_now(by_client.is_some() || fold(tree.share_name()) == share) {
                    let opens = opens.get_or_insert_with(|| session.opens_by_tree());
                    list.add(&Connection {
                        id: tree.id,
                        kind: match tree.kind {
                            TreeKind::Disk(_) => STYPE_DISKTREE,
                            TreeKind::Printer(_) => STYPE_PRINTQ,
                            TreeKind::Pipes => STYPE_IPC | STYPE_SPECIAL,
                        },
                        opens: opens.get(&tree.id).copied().map_or(0, number),
                        seconds: seconds_since(tree.created, now),
                        user: shown_name(of).to_owned(),
                        name: if by_client.is_some() { tree.share_name().to_owned() } else { client.clone() },
                    });
                }
            }
            ControlFlow::Continue(())
        })
        .await;
    list.finish()
}

/// NetrSessionDel (3.1.4.6).
pub(super) async fn session_del(call: &Call<'_>, asked: SessionDel) -> Vec<u8> {
    let (client, user) = (qualifier(asked.client), qualifier(asked.user));
    status_response(match check_length(&client).and(check_length(&user)) {
        _ if !call.is_administrator().await => error::ACCESS_DENIED,
        Err(status) => status,
        Ok(()) if client.as_ref().is_some_and(|client| !is_computer(client)) => error::CLIENT_NAME_NOT_FOUND,
        Ok(()) if client.is_none() && user.is_none() => error::INVALID_PARAMETER,
        Ok(()) => end_sessions(call, &client, &user).await,
    })
}

/// Ends the sessions of a client and user. The session of the caller ends last, because its requests end with it.
async fn end_sessions(call: &Call<'_>, client: &Option<String>, user: &Option<String>) -> u32 {
    let mut found = Vec::new();
    let _ = call
        .server
        .walk_sessions(|session, of| {
            if is_client(client, &client_of(session)) && is_user(user, shown_name(of)) {
                found.push(session.id);
            }
            ControlFlow::Continue(())
        })
        .await;
    let own = call.caller.session();
    found.sort_unstable_by_key(|id| Some(*id) == own);
    let mut status = error::CLIENT_NAME_NOT_FOUND;
    for id in found {
        if call.caller.close_session(id).await {
            status = error::SUCCESS;
        }
    }
    status
}

/// NetrFileClose (3.1.4.4).
pub(super) async fn file_close(call: &Call<'_>, asked: FileClose) -> Vec<u8> {
    status_response(if !call.is_administrator().await {
        error::ACCESS_DENIED
    } else if call.caller.close_file(asked.id).await {
        error::SUCCESS
    } else {
        error::FILE_ID_NOT_FOUND
    })
}

/// Returns the request of an administrator for a level that exists. The error is the response to another one.
async fn admitted(call: &Call<'_>, asked: Levelled) -> Result<Request, Vec<u8>> {
    let request = asked.map_err(enumeration::unknown_level)?;
    if call.is_administrator().await { Ok(request) } else { Err(enumeration::refused(&request, error::ACCESS_DENIED)) }
}

/// Returns a qualifier unless it is empty, which is the same as none.
fn qualifier(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

fn check_length(qualifier: &Option<String>) -> Result<(), u32> {
    let length = qualifier.as_ref().map_or(0, |text| text.encode_utf16().count());
    if length < QUALIFIER_UNITS { Ok(()) } else { Err(error::INVALID_PARAMETER) }
}

/// Returns whether a name is that of a computer.
fn is_computer(name: &str) -> bool {
    name.starts_with("\\\\")
}

fn is_client(wanted: &Option<String>, address: &str) -> bool {
    wanted.as_ref().is_none_or(|wanted| wanted.trim_start_matches('\\').eq_ignore_ascii_case(address))
}

fn is_user(wanted: &Option<String>, name: &str) -> bool {
    wanted.as_ref().is_none_or(|wanted| fold(wanted) == fold(name))
}

/// Returns the address of the client, because the name that it sends is not trustworthy.
fn client_of(session: &session::Session) -> String {
    let connection = session.live_channels().into_iter().next();
    connection.map(|connection| connection.peer.remote.ip().to_canonical().to_string()).unwrap_or_default()
}

/// Returns the name of a user; an anonymous one has none.
fn shown_name(user: &User) -> &str {
    if user.anonymous { "" } else { &user.name }
}

fn seconds_since(then: Time, now: Time) -> u32 {
    u32::try_from(now.secs.saturating_sub(then.secs).max(0)).unwrap_or(u32::MAX)
}

/// Returns the path of an open file on this host, in the notation of Windows. A print job has its title in it.
fn path_of(open: &Open) -> String {
    let mut path = match &open.tree.kind {
        TreeKind::Disk(disk) => disk.share.path.clone(),
        TreeKind::Printer(printer) => printer.spool.share.path.clone(),
        TreeKind::Pipes => PathBuf::new(),
    };
    let of_file = open.file().map(|file| file.name.path.lock().to_string());
    let below = of_file.or_else(|| open.job().map(|job| job.title.clone())).unwrap_or_default();
    if !below.is_empty() {
        path.push(below);
    }
    let path = windows_path(&path);
    match open.file().and_then(|file| streams::of(&file.node)).and_then(|node| node.stream.name()) {
        Some(stream) => format!("{path}:{stream}"),
        None => path,
    }
}

fn describe(server: &Server, open: &Arc<Open>, user: &str) -> File {
    let locks = open.file().map_or(0, |file| server.opens.files.lock_count_of(file.file, open.persistent_id));
    File {
        id: open.file_number(),
        permissions: permissions(open.granted),
        locks: number(locks),
        path: path_of(open),
        user: user.to_owned(),
    }
}

fn permissions(granted: AccessMask) -> u32 {
    let all = [
        (AccessMask::FILE_READ_DATA, PERM_FILE_READ),
        (AccessMask::FILE_WRITE_DATA, PERM_FILE_WRITE),
        (AccessMask::FILE_APPEND_DATA, PERM_FILE_CREATE),
        (AccessMask::FILE_EXECUTE, ACCESS_EXEC),
        (AccessMask::DELETE, ACCESS_DELETE),
        (AccessMask::FILE_WRITE_ATTRIBUTES, ACCESS_ATRIB),
        (AccessMask::WRITE_DAC, ACCESS_PERM),
    ];
    all.into_iter().filter(|(right, _)| granted.contains(*right)).fold(0, |all, (_, permission)| all | permission)
}
