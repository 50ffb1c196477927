//! Related requests in one frame ([MS-SMB2] 3.2.4.1.4): open, do, close, in one round trip.

use proto::smb2::FileId;
use proto::smb2::close::{CloseFlags, CloseRequest};
use proto::smb2::create::CreateRequest;
use proto::smb2::header::{Command, Flags};
use proto::smb2::query_directory::QueryDirectoryRequest;
use proto::smb2::query_info::QueryInfoRequest;
use proto::smb2::read::ReadRequest;
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::write::WriteRequest;

use crate::client::charge;
use crate::{Client, Response, Result};

/// Requests about one open that go out together. Every request but the first is about the open of the CREATE: the file
/// ids of the requests are not looked at.
pub struct Chain<'a> {
    client: &'a mut Client,
    count: u64,
}

impl<'a> Chain<'a> {
    pub(crate) fn begin(client: &'a mut Client) -> Chain<'a> {
        client.connection.begin_frame();
        Chain { client, count: 0 }
    }

    /// Opens.
    pub fn create(self, request: &CreateRequest<'_>) -> Result<Self> {
        self.append(Command::CREATE, 1, |out| request.encode(out))
    }

    /// Asks for information.
    pub fn query_info(self, request: &QueryInfoRequest<'_>) -> Result<Self> {
        let request = QueryInfoRequest { file_id: FileId::ANY, ..*request };
        self.append(Command::QUERY_INFO, charge(request.output_buffer_length as usize), |out| request.encode(out))
    }

    /// Sets information.
    pub fn set_info(self, request: &SetInfoRequest<'_>) -> Result<Self> {
        let request = SetInfoRequest { file_id: FileId::ANY, ..*request };
        self.append(Command::SET_INFO, charge(request.buffer.len()), |out| request.encode(out))
    }

    /// Lists a directory.
    pub fn query_directory(self, request: &QueryDirectoryRequest<'_>) -> Result<Self> {
        let request = QueryDirectoryRequest { file_id: FileId::ANY, ..*request };
        self.append(Command::QUERY_DIRECTORY, charge(request.output_buffer_length as usize), |out| request.encode(out))
    }

    /// Reads.
    pub fn read(self, offset: u64, length: u32) -> Result<Self> {
        let request = ReadRequest { file_id: FileId::ANY, offset, length, ..ReadRequest::default() };
        self.append(Command::READ, charge(length as usize), |out| request.encode(out))
    }

    /// Writes.
    pub fn write(self, offset: u64, data: &[u8]) -> Result<Self> {
        let request = WriteRequest::new(FileId::ANY, offset, data);
        self.append(Command::WRITE, charge(data.len()), |out| request.encode(out))
    }

    /// Closes.
    pub fn close(self) -> Result<Self> {
        let request = CloseRequest { flags: CloseFlags::NONE, file_id: FileId::ANY };
        self.append(Command::CLOSE, 1, |out| request.encode(out))
    }

    fn append(
        mut self,
        command: Command,
        charge: u16,
        encode: impl FnOnce(&mut proto::bytes::Writer<'_>),
    ) -> Result<Self> {
        let flags = if self.count == 0 { Flags::NONE } else { Flags::RELATED_OPERATIONS };
        self.client.connection.append(command, charge, self.count, flags, encode)?;
        self.count += 1;
        Ok(self)
    }

    /// Sends the chain and gives each response, refusals too, with the number of its request to `take`.
    pub async fn each(self, mut take: impl FnMut(u64, &Response<'_>) -> Result<()>) -> Result<()> {
        self.client.connection.end_chain();
        self.client.connection.flush().await?;
        let mut done = Ok(());
        // What was sent is answered, so a failure may not leave responses to whoever asks next.
        for _ in 0..self.count {
            let response = self.client.connection.next().await?;
            if done.is_ok() {
                done = take(response.tag, &response);
            }
        }
        done
    }

    /// Sends the chain; an error when the server refused any part of it.
    pub async fn run(self) -> Result<()> {
        self.each(|_, response| response.succeeded()).await
    }
}
