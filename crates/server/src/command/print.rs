//! Print jobs: CREATE, WRITE, FLUSH, SET_INFO and CLOSE on a print share.
//!
//! The client's name of the file is the title of the job. The file itself is a new one in the share's directory, with a
//! name that cannot be guessed, created as the user. It is removed when the job was handed over, and also if it is
//! closed in any other way than by CLOSE: a job whose client has gone is incomplete.

use std::sync::Arc;

use bytes::Bytes;
use proto::bytes::{Reader, utf16_units};
use proto::dtyp::AccessMask;
use proto::fscc::{FileEndOfFileInformation, FileInformationClass as Class};
use proto::smb2::create::{
    CreateAction, CreateOptions, CreateRequest, CreateResponse, CreateResponseFlags, ShareAccess,
};
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::{FileId, InfoType, OplockLevel};
use proto::status::Status;

use super::{audit, session_variables};
use crate::accounting::{Charge, Resource};
use crate::attributes;
use crate::error::{Error, Result};
use crate::policy::limits::JOB_TITLE_MAX;
use crate::policy::printing::PRINT_VARIABLES;
use crate::policy::template::Variable;
use crate::printing::{Counted, NewJob, PrintSystem, PrintUser, SpoolFile};
use crate::request::{Reply, Request};
use crate::state::JOB_PREFIX;
use crate::state::Server;
use crate::state::open::channel_sequence::ChannelSequence;
use crate::state::open::{Open, SpooledJob, Target};
use crate::tree::{Disk, Printer, Tree};
use crate::user::User;
use crate::vfs::{
    Access, Create, Errno, Extent, Lookup, LookupOptions, Metadata, NewFile, RelPath, SymlinkPolicy, Vfs,
};

/// The permissions of the file of a job.
const MODE: u32 = 0o600;
/// The title of a job without a name.
const UNTITLED: &str = "Remote Downlevel Document";
/// The access of which a CREATE must ask for some, because nothing else can be done with a job than writing it.
const WRITING: u32 = AccessMask::FILE_WRITE_DATA.0
    | AccessMask::FILE_APPEND_DATA.0
    | AccessMask::GENERIC_WRITE.0
    | AccessMask::GENERIC_ALL.0
    | AccessMask::MAXIMUM_ALLOWED.0;
/// The access that the handle of a job has.
const GRANTED: AccessMask = AccessMask(AccessMask::FILE_GENERIC_WRITE.0 | AccessMask::FILE_READ_ATTRIBUTES.0);

/// Returns the printer of a share that prints, whose directory is `spool`.
pub(super) fn connect(request: &Request<'_>, spool: Disk, user: &User) -> Result<Printer> {
    let queue = spool.share.printing.clone().ok_or(Error::new(Status::INTERNAL_ERROR))?;
    system(&request.connection.server)?;
    let value = |variable| session_variables::value(request, &spool.share, user, variable);
    let name = queue.user_name.expand(value).unwrap_or_else(|| user.name.clone());
    let policy = request.connection.server.policy().clone();
    let of_command = |letter: char| match letter {
        's' | 'f' | 'p' | 'j' | 'J' | 'z' | 'c' => None,
        'L' | 'N' => Some(policy.netbios_name.clone()),
        'D' => Some(policy.workgroup.clone()),
        letter => value(Variable(letter)),
    };
    let values = PRINT_VARIABLES.iter().filter_map(|letter| Some((*letter, of_command(*letter)?))).collect();
    Ok(Printer { user: PrintUser { name, op: spool.op.clone(), values }, queue, spool })
}

pub(super) fn system(server: &Server) -> Result<&Arc<dyn PrintSystem>> {
    server.print_system().ok_or(Error::because(Status::BAD_NETWORK_NAME, "the server has no print system"))
}

