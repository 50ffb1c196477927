//! Information classes of print jobs: those that clients query of a file that they write.

use proto::dtyp::FileTime;
use proto::fscc::{
    DeviceCharacteristics, DeviceType, FileAttributes, FileBasicInformation, FileFsDeviceInformation,
    FileInformationClass as Class, FileStandardInformation, FsInformationClass,
};
use proto::smb2::InfoType;
use proto::smb2::query_info::QueryInfoRequest;
use proto::status::Status;

use crate::error::{Error, Result};
use crate::information::Answer;
use crate::information::encoded;
use crate::state::open::{Open, SpooledJob};

/// Answers the classes that print jobs support.
pub(crate) async fn query(asked: &QueryInfoRequest<'_>, open: &Open, job: &SpooledJob) -> Result<Answer> {
    let spool = job.spool.lock().await;
    let spool = spool.as_ref().ok_or(Error::new(Status::FILE_CLOSED))?;
    let metadata = spool.node.metadata(&spool.op).await?;
    let created = FileTime::from(open.created);
    let class = Class(asked.file_info_class);
    Ok(Answer::fixed(match asked.info_type {
        InfoType::FILE if class == Class::STANDARD => encoded(|out| {
            FileStandardInformation {
                allocation_size: metadata.allocated,
                end_of_file: metadata.size,
                number_of_links: 1,
                delete_pending: false,
                directory: false,
            }
            .encode(out);
        }),
        InfoType::FILE if class == Class::BASIC => encoded(|out| {
            FileBasicInformation {
                creation_time: created,
                last_access_time: created,
                last_write_time: FileTime::from(metadata.modified),
                change_time: FileTime::from(metadata.changed),
                file_attributes: FileAttributes::NORMAL,
            }
            .encode(out);
        }),
        InfoType::FILESYSTEM if FsInformationClass(asked.file_info_class) == FsInformationClass::DEVICE => {
            encoded(|out| {
                FileFsDeviceInformation {
                    device_type: DeviceType::PRINTER,
                    characteristics: DeviceCharacteristics::REMOTE_DEVICE,
                }
                .encode(out);
            })
        }
        _ => return Err(Error::because(Status::NOT_SUPPORTED, "this information about a print job")),
    }))
}
