//! Creates a file or directory ([MS-FSA] 2.1.5.1.1).

use std::sync::Arc;

use parking_lot::Mutex;
use proto::dtyp::AccessMask;
use proto::smb2::create::CreateAction;
use proto::status::Status;

use super::Opened;
use super::contexts::Contexts;
use super::entered::{self, Entered};
use super::parameters::Parameters;
use super::plan::{self, DaclSource, NewFilePlan, ParentDirectory};
use crate::acl::protection::Protection;
use crate::command::directory_lease;
use crate::error::{Error, Result};
use crate::files::notify::Change;
use crate::files::oplock::Opening;
use crate::files::{OpenName, Refusal, Removals, ShareMode};
use crate::links;
use crate::local::netatalk;
use crate::name::Name;
use crate::request::Request;
use crate::security::access;
use crate::security::set::{apply, new_file};
use crate::state::abandoned::What;
use crate::tree::Disk;
use crate::vfs::{Create, Created, Errno, Extent, FileId, Kind, Metadata, NewFile, Node, Parent, RelPath, SetMetadata};

/// The location of a new file.
pub(super) struct NewName {
    /// The path of the file.
    pub(super) path: RelPath,
    /// What the look-up knows of its directory.
    pub(super) parent: Parent,
}

/// Creates the file; returns `None` if the name was created concurrently.
pub(super) async fn make(
    request: &Request<'_>,
    disk: &Disk,
    name: &Name,
    parameters: &Parameters,
    contexts: &Contexts,
    location: NewName,
) -> Result<Option<Opened>> {
    let NewName { path, parent: found } = location;
    if !parameters.creates() {
        return Err(Error::new(Status::OBJECT_NAME_NOT_FOUND));
    }
    if disk.read_only {
        return Err(disk.refusal());
    }
    let directory = plan::check(&disk.share, name, parameters)?;
    let files = &request.connection.server.opens.files;
    if parameters.lease_id().is_some_and(|lease| files.lease_is_elsewhere(lease, None)) {
        return Err(Error::because(Status::INVALID_PARAMETER, "the lease belongs to another file"));
    }
    let protection = access::may_make(disk, &path, directory, &found).await?;
    let model = access::model(disk, &path).await?;
    // A POSIX client determines the mode, unless there is a Windows ACL to inherit.
    let inherited = protection.as_ref().filter(|protection| parameters.posix.is_none() || protection.stored);
    let default_acl_denies = inherited.map(|protection| protection.default_acl_denies);
    let parent = ParentDirectory { metadata: model.as_ref(), default_acl_denies };
    let plan = NewFilePlan::new(&disk.share, parameters, contexts, directory, parent);
    let removals = files.removals();
    let open_name = Arc::new(OpenName { volume: disk.volume, path: Mutex::new(path) });
    let pending = files.begin_create(&open_name);
    let creation =
        Creation { request, disk, contexts, plan: &plan, parent: protection.as_deref(), open_name: &open_name };
    let Some((node, metadata)) = creation.carry_out(&found).await? else { return Ok(None) };
    let open_id = enter(request, parameters, plan.granted, metadata.id, &open_name, removals)
        .inspect_err(|_| entered::stays(request, metadata.id, metadata.kind, &open_name))?;
    drop(pending);
    let what = What::File(node.clone(), metadata.kind);
    let entered = Entered::new(request, metadata.id, what, &open_name, open_id)?.made(true);
    let mode = ShareMode { access: plan.granted, share: parameters.share_access };
    netatalk::enter(disk, &node, metadata.kind, mode, parameters.posix.is_some()).await?;
    Ok(Some(Opened {
        entered,
        node,
        metadata,
        name: open_name,
        granted: plan.granted,
        action: CreateAction::CREATED,
        asked_allocation: 0,
        leads_to_directory: false,
    }))
}

/// Enters the open of a new file into the table of open files, and returns its id. Another client may have found and
/// opened the file in between. Then the share modes decide, and the file stays, as after a create and an immediate
/// close.
fn enter(
    request: &Request<'_>,
    parameters: &Parameters,
    granted: AccessMask,
    file: FileId,
    open_name: &Arc<OpenName>,
    removals: Removals,
) -> Result<u64> {
    let server = &request.connection.server;
    let files = &server.opens.files;
    let open_id = server.next_open_id();
    let mode = ShareMode { access: granted, share: parameters.share_access };
    let opening = Opening::new(granted, false, parameters.lease_id(), server.environment.uptime());
    let opening = Opening { posix: parameters.posix.is_some(), ..opening };
    let open = |removals| files.open(file, open_id, mode, open_name, removals, opening);
    let entered = match open(removals) {
        Err(Refusal::Raced) => open(files.removals()),
        entered => entered,
    };
    entered.map_err(|_| Error::new(Status::SHARING_VIOLATION))?;
    Ok(open_id)
}

/// The creation of a file by a plan.
struct Creation<'a> {
    request: &'a Request<'a>,
    disk: &'a Disk,
    contexts: &'a Contexts,
    plan: &'a NewFilePlan,
    /// The effective descriptor of its directory, if descriptors are stored.
    parent: Option<&'a Protection>,
    open_name: &'a Arc<OpenName>,
}

