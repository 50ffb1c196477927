//! The fields of an event, which its JSON object and its entry in the journal have.

use std::borrow::Cow;

use serde::Serialize;
use server::audit::{Administration, Became, Endpoint, Event, Logon, LogonEvent, Moved, Record};
use server::vfs::Time;

/// The fields that events have. A field that does not apply is absent.
#[derive(Serialize)]
pub(super) struct Fields<'a> {
    pub(super) time: String,
    pub(super) operation: &'a str,
    pub(super) result: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<Cow<'a, str>>,
    pub(super) user: &'a str,
    pub(super) address: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) share: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes_read: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes_written: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prefix: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) arguments: Option<&'a [String]>,
    /// [`json`](super::json) adds these to the object of a logon.
    #[serde(skip)]
    pub(super) logon: Option<OfLogon<'a>>,
}

/// The fields of a logon and of the end of a session.
#[derive(Serialize)]
pub(super) struct OfLogon<'a> {
    pub(super) port: u16,
    pub(super) method: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<&'a str>,
    pub(super) dialect: String,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    of_samba: Option<OfSamba<'a>>,
}

/// The object of Samba's class `auth_json_audit`.
#[derive(Serialize)]
struct OfSamba<'a> {
    timestamp: String,
    r#type: &'static str,
    #[serde(rename = "Authentication")]
    authentication: Authentication<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Authentication<'a> {
    version: Version,
    event_id: u32,
    logon_type: u32,
    status: String,
    local_address: String,
    remote_address: String,
    service_description: &'static str,
    auth_description: Option<&'static str>,
    client_domain: &'a str,
    client_account: &'a str,
    workstation: &'a str,
    became_account: Option<&'a str>,
    became_domain: Option<&'a str>,
    became_sid: Option<&'a str>,
    mapped_account: &'a str,
    mapped_domain: &'a str,
    password_type: &'a str,
}

/// The version of Samba's object.
#[derive(Serialize)]
struct Version {
    major: u32,
    minor: u32,
}

impl<'a> Fields<'a> {
    pub(super) fn of(event: &'a Event) -> Fields<'a> {
        match event {
            Event::Operation(record) => of_operation(record),
            Event::Logon(logon) => of_logon(logon),
            Event::Administration(change) => of_administration(change),
        }
    }
}

fn of_operation(record: &Record) -> Fields<'_> {
    let origin = &record.origin;
    let (bytes, bytes_read, bytes_written) = match record.moved {
        Moved::Nothing => (None, None, None),
        Moved::Once(bytes) => (Some(bytes), None, None),
        Moved::InAll { read, written } => (None, Some(read), Some(written)),
    };
    Fields {
        time: time(record.time) + "Z",
        operation: record.operation.name(),
        result: if record.failure.is_some() { "fail" } else { "ok" },
        error: record.failure.map(Cow::Borrowed),
        user: &origin.user,
        address: Cow::Borrowed(&origin.address),
        session: Some(session(origin.session)),
        share: Some(&origin.share),
        path: record.path(),
        bytes,
        bytes_read,
        bytes_written,
        prefix: Some(record.prefix()),
        arguments: Some(record.shown_arguments()),
        logon: None,
    }
}

fn of_logon(logon: &Logon) -> Fields<'_> {
    let became = logon.became.as_ref();
    let (fails, is_logon) = (logon.status.is_error(), logon.event == LogonEvent::Logon);
    Fields {
        time: time(logon.time) + "Z",
        operation: if is_logon { "logon" } else { "logoff" },
        result: if fails { "fail" } else { "ok" },
        error: fails.then(|| logon.status_name().into()),
        user: became.map_or(&logon.sent.user, |became| &became.name),
        address: logon.remote.ip().to_canonical().to_string().into(),
        session: Some(session(logon.session)),
        share: None,
        path: None,
        bytes: None,
        bytes_read: None,
        bytes_written: None,
        prefix: None,
        arguments: None,
        logon: Some(OfLogon {
            port: logon.remote.port(),
            method: logon.method,
            kind: became.map(|became| became.kind),
            dialect: crate::status::dialect(logon.dialect.0),
            of_samba: is_logon.then(|| of_samba(logon, became)),
        }),
    }
}

fn of_administration(change: &Administration) -> Fields<'_> {
    Fields {
        time: time(change.time) + "Z",
        operation: &change.operation,
        result: if change.failure.is_some() { "fail" } else { "ok" },
        error: change.failure.as_deref().map(Cow::Borrowed),
        user: &change.user,
        address: Cow::Borrowed(&change.address),
        session: None,
        share: None,
        path: None,
        bytes: None,
        bytes_read: None,
        bytes_written: None,
        prefix: None,
        arguments: Some(&change.arguments),
        logon: None,
    }
}

fn of_samba<'a>(logon: &'a Logon, became: Option<&'a Became>) -> OfSamba<'a> {
    // The identifiers of Windows' events, and a logon over the network, as in Samba.
    const ADMITTED: u32 = 4624;
    const REFUSED: u32 = 4625;
    const OVER_NETWORK: u32 = 3;
    OfSamba {
        timestamp: time(logon.time) + "+0000",
        r#type: "Authentication",
        authentication: Authentication {
            version: Version { major: 1, minor: 2 },
            event_id: if logon.status.is_error() { REFUSED } else { ADMITTED },
            logon_type: OVER_NETWORK,
            status: logon.status_name(),
            local_address: Endpoint(logon.local).to_string(),
            remote_address: Endpoint(logon.remote).to_string(),
            service_description: "SMB2",
            auth_description: logon.description(),
            client_domain: &logon.sent.domain,
            client_account: &logon.sent.user,
            workstation: &logon.sent.workstation,
            became_account: became.map(|it| &*it.name),
            became_domain: became.map(|it| &*it.domain),
            became_sid: became.map(|it| &*it.sid).filter(|sid| !sid.is_empty()),
            mapped_account: &logon.sent.user,
            mapped_domain: &logon.sent.domain,
            password_type: logon.method,
        },
    }
}

/// Returns the session as `frevo status` shows it.
fn session(id: u64) -> String {
    format!("{id:016x}")
}

/// Returns a time as in RFC 3339, in UTC, without the zone.
pub(super) fn time(time: Time) -> String {
    let (days, second) = (time.secs.div_euclid(86_400), time.secs.rem_euclid(86_400));
    let (year, month, day) = proto::calendar::date(days);
    let (hour, minute, second, micros) = (second / 3_600, second / 60 % 60, second % 60, time.nanos / 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}")
}
