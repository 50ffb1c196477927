//! CREATE ([MS-SMB2] 3.3.5.9, [MS-FSA] 2.1.5.1): the sequence of its steps.
//!
//! `parameters` checks what does not need the file system. `existing` opens existing files. `new` creates files as
//! `plan` decides. `stream` does both for alternate streams. `contexts` decodes and answers create contexts, `caching`
//! grants oplocks and leases, `durable` grants durable handles, `mac` answers Macs, and `reconnect` returns opens to
//! clients. `replay` recognizes repeated requests, `instance` closes the opens of an application instance that has
//! moved, `short` expands short names, `entered` removes an open whose CREATE fails, and `within` opens files for other
//! requests. `quota` opens the quota file, which does not exist. `posix` has what is different in POSIX opens.

mod caching;
mod contexts;
mod durable;
mod entered;
mod existing;
mod instance;
mod mac;
mod new;
mod parameters;
mod plan;
mod posix;
mod quota;
mod reconnect;
mod replay;
mod short;
mod stream;
mod within;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use proto::dtyp::AccessMask;
use proto::smb2::create::{
    CreateAction, CreateOptions, CreateRequest, CreateResponse, CreateResponseFlags, ShareAccess,
};
use proto::smb2::create_context::CreateContext;
use proto::smb2::header::Flags;
use proto::smb2::{FileId, OplockLevel};
use proto::status::Status;

use self::contexts::Contexts;
use self::entered::Entered;
use self::parameters::Parameters;
pub(crate) use self::within::{WithinRequest, open_within};
use crate::accounting::Resource;
use crate::attributes;
use crate::command::tree_connect::is_continuous;
use crate::command::{audit, print, snapshots};
use crate::command::{close, directory_lease};
use crate::error::{Error, Result};
use crate::files::OpenName;
use crate::files::notify::Change;
use crate::links;
use crate::name::{self, Stream};
use crate::reparse;
use crate::request::{Reply, Request};
use crate::rpc;
use crate::state::Server;
use crate::state::durable::Claim;
use crate::state::open::channel_sequence::ChannelSequence;
use crate::state::open::{FileOpen, Open, Target};
use crate::streams;
use crate::streams::layout::is_store;
use crate::tree::{Disk, Tree};
use crate::vfs::{Access, Case, Errno, Lookup, Metadata, Node, RelPath, SymlinkPolicy};

/// How often a look-up is repeated if the name is created, renamed or removed concurrently.
const ATTEMPTS: usize = 16;

pub(crate) async fn create(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let done = carry_out(request, reply).await;
    close::delete_abandoned(&request.connection.server).await;
    done
}

async fn carry_out(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let mut asked = CreateRequest::decode(request.message)?;
    let tree = request.tree()?;
    if let Some(printer) = tree.printer() {
        let done = print::create(request, reply, tree, printer, &asked).await;
        return done.inspect_err(|error| audit::job_not_opened(&printer.spool, &asked, error));
    }
    let Some(disk) = tree.disk() else { return open_pipe(request, &asked, reply) };
    // 3.3.5.9.
    if disk.is_dfs && request.header.flags.contains(Flags::DFS_OPERATIONS) {
        asked.name = name::below_share(asked.name);
    }
    if quota::is_meant(asked.name) {
        let done = quota::open(request, reply, tree, disk, &asked).await;
        audit::quota_file_opened(disk, &asked, &done);
        return done;
    }
    let contexts = Contexts::decode(&asked, request.connection.is_posix())?;
    if contexts.durable.reconnects() {
        return reconnect::reconnect(request, reply, disk, &asked, &contexts).await;
    }
    let claim = match replay::turn(request, disk, &contexts)? {
        replay::Turn::Execute(claim) => claim,
        replay::Turn::Repeat(open, creation) => {
            return replay::repeat(request, reply, disk, &asked, &contexts, &open, &creation).await;
        }
        replay::Turn::Reclaim(id) => {
            return reconnect::repeat(request, reply, disk, &asked, &contexts, id).await;
        }
    };
    // A client that can replay the request does so if it gets no response, so the request continues without its
    // channel.
    reply.survives = claim.is_some();
    let done = execute(request, reply, disk, &asked, &contexts, claim).await;
    if let Err(error) = &done {
        audit::not_opened(disk, &asked, contexts.posix.is_some(), error);
    }
    done
}

