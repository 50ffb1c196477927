//! A connection to a scripted peer on loopback, for behaviour that no correct server shows on demand.

use std::time::Duration;

use proto::smb2::close::CloseResponse;
use proto::smb2::echo::{EchoRequest, EchoResponse};
use proto::smb2::read::{ReadResponse, ReadResponseFlags};
use proto::smb2::{FileId, OplockLevel};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::{Client, Window};

/// A client with plenty of credits, and the other end of its connection.
async fn pair() -> (Client, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let transport = Transport::connect(&[address], None, Duration::from_secs(20)).await.unwrap();
    let mut connection = Connection::new(transport, 64);
    connection.credits = 64;
    (Client { connection }, listener.accept().await.unwrap().0)
}

/// Reads the header of the next request, which has a frame of its own.
async fn request(peer: &mut TcpStream) -> Header {
    let length = peer.read_u32().await.unwrap();
    let mut message = vec![0; length as usize];
    peer.read_exact(&mut message).await.unwrap();
    Header::decode(&message).unwrap()
}

async fn answer(peer: &mut TcpStream, header: Header, encode: impl FnOnce(&mut Writer<'_>)) {
    let mut message = Vec::new();
    let mut out = Writer::new(&mut message);
    header.encode(&mut out);
    encode(&mut out);
    peer.write_u32(message.len() as u32).await.unwrap();
    peer.write_all(&message).await.unwrap();
}

fn whole(read: &Header) -> (Header, ReadResponse<'static>) {
    (read.response(Status::SUCCESS), ReadResponse { data_remaining: 0, flags: ReadResponseFlags(0), buffer: b"data" })
}

const FILE: FileId = FileId { persistent: 1, volatile: 2 };
/// The body of an ERROR response (2.2.2).
const REFUSED: [u8; 9] = [9, 0, 0, 0, 0, 0, 0, 0, 0];
const WINDOW: Window = Window { piece: 4, depth: 4 };

#[tokio::test]
async fn the_acknowledgment_of_a_break_at_the_end_of_a_file_is_not_awaited() {
    let (mut client, mut peer) = pair().await;
    let server = async {
        let read = request(&mut peer).await;
        let mut broken = Header::request(Command::OPLOCK_BREAK, 0).response(Status::SUCCESS);
        broken.message_id = Header::UNSOLICITED;
        let none = OplockBreak { oplock_level: OplockLevel::NONE, file_id: FILE };
        answer(&mut peer, broken, |out| OplockBreakNotification::Oplock(none).encode(out)).await;
        let (header, response) = whole(&read);
        answer(&mut peer, header, |out| response.encode(out)).await;
        // The peer is returned so that it stays open until the client is done. The client does not wait for the
        // response to its acknowledgment.
        let acknowledgment = request(&mut peer).await;
        assert_eq!(acknowledgment.command, Command::OPLOCK_BREAK);
        peer
    };
    let (read, _peer) = tokio::join!(client.read_file(FILE, 0..4, WINDOW, |_, data| assert_eq!(data, b"data")), server);
    read.unwrap();
    assert_eq!(client.in_flight(), 0);
}

#[tokio::test]
async fn an_error_in_a_pipeline_leaves_no_response_to_the_next_request() {
    let (mut client, mut peer) = pair().await;
    let server = async {
        let reads = [request(&mut peer).await, request(&mut peer).await, request(&mut peer).await];
        let refused = reads[0].response(Status::ACCESS_DENIED);
        answer(&mut peer, refused, |out| out.bytes(&REFUSED)).await;
        for read in &reads[1..] {
            let (header, response) = whole(read);
            answer(&mut peer, header, |out| response.encode(out)).await;
        }
        let close = request(&mut peer).await;
        answer(&mut peer, close.response(Status::SUCCESS), |out| CloseResponse::default().encode(out)).await;
    };
    let work = async {
        let refused = client.read_file(FILE, 0..12, WINDOW, |_, _| {}).await.unwrap_err();
        assert_eq!(refused.status(), Some(Status::ACCESS_DENIED));
        client.close(FILE).await.unwrap();
        assert_eq!(client.in_flight(), 0);
    };
    tokio::join!(work, server);
}

#[tokio::test]
async fn a_server_cannot_delay_a_response_forever() {
    let (mut client, mut peer) = pair().await;
    let server = async {
        let echo = request(&mut peer).await;
        for _ in 0..2 {
            let pending = echo.response(Status::PENDING).with_async_id(7);
            answer(&mut peer, pending, |out| out.bytes(&REFUSED)).await;
        }
        answer(&mut peer, echo.response(Status::SUCCESS), |out| EchoResponse.encode(out)).await;
    };
    let call = async { client.call(Command::ECHO, 1, |out| EchoRequest.encode(out)).await.map(|_| ()) };
    let (answered, ()) = tokio::join!(call, server);
    assert!(answered.unwrap_err().to_string().contains("second interim"));
}
