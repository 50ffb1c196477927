//! Information classes of named pipes ([MS-FSCC] 2.4.37 to 2.4.39, 2.4.41), and the one class that can be set.

use proto::bytes::Reader;
use proto::dtyp::AccessMask;
use proto::fscc::{
    FileInformationClass as Class, FilePipeInformation, FilePipeRemoteInformation, FileStandardInformation,
};
use proto::smb2::InfoType;
use proto::smb2::query_info::QueryInfoRequest;
use proto::smb2::set_info::SetInfoRequest;
use proto::status::Status;

use crate::error::{Error, Result};
use crate::information::Answer;
use crate::information::encoded;
use crate::named_pipe::NamedPipe;
use crate::request::Request;
use crate::state::open::Open;

/// Answers the few classes that pipes support.
pub(crate) fn query(
    request: &Request<'_>,
    asked: &QueryInfoRequest<'_>,
    open: &Open,
    pipe: &dyn NamedPipe,
) -> Result<Answer> {
    if asked.info_type != InfoType::FILE {
        return Err(Error::new(Status::INVALID_PARAMETER));
    }
    let class = Class(asked.file_info_class);
    // [MS-SMB2] 3.3.5.20.1.
    if matches!(class, Class::PIPE | Class::PIPE_LOCAL | Class::PIPE_REMOTE) {
        need(open, AccessMask::FILE_READ_ATTRIBUTES)?;
    }
    let quota = request.connection.server.policy().limits.pipe_input;
    Ok(Answer::fixed(match class {
        Class::STANDARD => encoded(|out| STANDARD.encode(out)),
        Class::PIPE => encoded(|out| pipe.mode().encode(out)),
        Class::PIPE_LOCAL => encoded(|out| pipe.local_information(quota).encode(out)),
        Class::PIPE_REMOTE => encoded(|out| FilePipeRemoteInformation::default().encode(out)),
        _ => return Err(Error::because(Status::NOT_SUPPORTED, format!("{class:?} of a pipe"))),
    }))
}

/// Sets the read mode of the pipe.
pub(crate) fn set(asked: &SetInfoRequest<'_>, open: &Open, pipe: &dyn NamedPipe) -> Result<()> {
    if asked.info_type != InfoType::FILE || Class(asked.file_info_class) != Class::PIPE {
        return Err(Error::because(Status::NOT_SUPPORTED, "SET_INFO on a pipe"));
    }
    // [MS-SMB2] 3.3.5.21.1.
    need(open, AccessMask::FILE_WRITE_ATTRIBUTES)?;
    if asked.buffer.len() < FilePipeInformation::SIZE {
        return Err(Error::new(Status::INFO_LENGTH_MISMATCH));
    }
    pipe.set_mode(FilePipeInformation::decode(&mut Reader::new(asked.buffer))?)
}

fn need(open: &Open, right: AccessMask) -> Result<()> {
    if open.granted.contains(right) { Ok(()) } else { Err(Error::new(Status::ACCESS_DENIED)) }
}

const STANDARD: FileStandardInformation = FileStandardInformation {
    allocation_size: 4096,
    end_of_file: 0,
    number_of_links: 1,
    delete_pending: true,
    directory: false,
};