/// Executes a request that was not executed before.
async fn execute(
    request: &Request<'_>,
    reply: &mut Reply,
    disk: &Disk,
    asked: &CreateRequest<'_>,
    contexts: &Contexts,
    claim: Option<Claim>,
) -> Result<Status> {
    let mut name = match contexts.posix {
        Some(_) => name::parse_posix(asked.name),
        None => disk.share.names.characters.parse(asked.name),
    };
    let snapshot = match &mut name {
        Ok(name) => snapshots::tree(request, disk, name, contexts.timewarp).await?,
        Err(_) => None,
    };
    let tree = snapshot.as_ref().unwrap_or(request.tree()?);
    let disk = tree.disk().unwrap_or(disk);
    let mut parameters = Parameters::check(asked, disk)?;
    if let Some(posix) = contexts.posix {
        parameters.set_posix(posix);
    }
    if is_continuous(request, disk) {
        parameters.options |= CreateOptions::WRITE_THROUGH;
    }
    let mut name = name.map_err(|error| Error::new(error.status()))?;
    if contexts.posix.is_none() {
        name.path = disk.share.names.asked(name.path);
    }
    let caching = caching::RequestedCaching::new(request, disk, asked.requested_oplock_level, contexts.lease);
    let caching = caching.of_file(request, disk, &name.path);
    parameters.lease = caching.lease();
    check_stream(disk, &name, &parameters)?;
    if let Some(attributes) = &contexts.extended_attributes {
        attributes.check(disk)?;
    }
    check_veto(disk, &disk.shown(&name.path), &parameters)?;
    let mac = mac::answer(request, disk, contexts)?;
    contexts.instance.take_over(request, disk, &name).await?;
    let mut opened = match &name.stream {
        Stream::Alternate(stream) => {
            Box::pin(stream::open(request, reply, disk, &name, stream, &parameters, contexts)).await?
        }
        _ => open_file(request, reply, disk, &name, &parameters, contexts).await?,
    };
    if let Some(size) = contexts.allocation_size
        && opened.action != CreateAction::OPENED
    {
        opened.asked_allocation = size;
    }
    let requested = Requested { asked, contexts, parameters: &parameters, caching, claim, mac };
    complete(request, reply, tree, disk, requested, opened).await
}

/// What a client requests of an open.
struct Requested<'a> {
    asked: &'a CreateRequest<'a>,
    contexts: &'a Contexts,
    parameters: &'a Parameters,
    caching: caching::RequestedCaching,
    claim: Option<Claim>,
    /// The response to a Mac.
    mac: Option<CreateContext<'static>>,
}

/// Registers the open, grants oplocks and durability, and responds.
async fn complete(
    request: &Request<'_>,
    reply: &mut Reply,
    tree: &Arc<Tree>,
    disk: &Disk,
    requested: Requested<'_>,
    opened: Opened,
) -> Result<Status> {
    let Requested { asked, contexts, parameters, caching, claim, mac } = requested;
    let maximal = match contexts.query_maximal_access {
        true => Some(existing::maximal_access(disk, &opened).await),
        false => None,
    };
    let (open, metadata) = register(request, tree, parameters, opened)?;
    let (Some(file), action) = (open.0.file(), open.1) else {
        return Err(Error::because(Status::INTERNAL_ERROR, "the open is not a file"));
    };
    report(&request.connection.server, disk, file, action);
    audit::opened(disk, asked, (file, open.0.granted), action, contexts.security_descriptor.as_ref());
    if action != CreateAction::OPENED {
        directory_lease::entry_of_changes(&request.connection.server, disk, file).await;
    }
    let granted = caching::grant(request, reply, &open.0, file, disk, caching).await;
    let mut answer = contexts.answer(&metadata, maximal, request.hides_ids(disk));
    answer.extend(granted.context);
    answer.extend(mac);
    if disk.snapshot.is_none() {
        answer.extend(contexts.durable.grant(request, &open.0, disk, asked, action).await?);
        durable::remember(request, claim, &open.0, action);
        contexts.instance.remember(request, &open.0);
    }
    respond(reply, disk, &open.0, &metadata, action, granted.level, answer)
}

