//! A client that caches as much as its leases permit.

use std::sync::Arc;

use proto::bytes::utf16_bytes;
use proto::fscc::{FileDispositionInformation, FileInformationClass, FileRenameInformation};
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::{
    CreateDisposition, CreateOptions, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use proto::smb2::create_context::{CreateContext, Lease, LeaseFlags, LeaseV2, name};
use proto::smb2::header::{Command, Header};
use proto::smb2::lock::{LockElement, LockFlags, LockRequest};
use proto::smb2::negotiate::Dialect;
use proto::smb2::oplock_break::{
    LeaseBreak, LeaseBreakFlags, LeaseBreakNotification, OplockBreakAcknowledgment, OplockBreakNotification,
};
use proto::smb2::read::ReadRequest;
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::write::WriteRequest;
use proto::smb2::{FileId, InfoType, LeaseState, OplockLevel};
use proto::status::Status;
use server::state::Server;
use server::testing::{TestClient, status};

use super::model::Model;

const READ: LeaseState = LeaseState::READ_CACHING;
const WRITE: LeaseState = LeaseState::WRITE_CACHING;
const HANDLE: LeaseState = LeaseState::HANDLE_CACHING;
/// The locked range, separate from the data, which mandatory locks would otherwise protect.
const LOCKED: (u64, u64) = (1_000, 10);

/// A request that was sent, for matching its response.
#[derive(Debug)]
pub(crate) enum Done {
    Open { name: String, key: u64 },
    Read { view: usize, cache: bool },
    Write { view: usize, value: u64 },
    Close { view: usize },
    Lock { view: usize, exclusive: bool },
    Unlock { view: usize },
    Rename { view: usize, to: String },
    Delete { view: usize },
    Acknowledge,
}

/// The result of a CREATE.
pub(crate) struct Granted {
    file_id: FileId,
    state: LeaseState,
    epoch: u16,
}

impl Granted {
    pub(crate) fn of(response: &CreateResponse<'_>) -> Granted {
        let lease = CreateContext::find(&response.create_contexts, name::REQUEST_LEASE);
        let lease = lease.map(|context| Lease::decode(&context.data).expect("a well-formed lease"));
        let Some(Lease::V2(lease)) = lease else { panic!("a lease was requested, but the response has none") };
        Granted { file_id: response.file_id, state: lease.lease_state, epoch: lease.epoch }
    }
}

/// A handle, its lease, and its cached data.
struct View {
    /// The name under which the program opened it.
    name: String,
    file: usize,
    key: u64,
    file_id: FileId,
    state: LeaseState,
    epoch: u16,
    /// Whether a program has it open; otherwise the client only keeps it for a faster open.
    in_use: bool,
    value: Option<u64>,
    /// Whether a read lease was broken during a READ.
    broken_since_read: bool,
    /// Data that was written but not sent.
    dirty: Option<Dirty>,
    /// The server waits for a lease break acknowledgment with this state.
    owed: Option<LeaseState>,
    /// Closed, or about to be closed.
    gone: bool,
    /// Whether the server has confirmed the close.
    closed: bool,
}

/// Data that only the client has.
struct Dirty {
    value: u64,
    /// The possible values on the server.
    before: Vec<u64>,
}

struct UnderWay {
    message_id: u64,
    done: Done,
    duty: bool,
}

/// The client.
pub(crate) struct Actor {
    client: TestClient,
    views: Vec<View>,
    /// Requests of the program, and concurrent requests of the client that serve a lease break.
    under_way: Vec<UnderWay>,
    /// Whether requests sent now serve a lease break.
    on_duty: bool,
    /// The open that was answered last.
    last_opened: Option<(u64, String)>,
}

impl Actor {
    pub(crate) fn new(server: &Arc<Server>, number: u8) -> Actor {
        let mut client = TestClient::new(server);
        client.dialect = Dialect::SMB_3_0;
        client.guid = [number + 1; 16];
        Actor {
            client: client.ready("alice"),
            views: Vec::new(),
            under_way: Vec::new(),
            on_duty: false,
            last_opened: None,
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        !self.under_way.is_empty() || self.views.iter().any(|view| !view.gone && view.owed.is_some())
    }

    /// Returns whether the program waits for a response.
    pub(crate) fn is_waiting(&self) -> bool {
        self.under_way.iter().any(|it| !it.duty)
    }

    /// Returns the views that a program has open.
    pub(crate) fn in_use(&self) -> Vec<usize> {
        let usable = |view: &View| view.in_use && !view.gone && view.owed.is_none();
        (0..self.views.len()).filter(|&view| usable(&self.views[view])).collect()
    }

    pub(crate) fn file(&self, view: usize) -> usize {
        self.views[view].file
    }

    pub(crate) fn key(&self, view: usize) -> u64 {
        self.views[view].key
    }

    /// Returns the value that a program can read without a request to the server.
    pub(crate) fn cached(&self, view: usize) -> Option<u64> {
        self.views[view].value.filter(|_| self.views[view].state.contains(READ))
    }

    fn send(&mut self, command: Command, done: Done, encode: impl FnOnce(&mut proto::bytes::Writer<'_>)) {
        let message_id = self.client.next_message;
        let message = self.client.compose(command, encode);
        self.client.post(&message);
        self.under_way.push(UnderWay { message_id, done, duty: self.on_duty });
    }

    /// Reuses a handle that was kept, when a program opens its name again.
    pub(crate) fn take_up(&mut self, name: &str) -> bool {
        let kept = |view: &&mut View| !view.in_use && !view.gone && view.name == name && view.state.contains(HANDLE);
        let Some(view) = self.views.iter_mut().find(kept) else { return false };
        view.in_use = true;
        true
    }

    pub(crate) fn open(&mut self, name: &str, key: u64) {
        let wire_name = utf16_bytes(name);
        let lease = LeaseV2 {
            lease_key: lease_key(key),
            lease_state: READ | WRITE | HANDLE,
            flags: LeaseFlags::NONE,
            parent_lease_key: [0; 16],
            epoch: 0,
        };
        let request = CreateRequest {
            requested_oplock_level: OplockLevel::LEASE,
            impersonation_level: ImpersonationLevel::IMPERSONATION,
            desired_access: 0x0013_019f,
            share_access: ShareAccess(7),
            create_disposition: CreateDisposition::OPEN_IF,
            create_options: CreateOptions::NON_DIRECTORY_FILE,
            name: &wire_name,
            create_contexts: vec![lease.to_context()],
            ..CreateRequest::default()
        };
        self.send(Command::CREATE, Done::Open { name: name.to_owned(), key }, |out| request.encode(out));
    }

    pub(crate) fn opened(&mut self, file: usize, key: u64, granted: Granted) {
        let Some((_, name)) = self.last_opened.take().filter(|(opened, _)| *opened == key) else {
            panic!("an open that was not requested");
        };
        self.views.push(View {
            name,
            file,
            key,
            file_id: granted.file_id,
            state: granted.state,
            epoch: granted.epoch,
            in_use: true,
            value: None,
            broken_since_read: false,
            dirty: None,
            owed: None,
            gone: false,
            closed: false,
        });
    }

    pub(crate) fn read(&mut self, view: usize) {
        let request = ReadRequest { file_id: self.views[view].file_id, length: 8, ..ReadRequest::default() };
        // Data read under a lease may be cached if the lease still exists when the response arrives.
        let cache = self.views[view].state.contains(READ);
        self.views[view].broken_since_read = false;
        self.send(Command::READ, Done::Read { view, cache }, |out| request.encode(out));
    }

    pub(crate) fn keep(&mut self, view: usize, value: u64) {
        let view = &mut self.views[view];
        if view.state.contains(READ) && !view.broken_since_read {
            view.value = Some(value);
        }
    }

    /// Writes for a program: into the cache if the lease permits, else to the server.
    pub(crate) fn write(&mut self, view: usize, value: u64, model: &mut Model) {
        let it = &mut self.views[view];
        if it.state.contains(WRITE) {
            let before = model.written_in_cache(it.file, value);
            let before = it.dirty.take().map_or(before, |dirty| dirty.before);
            it.dirty = Some(Dirty { value, before });
            it.value = Some(value);
            return;
        }
        model.write_begins(it.file, value);
        self.send_write(view, value);
    }

    fn send_write(&mut self, view: usize, value: u64) {
        let data = value.to_le_bytes();
        let request = WriteRequest::new(self.views[view].file_id, 0, &data);
        self.send(Command::WRITE, Done::Write { view, value }, |out| request.encode(out));
    }

    pub(crate) fn written(&mut self, view: usize, value: u64) {
        let view = &mut self.views[view];
        view.dirty = None;
        view.value = view.state.contains(READ).then_some(value);
    }

    /// Closes for a program: the handle is kept if the lease permits.
    pub(crate) fn close(&mut self, view: usize, model: &mut Model) {
        if self.views[view].state.contains(HANDLE) {
            self.views[view].in_use = false;
            return;
        }
        self.close_at_server(view, model);
    }

    /// Unsent data is written first.
    fn close_at_server(&mut self, view: usize, model: &mut Model) {
        if self.flush(view, model) {
            return;
        }
        model.close_begins(self.views[view].file);
        let request = CloseRequest { flags: CloseFlags::NONE, file_id: self.views[view].file_id };
        self.views[view].in_use = false;
        self.views[view].gone = true;
        self.send(Command::CLOSE, Done::Close { view }, |out| request.encode(out));
    }

    /// Sends the data written into the cache; `false` if there is none.
    fn flush(&mut self, view: usize, model: &mut Model) -> bool {
        let it = &self.views[view];
        let Some(value) = it.dirty.as_ref().map(|dirty| dirty.value) else { return false };
        model.write_begins(it.file, value);
        self.send_write(view, value);
        true
    }

    pub(crate) fn forget(&mut self, view: usize) -> (usize, u64) {
        self.views[view].closed = true;
        (self.views[view].file, self.views[view].key)
    }

    pub(crate) fn lock(&mut self, view: usize, exclusive: bool) {
        let kind = if exclusive { LockFlags::EXCLUSIVE_LOCK } else { LockFlags::SHARED_LOCK };
        let flags = kind | LockFlags::FAIL_IMMEDIATELY;
        self.send_lock(view, flags, Done::Lock { view, exclusive });
    }

    pub(crate) fn unlock(&mut self, view: usize) {
        self.send_lock(view, LockFlags::UNLOCK, Done::Unlock { view });
    }

    fn send_lock(&mut self, view: usize, flags: LockFlags, done: Done) {
        let locks = vec![LockElement { offset: LOCKED.0, length: LOCKED.1, flags }];
        let request = LockRequest { file_id: self.views[view].file_id, locks, ..LockRequest::default() };
        self.send(Command::LOCK, done, |out| request.encode(out));
    }

    /// Records the new name, by which the program now opens the file.
    pub(crate) fn renamed(&mut self, view: usize, to: &str) {
        self.views[view].name = to.to_owned();
    }

    pub(crate) fn rename(&mut self, view: usize, to: &str) {
        let file_name = utf16_bytes(to);
        let mut buffer = Vec::new();
        FileRenameInformation { replace_if_exists: true, root_directory: 0, file_name: &file_name }
            .encode(&mut proto::bytes::Writer::new(&mut buffer));
        self.set_info(view, FileInformationClass::RENAME, &buffer, Done::Rename { view, to: to.to_owned() });
    }

    pub(crate) fn delete(&mut self, view: usize) {
        let mut buffer = Vec::new();
        FileDispositionInformation { delete_pending: true }.encode(&mut proto::bytes::Writer::new(&mut buffer));
        self.set_info(view, FileInformationClass::DISPOSITION, &buffer, Done::Delete { view });
    }

    fn set_info(&mut self, view: usize, class: FileInformationClass, buffer: &[u8], done: Done) {
        let request = SetInfoRequest {
            info_type: InfoType::FILE,
            file_info_class: class.0,
            additional_information: 0,
            file_id: self.views[view].file_id,
            buffer,
        };
        self.send(Command::SET_INFO, done, |out| request.encode(out));
    }

    /// Processes the server's messages: lease breaks at once, and responses, which are returned for the model.
    pub(crate) fn hear(&mut self) -> Vec<(Done, Status, Vec<u8>)> {
        let mut answers = Vec::new();
        for message in self.client.proceed() {
            let header = Header::decode(&message).expect("a well-formed response header");
            if header.message_id == Header::UNSOLICITED {
                self.broken(&message);
            } else if status(&message) != Status::PENDING {
                let asked = self.under_way.iter().position(|it| it.message_id == header.message_id);
                let it = self.under_way.remove(asked.expect("a response to a sent request"));
                if let Done::Open { name, key } = &it.done {
                    self.last_opened = Some((*key, name.clone()));
                }
                answers.push((it.done, header.status, message));
            }
        }
        answers
    }

    fn broken(&mut self, message: &[u8]) {
        let notification = OplockBreakNotification::decode(message).expect("a well-formed break");
        let OplockBreakNotification::Lease(told) = notification else { panic!("the client has no oplock") };
        let LeaseBreakNotification { lease_key: key, new_epoch, new_lease_state: to, .. } = told;
        let Some(view) = self.views.iter_mut().find(|view| lease_key(view.key) == key) else { return };
        assert_eq!(told.current_lease_state, view.state, "the server and the client differ about a lease");
        assert!(new_epoch.wrapping_sub(view.epoch) <= 1, "epochs count changes");
        view.epoch = new_epoch;
        view.state = to;
        if !to.contains(READ) {
            view.broken_since_read = true;
            view.value = None;
        }
        if told.flags.contains(LeaseBreakFlags::ACK_REQUIRED) {
            view.owed = Some(to);
        }
    }

    /// Acknowledges a lease break, unless the client is slow. Cached writes are sent first, and an unused handle is
    /// closed instead.
    pub(crate) fn give_back(&mut self, slow: bool, model: &mut Model) {
        if slow || self.under_way.iter().any(|it| it.duty) {
            return;
        }
        self.on_duty = true;
        self.answer_break(model);
        self.on_duty = false;
    }

    fn answer_break(&mut self, model: &mut Model) {
        let Some(view) = self.views.iter().position(|view| view.owed.is_some() && !view.gone) else { return };
        let it = &self.views[view];
        if !it.state.contains(HANDLE) && !it.in_use {
            return self.close_at_server(view, model);
        }
        if self.flush(view, model) {
            return;
        }
        let lease_state = self.views[view].owed.take().expect("the view was selected by this value");
        let lease_key = lease_key(self.views[view].key);
        let request = OplockBreakAcknowledgment::Lease(LeaseBreak { lease_key, lease_state });
        self.send(Command::OPLOCK_BREAK, Done::Acknowledge, |out| request.encode(out));
    }

    /// Loses the connection.
    pub(crate) fn vanish(self, model: &mut Model) {
        self.client.disconnect();
        let under_way = || self.under_way.iter().map(|it| &it.done);
        for (number, view) in self.views.iter().enumerate() {
            let written = under_way().find_map(|done| match done {
                Done::Write { view, value } if *view == number => Some(*value),
                _ => None,
            });
            if let Some(dirty) = &view.dirty {
                model.lost(view.file, dirty.before.iter().copied().chain(written).collect());
            }
            if written.is_some() {
                model.write_lost(view.file);
            }
        }
        for view in self.views.iter().filter(|view| !view.closed) {
            if view.gone {
                model.close_lost(view.file);
            }
            model.closed(view.file, view.key);
        }
    }
}

fn lease_key(key: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&key.to_le_bytes());
    bytes
}
