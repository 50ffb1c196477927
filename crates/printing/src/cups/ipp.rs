//! The messages of IPP (RFC 8010), as far as the operations here need them.

use server::policy::limits::{LISTED_JOBS_MAX, QUEUES_MAX};

/// Operations (RFC 8011 section 5.4.15, and CUPS-Get-Printers of CUPS).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub(super) enum Operation {
    PrintJob = 0x0002,
    CancelJob = 0x0008,
    GetJobs = 0x000a,
    GetPrinterAttributes = 0x000b,
    HoldJob = 0x000c,
    ReleaseJob = 0x000d,
    PausePrinter = 0x0010,
    ResumePrinter = 0x0011,
    PurgeJobs = 0x0012,
    CupsGetPrinters = 0x4002,
}

/// Begins the attributes of the operation, of a job, of a printer; ends all (RFC 8010 section 3.5.1).
const OPERATION: u8 = 0x01;
const JOB: u8 = 0x02;
const END: u8 = 0x03;
const PRINTER: u8 = 0x04;

/// The syntax of a value (RFC 8010 section 3.5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Syntax {
    Integer = 0x21,
    Boolean = 0x22,
    Enum = 0x23,
    #[cfg(test)]
    Text = 0x41,
    Name = 0x42,
    Keyword = 0x44,
    Uri = 0x45,
    Charset = 0x47,
    Language = 0x48,
    MimeType = 0x49,
}

/// The maximum length of a name (RFC 8011 section 5.1.3).
const LONGEST_NAME: usize = 255;

/// The maximum number of groups of a response, and of the values in all of them.
const GROUPS: usize = (if QUEUES_MAX > LISTED_JOBS_MAX { QUEUES_MAX } else { LISTED_JOBS_MAX }) + 16;
const VALUES: usize = 16 * GROUPS;

/// A request that is being built.
pub(super) struct Request(Vec<u8>);

impl Request {
    /// Begins a request of version 1.1 with the attributes that come first in each.
    pub(super) fn new(operation: Operation) -> Request {
        let mut bytes = vec![1, 1];
        bytes.extend((operation as u16).to_be_bytes());
        bytes.extend(1_u32.to_be_bytes());
        bytes.push(OPERATION);
        Request(bytes).text(Syntax::Charset, "attributes-charset", "utf-8").text(
            Syntax::Language,
            "attributes-natural-language",
            "en",
        )
    }

    fn value(mut self, syntax: Syntax, name: &str, value: &[u8]) -> Request {
        self.0.push(syntax as u8);
        for part in [name.as_bytes(), value] {
            let length = part.len().min(usize::from(u16::MAX));
            self.0.extend((length as u16).to_be_bytes());
            self.0.extend(&part[..length]);
        }
        self
    }

    /// Adds a text. A name is cut to its maximum length.
    pub(super) fn text(self, syntax: Syntax, name: &str, text: &str) -> Request {
        let longest = if syntax == Syntax::Name { LONGEST_NAME } else { usize::from(u16::MAX) };
        let end = (0..=text.len().min(longest)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        self.value(syntax, name, &text.as_bytes()[..end])
    }

    /// Adds a set of keywords.
    pub(super) fn keywords(self, name: &str, keywords: &[&str]) -> Request {
        let mut request = self;
        for (index, keyword) in keywords.iter().enumerate() {
            // A further value of an attribute has no name.
            request = request.value(Syntax::Keyword, if index == 0 { name } else { "" }, keyword.as_bytes());
        }
        request
    }

    /// Adds a number.
    pub(super) fn integer(self, name: &str, number: i32) -> Request {
        self.value(Syntax::Integer, name, &number.to_be_bytes())
    }

    /// Begins the attributes of a job, and adds options: numbers, truth values, or names.
    pub(super) fn options(mut self, options: &[(String, String)]) -> Request {
        if options.is_empty() {
            return self;
        }
        self.0.push(JOB);
        for (name, value) in options {
            self = match (value.parse(), &**value) {
                (Ok(number), _) => self.integer(name, number),
                (_, "true" | "false") => self.value(Syntax::Boolean, name, &[u8::from(value == "true")]),
                _ => self.text(Syntax::Name, name, value),
            };
        }
        self
    }

    /// Returns the encoded request, after which the document follows.
    pub(super) fn end(mut self) -> Vec<u8> {
        self.0.push(END);
        self.0
    }
}

/// A response: its status, and its groups of attributes.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    groups: Vec<Group>,
}

/// The attributes of one job or printer. A further value of an attribute has an empty name.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Group {
    kind: u8,
    attributes: Vec<(String, u8, Vec<u8>)>,
}

impl Response {
    /// Decodes a response; `None` if it is malformed, or has more groups or values than were asked for.
    pub(super) fn decode(bytes: &[u8]) -> Option<Response> {
        let ([_, _, high, low, ..], mut rest) = bytes.split_first_chunk::<8>()?;
        let mut response = Response { status: u16::from_be_bytes([*high, *low]), groups: Vec::new() };
        let mut values = 0;
        loop {
            let (tag, after) = rest.split_first()?;
            rest = after;
            match *tag {
                END => return Some(response),
                _ if response.groups.len() > GROUPS || values > VALUES => return None,
                kind if kind < 0x10 => response.groups.push(Group { kind, attributes: Vec::new() }),
                syntax => {
                    values += 1;
                    let (name, value) = (part(&mut rest)?, part(&mut rest)?);
                    let name = String::from_utf8_lossy(name).into_owned();
                    response.groups.last_mut()?.attributes.push((name, syntax, value.to_vec()));
                }
            }
        }
    }

