//! The maximum length of the response to a request, determined before execution.

use proto::smb2::header::Command;
use proto::smb2::ioctl::IoctlRequest;
use proto::smb2::query_directory::QueryDirectoryRequest;
use proto::smb2::query_info::QueryInfoRequest;
use proto::smb2::read::ReadRequest;

use super::chain::Element;
use crate::state::connection::Connection;

/// A response of at least this length is charged before it is created.
pub(super) const LONG: usize = 128 * 1024;

/// Returns the most data that the request permits in its response, in bytes. CHANGE_NOTIFY is not included, because it
/// has a limit of its own and is answered much later.
pub(super) fn longest(connection: &Connection, element: &Element) -> usize {
    let message = &element.message;
    let asked = match element.header.command {
        Command::READ => ReadRequest::decode(message).map(|it| it.length),
        Command::IOCTL => IoctlRequest::decode(message).map(|it| it.max_output_response),
        Command::QUERY_DIRECTORY => QueryDirectoryRequest::decode(message).map(|it| it.output_buffer_length),
        Command::QUERY_INFO => QueryInfoRequest::decode(message).map(|it| it.output_buffer_length),
        _ => return 0,
    };
    // The command refuses lengths above the negotiated maximum.
    let most = connection.negotiated().map_or(0, |negotiated| negotiated.max_read.max(negotiated.max_transact));
    asked.map_or(0, |asked| asked.min(most) as usize)
}
