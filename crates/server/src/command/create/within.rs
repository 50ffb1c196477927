//! Opens existing files for operations within another request, such as a call through a pipe.

use std::sync::Arc;

use proto::dtyp::AccessMask;
use proto::smb2::create::{CreateAction, CreateDisposition, CreateRequest, ImpersonationLevel, ShareAccess};
use proto::status::Status;

use super::contexts::Contexts;
use super::entered::Entered;
use super::parameters::Parameters;
use super::{Opened, check_stream, check_veto, open_file, stream};
use crate::command::{audit, close, snapshots};
use crate::error::{Error, Result};
use crate::name::Stream;
use crate::request::{Reply, Request};
use crate::state::Server;
use crate::state::open::FileOpen;
use crate::tree::{Disk, Tree};

/// A file that is open within a request. The client has no id for it. It has an entry in the table of open files, which
/// is removed when this is dropped.
pub(crate) struct WithinRequest {
    /// The open file.
    pub(crate) file: FileOpen,
    tree: Arc<Tree>,
    granted: AccessMask,
    entered: Entered,
}

impl WithinRequest {
    /// Returns the rights of the open.
    pub(crate) fn granted(&self) -> AccessMask {
        self.granted
    }

    /// Returns the share, or its snapshot that has the file.
    pub(crate) fn disk(&self) -> Result<&Disk> {
        self.tree.disk().ok_or(Error::new(Status::INVALID_DEVICE_REQUEST))
    }

    /// Closes the file.
    pub(crate) async fn close(self, server: &Server) {
        let WithinRequest { file, tree, entered, .. } = self;
        drop(entered);
        close::delete_abandoned(server).await;
        let closed = file.node.close(&file.op).await;
        if let Some(disk) = tree.disk() {
            audit::closed(disk, &file, closed.map_or_else(|errno| errno.status(), |()| Status::SUCCESS));
        }
    }
}

/// Opens the file called `name`, UTF-16LE, through `tree`, which is not one of the client's tree connects. The rights
/// are checked and oplocks broken as by a CREATE with all sharing. `reply` is that of `request`, whose interim response
/// is sent if the open has to wait.
pub(crate) async fn open_within(
    request: &Request<'_>,
    reply: &mut Reply,
    tree: Arc<Tree>,
    name: &[u8],
    rights: AccessMask,
) -> Result<WithinRequest> {
    let asked = CreateRequest {
        impersonation_level: ImpersonationLevel::IMPERSONATION,
        desired_access: rights.0,
        share_access: ShareAccess(7),
        create_disposition: CreateDisposition::OPEN,
        name,
        ..CreateRequest::default()
    };
    let within = Request {
        connection: request.connection,
        header: request.header,
        message: request.message,
        channel: request.channel.clone(),
        tree: Some(tree),
        sealed: request.sealed,
        related: None,
        last: request.last,
        rest: None,
    };
    let done = execute(&within, reply, &asked).await;
    close::delete_abandoned(&request.connection.server).await;
    if let (Err(error), Ok(disk)) = (&done, within.disk()) {
        audit::not_opened(disk, &asked, false, error);
    }
    done
}

async fn execute(request: &Request<'_>, reply: &mut Reply, asked: &CreateRequest<'_>) -> Result<WithinRequest> {
    let (contexts, disk) = (Contexts::default(), request.disk()?);
    let mut name = disk.share.names.characters.parse(asked.name).map_err(|error| Error::new(error.status()))?;
    let snapshot = snapshots::tree(request, disk, &mut name, None).await?;
    let tree = snapshot.as_ref().unwrap_or(request.tree()?);
    let disk = tree.disk().unwrap_or(disk);
    let parameters = Parameters::check(asked, disk)?;
    name.path = disk.share.names.asked(name.path);
    check_stream(disk, &name, &parameters)?;
    check_veto(disk, &disk.shown(&name.path), &parameters)?;
    let Opened { entered, node, metadata, name, granted, .. } = match &name.stream {
        Stream::Alternate(stream) => {
            Box::pin(stream::open(request, reply, disk, &name, stream, &parameters, &contexts)).await?
        }
        _ => open_file(request, reply, disk, &name, &parameters, &contexts).await?,
    };
    let file = FileOpen::new(node, metadata.id, metadata.kind, name, disk.op.clone());
    audit::opened(disk, asked, (&file, granted), CreateAction::OPENED, None);
    Ok(WithinRequest { file, tree: tree.clone(), granted, entered })
}
