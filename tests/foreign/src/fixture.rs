//! The fixture of every case: a test environment with a running server, its shares' directories, and the client
//! programs.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::suite::{Options, Tools};
use test_environment::{ALICE, Domain, Server, TestEnvironment};

/// The configuration of the server that the cases share.
pub(crate) const TEMPLATE: &str = include_str!("../smb.conf");

/// The environment, the server that all cases share, and paths.
pub(crate) struct Fixture {
    // Declared before the environment, so that servers end before their directory is removed.
    pub(crate) server: Server,
    /// If a domain cannot be created, that is not tried again, because each attempt takes long.
    domain: Option<Result<Domain, String>>,
    pub(crate) environment: TestEnvironment,
    pub(crate) python: PathBuf,
    tools: Option<Tools>,
}

impl Fixture {
    pub(crate) fn set(options: &Options) -> Result<Fixture> {
        let environment = TestEnvironment::make(options.target)?;
        for share in ["files", "sealed", "fixed", "local", "versions"] {
            environment.make_dir(&format!("data/{share}"), &ALICE, 0o777)?;
        }
        // Keeps the clients separate from the machine's own Samba.
        let client = environment.dir().join("client");
        fs::create_dir_all(client.join("run"))?;
        let mut conf = String::from("[global]\nworkgroup = WORKGROUP\nname resolve order = host\n");
        for kind in ["private dir", "lock directory", "state directory", "cache directory", "pid directory"] {
            conf.push_str(&format!("{kind} = {}\n", client.join("run").display()));
        }
        fs::write(client.join("smb.conf"), conf)?;
        let server = environment.start("server", TEMPLATE)?;
        let (python, tools) = (options.python.clone(), options.tools.clone());
        Ok(Fixture { server, environment, python, tools, domain: None })
    }

    /// Returns the client libraries of other languages.
    pub(crate) fn tools(&self) -> Result<&Tools> {
        self.tools.as_ref().context("this run does not include the client libraries of other languages")
    }

    /// Returns the domain, which is created for the first case that needs it.
    pub(crate) fn domain(&mut self) -> Result<&mut Domain> {
        if self.domain.is_none() {
            self.domain = Some(Domain::start(&self.environment).map_err(|error| format!("{error:#}")));
        }
        let made = self.domain.as_mut().context("the domain was just created")?;
        made.as_mut().map_err(|why| anyhow::anyhow!("no domain: {why}"))
    }

    /// Returns the directory of a share.
    pub(crate) fn share(&self, name: &str) -> PathBuf {
        self.environment.dir().join("data").join(name)
    }

    /// Returns a new directory for local files of clients.
    pub(crate) fn local(&self, name: &str) -> Result<PathBuf> {
        let path = self.environment.dir().join("local").join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path)?;
        Ok(path)
    }
}
