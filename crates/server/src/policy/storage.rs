//! Where the files of a share are: in a directory of this host, or in a volume of GlusterFS.

use std::path::PathBuf;
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
