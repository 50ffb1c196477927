//! Oplocks and leases requested by and granted to a CREATE ([MS-SMB2] 3.3.5.9 "Oplock Acquisition", 3.3.5.9.8,
//! 3.3.5.9.11). Conflicts with other opens are handled in `files::oplock`.

use proto::smb2::create_context::{CreateContext, Lease, LeaseFlags, LeaseV1, LeaseV2};
use proto::smb2::negotiate::{Capabilities, Dialect};
use proto::smb2::{FileId, LeaseState, OplockLevel};

use crate::files::oplock::{LeaseAsked, LeaseGranted};
use crate::files::{LeaseId, OpenLease};
use crate::local;
use crate::request::Notifier;
use crate::request::{Reply, Request};
use crate::state::open::{FileOpen, Open};
use crate::tree::Disk;
use crate::vfs::{Kind, RelPath};

/// The requested oplock or lease.
#[derive(Clone, Copy)]
pub(super) enum RequestedCaching {
    Oplock(OplockLevel),
    Lease {
        lease: OpenLease,
        state: LeaseState,
        epoch: Option<u16>,
    },
    /// A lease whose key belongs to another file, through no fault of the client. None is granted.
    Nothing {
        lease: OpenLease,
        epoch: Option<u16>,
    },
}

/// The granted oplock or lease.
pub(super) struct Granted {
    pub(super) level: OplockLevel,
    /// The lease context of the response.
    pub(super) context: Option<CreateContext<'static>>,
}

impl RequestedCaching {
    /// Determines which part of a request's oplock level and lease context is valid on this connection and share.
    pub(super) fn new(
        request: &Request<'_>,
        disk: &Disk,
        level: OplockLevel,
        lease: Option<Lease>,
    ) -> RequestedCaching {
        let Some(negotiated) = request.connection.negotiated() else {
            return RequestedCaching::Oplock(OplockLevel::NONE);
        };
        if level != OplockLevel::LEASE {
            return RequestedCaching::Oplock(level);
        }
        let offers = |capability| negotiated.server_capabilities.contains(capability);
        let id = |key| LeaseId { client: negotiated.client_guid, key };
        match lease {
            _ if !offers(Capabilities::LEASING) || !disk.share.caching.oplocks || disk.share.caching.kernel_oplocks => {
                RequestedCaching::Oplock(OplockLevel::NONE)
            }
            Some(Lease::V1(asked)) => RequestedCaching::Lease {
                lease: OpenLease { id: id(asked.lease_key), parent: None },
                state: asked.lease_state,
                epoch: None,
            },
            Some(Lease::V2(asked)) if negotiated.dialect.0 >= Dialect::SMB_3_0.0 => {
                let has_parent = asked.flags.contains(LeaseFlags::PARENT_LEASE_KEY_SET);
                let parent = has_parent.then_some(asked.parent_lease_key);
                RequestedCaching::Lease {
                    lease: OpenLease { id: id(asked.lease_key), parent },
                    state: asked.lease_state,
                    epoch: Some(asked.epoch),
                }
            }
            Some(Lease::V2(_)) | None => RequestedCaching::Oplock(OplockLevel::NONE),
        }
    }

    /// Applies the request to `path`. If the lease key belongs to a file with the same name in another directory that
    /// the share's variable path has led to, that lease is broken, and nothing is granted under its key.
    pub(super) fn of_file(self, request: &Request<'_>, disk: &Disk, path: &RelPath) -> RequestedCaching {
        let server = &request.connection.server;
        let RequestedCaching::Lease { lease, epoch, .. } = self else { return self };
        let Some(other) = server.opens.files.lease_of_namesakes(lease.id, disk.volume, path) else { return self };
        server.opens.files.content_changes(other, None, server.environment.uptime());
        RequestedCaching::Nothing { lease, epoch }
    }

    /// Returns the lease of the open.
    pub(super) fn lease(&self) -> Option<OpenLease> {
        match self {
            RequestedCaching::Oplock(_) | RequestedCaching::Nothing { .. } => None,
            RequestedCaching::Lease { lease, .. } => Some(*lease),
        }
    }
}

