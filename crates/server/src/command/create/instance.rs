//! Application instances of CREATE requests ([MS-SMB2] 3.3.5.9.13).

use std::sync::Arc;

use proto::dtyp::AccessMask;
use proto::smb2::create_context::{AppInstanceId, AppInstanceVersion, CreateContext, name};
use proto::smb2::negotiate::Dialect;
use proto::status::Status;

use crate::command::forced_close::close_held;
use crate::error::{Error, Result};
use crate::name::{Name, Stream, same};
use crate::request::Request;
use crate::security::access;
use crate::state::durable::Instance;
use crate::state::open::Open;
use crate::tree::Disk;

/// A request's contexts for application instances.
#[derive(Default)]
pub(super) struct RequestedInstance {
    id: Option<AppInstanceId>,
    version: Option<AppInstanceVersion>,
}

impl RequestedInstance {
    /// Decodes a context if it is for application instances.
    pub(super) fn take(&mut self, context: &CreateContext<'_>) -> Result<()> {
        match &*context.name {
            name::APP_INSTANCE_ID => self.id = Some(AppInstanceId::decode(&context.data)?),
            name::APP_INSTANCE_VERSION => self.version = Some(AppInstanceVersion::decode(&context.data)?),
            _ => {}
        }
        Ok(())
    }

    /// Returns the instance; `None` if the request has none or the dialect does not support them. Versions need 3.1.1.
    fn instance(&self, request: &Request<'_>) -> Option<Instance> {
        let negotiated = request.connection.negotiated().filter(|it| it.dialect.0 >= Dialect::SMB_3_0.0)?;
        let version = self.version.filter(|_| negotiated.dialect == Dialect::SMB_3_1_1);
        Some(Instance { id: self.id?.app_instance_id, version, client: negotiated.client_guid })
    }

    /// Closes the instance's opens of this file that belong to other clients, unless their version is not lower.
    pub(super) async fn take_over(&self, request: &Request<'_>, disk: &Disk, name: &Name) -> Result<()> {
        let Some(instance) = self.instance(request) else { return Ok(()) };
        let server = &request.connection.server;
        for (other, open) in server.opens.instances.elsewhere(instance.id, instance.client) {
            if !is_of(&open, disk, name) {
                continue;
            }
            if is_later(other.version, instance.version) {
                return Err(Error::because(
                    Status::FILE_FORCED_CLOSED,
                    "a later version of the application has the file open",
                ));
            }
            if may_read(disk, &open).await? {
                close_held(server, &open).await;
            }
        }
        Ok(())
    }

    /// Records that the open belongs to the instance.
    pub(super) fn remember(&self, request: &Request<'_>, open: &Arc<Open>) {
        if let (Some(instance), Some(file)) = (self.instance(request), open.file()) {
            file.durability.belongs_to(instance);
            request.connection.server.opens.instances.add(open);
        }
    }
}

/// Returns whether the existing open stays, because its version is not lower than that of the new one.
fn is_later(open: Option<AppInstanceVersion>, comes: Option<AppInstanceVersion>) -> bool {
    match (open, comes) {
        (None, _) => false,
        (Some(_), None) => true,
        (Some(open), Some(comes)) => open >= comes,
    }
}

fn is_of(open: &Open, disk: &Disk, name: &Name) -> bool {
    let Some(file) = open.file().filter(|file| file.file.stream == 0) else { return false };
    if matches!(name.stream, Stream::Alternate(_)) {
        return false;
    }
    let same_share = open.tree.share_name().eq_ignore_ascii_case(&disk.share.name);
    same_share && file.name.volume == disk.volume && same(file.name.path.lock().as_bytes(), name.path.as_bytes())
}

/// Returns whether the user may read the file; this is required to close its opens.
async fn may_read(disk: &Disk, open: &Open) -> Result<bool> {
    let Some(file) = open.file() else { return Ok(false) };
    let path = file.name.path.lock().clone();
    let metadata = file.node.metadata(&file.op).await?;
    let all = access::maximal(disk, &path, &file.node, &metadata).await?;
    Ok(all.contains(AccessMask::FILE_READ_DATA))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let version =
            |high, low| Some(AppInstanceVersion { app_instance_version_high: high, app_instance_version_low: low });
        for (open, comes, stays) in [
            (None, None, false),
            (None, version(0, 0), false),
            (version(0, 0), None, true),
            (version(1, 2), version(1, 2), true),
            (version(1, 2), version(1, 3), false),
            (version(1, 2), version(2, 0), false),
            (version(2, 0), version(1, 9), true),
        ] {
            assert_eq!(is_later(open, comes), stays, "{open:?} {comes:?}");
        }
    }
}
