//! An event as an entry of the journal, in the journal's native protocol: a datagram with a field in each line. A value
//! with a line feed follows its length instead (<https://systemd.io/JOURNAL_NATIVE_PROTOCOL/>).

use server::audit::Event;

use super::fields::Fields;
use super::output::PROGRAM;

/// Returns the datagram of an event.
pub(super) fn entry(event: &Event) -> Vec<u8> {
    let (fields, priority) = (Fields::of(event), event.priority());
    let mut entry = Vec::with_capacity(512);
    let mut field = |name: &str, value: &str| {
        entry.extend_from_slice(name.as_bytes());
        if value.contains('\n') {
            entry.push(b'\n');
            entry.extend_from_slice(&(value.len() as u64).to_le_bytes());
        } else {
            entry.push(b'=');
        }
        entry.extend_from_slice(value.as_bytes());
        entry.push(b'\n');
    };
    field("MESSAGE", &event.to_string());
    field("PRIORITY", &(priority & 7).to_string());
    field("SYSLOG_FACILITY", &(priority >> 3).to_string());
    field("SYSLOG_IDENTIFIER", PROGRAM);
    field("FREVO_TIME", &fields.time);
    field("FREVO_OPERATION", fields.operation);
    field("FREVO_RESULT", fields.result);
    field("FREVO_USER", fields.user);
    field("FREVO_ADDRESS", &fields.address);
    let texts = [
        ("FREVO_SESSION", fields.session.as_deref()),
        ("FREVO_ERROR", fields.error.as_deref()),
        ("FREVO_SHARE", fields.share),
        ("FREVO_PATH", fields.path),
        ("FREVO_PREFIX", fields.prefix.as_deref()),
    ];
    for (name, value) in texts {
        value.into_iter().for_each(|value| field(name, value));
    }
    let numbers = [
        ("FREVO_BYTES", fields.bytes),
        ("FREVO_BYTES_READ", fields.bytes_read),
        ("FREVO_BYTES_WRITTEN", fields.bytes_written),
    ];
    for (name, value) in numbers {
        value.into_iter().for_each(|value| field(name, &value.to_string()));
    }
    if let Some(logon) = &fields.logon {
        field("FREVO_PORT", &logon.port.to_string());
        field("FREVO_METHOD", logon.method);
        field("FREVO_DIALECT", &logon.dialect);
        logon.kind.into_iter().for_each(|kind| field("FREVO_KIND", kind));
    }
    if let Event::Logon(logon) = event {
        field("FREVO_CLIENT_DOMAIN", &logon.sent.domain);
        field("FREVO_CLIENT_ACCOUNT", &logon.sent.user);
        field("FREVO_WORKSTATION", &logon.sent.workstation);
    }
    // A field may have several values.
    fields.arguments.into_iter().flatten().for_each(|argument| field("FREVO_ARGUMENT", argument));
    entry
}
