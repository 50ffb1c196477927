//! Where the files of a share are: in a directory of this host, or in a volume of GlusterFS.

use std::fmt;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where the files of a share are.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Storage {
    /// In a directory of this host.
    #[default]
    Directory,
    /// `vfs objects = glusterfs`: in a volume of GlusterFS.
    Gluster(Arc<GlusterVolume>),
}

impl Storage {
    /// Returns whether the files are in a directory of this host.
    pub fn is_directory(&self) -> bool {
        *self == Storage::Directory
    }
}

/// A volume of GlusterFS, and how it is used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GlusterVolume {
    /// `glusterfs:volume`: the name of the volume.
    pub volume: String,
    /// `glusterfs:volfile_server`: the servers that describe the volume, in the order in which they are asked.
    pub servers: Vec<VolfileServer>,
    /// `glusterfs:logfile`: the file to which GlusterFS's library writes its messages; `None` for none.
    pub log_file: Option<PathBuf>,
    /// `glusterfs:loglevel`, from 0 (none) to 9 (all messages).
    pub log_level: u32,
    /// `frevo:coherence`; `None` if the options of the volume decide.
    pub coherence: Option<Coherence>,
    /// `frevo:glusterfs threads`: the number of threads that make calls.
    pub threads: usize,
    /// `frevo:glusterfs timeout`: how long a call may take.
    pub timeout: Duration,
}

impl GlusterVolume {
    /// Returns a relative path for `path` inside the volume. Its first component identifies the volume.
    pub(super) fn location(&self, path: &Path) -> PathBuf {
        let servers: Vec<_> = self.servers.iter().map(VolfileServer::to_string).collect();
        // The path of a socket has slashes, and no NUL.
        let volume = format!("glusterfs {}@{}", self.volume, servers.join(" ")).replace('/', "\0");
        Path::new(&volume).join(path.strip_prefix("/").unwrap_or(path))
    }
}

/// `frevo:coherence`: how the server learns that others change files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coherence {
    /// Nobody else changes the files.
    Exclusive,
    /// The volume reports each change by others.
    Callback,
    /// Change times tell whether a file has changed.
    Timestamp,
}

/// A server that describes a volume.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VolfileServer {
    /// A host name or an address, and a port.
    Tcp {
        /// The host; an IPv6 address has no brackets.
        host: String,
        /// The port.
        port: u16,
    },
    /// A socket on this host.
    Unix(PathBuf),
}

impl fmt::Display for VolfileServer {
    /// Formats the server as in `glusterfs:volfile_server`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            VolfileServer::Tcp { host, port } if host.parse::<Ipv6Addr>().is_ok() => write!(out, "[{host}]:{port}"),
            VolfileServer::Tcp { host, port } => write!(out, "{host}:{port}"),
            VolfileServer::Unix(path) => write!(out, "unix+{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn volumes_have_locations_of_their_own() {
        let tcp = |host: &str| VolfileServer::Tcp { host: host.to_owned(), port: 24007 };
        let at = |name: &str, servers: &[VolfileServer], path: &str| {
            let Storage::Gluster(volume) = testing::gluster(name) else { unreachable!("it is a volume") };
            GlusterVolume { servers: servers.to_vec(), ..(*volume).clone() }.location(Path::new(path))
        };
        let root = at("v", &[tcp("a")], "/");
        assert!(root.is_relative() && root.components().count() == 1, "{root:?}");
        assert_eq!(at("v", &[tcp("a")], "/x/y"), root.join("x/y"));
        for (volume, servers) in [
            ("w", vec![tcp("a")]),
            ("v", vec![tcp("b")]),
            ("v", vec![tcp("a"), tcp("b")]),
            ("v", vec![VolfileServer::Unix("/a".into())]),
        ] {
            let other = at(volume, &servers, "/");
            assert!(other != root && other.components().count() == 1, "{other:?}");
        }
    }

    #[test]
    fn servers_are_formatted_as_in_the_configuration() {
        let tcp = |host: &str| VolfileServer::Tcp { host: host.to_owned(), port: 1 }.to_string();
        assert_eq!((tcp("a.b"), tcp("fd00::1")), ("a.b:1".to_owned(), "[fd00::1]:1".to_owned()));
        assert_eq!(VolfileServer::Unix("/run/x".into()).to_string(), "unix+/run/x");
    }
}
