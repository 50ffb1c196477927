//! Resilient handles ([MS-SMB2] 3.3.5.15.9): the open survives the loss of its connection, and conflicting requests
//! wait.

use std::time::Duration;

use proto::smb2::ioctl::NetworkResiliencyRequest;
use proto::smb2::negotiate::Dialect;
use proto::status::Status;

use super::{Control, Output};
use crate::error::{Error, Result};
use crate::state::durable::{Reason, Terms};
use crate::user::Owner;
use crate::vfs::Kind;

/// The timeout if the client requests 0, as in Windows since Windows 8 (note <401>).
const DEFAULT_TIME: Duration = Duration::from_secs(120);
/// `MaxResiliencyTimeout`: the longest timeout that a client can request.
const MAX_TIME: Duration = Duration::from_secs(300);

pub(super) fn request(control: &Control<'_>) -> Result<Output> {
    let request = control.request;
    if request.connection.dialect() == Dialect::SMB_2_0_2 {
        return Err(Error::because(Status::INVALID_DEVICE_REQUEST, "resilient handles require SMB 2.1 or later"));
    }
    let (file, disk) = (control.file()?, control.disk()?);
    let user = request.session()?.user().ok_or(Error::new(Status::USER_SESSION_DELETED))?;
    let owner = Owner::of(&user).filter(|_| disk.share.handles.durable_handles && file.kind == Kind::File);
    let owner =
        owner.ok_or(Error::because(Status::NOT_SUPPORTED, "guests and directories have no resilient handles"))?;
    let asked = NetworkResiliencyRequest::decode(control.asked.input)?;
    let timeout = Duration::from_millis(asked.timeout.into());
    if timeout > MAX_TIME {
        return Err(Error::because(Status::INVALID_PARAMETER, "the timeout exceeds five minutes"));
    }
    let timeout = if timeout.is_zero() { DEFAULT_TIME } else { timeout };
    // A persistent handle is also resilient.
    if !file.durability.is_persistent() {
        let create_guid = file.durability.terms().and_then(|terms| terms.create_guid);
        file.durability.set(Terms { reason: Reason::Resilient, timeout, owner, create_guid, persistent: None });
    }
    Ok(Output::new(|_| {}))
}