/// Composes the response, for a new or a reclaimed open.
fn respond(
    reply: &mut Reply,
    disk: &Disk,
    open: &Open,
    metadata: &Metadata,
    create_action: CreateAction,
    oplock_level: OplockLevel,
    create_contexts: Vec<CreateContext<'static>>,
) -> Result<Status> {
    let file = open.file().ok_or(Error::because(Status::INTERNAL_ERROR, "the open is not a file"))?;
    let file_id = FileId { persistent: open.persistent_id, volatile: open.volatile_id };
    CreateResponse {
        oplock_level,
        flags: CreateResponseFlags::NONE,
        create_action,
        creation_time: attributes::file_time(metadata.created),
        last_access_time: attributes::file_time(metadata.accessed),
        last_write_time: attributes::file_time(metadata.modified),
        change_time: attributes::file_time(metadata.changed),
        allocation_size: attributes::allocation_size(metadata, file.asked_allocation()),
        end_of_file: attributes::end_of_file(metadata),
        file_attributes: attributes::of_open(disk, file, metadata).0,
        file_id,
        create_contexts,
    }
    .encode(&mut reply.body());
    reply.file_id = Some(file_id);
    Ok(Status::SUCCESS)
}

/// A file that was opened or created and is in the table of open files, but is not yet an open of the session.
struct Opened {
    entered: Entered,
    node: Arc<dyn Node>,
    metadata: Metadata,
    name: Arc<OpenName>,
    granted: AccessMask,
    action: CreateAction,
    asked_allocation: u64,
    /// [`FileOpen::leads_to_directory`].
    leads_to_directory: bool,
}

/// Checks options for streams ([MS-FSA] 2.1.5.1, phase 7).
fn check_stream(disk: &Disk, name: &name::Name, parameters: &Parameters) -> Result<()> {
    match &name.stream {
        Stream::Unnamed => Ok(()),
        Stream::Data | Stream::Alternate(_) if disk.share.streams.is_none() => Err(Error::because(
            Status::OBJECT_NAME_INVALID,
            "streams are not enabled: `vfs objects` of the share lacks streams_xattr",
        )),
        Stream::Data | Stream::Alternate(_) if parameters.options.contains(CreateOptions::DIRECTORY_FILE) => {
            Err(Error::new(Status::NOT_A_DIRECTORY))
        }
        Stream::Index if parameters.options.contains(CreateOptions::NON_DIRECTORY_FILE) => {
            Err(Error::new(Status::FILE_IS_A_DIRECTORY))
        }
        Stream::Alternate(_) if name.trailing_backslash => Err(Error::new(Status::OBJECT_NAME_INVALID)),
        Stream::Data | Stream::Index | Stream::Alternate(_) => Ok(()),
    }
}

/// Checks `veto files`: matching files do not exist for clients and cannot be created by them.
fn check_veto(disk: &Disk, path: &RelPath, parameters: &Parameters) -> Result<()> {
    if is_store(path) {
        let status = if parameters.creates() { Status::ACCESS_DENIED } else { Status::OBJECT_NAME_NOT_FOUND };
        return Err(Error::because(status, "the name belongs to the server's stream store"));
    }
    if disk.veto.is_empty() {
        return Ok(());
    }
    let mut components = path.components();
    let last = components.next_back();
    if components.any(|component| disk.veto.matches(component)) {
        return Err(Error::because(Status::OBJECT_PATH_NOT_FOUND, "the name matches `veto files`"));
    }
    match last {
        Some(name) if disk.veto.matches(name) => Err(Error::because(
            if parameters.creates() { Status::ACCESS_DENIED } else { Status::OBJECT_NAME_NOT_FOUND },
            "the name matches `veto files`",
        )),
        _ => Ok(()),
    }
}

