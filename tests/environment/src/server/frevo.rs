//! A release build of Frevo as the server under test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{PoisonError, RwLock};

use anyhow::Result;

use crate::People;
use crate::crowd::{Member, smbpasswd};
use crate::people::{CAROL, EVERYBODY};

/// The program that is started instead of the release build.
static OTHER: RwLock<Option<PathBuf>> = RwLock::new(None);

/// Returns the program: the one in `FREVO`, else a release build of this workspace.
pub(super) fn program() -> PathBuf {
    let root = || Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("/"));
    let other = || OTHER.read().unwrap_or_else(PoisonError::into_inner).clone();
    let built = || other().unwrap_or_else(|| root().join("target/release/frevo"));
    std::env::var_os("FREVO").map_or_else(built, PathBuf::from)
}

/// While this value exists, servers are started from another program than the release build.
pub struct OtherBuild(());

impl OtherBuild {
    /// Selects the program, unless `FREVO` specifies one.
    pub fn new(program: PathBuf) -> OtherBuild {
        *OTHER.write().unwrap_or_else(PoisonError::into_inner) = Some(program);
        OtherBuild(())
    }
}

impl Drop for OtherBuild {
    fn drop(&mut self) {
        *OTHER.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Returns lines for `[global]`: port, loopback only, its own state.
pub(super) fn globals(dir: &Path, port: u16) -> String {
    let dir = dir.display();
    format!(
        "\tworkgroup = WORKGROUP
\tsmb ports = {port}
\tinterfaces = 127.0.0.1/8
\tbind interfaces only = yes
\tstate directory = {dir}/state
"
    )
}

pub(super) fn add_accounts(people: &People, conf: &Path) -> Result<()> {
    let user = |verb: &str, name: &str, options: &[&str], input: &str| {
        let mut command = Command::new(program());
        command.args(["user", verb, name]).args(options).arg("-c").arg(conf);
        super::run(people.enter(&mut command), input)
    };
    for person in EVERYBODY {
        user("add", person.name, &["--password-stdin"], &format!("{}\n", person.password))?;
    }
    user("disable", CAROL.name, &[], "")
}

/// Creates the accounts of a crowd.
pub(super) fn import(people: &People, crowd: &[Member], conf: &Path) -> Result<()> {
    let mut command = Command::new(program());
    command.args(["user", "import", "-c"]).arg(conf).arg("-");
    super::run(people.enter(&mut command), &smbpasswd(crowd))
}

pub(super) fn command(dir: &Path, conf: &Path) -> Command {
    let mut command = Command::new(program());
    command.arg("serve").arg("-c").arg(conf).arg("--state-dir").arg(dir.join("state"));
    command
}
