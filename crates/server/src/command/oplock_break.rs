//! Oplocks on the wire ([MS-SMB2] 3.3.4.6, 3.3.5.9, 3.3.5.22): granted with an open, broken by a message that the client
//! did not ask for, acknowledged by a request. The rules are in `files::oplock`.

use std::sync::{Arc, Weak};
use std::task::Poll;

use parking_lot::Mutex;
use proto::smb2::header::{Command, Flags, Header};
use proto::smb2::oplock_break::{OplockBreak, OplockBreakAcknowledgment, OplockBreakNotification, OplockBreakResponse};
use proto::smb2::{FileId, OplockLevel};
use proto::status::Status;

use crate::conn::{Cancelled, Connection, Outgoing, Reply, Request};
use crate::error::{Error, Result};
use crate::files::oplock::{Holder, Wait};
use crate::open::{FileOpen, Open};
use crate::session::Session;
use crate::tree::Disk;
use crate::vfs::{self, Kind};

/// Grants an oplock to a new open; the response that says so must be the request's.
pub(crate) fn grant(
    request: &Request<'_>,
    reply: &mut Reply,
    open: &Open,
    file: &FileOpen,
    disk: &Disk,
    asked: OplockLevel,
) -> OplockLevel {
    // [MS-FSA] 2.1.5.18: a directory has no oplocks of the old kind.
    let cacheable = file.kind == Kind::File && disk.share.oplocks;
    let Some(channel) = request.channel.as_ref().filter(|_| cacheable && asked != OplockLevel::NONE) else {
        return OplockLevel::NONE;
    };
    let notifier = Arc::new(Notifier {
        connection: Arc::downgrade(request.connection),
        session: Arc::downgrade(&channel.session),
        seals: disk.encrypt_data,
        file_id: FileId { persistent: open.persistent_id, volatile: open.volatile_id },
        state: Mutex::new(State::Unannounced(Vec::new())),
    });
    let files = &request.connection.server.files;
    let level = files.grant_oplock(file.file, open.persistent_id, asked, disk.share.level2_oplocks, notifier.clone());
    if level != OplockLevel::NONE {
        reply.outgoing.grants(notifier);
    }
    level
}

/// Tells a client that its oplock is broken.
pub(crate) struct Notifier {
    connection: Weak<Connection>,
    session: Weak<Session>,
    /// The share's traffic is sealed.
    seals: bool,
    file_id: FileId,
    state: Mutex<State>,
}

enum State {
    /// The client has not been told of the open yet and would not know what is broken: breaks wait here.
    Unannounced(Vec<OplockLevel>),
    Announced,
}

impl Notifier {
    /// The response that grants the oplock is on its way: so may its breaks be.
    pub(crate) fn announce(&self) {
        let mut state = self.state.lock();
        if let State::Unannounced(breaks) = std::mem::replace(&mut *state, State::Announced) {
            for level in breaks {
                self.send(level);
            }
        }
    }

    /// 3.3.4.6: never signed; sealed where everything else is (3.3.4.1.4).
    fn send(&self, level: OplockLevel) {
        // Without its connection the open is about to be closed, which ends the oplock too.
        let (Some(connection), Some(session)) = (self.connection.upgrade(), self.session.upgrade()) else { return };
        let mut header = Header::request(Command::OPLOCK_BREAK, Header::UNSOLICITED);
        header.flags = Flags::SERVER_TO_REDIR;
        header.session_id = session.id;
        header.credits = 0;
        header.credit_charge = 0;
        let seals = self.seals || session.encrypt_data.load(std::sync::atomic::Ordering::Relaxed);
        let notification = OplockBreakNotification::Oplock(OplockBreak { oplock_level: level, file_id: self.file_id });
        Outgoing::unsolicited(&connection, &header, seals.then_some(session), |body| notification.encode(body));
    }
}

impl Holder for Notifier {
    fn broken(&self, level: OplockLevel) {
        match &mut *self.state.lock() {
            State::Unannounced(breaks) => breaks.push(level),
            State::Announced => self.send(level),
        }
    }
}

/// Waits until the holder of an oplock on `file` has given way, or its time is up.
pub(crate) async fn wait(request: &Request<'_>, reply: &mut Reply, file: vfs::FileId, wait: Wait) -> Result<()> {
    let server = &request.connection.server;
    let pending = reply.go_async(request)?;
    let mut time_up = server.world.sleep(wait.deadline.saturating_sub(server.world.uptime()));
    let mut changed = wait.changed;
    let event = std::future::poll_fn(|context| {
        if std::pin::Pin::new(&mut changed).poll(context).is_ready() {
            return Poll::Ready(());
        }
        time_up.as_mut().poll(context)
    });
    pending.wait(event).await.map_err(|Cancelled| Error::new(Status::CANCELLED))?;
    server.files.expire_oplocks(file, server.world.uptime());
    Ok(())
}

/// The client acknowledges a break.
pub(crate) fn acknowledge(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let oplock = match OplockBreakAcknowledgment::decode(request.message)? {
        OplockBreakAcknowledgment::Oplock(oplock) => oplock,
        // 3.3.5.22.2: no lease is granted yet, so there is none with this key.
        OplockBreakAcknowledgment::Lease(_) => return Err(Error::new(Status::OBJECT_NAME_NOT_FOUND)),
    };
    let open = request.open(oplock.file_id, reply)?;
    let file = open.file().ok_or(Error::because(Status::INVALID_DEVICE_STATE, "a pipe has no oplock"))?;
    let files = &request.connection.server.files;
    let oplock_level = files.acknowledge_oplock(file.file, open.persistent_id, oplock.oplock_level)?;
    let file_id = FileId { persistent: open.persistent_id, volatile: open.volatile_id };
    OplockBreakResponse::Oplock(OplockBreak { oplock_level, file_id }).encode(&mut reply.body());
    Ok(Status::SUCCESS)
}
