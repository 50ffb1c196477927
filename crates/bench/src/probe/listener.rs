//! Finds the processes that listen on a TCP port: `/proc/net/tcp` lists the socket, and `/proc/PID/fd` the processes
//! that hold it.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::proc;

/// A listening socket, and the user that created it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Listener {
    inode: u64,
    user: u32,
}

/// Returns the processes that listen on `port`, without descendants of each other; see
/// [`super::Processes::listening_on`].
pub(super) fn pids(port: u16) -> Result<Vec<u32>> {
    let mut listeners = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = proc::there(fs::read_to_string(table)).with_context(|| format!("cannot read {table}"))?;
        // A machine without IPv6 does not have this table.
        listeners.extend(parse(&text.unwrap_or_default(), port));
    }
    if listeners.is_empty() {
        return Ok(Vec::new());
    }
    let (holders, denied) = holders(&listeners).context("cannot read /proc")?;
    ensure!(
        !holders.is_empty() || !denied,
        "a process of user {} listens on port {port}, but the descriptors of other users' processes cannot be read: \
         run as root, or give the pid of the server",
        listeners[0].user
    );
    Ok(topmost(holders)?)
}

/// Returns the sockets that listen on `port`. Sockets of the kernel itself have no inode and are left out.
fn parse(table: &str, port: u16) -> Vec<Listener> {
    table.lines().skip(1).filter_map(|line| listener(line, port)).collect()
}

fn listener(line: &str, port: u16) -> Option<Listener> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (_, local) = fields.get(1)?.rsplit_once(':')?;
    // TCP_LISTEN.
    let listens = u16::from_str_radix(local, 16) == Ok(port) && *fields.get(3)? == "0A";
    let listener = Listener { inode: fields.get(9)?.parse().ok()?, user: fields.get(7)?.parse().ok()? };
    (listens && listener.inode > 0).then_some(listener)
}

/// Returns the processes that hold one of these sockets open, and whether there are processes whose descriptors may not
/// be read.
fn holders(listeners: &[Listener]) -> io::Result<(HashSet<u32>, bool)> {
    let names: Vec<String> = listeners.iter().map(|it| format!("socket:[{}]", it.inode)).collect();
    let (mut holders, mut denied) = (HashSet::new(), false);
    for pid in proc::numbers(Path::new("/proc"))? {
        let path = format!("/proc/{pid}/fd");
        match proc::there(fs::read_dir(path)) {
            Ok(entries) => {
                let links =
                    entries.into_iter().flatten().flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
                if links.into_iter().any(|link| names.iter().any(|name| link.as_os_str() == name.as_str())) {
                    holders.insert(pid);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => denied = true,
            Err(error) => return Err(error),
        }
    }
    Ok((holders, denied))
}

/// Returns the holders that are not descendants of other holders, without this process. Processes that this
/// one started only inherit its sockets.
fn topmost(mut holders: HashSet<u32>) -> io::Result<Vec<u32>> {
    if holders.len() > 1 {
        holders.remove(&1);
    }
    let parents: HashMap<u32, u32> = proc::all()?.iter().map(|stat| (stat.id.pid, stat.parent)).collect();
    let has_ancestor = |pid: &u32| {
        std::iter::successors(parents.get(pid), |pid| parents.get(pid))
            .take(parents.len())
            .any(|it| holders.contains(it))
    };
    let mut pids: Vec<u32> = holders.iter().filter(|pid| !has_ancestor(pid)).copied().collect();
    pids.retain(|pid| *pid != std::process::id());
    pids.sort_unstable();
    Ok(pids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listening_sockets_of_the_port_are_returned() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
               0: 0100007F:01BD 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 705908 1 0 100\n\
               1: 0100007F:01BD 0100007F:9EC3 01 00000000:00000000 00:00000000 00000000     0        0 705247 1 0 100\n\
               2: 00000000000000000000000001000000:01BD 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 77 1 0\n\
               3: 00000000:01BE 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 99 1 0 100\n\
               4: 00000000:01BD 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 0 1 0 100\n\
               5: broken\n";
        let expected = [Listener { inode: 705_908, user: 1000 }, Listener { inode: 77, user: 0 }];
        assert_eq!(parse(table, 445), expected);
        assert_eq!(parse(table, 1), []);
        assert_eq!(parse("", 445), []);
    }
}