    /// Returns the attributes of each job.
    pub(super) fn jobs(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(|group| group.kind == JOB)
    }

    /// Returns the attributes of each printer.
    pub(super) fn printers(&self) -> impl Iterator<Item = &Group> {
        self.groups.iter().filter(|group| group.kind == PRINTER)
    }

    /// Returns the message for people.
    pub(super) fn message(&self) -> String {
        let first = self.groups.iter().find(|group| group.kind == OPERATION);
        first.and_then(|group| group.text("status-message")).unwrap_or_default()
    }
}

fn part<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk()?;
    let (part, after) = after.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    *rest = after;
    Some(part)
}

impl Group {
    fn find(&self, name: &str) -> Option<(u8, &[u8])> {
        let found = self.attributes.iter().find(|(known, ..)| known == name)?;
        Some((found.1, &found.2))
    }

    /// Returns the first value of a text.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let (syntax, value) = self.find(name)?;
        // textWithLanguage and nameWithLanguage have a language in front.
        let text = match syntax {
            0x35 | 0x36 => {
                let mut rest = value;
                part(&mut rest)?;
                part(&mut rest)?
            }
            0x40..0x60 => value,
            _ => return None,
        };
        Some(String::from_utf8_lossy(text).into_owned())
    }

    /// Returns the first value of a number or an enumeration.
    pub(super) fn number(&self, name: &str) -> Option<i32> {
        let (syntax, value) = self.find(name)?;
        let is_number = syntax == Syntax::Integer as u8 || syntax == Syntax::Enum as u8;
        value.try_into().ok().filter(|_| is_number).map(i32::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds the group `kind` with these attributes to a response.
    fn group(bytes: &mut Vec<u8>, kind: u8, attributes: &[(Syntax, &str, &[u8])]) {
        bytes.push(kind);
        for (syntax, name, value) in attributes {
            let request = Request(Vec::new()).value(*syntax, name, value);
            bytes.extend(request.0);
        }
    }

    #[test]
    fn requests_have_the_form_of_the_standard() {
        let request = Request::new(Operation::PrintJob)
            .text(Syntax::Uri, "printer-uri", "ipp://localhost/printers/lp")
            .keywords("requested-attributes", &["job-id", "job-name"])
            .options(&[("copies".into(), "2".into()), ("media".into(), "A4".into()), ("fit".into(), "true".into())])
            .end();
        let mut expected = b"\x01\x01\x00\x02\x00\x00\x00\x01\x01".to_vec();
        expected.extend(b"\x47\x00\x12attributes-charset\x00\x05utf-8");
        expected.extend(b"\x48\x00\x1battributes-natural-language\x00\x02en");
        expected.extend(b"\x45\x00\x0bprinter-uri\x00\x1bipp://localhost/printers/lp");
        expected.extend(b"\x44\x00\x14requested-attributes\x00\x06job-id\x44\x00\x00\x00\x08job-name");
        expected.extend(b"\x02\x21\x00\x06copies\x00\x04\x00\x00\x00\x02\x42\x00\x05media\x00\x02A4");
        expected.extend(b"\x22\x00\x03fit\x00\x01\x01\x03");
        assert_eq!(request, expected);
    }

    #[test]
    fn a_name_is_cut_between_characters() {
        let cut = Request(Vec::new()).text(Syntax::Name, "job-name", &"é".repeat(200)).0;
        assert_eq!(cut.len(), 1 + 2 + 8 + 2 + 254);
    }

    #[test]
    fn a_response_takes_a_bounded_amount_of_memory() {
        let head = b"\x01\x01\0\0\0\0\0\x01";
        let groups = |count: usize| Response::decode(&[&head[..], &vec![JOB; count], &[END]].concat());
        assert_eq!(groups(GROUPS).map(|response| response.jobs().count()), Some(GROUPS));
        assert_eq!(groups(GROUPS + 2), None);
        let values = |count: usize| {
            Response::decode(&[&head[..], &[JOB], &b"\x44\0\0\0\0".repeat(count), &[END]].concat()).is_some()
        };
        assert!(values(VALUES) && !values(VALUES + 2));
    }

    #[test]
    fn responses_are_decoded_and_cut_ones_refused() {
        let mut bytes = b"\x01\x01\x04\x06\x00\x00\x00\x01".to_vec();
        group(&mut bytes, OPERATION, &[(Syntax::Text, "status-message", b"gone")]);
        for id in [7_i32, 8] {
            let id = id.to_be_bytes();
            group(&mut bytes, JOB, &[(Syntax::Integer, "job-id", &id), (Syntax::Name, "job-name", b"a")]);
        }
        bytes.push(END);
        let response = Response::decode(&bytes).expect("it is complete");
        assert_eq!((response.status, &*response.message(), response.printers().count()), (0x0406, "gone", 0));
        let jobs: Vec<_> = response.jobs().map(|job| (job.number("job-id"), job.text("job-name"))).collect();
        assert_eq!(jobs, [(Some(7), Some("a".into())), (Some(8), Some("a".into()))]);
        assert_eq!(response.jobs().next().and_then(|job| job.number("job-name")), None);
        for length in 0..bytes.len() {
            assert_eq!(Response::decode(&bytes[..length]), None, "{length}");
        }
    }
}
