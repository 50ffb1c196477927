//! Security descriptors of files through the pipe `srvsvc` ([MS-SRVS] 3.1.4.27, 3.1.4.28), as impacket queries and sets
//! them.

use anyhow::Result;

use crate::fixture::Fixture;
use crate::suite::Case;

// Samba ignores the parts that a client requests.
pub(super) const CASES: &[Case] = &[Case::new("rpc.file_security", file_security).frevo_only()];

fn file_security(fixture: &mut Fixture) -> Result<()> {
    fixture.script("file_security.py", &["files"]).map(drop)
}
