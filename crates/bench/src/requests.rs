//! What is done with one open from CREATE to CLOSE: each request alone, as Windows sends them, or all of them as one
//! chain ([MS-SMB2] 3.2.4.1.4).
//!
//! Leaves out what Windows asks for beside: leases, and create contexts that only its cache has a use for.

use client::{Access, Client, Error, Open};
use proto::bytes::{Writer, utf16_bytes};
use proto::fscc::{FileInformationClass, FileRenameInformation};
use proto::smb2::create::{CreateDisposition, CreateOptions};
use proto::smb2::query_info::{QueryInfoRequest, QueryInfoResponse};
use proto::smb2::read::ReadResponse;
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::{FileId, InfoType};

/// How requests about one open go out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Requests {
    /// Each in a round trip of its own.
    Separate,
    /// All in one.
    Chained,
}

/// What is asked between CREATE and CLOSE.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Middle<'a> {
    Nothing,
    Write(&'a [u8]),
    Read(u32),
    Query(FileInformationClass, u32),
    Set(FileInformationClass, &'a [u8]),
}

impl Requests {
    /// Makes a file that is not there yet.
    pub async fn make(self, client: &mut Client, path: &str, content: &[u8]) -> client::Result<()> {
        let open = Open::file(path).with_disposition(CreateDisposition::CREATE);
        self.run(client, open, Middle::Write(content), |_| ()).await
    }

    /// Makes a file of `size` zeros that is not there yet, without writing them.
    pub async fn make_empty(self, client: &mut Client, path: &str, size: u64) -> client::Result<()> {
        let open = Open::file(path).with_disposition(CreateDisposition::CREATE);
        let end_of_file = size.to_le_bytes();
        let middle = match size {
            0 => Middle::Nothing,
            _ => Middle::Set(FileInformationClass::END_OF_FILE, &end_of_file),
        };
        self.run(client, open, middle, |_| ()).await
    }

    /// Reads up to `length` bytes from the beginning of a file and gives them to `take`.
    pub async fn read(
        self,
        client: &mut Client,
        path: &str,
        length: u32,
        take: impl FnMut(&[u8]),
    ) -> client::Result<()> {
        self.run(client, Open::existing(path), Middle::Read(length), take).await
    }

    /// Asks for the attributes of a file (FileNetworkOpenInformation) and answers its size.
    pub async fn size(self, client: &mut Client, path: &str) -> client::Result<u64> {
        let open = Open { options: CreateOptions::NONE, ..Open::existing(path).with_access(Access::ATTRIBUTES) };
        let mut size = None;
        // [MS-FSCC] 2.4.29: four times and the allocated size stand before the size; 56 bytes in all.
        let take =
            |data: &[u8]| size = data.get(40..48).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
        self.run(client, open, Middle::Query(FileInformationClass::NETWORK_OPEN, 56), take).await?;
        size.ok_or(Error::Protocol("FileNetworkOpenInformation that is too short"))
    }

    /// Renames a file to a name that is free.
    pub async fn rename(self, client: &mut Client, from: &str, to: &str) -> client::Result<()> {
        let file_name = utf16_bytes(to);
        let mut buffer = Vec::new();
        FileRenameInformation { replace_if_exists: false, root_directory: 0, file_name: &file_name }
            .encode(&mut Writer::new(&mut buffer));
        self.run(client, changed(from), Middle::Set(FileInformationClass::RENAME, &buffer), |_| ()).await
    }

    /// Deletes a file or an empty directory, by its disposition.
    pub async fn delete(self, client: &mut Client, path: &str) -> client::Result<()> {
        self.run(client, changed(path), Middle::Set(FileInformationClass::DISPOSITION, &[1]), |_| ()).await
    }

    /// Makes a directory that is not there yet.
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

/// What is renamed or deleted, be it a file or a directory.
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