impl Creation<'_> {
    /// Creates and protects the file; returns `None` if the name was created concurrently. `found` is what the look-up
    /// knows of its directory. If a step fails, the file is removed.
    async fn carry_out(&self, found: &Parent) -> Result<Option<(Arc<dyn Node>, Metadata)>> {
        let Some(Created { node, metadata, protected }) = self.create(found).await? else { return Ok(None) };
        match self.complete(&node, metadata, protected).await {
            Ok(metadata) => Ok(Some((node, metadata))),
            Err(error) => {
                self.remove(&node, &metadata).await;
                Err(error)
            }
        }
    }

    /// Protects the new file, which must not be accessible without, and sets everything else.
    async fn complete(&self, node: &Arc<dyn Node>, mut metadata: Metadata, protected: bool) -> Result<Metadata> {
        if !links::admits(self.disk, node).await {
            // An intermediate directory became a link to a vetoed one meanwhile.
            return Err(Errno::LOOP.into());
        }
        if !protected {
            metadata = self.protect(node, &metadata).await?.unwrap_or(metadata);
        }
        self.finish(node, &mut metadata).await?;
        Ok(metadata)
    }

    /// Removes the file, unless another client has opened it meanwhile, or has written to it.
    async fn remove(&self, node: &Arc<dyn Node>, metadata: &Metadata) {
        let Creation { request, disk, .. } = self;
        let (server, path) = (&request.connection.server, self.path());
        let now = server.environment.uptime();
        let stays = || entered::stays(request, metadata.id, metadata.kind, self.open_name);
        let Ok(_closed) = server.opens.files.begin_replacement(metadata.id, now, false) else { return stays() };
        // The space of a directory is that of its names, with which it is not removed.
        if metadata.kind == Kind::File && node.metadata(&disk.op).await.is_ok_and(|now| now.size > 0) {
            return stays();
        }
        if let Err(errno) = disk.vfs.unlink(&disk.op, &path, metadata.id, metadata.kind).await {
            tracing::debug!(%path, ?errno, "cannot remove a file whose CREATE has failed");
            server.changed(disk, &path, Change::added(metadata.kind));
        }
        // A client may have listed the directory meanwhile.
        directory_lease::entry_changes(server, disk, &path, None).await;
    }

    /// Returns the path of the file, which the rename of a directory may have changed.
    fn path(&self) -> RelPath {
        self.open_name.path.lock().clone()
    }

    async fn create(&self, found: &Parent) -> Result<Option<Created>> {
        let Creation { disk, plan, .. } = self;
        let path = self.path();
        let directory = plan.kind == Create::Directory;
        let protection = match (self.parent, found.mode_and_group()) {
            (Some(parent), Some(above)) if plan.acl_at_creation => {
                let now = self.request.connection.server.environment.now();
                new_file::predict_acl(disk, now, parent, above, plan.mode, directory).await
            }
            _ => None,
        };
        let (kind, mode, dos_attributes) = (plan.kind.clone(), plan.initial_mode, plan.dos_attributes);
        match disk.vfs.create(&disk.op, &path, NewFile { kind, mode, dos_attributes, protection }).await {
            Ok(created) => Ok(Some(created)),
            Err(Errno::EXIST) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Sets the owner and the descriptor: the descriptor from the client, or the inherited one. Returns the new
    /// metadata if anything changed.
    async fn protect(&self, node: &Arc<dyn Node>, metadata: &Metadata) -> Result<Option<Metadata>> {
        let Creation { disk, plan, .. } = self;
        let now = self.request.connection.server.environment.now();
        let mut present = *metadata;
        if let Some(uid) = plan.owner.filter(|&uid| uid != metadata.uid) {
            apply::give_to(node, uid).await?;
            present.uid = uid;
        }
        let inherits = plan.dacl == DaclSource::Directory;
        let mut inherited = false;
        if let Some(parent) = self.parent.filter(|_| inherits) {
            inherited = apply::inherit(disk, node, now, parent, &present, plan.mode & 0o111 != 0).await?;
        }
        let given = self.contexts.security_descriptor.as_ref();
        if let Some(given) = given {
            apply::give(disk, (metadata.id, node), now, given).await?;
        }
        if inherits && !inherited {
            apply::give_mode(disk, node, &present, plan.mode).await?;
        }
        let changed = self.parent.is_some() || given.is_some() || present.uid != metadata.uid;
        Ok(if changed { Some(node.metadata(&disk.op).await?) } else { None })
    }

    /// Sets what does not concern access.
    async fn finish(&self, node: &Arc<dyn Node>, metadata: &mut Metadata) -> Result<()> {
        let Creation { disk, plan, .. } = self;
        // [MS-FSA] 2.1.5.1.1: inherited from the directory, unless NO_COMPRESSION is set.
        if metadata.compressed && plan.uncompressed {
            node.set_metadata(&disk.op, SetMetadata { compressed: Some(false), ..SetMetadata::default() }).await?;
            metadata.compressed = false;
        }
        if let Some(attributes) = &self.contexts.extended_attributes {
            attributes.apply(node, &disk.op, disk).await?;
        }
        if let Some(size) = plan.allocation {
            node.set_extent(&disk.op, Extent::Reserve(size)).await?;
        }
        Ok(())
    }
}
