//! Samba's own counters (`smbd profiling level = count`), read with smbstatus.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use test_environment::{Server, TestEnvironment};

/// smbd's counters since its start, by command.
pub(crate) type Profile = BTreeMap<&'static str, Counted>;

/// The counters of one command.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Counted {
    /// Number of requests served.
    pub(crate) requests: u64,
    /// Bytes of the requests, from the header on.
    pub(crate) received: u64,
    /// Bytes of the responses, from the header on.
    pub(crate) sent: u64,
}

/// The commands used by a replay, with smbstatus's names.
pub(crate) const COMMANDS: [(&str, u16); 9] = [
    ("smb2_create", 5),
    ("smb2_close", 6),
    ("smb2_flush", 7),
    ("smb2_read", 8),
    ("smb2_write", 9),
    ("smb2_lock", 10),
    ("smb2_find", 14),
    ("smb2_getinfo", 16),
    ("smb2_setinfo", 17),
];

/// Reads the counters once they no longer change, because each process of smbd reports its own from time to time.
pub(crate) fn read(environment: &TestEnvironment, server: &Server) -> Result<Profile> {
    let mut last = now(environment, server)?;
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(1500));
        let next = now(environment, server)?;
        if next == last {
            return Ok(next);
        }
        last = next;
    }
    anyhow::bail!("smbd's counters keep changing")
}

fn now(environment: &TestEnvironment, server: &Server) -> Result<Profile> {
    let mut command = Command::new("smbstatus");
    command.args(["--profile", "--json", "--configfile"]).arg(server.conf()).stdin(Stdio::null());
    let out = environment.people().enter(&mut command).output().context("cannot start smbstatus")?;
    ensure!(out.status.success(), "smbstatus failed: {}", String::from_utf8_lossy(&out.stderr));
    parse(&String::from_utf8(out.stdout)?)
}

fn parse(json: &str) -> Result<Profile> {
    let all: Value = serde_json::from_str(json).context("smbstatus printed no JSON")?;
    let counter = |command: &str, name: &str| {
        let value = all.pointer(&format!("/SMB2 Calls/{command}/{name}")).and_then(Value::as_u64);
        value.with_context(|| format!("smbstatus has no {name} of {command}; is profiling on?"))
    };
    let counted = |command| -> Result<Counted> {
        Ok(Counted {
            requests: counter(command, "count")?,
            received: counter(command, "inbytes")?,
            sent: counter(command, "outbytes")?,
        })
    };
    COMMANDS.iter().map(|(command, _)| Ok((*command, counted(command)?))).collect()
}

/// Returns the differences between two readings.
pub(crate) fn since(before: &Profile, after: &Profile) -> Profile {
    let difference = |(command, after): (&&'static str, &Counted)| {
        let before = before.get(command).copied().unwrap_or_default();
        let counted = Counted {
            requests: after.requests - before.requests,
            received: after.received - before.received,
            sent: after.sent - before.sent,
        };
        (*command, counted)
    };
    after.iter().map(difference).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_and_subtracted() {
        let json = |count: u64| {
            let calls: Vec<String> = COMMANDS
                .iter()
                .map(|(name, _)| format!(r#""{name}": {{"count": {count}, "inbytes": {}, "outbytes": 7}}"#, count * 10))
                .collect();
            format!(r#"{{"SMB2 Calls": {{{}}}}}"#, calls.join(","))
        };
        let difference = since(&parse(&json(2)).unwrap(), &parse(&json(5)).unwrap());
        assert_eq!(difference["smb2_read"], Counted { requests: 3, received: 30, sent: 0 });
        assert!(parse("{}").unwrap_err().to_string().contains("is profiling on?"));
    }
}
