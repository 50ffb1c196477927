//! The tables of `frevo status`, with the terms of `smbstatus`.

use std::collections::HashMap;

use super::{HeldResources, Lock, Open, Session, Share, Status, Tree, Volume, volumes};
use crate::admin::message::Version;
use crate::health::Report;
use accounts::when;

/// Formats the health as text.
pub(super) fn health(report: &Report) -> String {
    let word = |yes: bool, word: &str| if yes { word.to_owned() } else { format!("not {word}") };
    let faults = report.faults.iter().map(|fault| format!("{fault}\n"));
    format!("{}, {}\n{}", word(report.live, "live"), word(report.ready, "ready"), faults.collect::<String>())
}

/// Formats the status as text.
pub(super) fn table(version: &Version, status: &Status) -> String {
    let mut text = format!(
        "Frevo {}, process {}, since {}: {} connections\nSandbox: {}\n\n",
        version.version,
        version.pid,
        when::utc(status.started),
        status.connections,
        if version.sandbox.is_empty() { "unknown" } else { &version.sandbox }
    );
    let by_id: Sessions<'_> = status.sessions.iter().map(|session| (session.session.as_str(), session)).collect();
    let sessions = status.sessions.iter().map(session_row).collect::<Vec<_>>();
    let heads = ["Session", "Username", "Uid", "Machine", "Protocol", "Encryption", "Signing", "Since"];
    section(&mut text, None, &heads, &sessions);
    let trees = status.trees.iter().map(|tree| tree_row(&by_id, tree)).collect::<Vec<_>>();
    section(&mut text, None, &["Service", "Session", "Machine", "Connected at", "Encrypted", "Opens"], &trees);
    let opens = status.opens.iter().map(|open| open_row(&by_id, open)).collect::<Vec<_>>();
    let heads = ["Session", "User", "DenyMode", "Access", "R/W", "Oplock", "Share", "Name", "Time"];
    section(&mut text, Some("Open files"), &heads, &opens);
    let watches = status.opens.iter().filter_map(watch_row).collect::<Vec<_>>();
    section(&mut text, Some("Watched folders"), &["Session", "Share", "Name", "Depth"], &watches);
    let locks = status.locks.iter().map(lock_row).collect::<Vec<_>>();
    section(&mut text, Some("Byte range locks"), &["Session", "Share", "Name", "Kind", "Start", "Size"], &locks);
    held(&mut text, &status.held);
    let stores = status.acl_store.iter().map(|(share, store)| vec![share.clone(), store.clone()]).collect::<Vec<_>>();
    if !stores.is_empty() {
        section(&mut text, Some("Converted ACLs that are stored"), &["Share", "POSIX ACL entries"], &stores);
    }
    let volumes = status.volumes.iter().map(Volume::row).collect::<Vec<_>>();
    if !volumes.is_empty() {
        section(&mut text, Some("Volumes of GlusterFS"), &volumes::HEADS, &volumes);
    }
    text
}

fn held(text: &mut String, held: &HeldResources) {
    let memory = |name: &str, held: u64, bound: u64| vec![name.to_owned(), size(held), size(bound)];
    let mut rows = vec![
        memory("memory", held.memory.held, held.memory.bound),
        memory("memory before a logon", held.before_logon.held, held.before_logon.bound),
    ];
    for usage in held.resources.iter().filter(|usage| usage.held > 0) {
        let bound = usage.bound.map_or("-".into(), |bound| usage.shown(bound));
        rows.push(vec![usage.name.clone(), usage.shown(usage.held), bound]);
    }
    section(text, Some("Resources used by clients"), &["Resource", "Used", "Limit"], &rows);
    let row = |share: &Share| vec![share.name.clone(), size(share.held), size(share.bound)];
    for (title, shares) in [("Memory by user", &held.users), ("Memory by address", &held.addresses)] {
        section(text, Some(title), &["Name", "Used", "Limit"], &shares.iter().map(row).collect::<Vec<_>>());
    }
}

