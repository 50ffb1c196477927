//! The server service ([MS-SRVS] 3.1.4): the shares of the current configuration, the clients, and the server.

mod clients;
mod file_security;
mod server;
mod share_changes;
pub(in crate::rpc::services) mod shares;
#[cfg(test)]
mod tests;

use std::path::Path;

use proto::rpc::pdu::SyntaxId;
use proto::rpc::srvsvc::{self, opnum};

use crate::rpc::interface::{Interface, Operation, operations};

/// The server service.
pub(super) struct Srvsvc;

impl Interface for Srvsvc {
    fn pipe(&self) -> &'static str {
        "srvsvc"
    }

    fn syntax(&self) -> SyntaxId {
        srvsvc::INTERFACE
    }

    fn operations(&self) -> &'static [Operation] {
        operations![
            (opnum::NETR_CHAR_DEV_ENUM, "NetrCharDevEnum", server::char_dev_enum),
            (opnum::NETR_CHAR_DEVQ_ENUM, "NetrCharDevQEnum", server::char_dev_enum),
            (opnum::NETR_CONNECTION_ENUM, "NetrConnectionEnum", clients::connection_enum),
            (opnum::NETR_FILE_ENUM, "NetrFileEnum", clients::file_enum),
            (opnum::NETR_FILE_GET_INFO, "NetrFileGetInfo", clients::file_get_info),
            (opnum::NETR_FILE_CLOSE, "NetrFileClose", clients::file_close),
            (opnum::NETR_SESSION_ENUM, "NetrSessionEnum", clients::session_enum),
            (opnum::NETR_SESSION_DEL, "NetrSessionDel", clients::session_del),
            (opnum::NETR_SHARE_ADD, "NetrShareAdd", share_changes::share_add),
            (opnum::NETR_SHARE_ENUM, "NetrShareEnum", shares::share_enum),
            (opnum::NETR_SHARE_GET_INFO, "NetrShareGetInfo", shares::share_get_info),
            (opnum::NETR_SHARE_SET_INFO, "NetrShareSetInfo", share_changes::share_set_info),
            (opnum::NETR_SHARE_DEL, "NetrShareDel", share_changes::share_del),
            (opnum::NETR_SHARE_DEL_STICKY, "NetrShareDelSticky", share_changes::share_del),
            (opnum::NETR_SHARE_CHECK, "NetrShareCheck", shares::share_check),
            (opnum::NETR_SERVER_GET_INFO, "NetrServerGetInfo", server::server_get_info),
            (opnum::NETR_SERVER_DISK_ENUM, "NetrServerDiskEnum", server::disk_enum),
            (opnum::NETR_SERVER_TRANSPORT_ENUM, "NetrServerTransportEnum", server::transport_enum),
            (opnum::NETR_REMOTE_TOD, "NetrRemoteTOD", server::remote_tod),
            (opnum::NETPR_NAME_VALIDATE, "NetprNameValidate", server::name_validate),
            (opnum::NETR_SHARE_ENUM_STICKY, "NetrShareEnumSticky", shares::share_enum_sticky),
            (opnum::NETR_SHARE_DEL_START, "NetrShareDelStart", share_changes::share_del_start),
            (opnum::NETR_SHARE_DEL_COMMIT, "NetrShareDelCommit", share_changes::share_del_commit),
            (opnum::NETRP_GET_FILE_SECURITY, "NetrpGetFileSecurity", file_security::get),
            (opnum::NETRP_SET_FILE_SECURITY, "NetrpSetFileSecurity", file_security::set),
        ]
    }
}

/// Returns a path of this host in the notation of Windows, as Samba does: `/srv/files` is `C:\srv\files`.
fn windows_path(path: &Path) -> String {
    format!("C:{}", path.to_string_lossy().replace('/', "\\"))
}

/// Converts a number for a 32-bit field, saturating.
fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
