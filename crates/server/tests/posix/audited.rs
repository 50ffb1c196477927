//! `vfs objects = full_audit` records the names of POSIX opens as they are.

use std::sync::Arc;
use std::time::Duration;

use proto::smb2::create::{CreateDisposition as Disposition, CreateOptions as Options};
use proto::status::Status;
use server::audit::{Destinations, Queue};
use server::policy::audit::{Audit, Destination, Operations};
use server::testing::TestServer;

use crate::client::{ALL, Client, READ};

/// One queue for all destinations.
#[derive(Default)]
struct Lines(Arc<Queue>);

impl Destinations for Lines {
    fn queue(&self, _: &Destination) -> Arc<Queue> {
        Arc::clone(&self.0)
    }
}

impl Lines {
    /// Returns the lines since the last call that begin with this operation.
    fn of(&self, operation: &str) -> Vec<String> {
        let mut found = Vec::new();
        loop {
            let batch = self.0.next(Duration::ZERO);
            if batch.events.is_empty() {
                return found;
            }
            self.0.written(batch.events.len(), 0);
            let lines = batch.events.iter().map(ToString::to_string);
            found.extend(lines.filter(|line| line.contains(&format!("|{operation}|"))));
        }
    }
}

#[test]
fn a_name_with_a_colon_is_not_a_stream() {
    let lines = Arc::new(Lines::default());
    let server = TestServer::builder()
        .configure(|policy| policy.smb3_unix_extensions = true)
        .audit(Arc::clone(&lines) as Arc<dyn Destinations>)
        .share(|share| {
            share.audit =
                Some(Arc::new(Audit { success: Operations::ALL, failure: Operations::ALL, ..Audit::default() }));
        })
        .start();
    let mut alice = Client::posix(&server, "alice");
    let (status, options) = (Status::OBJECT_NAME_NOT_FOUND, Options(0));
    for name in ["a:b", "a:b:$DATA", "c:d. "] {
        assert_eq!(alice.look(name), status);
        let line = lines.of("create_file");
        assert!(matches!(&*line, [one] if one.ends_with(&format!("|file|open|/share/{name}"))), "{line:?}");
    }
    // For a client without the create context it is a stream, in the same format.
    assert_eq!(alice.create("a:b", READ, Disposition::OPEN, options, None).err(), Some(status));
    let line = lines.of("create_file");
    assert!(matches!(&*line, [one] if one.contains("/share/a:b")), "{line:?}");
    // Both names of a refused rename and hard link.
    alice.put("x:y", b"");
    alice.put("z:1", b"");
    lines.of("");
    let file = alice.open("x:y", ALL);
    assert_eq!(alice.rename_by(file, "z:1", false), Status::OBJECT_NAME_COLLISION);
    let line = lines.of("renameat");
    assert!(matches!(&*line, [one] if one.ends_with("|/share/x:y|/share/z:1")), "{line:?}");
}
