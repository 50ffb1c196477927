//! Operations on one open, from CREATE to CLOSE. The requests are sent separately, as Windows sends them, or as one
//! compound chain ([MS-SMB2] 3.2.4.1.4).
//!
//! They omit other things that Windows requests: leases, and create contexts that only the Windows client cache uses.

use client::{Access, Client, Error, Open};
use proto::bytes::{Writer, utf16_bytes};
use proto::fscc::{FileInformationClass, FileRenameInformation};
use proto::smb2::create::{CreateDisposition, CreateOptions};
use proto::smb2::query_info::{QueryInfoRequest, QueryInfoResponse};
use proto::smb2::read::ReadResponse;
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::{FileId, InfoType};

/// How the requests of one open are sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requests {
    /// Each request in its own round trip.
    Separate,
    /// All requests in one compound chain.
    Chained,
}

/// The request between CREATE and CLOSE.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Middle<'a> {
    Nothing,
    Write(&'a [u8]),
    Read(u32),
    Query(FileInformationClass, u32),
    Set(FileInformationClass, &'a [u8]),
}

impl Requests {
    /// Creates a new file and writes `content` to it.
    pub async fn make(self, client: &mut Client, path: &str, content: &[u8]) -> client::Result<()> {
        let open = Open::file(path).with_disposition(CreateDisposition::CREATE);
        self.run(client, open, Middle::Write(content), |_| ()).await
    }

    /// Creates a new file of `size` zeros without writing them.
    pub async fn make_empty(self, client: &mut Client, path: &str, size: u64) -> client::Result<()> {
        let open = Open::file(path).with_disposition(CreateDisposition::CREATE);
        let end_of_file = size.to_le_bytes();
        let middle = match size {
            0 => Middle::Nothing,
            _ => Middle::Set(FileInformationClass::END_OF_FILE, &end_of_file),
        };
        self.run(client, open, middle, |_| ()).await
    }

    /// Reads up to `length` bytes from the start of a file and passes them to `take`.
    pub async fn read(
        self,
        client: &mut Client,
        path: &str,
        length: u32,
        take: impl FnMut(&[u8]),
    ) -> client::Result<()> {
        self.run(client, Open::existing(path), Middle::Read(length), take).await
    }

    /// Queries the attributes of a file (FileNetworkOpenInformation) and returns its size.
    pub async fn size(self, client: &mut Client, path: &str) -> client::Result<u64> {
        let open = Open { options: CreateOptions::NONE, ..Open::existing(path).with_access(Access::ATTRIBUTES) };
        let mut size = None;
        // [MS-FSCC] 2.4.29: four times and the allocation size precede the end of file; 56 bytes in all.
        let take =
            |data: &[u8]| size = data.get(40..48).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
        self.run(client, open, Middle::Query(FileInformationClass::NETWORK_OPEN, 56), take).await?;
        size.ok_or(Error::Protocol("FileNetworkOpenInformation is too short"))
    }

    /// Renames a file to a name that does not exist.
    pub async fn rename(self, client: &mut Client, from: &str, to: &str) -> client::Result<()> {
        let file_name = utf16_bytes(to);
        let mut buffer = Vec::new();
        FileRenameInformation { replace_if_exists: false, root_directory: 0, file_name: &file_name }
            .encode(&mut Writer::new(&mut buffer));
        self.run(client, changed(from), Middle::Set(FileInformationClass::RENAME, &buffer), |_| ()).await
    }

    /// Deletes a file or an empty directory with FileDispositionInformation.
    pub async fn delete(self, client: &mut Client, path: &str) -> client::Result<()> {
        self.run(client, changed(path), Middle::Set(FileInformationClass::DISPOSITION, &[1]), |_| ()).await
    }

    /// Creates a new directory.
    pub async fn make_directory(self, client: &mut Client, path: &str) -> client::Result<()> {
        let open = Open::directory(path).with_disposition(CreateDisposition::CREATE);
        self.run(client, open, Middle::Nothing, |_| ()).await
    }

    async fn run(
        self,
        client: &mut Client,
        open: Open<'_>,
        middle: Middle<'_>,
        take: impl FnMut(&[u8]),
    ) -> client::Result<()> {
        match self {
            Requests::Separate => separate(client, open, middle, take).await,
            Requests::Chained => chained(client, open, middle, take).await,
        }
    }
}

/// Returns an open for renaming or deleting a file or a directory.
fn changed(path: &str) -> Open<'_> {
    Open { options: CreateOptions::NONE, ..Open::deleted(path) }
}

async fn separate(
    client: &mut Client,
    open: Open<'_>,
    middle: Middle<'_>,
    mut take: impl FnMut(&[u8]),
) -> client::Result<()> {
    let file_id = client.open(&open).await?;
    match middle {
        Middle::Nothing => {}
        Middle::Write(data) => client.write(file_id, 0, data).await?,
        Middle::Read(length) => take(client.read(file_id, 0, length).await?),
        Middle::Query(class, length) => take(client.query_info(&query(file_id, class, length)).await?),
        Middle::Set(class, buffer) => client.set_info(&set(file_id, class, buffer)).await?,
    }
    client.close(file_id).await
}

async fn chained(
    client: &mut Client,
    open: Open<'_>,
    middle: Middle<'_>,
    mut take: impl FnMut(&[u8]),
) -> client::Result<()> {
    let name = utf16_bytes(open.name);
    let begun = client.chain().create(&open.request(&name))?;
    let chain = match middle {
        Middle::Nothing => begun,
        Middle::Write(data) => begun.write(0, data)?,
        Middle::Read(length) => begun.read(0, length)?,
        Middle::Query(class, length) => begun.query_info(&query(FileId::ANY, class, length))?,
        Middle::Set(class, buffer) => begun.set_info(&set(FileId::ANY, class, buffer))?,
    };
    let answered = chain.close()?.each(|number, response| {
        response.succeeded()?;
        match middle {
            Middle::Read(_) if number == 1 => take(ReadResponse::decode(response.message)?.buffer),
            Middle::Query(..) if number == 1 => take(QueryInfoResponse::decode(response.message)?.buffer),
            _ => {}
        }
        Ok(())
    });
    answered.await
}

fn query(file_id: FileId, class: FileInformationClass, length: u32) -> QueryInfoRequest<'static> {
    QueryInfoRequest {
        info_type: InfoType::FILE,
        file_info_class: class.0,
        output_buffer_length: length,
        file_id,
        ..QueryInfoRequest::default()
    }
}

fn set(file_id: FileId, class: FileInformationClass, buffer: &[u8]) -> SetInfoRequest<'_> {
    let file_info_class = class.0;
    SetInfoRequest { info_type: InfoType::FILE, file_info_class, buffer, file_id, ..SetInfoRequest::default() }
}
