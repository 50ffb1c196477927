//! Volumes of GlusterFS: where they are and how they are used, as for Samba's module glusterfs.

use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use server::policy::{Coherence, GlusterVolume, Share, Storage, VolfileServer};

use super::{Kind, LIST, PATH, Parameter, TEXT, share};
use crate::problem::{Code, error, without_effect};
use crate::reader::ValueReader;
use crate::share::modules;

/// The port of glusterd.
const PORT: u16 = 24007;

const SERVERS: Parameter = share(
    "glusterfs:volfile_server",
    LIST,
    "localhost",
    "The servers that describe the volume: host, host:port, [IPv6 address]:port or unix+/path, in order of preference.",
)
.read_by_others();

const LOG_FILE: Parameter = share(
    "glusterfs:logfile",
    PATH,
    "",
    "The log file of the GlusterFS library; empty: none. A volume has a single log, so %m, %M and %I mean frevo.",
)
.read_by_others();

const LOG_LEVEL: Parameter = share(
    "glusterfs:loglevel",
    Kind::Integer(0, 9),
    "7",
    "Verbosity of glusterfs:logfile, 0 for nothing to 9 for all.",
)
.read_by_others();

pub(crate) const COHERENCE: Parameter = share(
    "frevo:coherence",
    Kind::Choice(&[&["auto"], &["exclusive"], &["callback"], &["timestamp"]]),
    "auto",
    "How changes of the GlusterFS volume by others are noticed; with exclusive there are none, and clients may cache \
     files; auto: according to the options of the volume. Not in Samba.",
)
.read_by_others();

const THREADS: Parameter = share(
    "frevo:glusterfs threads",
    Kind::Integer(2, 64),
    "16",
    "The number of threads that make calls to the GlusterFS volume. Not in Samba.",
)
.read_by_others();

const TIMEOUT: Parameter = share(
    "frevo:glusterfs timeout",
    Kind::Integer(1, 86_400),
    "30",
    "Seconds that a call to the GlusterFS volume may take. Not in Samba.",
)
.read_by_others();

const VOLUME: Parameter =
    share("glusterfs:volume", TEXT, "", "The GlusterFS volume with the files of the share; empty: the share's name.")
        .reads(read);

pub(super) static TABLE: &[Parameter] = &[VOLUME, SERVERS, LOG_FILE, LOG_LEVEL, COHERENCE, THREADS, TIMEOUT];

fn read(volume: ValueReader<'_>, share: &mut Share) {
    let section = volume.section;
    if !modules::is_in_volume(&section) {
        for value in TABLE.iter().map(|parameter| section.value(parameter)).filter(|value| value.is_set_in_share()) {
            let why = "the share is not in a GlusterFS volume (`vfs objects = glusterfs`)";
            value.report(without_effect(Code::Accepted, format!("`{}`", value.name()), why));
        }
        return;
    }
    share.storage = Storage::Gluster(Arc::new(GlusterVolume {
        volume: name(volume, share),
        servers: servers(section.value(&SERVERS)),
        log_file: log_file(section.value(&LOG_FILE)),
        log_level: section.value(&LOG_LEVEL).number().unwrap_or_default(),
        coherence: match section.value(&COHERENCE).choice().as_str() {
            "exclusive" => Some(Coherence::Exclusive),
            "callback" => Some(Coherence::Callback),
            "timestamp" => Some(Coherence::Timestamp),
            _ => None,
        },
        threads: section.value(&THREADS).number::<u16>().unwrap_or_default().into(),
        timeout: Duration::from_secs(section.value(&TIMEOUT).number().unwrap_or_default()),
    }));
}

/// Returns the name of the volume. That of a snapshot is a path.
fn name(value: ValueReader<'_>, share: &Share) -> String {
    let is_name = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_/".contains(&byte));
    let text = value.text();
    if text.is_empty() {
        if !is_name(&share.name) {
            let message = format!("`{}` cannot be the name of a GlusterFS volume", share.name);
            value.section.report_share(error(Code::BadValue, message).remedy("set `glusterfs:volume`"));
        }
        return share.name.clone();
    }
    if !is_name(&text) {
        value.bad_value(&text, "the name of a volume, of letters, digits, `-` and `_`, or /snaps/SNAPSHOT/VOLUME");
    }
    text
}

fn servers(value: ValueReader<'_>) -> Vec<VolfileServer> {
    const ALLOWED: &str = "host, host:port, [IPv6 address], [IPv6 address]:port, each also after tcp+, and unix+/path, \
                           separated by blanks";
    let elements = value.list();
    if value.plain_list().is_empty() {
        value.bad_value("", ALLOWED);
    }
    let read = |element: &String| {
        let server = server(element);
        if element.starts_with("rdma+") {
            value.bad_value(element, &format!("{ALLOWED}; GlusterFS 8 removed RDMA"));
        } else if server.is_none() {
            value.bad_value(element, ALLOWED);
        }
        server
    };
    elements.iter().filter_map(read).collect()
}

/// Reads one server.
fn server(text: &str) -> Option<VolfileServer> {
    if let Some(path) = text.strip_prefix("unix+") {
        return Path::new(path).is_absolute().then(|| VolfileServer::Unix(path.into()));
    }
    let text = text.strip_prefix("tcp+").unwrap_or(text);
    let (host, port) = match text.strip_prefix('[') {
        Some(text) => text.split_once(']').filter(|(address, _)| address.parse::<Ipv6Addr>().is_ok())?,
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let port = match port.strip_prefix(':') {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok().filter(|&it| it > 0)?,
        None if port.is_empty() => PORT,
        _ => return None,
    };
    let is_host = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte));
    (is_host && !host.is_empty()).then(|| VolfileServer::Tcp { host: host.to_owned(), port })
}

fn log_file(value: ValueReader<'_>) -> Option<PathBuf> {
    // In Samba a volume is opened for each client, and `%M` gives each its own log.
    let path = PathBuf::from(value.template().expand(|_| Some("frevo".to_owned())).unwrap_or_default());
    if path.is_relative() && !path.as_os_str().is_empty() {
        value.bad_value(&value.normalized(), "an absolute path");
    }
    path.is_absolute().then_some(path)
}