/// Opens or creates the file. If another client changes the same name concurrently, the name is looked up again.
async fn open_file(
    request: &Request<'_>,
    reply: &mut Reply,
    disk: &Disk,
    name: &name::Name,
    parameters: &Parameters,
    contexts: &Contexts,
) -> Result<Opened> {
    let mut wanted = name.path.clone();
    for attempt in 0..ATTEMPTS {
        let removals = request.connection.server.opens.files.removals();
        let opened = match look_up(request, disk, &mut wanted, attempt, parameters).await? {
            Lookup::Found { path, node, metadata } => {
                let found = existing::ExistingFile { path, node, metadata, removals };
                existing::open(request, reply, disk, name, parameters, contexts, found).await?
            }
            Lookup::Missing { path, parent } => {
                let place = new::NewName { path, parent };
                new::make(request, disk, name, parameters, contexts, place).await?
            }
            Lookup::NoParent => return Err(no_parent(request, disk, &wanted).await),
        };
        if let Some(opened) = opened {
            return Ok(opened);
        }
    }
    Err(Error::because(Status::SHARING_VIOLATION, "the file was renamed again and again"))
}

/// Returns the error for a missing intermediate directory.
async fn no_parent(request: &Request<'_>, disk: &Disk, path: &RelPath) -> Error {
    let stopped = reparse::stopped_by_stored(request, disk, path).await;
    stopped.unwrap_or(Error::new(Status::OBJECT_PATH_NOT_FOUND))
}

/// Looks a path up; if it does not exist, tries to expand short names. The name of a file that does not exist is as it
/// will be created.
async fn look_up(
    request: &Request<'_>,
    disk: &Disk,
    wanted: &mut RelPath,
    attempt: usize,
    parameters: &Parameters,
) -> Result<Lookup> {
    if parameters.posix.is_some() {
        return posix::look_up(request, disk, wanted, parameters).await;
    }
    let found = look_up_spelled(request, disk, wanted, attempt, parameters).await?;
    let Lookup::Missing { path, parent } = found else { return Ok(found) };
    let spelled = disk.share.names.spelled(path.clone());
    if spelled == path || !disk.share.names.case_sensitive {
        return Ok(Lookup::Missing { path: spelled, parent });
    }
    // Another file may have the name in the other case.
    *wanted = spelled;
    look_up_spelled(request, disk, wanted, attempt, parameters).await
}

/// Looks a path up as the client spells it.
async fn look_up_spelled(
    request: &Request<'_>,
    disk: &Disk,
    wanted: &mut RelPath,
    attempt: usize,
    parameters: &Parameters,
) -> Result<Lookup> {
    let itself = parameters.options.contains(CreateOptions::OPEN_REPARSE_POINT);
    let links = SymlinkPolicy { itself, ..disk.share.links() };
    let case = if disk.share.names.case_sensitive { Case::Sensitive } else { Case::Insensitive };
    let access = parameters.data_access(disk);
    let found = match links::look_up_with(disk, &disk.op, wanted, case, links, access).await {
        Err(Errno::LOOP) => {
            return Err(reparse::stopped(request, disk, wanted).await.unwrap_or(Errno::LOOP.into()));
        }
        found => found?,
    };
    if attempt > 0 || matches!(found, Lookup::Found { .. }) || !short::may_be(disk, wanted) {
        return Ok(found);
    }
    *wanted = short::expand(&request.connection.server, disk, wanted).await?;
    if is_store(wanted) {
        return Err(Error::because(Status::OBJECT_NAME_NOT_FOUND, "the name belongs to the server's stream store"));
    }
    Ok(links::look_up_with(disk, &disk.op, wanted, case, links, Access::default()).await?)
}

/// Adds the open to the session.
fn register(
    request: &Request<'_>,
    tree: &Arc<Tree>,
    parameters: &Parameters,
    opened: Opened,
) -> Result<((Arc<Open>, CreateAction), Metadata)> {
    let server = &request.connection.server;
    let disk = tree.disk().ok_or(Error::because(Status::INTERNAL_ERROR, "the open file has no share"))?;
    let session = request.session()?;
    let metadata = opened.metadata;
    let action = opened.action;
    if session.open_count() >= server.policy().limits.opens_per_session {
        return Err(too_many_opens());
    }
    let charge = session.payer().charge(Resource::Opens, 1)?;
    let options = parameters.options.0 & KEPT_OPTIONS.0;
    let open = Arc::new(Open {
        persistent_id: opened.entered.open(),
        volatile_id: server.next_id(),
        session_id: session.id,
        tree: tree.clone(),
        granted: opened.granted,
        share: parameters.share_access,
        created: server.environment.now(),
        sequence: ChannelSequence::new(request.header.channel_sequence()),
        target: Target::File(Arc::new(FileOpen {
            lease: parameters.lease,
            leads_to_directory: opened.leads_to_directory,
            posix: parameters.posix.is_some(),
            options: AtomicU32::new(options),
            delete_on_close: AtomicBool::new(parameters.options.contains(CreateOptions::DELETE_ON_CLOSE)),
            asked_allocation: AtomicU64::new(opened.asked_allocation),
            ..FileOpen::new(opened.node, metadata.id, metadata.kind, opened.name, disk.op.clone())
        })),
        charge,
    });
    match session.add_open(open.clone()) {
        Ok(()) => {
            opened.entered.stay();
            Ok(((open, action), metadata))
        }
        Err(_) => Err(Error::because(Status::USER_SESSION_DELETED, "the session ended while the file was opened")),
    }
}

