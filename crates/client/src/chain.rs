//! Related requests in one frame ([MS-SMB2] 3.2.4.1.4), such as open, read and close in one round trip.

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

/// Requests about one open that are sent as one compound. Every request but the first refers to the open of the CREATE;
/// the file ids in the given requests are ignored.
pub struct Chain<'a> {
    client: &'a mut Client,
    count: u64,
}

impl<'a> Chain<'a> {
    pub(crate) fn begin(client: &'a mut Client) -> Chain<'a> {
        client.connection.begin_frame();
        Chain { client, count: 0 }
    }

    /// Appends a CREATE.
    pub fn create(self, request: &CreateRequest<'_>) -> Result<Self> {
        self.append(Command::CREATE, 1, |out| request.encode(out))
    }

    /// Appends a QUERY_INFO.
    pub fn query_info(self, request: &QueryInfoRequest<'_>) -> Result<Self> {
        let request = QueryInfoRequest { file_id: FileId::ANY, ..*request };
        self.append(Command::QUERY_INFO, charge(request.output_buffer_length as usize), |out| request.encode(out))
    }

    /// Appends a SET_INFO.
    pub fn set_info(self, request: &SetInfoRequest<'_>) -> Result<Self> {
        let request = SetInfoRequest { file_id: FileId::ANY, ..*request };
        self.append(Command::SET_INFO, charge(request.buffer.len()), |out| request.encode(out))
    }

    /// Appends a QUERY_DIRECTORY.
    pub fn query_directory(self, request: &QueryDirectoryRequest<'_>) -> Result<Self> {
        let request = QueryDirectoryRequest { file_id: FileId::ANY, ..*request };
        self.append(Command::QUERY_DIRECTORY, charge(request.output_buffer_length as usize), |out| request.encode(out))
    }

    /// Appends a READ.
    pub fn read(self, offset: u64, length: u32) -> Result<Self> {
        let request = ReadRequest { file_id: FileId::ANY, offset, length, ..ReadRequest::default() };
        self.append(Command::READ, charge(length as usize), |out| request.encode(out))
    }

    /// Appends a WRITE.
    pub fn write(self, offset: u64, data: &[u8]) -> Result<Self> {
        let request = WriteRequest::new(FileId::ANY, offset, data);
        self.append(Command::WRITE, charge(data.len()), |out| request.encode(out))
    }

    /// Appends a CLOSE.
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

    /// Sends the chain and passes each response, including error responses, to `take` with the index of its request.
    pub async fn each(self, mut take: impl FnMut(u64, &Response<'_>) -> Result<()>) -> Result<()> {
        self.client.connection.end_chain();
        self.client.connection.flush().await?;
        let mut done = Ok(());
        // Responses are received even after a failure, because otherwise the next caller would get them.
        for _ in 0..self.count {
            let response = self.client.connection.next().await?;
            if done.is_ok() {
                done = take(response.tag, &response);
            }
        }
        done
    }

    /// Sends the chain. Returns an error if the server refused any of its requests.
    pub async fn run(self) -> Result<()> {
        self.each(|_, response| response.succeeded()).await
    }
}
