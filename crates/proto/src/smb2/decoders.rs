//! All decoders of this module by name and with one signature, for fuzz targets and for the test that no input makes
//! any of them panic.

use super::compression::{CompressionTransform, PatternPayload};
use super::create_context as context;
use super::error::{ErrorResponse, ShareRedirectError, SymbolicLinkError};
use super::header::Header;
use super::oplock_break::{OplockBreakAcknowledgment, OplockBreakNotification};
use super::transform::TransformHeader;
use super::{cancel, change_notify, close, create, echo, flush, ioctl, lock, logoff, negotiate, notification};
use super::{query_directory, query_info, read, session_setup, set_info, tree_connect, tree_disconnect, write};

/// A name, and a function that returns whether arbitrary bytes decode.
pub type Decoder = (&'static str, fn(&[u8]) -> bool);

/// Takes one line for each type.
macro_rules! decoders {
    ($($path:path),* $(,)?) => {
        &[$((stringify!($path), |bytes| <$path>::decode(bytes).is_ok())),*]
    };
}

/// Decoders of whole messages, which begin with an SMB2 header (which the body decoders ignore) or a transform header.
pub const MESSAGES: &[Decoder] = decoders![
    Header,
    TransformHeader,
    negotiate::NegotiateRequest,
    negotiate::NegotiateResponse,
    session_setup::SessionSetupRequest,
    session_setup::SessionSetupResponse,
    logoff::LogoffRequest,
    logoff::LogoffResponse,
    tree_connect::TreeConnectRequest,
    tree_connect::TreeConnectResponse,
    tree_disconnect::TreeDisconnectRequest,
    tree_disconnect::TreeDisconnectResponse,
    create::CreateRequest,
    create::CreateResponse,
    close::CloseRequest,
    close::CloseResponse,
    flush::FlushRequest,
    flush::FlushResponse,
    read::ReadRequest,
    read::ReadResponse,
    write::WriteRequest,
    write::WriteResponse,
    OplockBreakNotification,
    OplockBreakAcknowledgment,
    lock::LockRequest,
    lock::LockResponse,
    echo::EchoRequest,
    echo::EchoResponse,
    cancel::CancelRequest,
    ioctl::IoctlRequest,
    ioctl::IoctlResponse,
    query_directory::QueryDirectoryRequest,
    query_directory::QueryDirectoryResponse,
    change_notify::ChangeNotifyRequest,
    change_notify::ChangeNotifyResponse,
    query_info::QueryInfoRequest,
    query_info::QueryInfoResponse,
    set_info::SetInfoRequest,
    set_info::SetInfoResponse,
    notification::ServerToClientNotification,
];

/// Decoders of parts of messages.
pub const PARTS: &[Decoder] = decoders![
    negotiate::PreauthIntegrityCapabilities,
    negotiate::EncryptionCapabilities,
    negotiate::CompressionCapabilities,
    negotiate::Netname,
    negotiate::TransportCapabilities,
    negotiate::RdmaTransformCapabilities,
    negotiate::SigningCapabilities,
    negotiate::PosixExtensions,
    context::Lease,
    context::DurableHandleRequest,
    context::DurableHandleResponse,
    context::DurableHandleReconnect,
    context::DurableHandleRequestV2,
    context::DurableHandleResponseV2,
    context::DurableHandleReconnectV2,
    context::AllocationSize,
    context::QueryMaximalAccessRequest,
    context::QueryMaximalAccessResponse,
    context::TimewarpToken,
    context::QueryOnDiskIdResponse,
    context::PosixRequest,
    context::PosixResponse,
    context::AppInstanceId,
    context::AppInstanceVersion,
    SymbolicLinkError,
    ShareRedirectError,
    query_info::QueryQuotaInfo,
    ioctl::CopyChunkCopy,
    ioctl::CopyChunkResponse,
    ioctl::RequestResumeKeyResponse,
    ioctl::ValidateNegotiateInfoRequest,
    ioctl::ValidateNegotiateInfoResponse,
    ioctl::NetworkResiliencyRequest,
    ioctl::SnapshotArray,
    PatternPayload,
];

/// Decoders of lists and chains, which take several calls.
pub const LISTS: &[Decoder] = &[
    ("CreateContext::decode_list", |bytes| context::CreateContext::decode_list(bytes).is_ok()),
    ("NetworkInterfaceInfo::decode_list", |bytes| ioctl::NetworkInterfaceInfo::decode_list(bytes).is_ok()),
    ("ErrorResponse::contexts", |bytes| ErrorResponse::decode(bytes).and_then(|error| error.contexts()).is_ok()),
    ("error contexts", |bytes| ErrorResponse { error_context_count: u8::MAX, error_data: bytes }.contexts().is_ok()),
    ("CompressionTransform", |bytes| match CompressionTransform::decode(bytes) {
        Ok(CompressionTransform::Chained(chained)) => chained.payloads().all(|payload| payload.is_ok()),
        Ok(CompressionTransform::Unchained(_)) => true,
        Err(_) => false,
    }),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smb2::testing::hex;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// All values of `StructureSize` at the start of a body.
    const STRUCTURE_SIZES: &[u16] = &[2, 4, 9, 12, 16, 17, 24, 25, 32, 33, 36, 41, 44, 48, 49, 57, 60, 65, 89];

    /// Generates bytes that look like offsets and lengths more often than random bytes do.
    fn byte() -> impl Strategy<Value = u8> {
        prop_oneof![3 => Just(0u8), 2 => 0..0xa0u8, 1 => any::<u8>()]
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_decoder_panic(bytes in vec(any::<u8>(), 0..200)) {
            for (_, decode) in MESSAGES.iter().chain(PARTS).chain(LISTS) {
                let _ = decode(&bytes);
            }
        }

        #[test]
        fn no_plausible_body_makes_a_decoder_panic(
            size in proptest::sample::select(STRUCTURE_SIZES),
            rest in vec(byte(), 0..300),
        ) {
            let message = [&[0; 64][..], &size.to_le_bytes(), &rest].concat();
            for (_, decode) in MESSAGES.iter().chain(LISTS) {
                let _ = decode(&message);
            }
            for (_, decode) in PARTS.iter().chain(LISTS) {
                let _ = decode(&rest);
            }
        }
    }

    #[test]
    fn a_table_names_each_decoder_once_and_each_refuses_something() {
        let all: Vec<&Decoder> = MESSAGES.iter().chain(PARTS).chain(LISTS).collect();
        let names: std::collections::BTreeSet<&str> = all.iter().map(|(name, _)| *name).collect();
        assert_eq!(names.len(), all.len());
        for (name, decode) in all {
            assert!([&[0xff; 3][..], &hex("ff53"), &[0xff; 600]].iter().any(|bytes| !decode(bytes)), "{name}");
        }
    }
}
