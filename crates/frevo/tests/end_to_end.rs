//! The built program and the project's own client over loopback, without root and without other programs.

mod served;

use client::{Access, Client, Credentials, Open, Options, Window};
use proto::fscc::{DirectoryClass, DirectoryEntry, FileInformationClass};
use proto::smb2::FileId;
use proto::smb2::create::CreateDisposition;
use proto::smb2::negotiate::{Dialect, NegotiateRequest};
use proto::status::Status;
use served::{Served, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[tokio::test]
async fn files_are_written_and_read_in_every_dialect() {
    let served = serve();
    let dialects = [Dialect::SMB_2_0_2, Dialect::SMB_2_1, Dialect::SMB_3_0, Dialect::SMB_3_0_2, Dialect::SMB_3_1_1];
    for dialect in dialects {
        for (sign, seal) in [(false, false), (true, false), (false, true)] {
            if seal && dialect.0 < Dialect::SMB_3_0.0 {
                continue;
            }
            let options = Options { dialects: vec![dialect], sign, seal, ..served.options.clone() };
            let what = format!("{dialect:?}, signed: {sign}, sealed: {seal}");
            let mut client =
                connect(&served, "share", &options).await.unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!((client.dialect(), client.protected()), (dialect, (sign, seal)));
            round_trip(&mut client).await.unwrap_or_else(|error| panic!("{what}: {error}"));
            client.log_off().await.expect("a log-off");
        }
    }
}

async fn connect(served: &Served, share: &str, options: &Options) -> client::Result<Client> {
    Client::connect(("127.0.0.1", served.port), "localhost", share, options).await
}

/// Creates a file, then writes, reads, lists, renames and deletes it.
async fn round_trip(client: &mut Client) -> client::Result<()> {
    client.echo().await?;
    let content: Vec<u8> = (0..3_000_000u32).map(|byte| (byte % 251) as u8).collect();
    let file = client.open(&Open::file("über.bin").with_disposition(CreateDisposition::CREATE)).await?;
    client.write(file, 5, &content[..60_000]).await?;
    let back = client.read(file, 0, 65536).await?;
    assert_eq!((&back[..5], &back[5..]), (&[0; 5][..], &content[..60_000]));
    assert_eq!(client.read(file, 1 << 40, 10).await?, b"", "after the end");
    whole_file(client, file, &content).await?;
    client.close(file).await?;
    let root = client.open(&Open::directory("")).await?;
    let class = FileInformationClass::ID_BOTH_DIRECTORY;
    let listing = client.query_directory(root, class.0, "*.bin", 65536).await?.unwrap_or_default();
    let class = DirectoryClass::new(class).expect("an information class of listings");
    let names: Vec<_> = DirectoryEntry::list(class, listing)
        .map(|entry| String::from_utf16_lossy(&proto::bytes::utf16_units(entry.expect("decodes").file_name).unwrap()))
        .collect();
    assert_eq!(names, ["über.bin"]);
    assert_eq!(
        client.query_directory(root, FileInformationClass::ID_BOTH_DIRECTORY.0, "*.bin", 65536).await?,
        None,
        "after the last"
    );
    client.close(root).await?;
    client.rename("über.bin", "unter.bin", false).await?;
    client.delete("unter.bin").await?;
    let gone = client.open(&Open::existing("unter.bin").with_access(Access::ATTRIBUTES)).await;
    assert_eq!(gone.expect_err("the file does not exist").status(), Some(Status::OBJECT_NAME_NOT_FOUND));
    let chained = client.touch(&Open::existing("über.bin")).await;
    assert_eq!(chained.expect_err("the file does not exist").status(), Some(Status::OBJECT_NAME_NOT_FOUND));
    assert_eq!(client.in_flight(), 0, "every response was received");
    client.rest();
    client.echo().await
}

/// Writes and reads a file with several concurrent requests.
async fn whole_file(client: &mut Client, file: FileId, content: &[u8]) -> client::Result<()> {
    let window = Window { piece: 200_000, depth: 5 };
    let at = |offset: u64, length: usize| &content[offset as usize..][..length];
    let range = 0..content.len() as u64;
    client.write_file(file, range.clone(), window, |offset, out| out.copy_from_slice(at(offset, out.len()))).await?;
    let mut bytes = 0;
    let check = |offset, data: &[u8]| {
        assert_eq!(data, at(offset, data.len()), "at {offset}");
        bytes += data.len();
    };
    client.read_file(file, range.clone(), window, check).await?;
    assert_eq!(bytes, content.len());
    let past = client.read_file(file, 0..range.end + 1, window, |_, _| {}).await;
    assert!(past.is_err(), "the range is past the end of the file");
    while client.in_flight() > 0 {
        client.next().await?;
    }
    Ok(())
}

/// Two connections of one session read and write the same open. The session outlives its first connection, and each
/// connection has keys of its own.
#[tokio::test]
async fn connections_of_a_session_share_its_opens() {
    let served = serve();
    for dialect in [Dialect::SMB_3_0, Dialect::SMB_3_0_2, Dialect::SMB_3_1_1] {
        for (sign, seal) in [(false, false), (true, false), (false, true)] {
            let options = Options { dialects: vec![dialect], sign, seal, multichannel: true, ..served.options.clone() };
            let mut first = connect(&served, "share", &options).await.expect("the first connection");
            let address = [([127, 0, 0, 1], served.port).into()];
            let mut second = first.bind(&address, "localhost", &options).await.expect("a second connection");
            assert_eq!(second.protected(), (sign, seal), "{dialect:?}");
            let file = first.open(&Open::file("both")).await.expect("a file");
            for round in 0..20 {
                let data = [round; 3000];
                first.write(file, 0, &data).await.expect("a WRITE on the first");
                assert_eq!(second.read(file, 0, 3000).await.expect("a READ on the second"), data);
                second.write(file, 9000, &data).await.expect("a WRITE on the second");
                assert_eq!(first.read(file, 9000, 3000).await.expect("a READ on the first"), data);
            }
            drop(first);
            second.flush_file(file).await.expect("the session is there");
            second.close(file).await.expect("the open is there");
            second.log_off().await.expect("a log-off");
        }
    }
}

/// [MS-SMB2] 3.2.1.1: the connections of a client send the same ClientGuid. Samba refuses the binding of a connection
/// with another one.
#[tokio::test]
async fn connections_of_a_session_have_one_client_guid() {
    let served = serve();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
    let address = listener.local_addr().expect("an address");
    let server = served.port;
    let negotiations = tokio::spawn(async move {
        let (mut first, _) = listener.accept().await.expect("a connection");
        let negotiate = frame(&mut first).await;
        let ours = client_guid(&negotiate);
        let mut onward = TcpStream::connect(("127.0.0.1", server)).await.expect("the server");
        onward.write_all(&negotiate).await.expect("forwarded");
        tokio::spawn(async move { tokio::io::copy_bidirectional(&mut first, &mut onward).await });
        let (mut second, _) = listener.accept().await.expect("a connection");
        [ours, client_guid(&frame(&mut second).await)]
    });
    let options = Options { multichannel: true, ..served.options.clone() };
    let first = Client::connect(address, "localhost", "share", &options).await.expect("the first connection");
    first.bind(&[address], "localhost", &options).await.err().expect("the second connection is not served");
    let [ours, bound] = negotiations.await.expect("two NEGOTIATE requests");
    assert_eq!(ours, bound);
}

/// Reads a message and its length ([MS-SMB2] 2.1).
async fn frame(stream: &mut TcpStream) -> Vec<u8> {
    let length = stream.read_u32().await.expect("a length");
    let mut frame = length.to_be_bytes().to_vec();
    frame.resize(4 + length as usize, 0);
    stream.read_exact(&mut frame[4..]).await.expect("a message");
    frame
}

fn client_guid(negotiate: &[u8]) -> [u8; 16] {
    NegotiateRequest::decode(&negotiate[4..]).expect("a NEGOTIATE request").client_guid
}

/// [MS-SMB2] 3.3.5.5: a session is bound only by its user, and only if multichannel was negotiated.
#[tokio::test]
async fn bindings_are_refused() {
    let served = serve();
    let options = Options { multichannel: true, ..served.options.clone() };
    let mut first = connect(&served, "share", &options).await.expect("the first connection");
    let address = [([127, 0, 0, 1], served.port).into()];
    let Credentials::Password { user, .. } = &options.credentials else { panic!("no password") };
    let wrong = Options { credentials: Credentials::password(user, "wrong"), ..options.clone() };
    let check = async |options: &Options, expected: Status| {
        let refused = first.bind(&address, "localhost", options).await.err().expect("a refusal");
        assert_eq!(refused.status(), Some(expected), "{refused}");
    };
    check(&wrong, Status::LOGON_FAILURE).await;
    check(&served.options, Status::REQUEST_NOT_ACCEPTED).await;
    first.echo().await.expect("the session is unchanged");
}

#[tokio::test]
async fn refusals_have_the_status_of_windows() {
    let served = serve();
    let check = async |options: &Options, share: &str, expected: Status| {
        let refused = connect(&served, share, options).await.err().unwrap_or_else(|| panic!("{share}: accepted"));
        assert_eq!(refused.status(), Some(expected), "{refused}");
    };
    let as_user = |user: &str, password: &str| Options {
        credentials: Credentials::password(user, password),
        ..served.options.clone()
    };
    let Credentials::Password { user, .. } = &served.options.credentials else { panic!("no password") };
    check(&as_user(user, "wrong"), "share", Status::LOGON_FAILURE).await;
    check(&as_user("nobody-of-that-name", "wrong"), "share", Status::LOGON_FAILURE).await;
    check(&served.options, "other", Status::BAD_NETWORK_NAME).await;
}

#[test]
fn parents_of_the_state_directory_are_not_writable_by_others() {
    use std::os::unix::fs::PermissionsExt;
    let served = served::serve_in("um/a/b/state");
    for made in ["um", "um/a", "um/a/b"] {
        let mode = std::fs::metadata(served.directory.path().join(made)).expect("it was made").permissions().mode();
        assert_eq!(mode & 0o7777, 0o755, "{made}");
    }
    let state = std::fs::metadata(served.directory.path().join("um/a/b/state")).expect("it was made");
    assert_eq!(state.permissions().mode() & 0o7777, 0o700);
}

#[test]
fn a_replaceable_state_directory_is_refused_with_a_remedy() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a temporary directory");
    let open = directory.path().join("open");
    std::fs::create_dir(&open).expect("a directory");
    std::fs::set_permissions(&open, PermissionsExt::from_mode(0o757)).expect("the owner may change the mode");
    let done = std::process::Command::new(env!("CARGO_BIN_EXE_frevo"))
        .arg("serve")
        .arg(directory.path())
        .args(["--bind", "127.0.0.1", "--port", "0", "--state-dir"])
        .arg(open.join("state"))
        .output()
        .expect("frevo starts");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && said.contains(&format!("chmod o-w {}", open.display())), "{said}");
}