/// Grants an oplock or lease to a new open; it must be sent in the response to the request.
pub(super) async fn grant(
    request: &Request<'_>,
    reply: &mut Reply,
    open: &Open,
    file: &FileOpen,
    disk: &Disk,
    asked: RequestedCaching,
) -> Granted {
    let nothing = Granted { level: OplockLevel::NONE, context: None };
    if matches!(asked, RequestedCaching::Oplock(OplockLevel::NONE)) {
        return nothing;
    }
    let Some(channel) = &request.channel else { return nothing };
    let path = file.name.path.lock().clone();
    if !disk.share.caching.oplocks || path.name().is_some_and(|name| disk.veto_oplocks.matches(name)) {
        return nothing;
    }
    let file_id = FileId { persistent: open.persistent_id, volatile: open.volatile_id };
    let notifier = Notifier::new(request.connection, &channel.session, disk.encrypt_data, file_id);
    let files = &request.connection.server.opens.files;
    let shared = disk.share.caching.level2_oplocks && !disk.share.caching.kernel_oplocks;
    match asked {
        // [MS-FSA] 2.1.5.18: directories have leases only, not oplocks.
        RequestedCaching::Oplock(_) if file.kind != Kind::File => nothing,
        RequestedCaching::Oplock(level) if disk.share.caching.fake_oplocks => Granted { level, context: None },
        RequestedCaching::Oplock(level) => {
            let server = &request.connection.server;
            // Local programs do not open streams.
            let level = match disk.share.caching.kernel_oplocks && file.file.stream == 0 {
                true => local::grant_oplock(server, disk, file, open.persistent_id, level, notifier.clone()).await,
                false => files.grant_oplock(file.file, open.persistent_id, level, shared, notifier.clone()),
            };
            if level != OplockLevel::NONE {
                reply.outgoing.grants(notifier);
            }
            Granted { level, context: None }
        }
        RequestedCaching::Nothing { lease, epoch } => {
            let granted = LeaseGranted { state: LeaseState::NONE, breaking: false, epoch };
            Granted { level: OplockLevel::LEASE, context: Some(context(&lease, &granted)) }
        }
        RequestedCaching::Lease { .. } if !may_lease(request, file, &asked) => nothing,
        RequestedCaching::Lease { lease, state, epoch } => {
            let wanted = LeaseAsked { id: lease.id, state, epoch };
            let directory = file.kind == Kind::Directory;
            let id = open.persistent_id;
            let Some(granted) = files.grant_lease(file.file, id, wanted, shared, directory, notifier.clone()) else {
                return nothing;
            };
            reply.outgoing.grants(notifier);
            Granted { level: OplockLevel::LEASE, context: Some(context(&lease, &granted)) }
        }
    }
}

/// Returns whether a lease may be granted; directories need a lease of version 2 (3.3.5.9.8).
fn may_lease(request: &Request<'_>, file: &FileOpen, asked: &RequestedCaching) -> bool {
    let offers =
        |it: &crate::state::connection::Negotiated| it.server_capabilities.contains(Capabilities::DIRECTORY_LEASING);
    match file.kind {
        Kind::File => true,
        Kind::Directory => {
            let version_two = matches!(asked, RequestedCaching::Lease { epoch: Some(_), .. });
            version_two && file.file.stream == 0 && request.connection.negotiated().is_some_and(offers)
        }
        Kind::Symlink | Kind::Special => false,
    }
}

/// Returns the lease context of the response (2.2.14.2.10, 2.2.14.2.11), in the lease's version, whichever the request
/// has.
pub(super) fn context(lease: &OpenLease, granted: &LeaseGranted) -> CreateContext<'static> {
    let mut flags = if granted.breaking { LeaseFlags::BREAK_IN_PROGRESS } else { LeaseFlags::NONE };
    let Some(epoch) = granted.epoch else {
        return LeaseV1 { lease_key: lease.id.key, lease_state: granted.state, lease_flags: flags }.to_context();
    };
    if lease.parent.is_some() {
        flags |= LeaseFlags::PARENT_LEASE_KEY_SET;
    }
    let parent_lease_key = lease.parent.unwrap_or_default();
    LeaseV2 { lease_key: lease.id.key, lease_state: granted.state, flags, parent_lease_key, epoch }.to_context()
}
