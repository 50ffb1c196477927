//! An audit line as a JSON object.

use serde::Serialize;
use server::audit::Record;
use server::vfs::Time;

#[derive(Serialize)]
struct Object<'a> {
    time: String,
    share: &'a str,
    user: &'a str,
    client: &'a str,
    prefix: &'a str,
    operation: &'a str,
    result: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    arguments: &'a [String],
}

#[derive(Serialize)]
struct Gap {
    time: String,
    lost: u64,
}

/// Returns the line of a record.
pub(super) fn line(record: &Record) -> String {
    let origin = &record.origin;
    let object = Object {
        time: time(record.time),
        share: &origin.share,
        user: &origin.user,
        client: &origin.client,
        prefix: &record.prefix(),
        operation: record.operation.name(),
        result: if record.failure.is_some() { "fail" } else { "ok" },
        error: record.failure,
        arguments: &record.arguments,
    };
    serde_json::to_string(&object).unwrap_or_default() + "\n"
}

/// Returns the line that says that lines are missing before it.
pub(super) fn gap(now: Time, lost: u64) -> String {
    serde_json::to_string(&Gap { time: time(now), lost }).unwrap_or_default() + "\n"
}

/// Returns a time as in RFC 3339, in UTC.
fn time(time: Time) -> String {
    let (days, second) = (time.secs.div_euclid(86_400), time.secs.rem_euclid(86_400));
    let (year, month, day) = proto::calendar::date(days);
    let (hour, minute, second, micros) = (second / 3_600, second / 60 % 60, second % 60, time.nanos / 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}