/// Formats a number of bytes in the largest suitable unit.
pub(super) fn size(bytes: u64) -> String {
    let units = [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

fn session_row(session: &Session) -> Vec<String> {
    let user = match session.kind.as_str() {
        "user" => format!("{}\\{}", session.domain, session.user),
        kind => format!("({kind})"),
    };
    vec![
        session.session.clone(),
        user,
        session.uid.to_string(),
        machine(session),
        format!("SMB {}", session.dialect),
        session.encryption.clone().unwrap_or_else(|| "-".into()),
        session.signing.clone().unwrap_or_else(|| "-".into()),
        when::utc(session.since),
    ]
}

fn machine(session: &Session) -> String {
    match session.workstation.is_empty() {
        true => session.address.clone(),
        false => format!("{} ({})", session.workstation, session.address),
    }
}

/// Sessions by id.
type Sessions<'a> = HashMap<&'a str, &'a Session>;

fn tree_row(sessions: &Sessions<'_>, tree: &Tree) -> Vec<String> {
    vec![
        tree.share.clone(),
        tree.session.clone(),
        sessions.get(&*tree.session).map_or_else(|| "-".into(), |session| machine(session)),
        when::utc(tree.since),
        if tree.encrypted { "yes" } else { "-" }.into(),
        tree.opens.to_string(),
    ]
}

fn open_row(sessions: &Sessions<'_>, open: &Open) -> Vec<String> {
    let user = match (open.kept, sessions.get(&*open.session)) {
        (Some(seconds), _) => format!("(kept {seconds} s)"),
        (None, Some(session)) => session.user.clone(),
        (None, None) => "-".into(),
    };
    vec![
        open.session.clone(),
        user,
        deny_mode(&open.share_access).into(),
        format!("{:#x}", open.access),
        read_write(open.access).into(),
        open.caching.clone(),
        open.share.clone(),
        if open.path.is_empty() { ".".into() } else { open.path.clone() },
        when::utc(open.since),
    ]
}

fn watch_row(open: &Open) -> Option<Vec<String>> {
    let depth = open.watch.clone()?;
    let name = if open.path.is_empty() { ".".into() } else { open.path.clone() };
    Some(vec![open.session.clone(), open.share.clone(), name, depth])
}

fn lock_row(lock: &Lock) -> Vec<String> {
    vec![
        lock.session.clone(),
        lock.share.clone(),
        lock.path.clone(),
        if lock.exclusive { "exclusive" } else { "shared" }.into(),
        lock.offset.to_string(),
        lock.length.to_string(),
    ]
}

/// Returns the term of `smbstatus` for what other opens may not do.
fn deny_mode(share_access: &str) -> &'static str {
    match (share_access.contains('R'), share_access.contains('W')) {
        (true, true) => "DENY_NONE",
        (true, false) => "DENY_WRITE",
        (false, true) => "DENY_READ",
        (false, false) => "DENY_ALL",
    }
}

/// Returns the term of `smbstatus` for FILE_READ_DATA 1 and FILE_WRITE_DATA 2 or FILE_APPEND_DATA 4 ([MS-SMB2]
/// 2.2.13.1).
fn read_write(access: u32) -> &'static str {
    match (access & 1 != 0, access & 6 != 0) {
        (true, true) => "RDWR",
        (true, false) => "RDONLY",
        (false, true) => "WRONLY",
        (false, false) => "NONE",
    }
}

/// Appends the title, if any, and the table. A titled table without rows is only the title.
fn section(text: &mut String, title: Option<&str>, heads: &[&str], rows: &[Vec<String>]) {
    match title {
        Some(title) if rows.is_empty() => text.push_str(&format!("{title}: none\n")),
        Some(title) => text.push_str(&format!("{title}:\n{}\n", crate::table::table(heads, rows))),
        None => text.push_str(&format!("{}\n", crate::table::table(heads, rows))),
    }
}
