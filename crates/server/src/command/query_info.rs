//! QUERY_INFO ([MS-SMB2] 3.3.5.20, [MS-FSA] 2.1.5.12 to 2.1.5.14, 2.1.5.19): information about files, file systems and
//! security.

use proto::dtyp::AccessMask;
use proto::fscc::{FileInformationClass as Class, FsInformationClass as FsClass};
use proto::smb2::InfoType;
use proto::smb2::header::Header;
use proto::smb2::negotiate::Dialect;
use proto::smb2::query_info::{QueryInfoRequest, QueryInfoResponse};
use proto::status::Status;

use crate::error::{Error, Result};
use crate::information::Answer;
use crate::information::{ea, file, filesystem, pipe, printer, quota, security};
use crate::request::{Reply, Request};
use crate::state::open::{FileOpen, Open, Target};
use crate::streams;
use crate::tree::Disk;

pub(crate) async fn query_info(request: &Request<'_>, reply: &mut Reply) -> Result<Status> {
    let asked = QueryInfoRequest::decode(request.message)?;
    let max_transact = request.connection.negotiated().map_or(65536, |negotiated| negotiated.max_transact);
    if asked.output_buffer_length > max_transact || asked.buffer.len() > max_transact as usize {
        return Err(Error::because(Status::INVALID_PARAMETER, "the length exceeds MaxTransactSize"));
    }
    request.check_charge((asked.output_buffer_length as usize).max(asked.buffer.len()))?;
    let open = request.open(asked.file_id, reply)?;
    let (file, disk) = match (&open.target, open.tree.disk()) {
        (Target::File(file), Some(disk)) => (file, disk),
        (Target::Pipe(pipe), _) => return respond(&asked, &pipe::query(request, &asked, &open, &**pipe)?, reply),
        (Target::Job(job), _) => {
            return respond(&asked, &printer::query(&asked, &open, job).await?, reply);
        }
        (Target::Quotas(quotas), Some(disk)) => {
            let answer = match asked.info_type {
                InfoType::FILESYSTEM if FsClass(asked.file_info_class) == FsClass::POSIX => {
                    return Err(Error::because(Status::INVALID_INFO_CLASS, "not a POSIX open"));
                }
                InfoType::FILESYSTEM => filesystem::query(request, &asked, &quotas.node, &quotas.op, disk).await?,
                InfoType::QUOTA => quota::query(request, reply, &asked, quotas, disk).await?,
                _ => return Err(Error::because(Status::INVALID_DEVICE_REQUEST, "the quota file is not a file")),
            };
            return respond(&asked, &answer, reply);
        }
        _ => return Err(Error::new(Status::INVALID_PARAMETER)),
    };
    let answer = match asked.info_type {
        InfoType::FILE => query_file(request, &asked, &open, file, disk).await?,
        InfoType::FILESYSTEM if FsClass(asked.file_info_class) == FsClass::POSIX && !file.posix => {
            return Err(Error::because(Status::INVALID_INFO_CLASS, "not a POSIX open"));
        }
        InfoType::FILESYSTEM => filesystem::query(request, &asked, &file.node, &file.op, disk).await?,
        InfoType::SECURITY => {
            let shows_mode = request.shows_mode_to_mac();
            security::query(&asked, open.granted, file, disk, shows_mode).await?
        }
        InfoType::QUOTA => return Err(quota::other_handle()),
        _ => return Err(Error::new(Status::INVALID_PARAMETER)),
    };
    respond(&asked, &answer, reply)
}

fn respond(asked: &QueryInfoRequest<'_>, answer: &Answer, reply: &mut Reply) -> Result<Status> {
    let space = asked.output_buffer_length as usize;
    if asked.info_type == InfoType::SECURITY && answer.bytes.len() > space {
        // 3.3.5.20.3: the error contains the required size.
        let needed = (answer.bytes.len() as u32).to_le_bytes().to_vec();
        return Err(Error { data: needed, ..Error::new(Status::BUFFER_TOO_SMALL) });
    }
    if space < answer.fixed {
        return Err(Error::new(Status::INFO_LENGTH_MISMATCH));
    }
    let cut = answer.bytes.len().min(space);
    QueryInfoResponse { buffer: &answer.bytes[..cut] }.encode(&mut reply.body());
    debug_assert!(reply.outgoing.position() >= Header::SIZE);
    Ok(if cut < answer.bytes.len() || answer.more { Status::BUFFER_OVERFLOW } else { Status::SUCCESS })
}

async fn query_file(
    request: &Request<'_>,
    asked: &QueryInfoRequest<'_>,
    open: &Open,
    file: &FileOpen,
    disk: &Disk,
) -> Result<Answer> {
    let class = Class(asked.file_info_class);
    // [MS-SMB2] 3.3.5.20.1: the server fails FileNormalizedNameInformation on dialects before 3.1.1.
    if class == Class::NORMALIZED_NAME && request.connection.dialect() < Dialect::SMB_3_1_1 {
        return Err(Error::because(Status::NOT_SUPPORTED, "FileNormalizedNameInformation before 3.1.1"));
    }
    let needed = match class {
        // [MS-FSA] 2.1.5.12: classes with times and attributes need the right to read them.
        Class::BASIC | Class::ALL | Class::NETWORK_OPEN | Class::ATTRIBUTE_TAG | Class::POSIX => {
            AccessMask::FILE_READ_ATTRIBUTES.0
        }
        Class::FULL_EA => AccessMask::FILE_READ_EA.0,
        _ => 0,
    };
    if open.granted.0 & needed != needed {
        return Err(Error::new(Status::ACCESS_DENIED));
    }
    if class == Class::FULL_EA {
        return ea::query(asked, file, disk).await;
    }
    if class == Class::STREAM && crate::streams::convert::is_on(disk) {
        let node = streams::of(&file.node).map_or(&file.node, |stream| &stream.file);
        let (metadata, path) = (node.metadata(&file.op).await?, file.name.path.lock().clone());
        super::convert::convert(&request.connection.server.opens.streams, disk, (node, &metadata, &path)).await;
    }
    file::query(&request.connection.server, class, open, file, disk, request.hides_ids(disk)).await
}