/// Reports a new name or a truncated file to watches ([MS-FSA] 2.1.5.1.1, 2.1.5.1.2).
fn report(server: &Server, disk: &Disk, file: &FileOpen, action: CreateAction) {
    if action == CreateAction::OPENED || server.opens.watches.is_idle() {
        return;
    }
    let created = action == CreateAction::CREATED;
    let path = file.name.path.lock().clone();
    if let Some(stream) = streams::of(&file.node).and_then(|node| node.stream.name()) {
        let change = if created { Change::stream_added() } else { Change::stream_modified() };
        return server.stream_changed(disk, &path, &stream, change);
    }
    let change = if created { Change::added(file.kind) } else { Change::resized() };
    server.changed(disk, &path, change);
}

/// The options that still apply after CREATE; `FileModeInformation` returns them ([MS-FSCC] 2.4.31).
const KEPT_OPTIONS: CreateOptions = CreateOptions(
    CreateOptions::WRITE_THROUGH.0
        | CreateOptions::SEQUENTIAL_ONLY.0
        | CreateOptions::NO_INTERMEDIATE_BUFFERING.0
        | CreateOptions::DELETE_ON_CLOSE.0
        | CreateOptions::DIRECTORY_FILE.0,
);

fn too_many_opens() -> Error {
    Error::because(Status::INSUFFICIENT_RESOURCES, "the session has reached its limit of opens")
}

fn open_pipe(request: &Request<'_>, asked: &CreateRequest<'_>, reply: &mut Reply) -> Result<Status> {
    let server = &request.connection.server;
    let session = request.session()?;
    let name = proto::bytes::utf16_units(asked.name).and_then(|units| String::from_utf16(&units).ok());
    let anonymous = session.user().is_none_or(|user| user.anonymous);
    let limits = &server.policy().limits;
    let pipes = if anonymous { limits.pipes_per_anonymous_session } else { limits.pipes_per_session };
    if session.pipe_count() >= pipes || session.open_count() >= limits.opens_per_session {
        return Err(too_many_opens());
    }
    let charge = session.payer().charge(Resource::Pipes, 1)?;
    let pipe = rpc::open(&name.ok_or(Error::new(Status::OBJECT_NAME_NOT_FOUND))?, server, &session.payer())?;
    let file_id = FileId { persistent: server.next_open_id(), volatile: server.next_id() };
    let open = Arc::new(Open {
        persistent_id: file_id.persistent,
        volatile_id: file_id.volatile,
        session_id: session.id,
        tree: request.tree()?.clone(),
        granted: AccessMask::FILE_ALL_ACCESS,
        share: ShareAccess(7),
        created: server.environment.now(),
        sequence: ChannelSequence::new(request.header.channel_sequence()),
        target: Target::Pipe(pipe),
        charge,
    });
    if session.add_open(open).is_err() {
        return Err(Error::new(Status::USER_SESSION_DELETED));
    }
    CreateResponse {
        oplock_level: OplockLevel::NONE,
        flags: CreateResponseFlags::NONE,
        create_action: CreateAction::OPENED,
        creation_time: 0,
        last_access_time: 0,
        last_write_time: 0,
        change_time: 0,
        allocation_size: 0,
        end_of_file: 0,
        file_attributes: proto::fscc::FileAttributes::NORMAL.0,
        file_id,
        create_contexts: Vec::new(),
    }
    .encode(&mut reply.body());
    reply.file_id = Some(file_id);
    Ok(Status::SUCCESS)
}
