//! FSCTL_DFS_GET_REFERRALS and FSCTL_DFS_GET_REFERRALS_EX ([MS-SMB2] 3.3.5.15.2, [MS-DFSC] 3.2.5): the servers on which
//! a path is.
//!
//! The namespaces are those of this server alone: a share with `msdfs root`, whose links are symbolic links to
//! `msdfs:server\share`, and a share with `msdfs proxy`. Site names are ignored, because no site of a target is known.

use std::sync::Arc;

use proto::bytes::{utf16_bytes, utf16_units};
use proto::dfsc::{HeaderFlags, Referral, ReferralRequest, ReferralResponse, ServerType, Version};
use proto::smb2::FileId;
use proto::smb2::ioctl::{FsctlCode, IoctlRequest, IoctlResponse};
use proto::status::Status;

use crate::command::tree_connect;
use crate::error::{Error, Result};
use crate::links;
use crate::name::MAX_PATH;
use crate::policy::dfs;
use crate::policy::limits::DFS_TARGETS_MAX;
use crate::policy::{Policy, Share};
use crate::request::{Reply, Request};
use crate::state::Server;
use crate::user::User;
use crate::vfs::Case;

/// For how many seconds a client may use a referral; Samba's value.
const TIME_TO_LIVE: u32 = 600;

/// The highest version that is returned. A server with version 4 must support the priority of targets (3.2.5.5), which
/// links do not have.
const HIGHEST: Version = Version::V3;

pub(super) async fn referrals(request: &Request<'_>, asked: &IoctlRequest<'_>, reply: &mut Reply) -> Result<Status> {
    if asked.file_id != FileId::ANY {
        return Err(Error::because(Status::INVALID_PARAMETER, "DFS_GET_REFERRALS on a file"));
    }
    let policy = request.connection.server.policy().clone();
    if !policy.host_msdfs {
        return Err(Error::because(Status::FS_DRIVER_REQUIRED, "`host msdfs` is off"));
    }
    let input = match asked.ctl_code {
        FsctlCode::DFS_GET_REFERRALS_EX => ReferralRequest::decode_ex(asked.input)?,
        _ => ReferralRequest::decode(asked.input)?,
    };
    if input.max_referral_level == 0 {
        return Err(Error::because(Status::INVALID_PARAMETER, "the client understands no version of a referral"));
    }
    let path = Path::parse(input.request_file_name)?;
    let found = find(request, policy, &path).await?;
    let response = response(&path, &found, Version(input.max_referral_level.min(HIGHEST.0)))?;
    let output = response
        .to_bytes(asked.max_output_response as usize)
        .ok_or(Error::because(Status::BUFFER_OVERFLOW, "the output buffer is too small for a referral"))?;
    IoctlResponse { ctl_code: asked.ctl_code, file_id: FileId::ANY, input: &[], output: &output }
        .encode(&mut reply.body());
    Ok(Status::SUCCESS)
}

/// A requested path: `\server\share`, and possibly names below the share.
struct Path<'a> {
    bytes: &'a [u8],
    /// The place of each component in `bytes`.
    components: Vec<std::ops::Range<usize>>,
    share: String,
}

impl<'a> Path<'a> {
    /// Splits a path at its backslashes, of which several count as one.
    fn parse(bytes: &'a [u8]) -> Result<Path<'a>> {
        if bytes.len() > 2 * MAX_PATH {
            return Err(Error::because(Status::INVALID_PARAMETER, "the path is too long"));
        }
        let units = utf16_units(bytes).ok_or(Error::new(Status::INVALID_PARAMETER))?;
        let mut components = Vec::new();
        let mut start = 0;
        for component in units.split(|unit| *unit == u16::from(b'\\')) {
            if !component.is_empty() {
                components.push(2 * start..2 * (start + component.len()));
            }
            start += component.len() + 1;
        }
        // 3.2.5.2, 3.2.5.3.
        let share = components.get(1).and_then(|at| utf16_units(bytes.get(at.clone())?));
        let share = share.ok_or(Error::because(
            Status::INVALID_PARAMETER,
            "the path has no share; only a domain controller answers referral requests for domains",
        ))?;
        Ok(Path { bytes, components, share: String::from_utf16_lossy(&share) })
    }

    /// Returns the first `count` components.
    fn prefix(&self, count: usize) -> &'a [u8] {
        let end = self.components.get(count.wrapping_sub(1)).map_or(0, |at| at.end);
        self.bytes.get(..end).unwrap_or_default()
    }

    /// Returns what follows server and share, relative to the share.
    fn below_share(&self) -> &'a [u8] {
        let start = self.components.get(2).map_or(self.bytes.len(), |at| at.start);
        self.bytes.get(start..).unwrap_or_default()
    }
}