/// Creates a job.
pub(super) async fn create(
    request: &Request<'_>,
    reply: &mut Reply,
    tree: &Arc<Tree>,
    printer: &Printer,
    asked: &CreateRequest<'_>,
) -> Result<Status> {
    if asked.create_options.contains(CreateOptions::DIRECTORY_FILE) {
        return Err(Error::because(Status::NOT_A_DIRECTORY, "a print share has no directories"));
    }
    if asked.desired_access & WRITING == 0 {
        return Err(Error::because(Status::ACCESS_DENIED, "a print job can only be written"));
    }
    if printer.spool.share_rights.0 & AccessMask::FILE_WRITE_DATA.0 == 0 {
        return Err(Error::because(Status::ACCESS_DENIED, "the ACL of the share does not let the user print"));
    }
    let (server, session) = (&request.connection.server, request.session()?);
    if session.open_count() >= server.policy().limits.opens_per_session {
        return Err(Error::because(Status::INSUFFICIENT_RESOURCES, "the session has reached its limit of opens"));
    }
    let payer = session.payer();
    let charge = payer.charge(Resource::Opens, 1)?;
    let charges = vec![payer.charge(Resource::PrintJobs, 1)?, Charge::nothing(&payer, Resource::SpoolSpace)];
    let counted = check_queue(request, reply, printer).await?;
    // The file must get its owner, who removes it, although the client may vanish meanwhile.
    reply.survives = true;
    reply.go_async(request)?;
    server.jobs.clean(&printer.spool).await;
    let (mut spool, metadata) = make(server, &printer.spool, charges).await?;
    spool.counted = counted;
    let file_id = FileId { persistent: server.next_open_id(), volatile: server.next_id() };
    audit::job_opened(&printer.spool, asked, &title(asked.name));
    let open = Arc::new(Open {
        persistent_id: file_id.persistent,
        volatile_id: file_id.volatile,
        session_id: session.id,
        tree: tree.clone(),
        granted: GRANTED,
        share: ShareAccess(0),
        created: server.environment.now(),
        sequence: ChannelSequence::new(request.header.channel_sequence()),
        target: Target::Job(Box::new(SpooledJob {
            title: title(asked.name),
            file: spool.id,
            written: Default::default(),
            spool: Some(spool).into(),
        })),
        charge,
    });
    if let Err(open) = session.add_open(open) {
        if let Target::Job(job) = &open.target {
            discard(&printer.spool, job).await;
        }
        return Err(Error::because(Status::USER_SESSION_DELETED, "the session ended while the job was created"));
    }
    CreateResponse {
        oplock_level: OplockLevel::NONE,
        flags: CreateResponseFlags::NONE,
        create_action: CreateAction::CREATED,
        creation_time: attributes::file_time(metadata.created),
        last_access_time: attributes::file_time(metadata.accessed),
        last_write_time: attributes::file_time(metadata.modified),
        change_time: attributes::file_time(metadata.changed),
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

/// Checks whether the queue takes another job (`max print jobs`), and the disk (`min print space`). A print system that
/// does not answer is reported before the client sends its data.
pub(super) async fn check_queue(
    request: &Request<'_>,
    reply: &mut Reply,
    printer: &Printer,
) -> Result<Option<Counted>> {
    let Printer { spool, queue, user } = printer;
    let mut counted = None;
    if queue.max_jobs > 0 {
        reply.go_async(request)?;
        let count = system(&request.connection.server)?.job_count(queue, user).await?;
        let full = Error::because(
            Status::PRINT_QUEUE_FULL,
            "the queue is full, or the user sends too many jobs (`max print jobs`)",
        );
        // Jobs that others send now count, too.
        let sent = &request.connection.server.jobs.sent;
        let sender = request.session()?.user().ok_or(Error::new(Status::USER_SESSION_DELETED))?;
        counted = Some(sent.add(&queue.queue, &sender.name, count, queue.max_jobs).ok_or(full)?);
    }
    if queue.min_space > 0 {
        let links = SymlinkPolicy { follow: false, wide: false, itself: false };
        let root = spool.vfs.lookup(&spool.op, &RelPath::root(), LookupOptions::exact(links)).await?;
        let Lookup::Found { node, .. } = root else { return Err(Errno::NOENT.into()) };
        let space = node.space(&spool.op).await?;
        if space.available.saturating_mul(u64::from(space.block_size)) < queue.min_space {
            return Err(Error::because(Status::DISK_FULL, "too little space for print jobs (`min print space`)"));
        }
    }
    Ok(counted)
}

/// Creates the file of a job.
pub(super) async fn make(server: &Server, disk: &Disk, charges: Vec<Charge>) -> Result<(SpoolFile, Metadata)> {
    let random: String = server.random::<16>().iter().map(|byte| format!("{byte:02x}")).collect();
    let file_name = format!("{JOB_PREFIX}{random}");
    let name = RelPath::root().join(file_name.as_bytes()).ok_or(Error::new(Status::INTERNAL_ERROR))?;
    let new = NewFile::new(Create::File(Access { read: true, write: true }), MODE);
    let (node, metadata) = disk.vfs.create(&disk.op, &name, new).await?.opened();
    let path = disk.share.path.join(file_name);
    let place: (Arc<dyn Vfs>, RelPath) = (disk.vfs.clone(), name);
    let (op, place, id) = (disk.op.clone(), Some(place), metadata.id);
    Ok((SpoolFile { node, op, path, place, id, charges, counted: None }, metadata))
}

/// Returns the title of a job that the client calls `name`: the last component, without characters that control a
/// terminal or a printer.
pub(super) fn title(name: &[u8]) -> String {
    let name = utf16_units(name).map(|units| String::from_utf16_lossy(&units)).unwrap_or_default();
    let last = name.rsplit(['\\', '/']).next().unwrap_or_default();
    let title: String = last.chars().filter(|letter| !letter.is_control()).take(JOB_TITLE_MAX).collect();
    if title.trim().is_empty() { UNTITLED.to_owned() } else { title }
}

/// Writes data of a job.
pub(super) async fn write(request: &Request<'_>, job: &SpooledJob, offset: u64, data: &[u8]) -> Result<()> {
    let mut spool = job.spool.lock().await;
    let spool = spool.as_mut().ok_or(Error::new(Status::FILE_CLOSED))?;
    // As in Samba, the largest offset means appending.
    let offset = if offset == u64::MAX { job.written.lock().end() } else { offset };
    let end = offset.checked_add(data.len() as u64).ok_or(Error::new(Status::INVALID_PARAMETER))?;
    let data: Bytes = request.message.slice_ref(data);
    // A job of which a part is missing is not printed. The lock of the file is held meanwhile.
    job.written.lock().miss(end);
    if !job.written.lock().has_room() {
        return Err(Error::because(Status::INVALID_PARAMETER, "too many parts of the print job are missing"));
    }
    charge(request, spool, end)?;
    spool.node.write(&spool.op, offset, data.into(), false).await?;
    job.written.lock().add(offset, end);
    Ok(())
}

/// Charges the file of a job for its size, which is at least `size`.
pub(super) fn charge(request: &Request<'_>, spool: &mut SpoolFile, size: u64) -> Result<()> {
    if size > request.connection.server.policy().limits.print_job {
        return Err(Error::because(Status::NO_SPOOL_SPACE, "the print job is too large"));
    }
    let Some(space) = spool.charges.last_mut() else { return Ok(()) };
    let needed = usize::try_from(size.div_ceil(1024)).unwrap_or(usize::MAX).max(space.amount());
    space.grow(needed).map_err(|full| Error::because(Status::NO_SPOOL_SPACE, full.to_string()))
}

/// Executes SET_INFO. Programs that copy a file to a printer set its size before they write, its attributes and times.
/// The job ends where the data ends that was written, so only a smaller size has a meaning.
pub(super) async fn set(request: &Request<'_>, job: &SpooledJob, asked: &SetInfoRequest<'_>) -> Result<()> {
    match (asked.info_type, Class(asked.file_info_class)) {
        (InfoType::FILE, Class::END_OF_FILE) => {
            let size = FileEndOfFileInformation::decode(&mut Reader::new(asked.buffer))?.end_of_file;
            let mut spool = job.spool.lock().await;
            let spool = spool.as_mut().ok_or(Error::new(Status::FILE_CLOSED))?;
            if size > request.connection.server.policy().limits.print_job {
                return Err(Error::because(Status::NO_SPOOL_SPACE, "the print job is too large"));
            }
            if size < job.written.lock().end() {
                spool.node.set_extent(&spool.op, Extent::Size(size)).await?;
                job.written.lock().cut(size);
            }
            Ok(())
        }
        (InfoType::FILE, Class::ALLOCATION | Class::BASIC) => Ok(()),
        _ => Err(Error::because(Status::NOT_SUPPORTED, "SET_INFO on a print job")),
    }
}

/// Executes FLUSH.
pub(super) async fn flush(job: &SpooledJob) -> Result<()> {
    let spool = job.spool.lock().await;
    let spool = spool.as_ref().ok_or(Error::new(Status::FILE_CLOSED))?;
    Ok(spool.node.flush(&spool.op).await?)
}

/// Hands over a job that its client has closed. A job without data is not printed, as in Samba.
pub(super) async fn submit(request: &Request<'_>, reply: &mut Reply, open: &Open, job: &SpooledJob) -> Result<()> {
    let done = complete(request, reply, open, job).await;
    if let Some(printer) = open.tree.printer() {
        audit::job_closed(
            &printer.spool,
            &job.title,
            done.as_ref().map_or_else(|error| error.status, |()| Status::SUCCESS),
        );
    }
    done
}

async fn complete(request: &Request<'_>, reply: &mut Reply, open: &Open, job: &SpooledJob) -> Result<()> {
    let (Some(printer), Some(spool)) = (open.tree.printer(), job.spool.lock().await.take()) else {
        return Err(Error::new(Status::FILE_CLOSED));
    };
    let (size, is_whole) = {
        let written = job.written.lock();
        (written.end(), written.is_whole())
    };
    if !is_whole {
        spool.remove().await;
        return Err(Error::because(Status::INVALID_PARAMETER, "parts of the print job were not written"));
    }
    hand_over(request, reply, printer, &job.title, spool, size).await
}

/// Hands the file of a job with `size` bytes over to the print system.
pub(super) async fn hand_over(
    request: &Request<'_>,
    reply: &mut Reply,
    printer: &Printer,
    title: &str,
    spool: SpoolFile,
    size: u64,
) -> Result<()> {
    let system = match system(&request.connection.server) {
        Ok(system) if size > 0 => system,
        refused => {
            spool.remove().await;
            return refused.map(drop);
        }
    };
    let client = request.connection.peer.remote.ip().to_canonical().to_string();
    let new = NewJob { title: title.to_owned(), user: printer.user.clone(), client, spool, size };
    let submitted = system.submit(&printer.queue, new);
    // If it cannot be sent, the client only waits longer without knowing why.
    let _ = reply.go_async(request);
    Ok(submitted.await?)
}

/// Removes a job that was not closed by its client. `printer` is the directory of the share.
pub(crate) async fn discard(printer: &Disk, job: &SpooledJob) {
    if let Some(spool) = job.spool.lock().await.take() {
        tracing::info!(title = job.title, "a print job is discarded because its client did not close it");
        spool.remove().await;
        audit::job_closed(printer, &job.title, Status::CANCELLED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proto::bytes::utf16_bytes;

    #[test]
    fn a_title_is_the_last_component_without_control_characters() {
        let long = "é".repeat(300);
        for (name, expected) in [
            ("report.pdf", "report.pdf"),
            ("; touch x $(id) |", "; touch x $(id) |"),
            (r"a\b\c d", "c d"),
            ("a/b\u{1b}[31m\n", "b[31m"),
            ("", UNTITLED),
            (" ", UNTITLED),
            (&long, &"é".repeat(JOB_TITLE_MAX)),
        ] {
            assert_eq!(title(&utf16_bytes(name)), expected, "{name:?}");
        }
        assert_eq!(title(&[0, 0xd8]), "\u{fffd}");
    }
}
