//! An event as a JSON object.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use server::audit::Event;
use server::vfs::Time;

use super::fields::{Fields, OfLogon, time};

#[derive(Serialize)]
struct Gap {
    time: String,
    lost: u64,
}

/// Returns the object of an event.
pub(super) fn object(event: &Event) -> String {
    let fields = Fields::of(event);
    match event {
        Event::Operation(_) | Event::Administration(_) => serde_json::to_string(&fields).unwrap_or_default(),
        Event::Logon(_) => spaced(&fields),
    }
}

/// Returns the line that says that events are missing.
pub(super) fn gap(now: Time, lost: u64) -> String {
    serde_json::to_string(&Gap { time: time(now) + "Z", lost }).unwrap_or_default() + "\n"
}

/// All fields of a logon.
#[derive(Serialize)]
struct WithLogon<'a> {
    #[serde(flatten)]
    fields: &'a Fields<'a>,
    #[serde(flatten)]
    logon: &'a Option<OfLogon<'a>>,
}

/// Returns an object with a space after each colon, as in Samba's objects, which filters are written for.
fn spaced(fields: &Fields<'_>) -> String {
    let mut text = Vec::new();
    let all = WithLogon { fields, logon: &fields.logon };
    match all.serialize(&mut Serializer::with_formatter(&mut text, Spaced)) {
        Ok(()) => String::from_utf8(text).unwrap_or_default(),
        Err(_) => String::new(),
    }
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}