/// The root or link that a path leads to.
struct Found {
    /// The number of the path's components that it has.
    components: usize,
    kind: ServerType,
    /// The targets in UTF-16LE.
    targets: Vec<Vec<u8>>,
}

/// Finds the root or link of a path (3.2.5.5). A user that may not connect to the share gets no referral of it.
async fn find(request: &Request<'_>, policy: Arc<Policy>, path: &Path<'_>) -> Result<Found> {
    let missing = |why| Error::because(Status::NOT_FOUND, why);
    let user = request.session()?.user().ok_or(Error::new(Status::USER_SESSION_DELETED))?;
    let session_policy = tree_connect::session_policy(request, policy, &user).await?;
    let share = tree_connect::share(&request.connection.server, &session_policy, &path.share, &user).await?;
    let share = share.filter(|share| share.dfs.root || !share.dfs.proxy.is_empty());
    let share = share.ok_or(missing("no such share with `msdfs root` or `msdfs proxy`"))?;
    tree_connect::check_sealing(request, &share)?;
    tree_connect::admit(request, &share, &user).await?;
    tree_connect::check_keys(request, &share)?;
    let server = &request.connection.server;
    server.share_rights(&share, &server.token_of(&user).await?)?;
    if !share.dfs.proxy.is_empty() {
        let targets = share.dfs.proxy.iter().map(|target| utf16_bytes(target)).take(DFS_TARGETS_MAX).collect();
        return Ok(Found { components: 2, kind: ServerType::LINK, targets: ordered(server, &share, targets) });
    }
    let Some((components, target)) = link(request, &share, &user, path).await? else {
        // The server itself, under the name by which the client knows it.
        return Ok(Found { components: 2, kind: ServerType::ROOT, targets: vec![path.prefix(2).to_vec()] });
    };
    let targets = dfs::link_targets(&target);
    let targets = targets.iter().filter_map(|target| std::str::from_utf8(target).ok()).map(utf16_bytes);
    let targets: Vec<Vec<u8>> = targets.take(DFS_TARGETS_MAX).collect();
    if targets.is_empty() {
        return Err(missing(r"the link has no target; make it a symbolic link to `msdfs:server\share`"));
    }
    Ok(Found { components, kind: ServerType::LINK, targets: ordered(server, &share, targets) })
}

/// Returns the link on the path and the number of the path's components up to it; `None` if there is no link.
async fn link(
    request: &Request<'_>,
    share: &Arc<Share>,
    user: &User,
    path: &Path<'_>,
) -> Result<Option<(usize, Vec<u8>)>> {
    if path.components.len() == 2 {
        return Ok(None);
    }
    let share = tree_connect::with_path(request, share.clone(), user)?;
    let disk = tree_connect::disk_of(&request.connection.server, share, user, false).await?;
    let Ok(name) = disk.share.names.characters.parse(path.below_share()) else { return Ok(None) };
    let name = disk.share.names.asked(name.path);
    // With `.` or `..` in the path, the components would not be those of the link.
    if name.components().count() + 2 != path.components.len() {
        return Ok(None);
    }
    let case = if disk.share.names.case_sensitive { Case::Sensitive } else { Case::Insensitive };
    let link = links::dfs_link(&disk, &disk.op, &name, case).await?;
    // The path to the link may be another one than before, if a local program has just replaced a directory.
    Ok(link.and_then(|link| Some((path.components.len().checked_sub(link.behind)?, link.target))))
}

/// Returns the targets in the order of the link, or in a random one with `msdfs shuffle referrals`.
fn ordered(server: &Server, share: &Share, mut targets: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    if share.dfs.shuffle {
        for last in (1..targets.len()).rev() {
            let other = u64::from_le_bytes(server.random()) % (last as u64 + 1);
            targets.swap(last, other as usize);
        }
    }
    targets
}

/// Returns the response (3.2.5.5).
fn response<'a>(path: &Path<'a>, found: &'a Found, version: Version) -> Result<ReferralResponse<'a>> {
    let dfs_path = path.prefix(found.components);
    let path_consumed = u16::try_from(dfs_path.len());
    let all = HeaderFlags::REFERRAL_SERVERS | HeaderFlags::STORAGE_SERVERS;
    let header_flags = match found.kind {
        ServerType::LINK if version != Version::V1 => HeaderFlags::STORAGE_SERVERS,
        _ => all,
    };
    let referral = |target: &'a Vec<u8>| Referral {
        server_type: found.kind,
        time_to_live: TIME_TO_LIVE,
        dfs_path,
        dfs_alternate_path: dfs_path,
        network_address: target,
        ..Referral::default()
    };
    Ok(ReferralResponse {
        path_consumed: path_consumed.map_err(|_| Error::because(Status::INVALID_PARAMETER, "the path is too long"))?,
        header_flags,
        version,
        referrals: found.targets.iter().map(referral).collect(),
    })
}
