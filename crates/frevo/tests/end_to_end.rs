//! The built program and the project's own client, over loopback: no root and no other program needed.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use client::{Client, Error, Options};
use proto::fscc::{DirectoryClass, DirectoryEntry, FileInformationClass};
use proto::smb2::create::{CreateDisposition, CreateOptions};
use proto::smb2::negotiate::Dialect;
use proto::status::Status;

/// A server that goes away with the test.
struct Served {
    process: Child,
    port: u16,
    options: Options,
    _directory: tempfile::TempDir,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `frevo serve` on a fresh directory, with the account that it makes.
fn serve() -> Served {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let share = directory.path().join("share");
    std::fs::create_dir(&share).expect("a directory to share");
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
    let mut process = Command::new(env!("CARGO_BIN_EXE_frevo"))
        .arg("serve")
        .arg(&share)
        .args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--log-level", "1", "--state-dir"])
        .arg(directory.path().join("state"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("frevo starts");
    // Read to the end of the text, so that the server can say all of it.
    let text = BufReader::new(process.stdout.take().expect("a pipe")).lines().map_while(Result::ok);
    let lines: Vec<String> = text.take_while(|line| !line.starts_with("More accounts")).collect();
    let word = |label: &str| {
        let line = lines.iter().find(|line| line.trim_start().starts_with(label));
        line.and_then(|line| line.split_whitespace().nth(1)).unwrap_or_default().to_string()
    };
    let (user, password) = (word("User"), word("Password"));
    let options = Options { user, password, dialects: vec![Dialect::SMB_3_1_1], seal: false };
    Served { process, port, options, _directory: directory }
}

#[tokio::test]
async fn files_come_back_in_every_dialect() {
    let served = serve();
    let dialects = [Dialect::SMB_2_0_2, Dialect::SMB_2_1, Dialect::SMB_3_0, Dialect::SMB_3_0_2, Dialect::SMB_3_1_1];
    for dialect in dialects {
        for seal in [false, true] {
            if seal && dialect.0 < Dialect::SMB_3_0.0 {
                continue;
            }
            let options = Options { dialects: vec![dialect], seal, ..served.options.clone() };
            let mut client = Client::connect(("127.0.0.1", served.port), "share", &options)
                .await
                .unwrap_or_else(|error| panic!("{dialect:?}, sealed: {seal}: {error}"));
            assert_eq!(client.dialect(), dialect);
            round_trip(&mut client).await.unwrap_or_else(|error| panic!("{dialect:?}, sealed: {seal}: {error}"));
            client.log_off().await.expect("a log-off");
        }
    }
}

/// Makes a file, writes, reads, lists and deletes it.
async fn round_trip(client: &mut Client) -> client::Result<()> {
    client.echo().await?;
    let content: Vec<u8> = (0..60_000u32).map(|byte| (byte % 251) as u8).collect();
    let file = client.open("über.bin", CreateDisposition::CREATE, CreateOptions::DELETE_ON_CLOSE).await?;
    client.write(file, 5, &content).await?;
    let back = client.read(file, 0, 65536).await?;
    assert_eq!((&back[..5], &back[5..]), (&[0; 5][..], &content[..]));
    assert_eq!(client.read(file, 1 << 40, 10).await?, b"", "behind the end");
    let root = client.open("", CreateDisposition::OPEN, CreateOptions::DIRECTORY_FILE).await?;
    let class = FileInformationClass::ID_BOTH_DIRECTORY;
    let listing = client.query_directory(root, class.0, "*.bin").await?.unwrap_or_default();
    let class = DirectoryClass::new(class).expect("a class of listings");
    let names: Vec<_> = DirectoryEntry::list(class, &listing)
        .map(|entry| String::from_utf16_lossy(&proto::bytes::utf16_units(entry.expect("decodes").file_name).unwrap()))
        .collect();
    assert_eq!(names, ["über.bin"]);
    client.close(root).await?;
    client.close(file).await?;
    let gone = client.open("über.bin", CreateDisposition::OPEN, CreateOptions::NONE).await;
    assert!(matches!(gone, Err(Error::Refused(Status::OBJECT_NAME_NOT_FOUND))));
    Ok(())
}

#[tokio::test]
async fn refusals_have_the_status_that_windows_gives() {
    let served = serve();
    let check = async |options: Options, share: &str, expected: Status| match Client::connect(
        ("127.0.0.1", served.port),
        share,
        &options,
    )
    .await
    {
        Err(Error::Refused(status)) => assert_eq!(status, expected),
        Err(error) => panic!("{share}: {error}"),
        Ok(_) => panic!("{share}: let in"),
    };
    let options = &served.options;
    check(Options { password: "wrong".into(), ..options.clone() }, "share", Status::LOGON_FAILURE).await;
    check(Options { user: "nobody-of-that-name".into(), ..options.clone() }, "share", Status::LOGON_FAILURE).await;
    check(options.clone(), "other", Status::BAD_NETWORK_NAME).await;
}
