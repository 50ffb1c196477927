//! The LDAP messages that are needed for accounts (RFC 4511, 4; paged results, RFC 2696).
//!
//! Filters are never text here, so names in them need no escaping (RFC 4515 defines text): a name is a value in the
//! message. Section numbers in this file are those of RFC 4511.
//!
//! Not implemented: rename, compare, SASL mechanisms other than EXTERNAL, intermediate responses.

use zeroize::Zeroizing;

use crate::ber::{ENUMERATED, INTEGER, LONGEST_MESSAGE, Malformed, OCTET_STRING, Reader, SEQUENCE, SET, Writer};

/// The OID of StartTLS (RFC 4511, 4.14).
const START_TLS: &str = "1.3.6.1.4.1.1466.20037";
/// The OID of the control for paged results (RFC 2696).
const PAGED_RESULTS: &[u8] = b"1.2.840.113556.1.4.319";

/// The value of `scope` that means the whole subtree of the base (4.5.1.2).
const WHOLE_SUBTREE: i32 = 2;

/// Tags of responses: `protocolOp` (4.1.1).
const BIND_RESPONSE: u8 = 0x61;
const SEARCH_ENTRY: u8 = 0x64;
const SEARCH_DONE: u8 = 0x65;
const MODIFY_RESPONSE: u8 = 0x67;
const ADD_RESPONSE: u8 = 0x69;
const DELETE_RESPONSE: u8 = 0x6b;
const SEARCH_REFERENCE: u8 = 0x73;
const EXTENDED_RESPONSE: u8 = 0x78;

/// A request.
pub enum Request<'a> {
    /// A simple bind (4.2); an empty name and password bind anonymously.
    Bind {
        /// The name.
        dn: &'a str,
        /// The password.
        password: &'a str,
    },
    /// A bind with SASL EXTERNAL (4.2): the server takes the user from the socket.
    BindExternal,
    /// A search (4.5).
    Search(&'a Search),
    /// A change of an entry (4.6).
    Modify {
        /// The entry.
        dn: &'a str,
        /// The changes, which are made together.
        changes: &'a [Change],
    },
    /// A new entry (4.7).
    Add {
        /// The entry.
        dn: &'a str,
        /// Its attributes and their values.
        attributes: &'a [(&'static str, Vec<Zeroizing<String>>)],
    },
    /// The removal of an entry (4.8).
    Delete {
        /// The entry.
        dn: &'a str,
    },
    /// The upgrade of a connection to TLS (4.14).
    StartTls,
}

/// A change of the values of an attribute.
pub struct Change {
    /// What is done with the values.
    pub kind: ChangeKind,
    /// The attribute.
    pub attribute: &'static str,
    /// The values.
    pub values: Vec<Zeroizing<String>>,
}

/// What a change does with the values: `operation` (4.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ChangeKind {
    /// Adds these values to the existing ones.
    Add = 0,
    /// Removes these values, or all if none is given; it is an error if they do not exist.
    Delete = 1,
    /// Replaces the existing values by these.
    Replace = 2,
}

impl Change {
    /// Returns a change with one value.
    pub fn new(kind: ChangeKind, attribute: &'static str, value: impl Into<String>) -> Change {
        Change { kind, attribute, values: vec![Zeroizing::new(value.into())] }
    }

    /// Returns a change that removes an attribute, which need not exist.
    pub fn clear(attribute: &'static str) -> Change {
        Change { kind: ChangeKind::Replace, attribute, values: Vec::new() }
    }
}

/// The parameters of a search of the whole subtree of the base (4.5.1).
#[derive(Clone)]
pub struct Search {
    /// The base, as a DN.
    pub base: String,
    /// Which aliases are followed.
    pub deref: Deref,
    /// Maximum number of entries; 0 means no limit by the client.
    pub size_limit: i32,
    /// Time limit in seconds.
    pub time_limit: i32,
    /// The condition on the entries.
    pub filter: Filter,
    /// The attributes to return.
    pub attributes: &'static [&'static str],
    /// The page size, and the cookie of the previous page, which is empty for the first page.
    pub page: Option<(i32, Vec<u8>)>,
}

/// The aliases that a search follows (4.5.1.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deref {
    /// No aliases.
    Never = 0,
    /// Aliases below the base.
    Searching = 1,
    /// The base, if it is an alias.
    Finding = 2,
    /// All aliases.
    Always = 3,
}

/// A condition on entries, as far as conditions are used here (4.5.1.7).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Filter {
    /// All of these.
    And(Vec<Filter>),
    /// One of these.
    Or(Vec<Filter>),
    /// The attribute has this value.
    Equal(&'static str, String),
    /// The attribute has a value.
    Present(&'static str),
}

impl Filter {
    fn encode(&self, to: &mut Writer) {
        match self {
            Filter::And(parts) => to.nested(0xa0, |to| parts.iter().for_each(|part| part.encode(to))),
            Filter::Or(parts) => to.nested(0xa1, |to| parts.iter().for_each(|part| part.encode(to))),
            Filter::Equal(attribute, value) => to.nested(0xa3, |to| {
                to.string(attribute);
                to.string(value);
            }),
            Filter::Present(attribute) => to.bytes(0x87, attribute.as_bytes()),
        }
    }
}

impl Request<'_> {
    /// Encodes the message without its envelope: operation and controls.
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut to = Writer::default();
        match self {
            Request::Bind { dn, password } => to.nested(0x60, |to| {
                to.number(INTEGER, 3);
                to.string(dn);
                to.bytes(0x80, password.as_bytes());
            }),
            Request::BindExternal => to.nested(0x60, |to| {
                to.number(INTEGER, 3);
                to.string("");
                to.nested(0xa3, |to| to.string("EXTERNAL"));
            }),
            Request::Search(search) => search.encode(&mut to),
            Request::Modify { dn, changes } => to.nested(0x66, |to| {
                to.string(dn);
                to.nested(SEQUENCE, |to| changes.iter().for_each(|change| change.encode(to)));
            }),
            Request::Add { dn, attributes } => to.nested(0x68, |to| {
                to.string(dn);
                to.nested(SEQUENCE, |to| {
                    attributes.iter().for_each(|(name, values)| attribute(to, name, values));
                });
            }),
            Request::Delete { dn } => to.bytes(0x4a, dn.as_bytes()),
            Request::StartTls => to.nested(0x77, |to| to.bytes(0x80, START_TLS.as_bytes())),
        }
        to.0
    }
}

impl Change {
    fn encode(&self, to: &mut Writer) {
        to.nested(SEQUENCE, |to| {
            to.number(ENUMERATED, self.kind as i32);
            attribute(to, self.attribute, &self.values);
        });
    }
}

impl Search {
    fn encode(&self, to: &mut Writer) {
        to.nested(0x63, |to| {
            to.string(&self.base);
            to.number(ENUMERATED, WHOLE_SUBTREE);
            to.number(ENUMERATED, self.deref as i32);
            to.number(INTEGER, self.size_limit);
            to.number(INTEGER, self.time_limit);
            to.boolean(false);
            self.filter.encode(to);
            to.nested(SEQUENCE, |to| self.attributes.iter().for_each(|name| to.string(name)));
        });
        let Some((size, cookie)) = &self.page else { return };
        let mut value = Writer::default();
        value.nested(SEQUENCE, |to| {
            to.number(INTEGER, *size);
            to.bytes(OCTET_STRING, cookie);
        });
        to.nested(0xa0, |to| {
            to.nested(SEQUENCE, |to| {
                to.bytes(OCTET_STRING, PAGED_RESULTS);
                to.boolean(true);
                to.bytes(OCTET_STRING, &value.0);
            });
        });
    }
}

fn attribute(to: &mut Writer, name: &str, values: &[Zeroizing<String>]) {
    to.nested(SEQUENCE, |to| {
        to.string(name);
        to.nested(SET, |to| values.iter().for_each(|value| to.string(value)));
    });
}

/// Wraps the result of [`Request::encode`] in its envelope.
pub fn envelope(id: i32, body: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut to = Writer::default();
    to.nested(SEQUENCE, |to| {
        to.number(INTEGER, id);
        to.0.extend_from_slice(body);
    });
    to.0
}

/// One message from the server.
pub enum Response {
    /// An entry found by a search.
    Entry(SearchResultEntry),
    /// A reference to entries on other servers.
    Reference,
    /// The end of an operation.
    Done(Outcome),
}

/// An entry with the requested attributes.
pub struct SearchResultEntry {
    /// The name of the entry.
    pub dn: String,
    attributes: Vec<(String, Vec<Zeroizing<Vec<u8>>>)>,
}

impl SearchResultEntry {
    /// Returns the values of an attribute that are text.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let named = self.attributes.iter().filter(move |(attribute, _)| attribute.eq_ignore_ascii_case(name));
        named.flat_map(|(_, values)| values).filter_map(|value| std::str::from_utf8(value).ok())
    }

    /// Returns the first value of an attribute, if it is text.
    pub fn first(&self, name: &str) -> Option<&str> {
        let named = self.attributes.iter().find(|(attribute, _)| attribute.eq_ignore_ascii_case(name));
        named.and_then(|(_, values)| values.first()).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Builds an entry with one value per attribute, for tests of callers.
    pub fn of(dn: &str, attributes: &[(&str, &str)]) -> SearchResultEntry {
        let value = |text: &str| vec![Zeroizing::new(text.as_bytes().to_vec())];
        let attributes = attributes.iter().map(|(name, text)| ((*name).to_owned(), value(text))).collect();
        SearchResultEntry { dn: dn.to_owned(), attributes }
    }
}

/// The result of an operation.
#[derive(Debug)]
pub struct Outcome {
    /// The result code.
    pub code: ResultCode,
    /// The server's explanation.
    pub text: String,
    /// The server to use instead.
    pub referral: Option<String>,
    /// The start of the next page; empty after the last.
    pub cookie: Vec<u8>,
}

/// The result code of an operation: `resultCode` (4.1.9).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ResultCode(pub i32);

impl ResultCode {
    /// `success`.
    pub const SUCCESS: ResultCode = ResultCode(0);
    /// `timeLimitExceeded`.
    pub const TIME_LIMIT_EXCEEDED: ResultCode = ResultCode(3);
    /// `sizeLimitExceeded`.
    pub const SIZE_LIMIT_EXCEEDED: ResultCode = ResultCode(4);
    /// `referral`.
    pub const REFERRAL: ResultCode = ResultCode(10);
    /// `noSuchAttribute`.
    pub const NO_SUCH_ATTRIBUTE: ResultCode = ResultCode(16);
    /// `constraintViolation`.
    pub const CONSTRAINT_VIOLATION: ResultCode = ResultCode(19);
    /// `attributeOrValueExists`.
    pub const ATTRIBUTE_OR_VALUE_EXISTS: ResultCode = ResultCode(20);
    /// `noSuchObject`.
    pub const NO_SUCH_OBJECT: ResultCode = ResultCode(32);
    /// `invalidCredentials`.
    pub const INVALID_CREDENTIALS: ResultCode = ResultCode(49);
    /// `insufficientAccessRights`.
    pub const INSUFFICIENT_ACCESS: ResultCode = ResultCode(50);
    /// `busy`.
    pub const BUSY: ResultCode = ResultCode(51);
    /// `unavailable`.
    pub const UNAVAILABLE: ResultCode = ResultCode(52);
    /// `entryAlreadyExists`.
    pub const ENTRY_ALREADY_EXISTS: ResultCode = ResultCode(68);

    /// Returns the name in the specification.
    fn name(self) -> &'static str {
        match self.0 {
            0 => "success",
            1 => "operationsError",
            2 => "protocolError",
            3 => "timeLimitExceeded",
            4 => "sizeLimitExceeded",
            8 => "strongerAuthRequired",
            10 => "referral",
            11 => "adminLimitExceeded",
            13 => "confidentialityRequired",
            16 => "noSuchAttribute",
            17 => "undefinedAttributeType",
            19 => "constraintViolation",
            20 => "attributeOrValueExists",
            21 => "invalidAttributeSyntax",
            32 => "noSuchObject",
            34 => "invalidDNSyntax",
            48 => "inappropriateAuthentication",
            49 => "invalidCredentials",
            50 => "insufficientAccessRights",
            51 => "busy",
            52 => "unavailable",
            53 => "unwillingToPerform",
            64 => "namingViolation",
            65 => "objectClassViolation",
            68 => "entryAlreadyExists",
            _ => "other",
        }
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.code.name(), self.code.0)?;
        match (&self.referral, self.text.as_str()) {
            (Some(referral), _) => write!(f, " to {referral}"),
            (None, "") => Ok(()),
            (None, text) => write!(f, ", {text}"),
        }
    }
}

/// Decodes one message of at most [`LONGEST_MESSAGE`] bytes: its id and content. Id 0 is a notice that the server
/// closes the connection.
pub fn decode(bytes: &[u8]) -> Result<(i32, Response), Malformed> {
    if bytes.len() > LONGEST_MESSAGE {
        return Err(Malformed);
    }
    let mut message = Reader::new(bytes).expect(SEQUENCE)?;
    let id = message.number(INTEGER)?;
    let (tag, operation) = message.element()?;
    let response = match tag {
        SEARCH_ENTRY => Response::Entry(entry(operation)?),
        SEARCH_REFERENCE => Response::Reference,
        BIND_RESPONSE | SEARCH_DONE | MODIFY_RESPONSE | ADD_RESPONSE | DELETE_RESPONSE | EXTENDED_RESPONSE => {
            let mut outcome = outcome(operation)?;
            if message.peek() == Some(0xa0) {
                outcome.cookie = cookie(message.element()?.1)?;
            }
            Response::Done(outcome)
        }
        _ => return Err(Malformed),
    };
    Ok((id, response))
}

fn entry(mut operation: Reader<'_>) -> Result<SearchResultEntry, Malformed> {
    let dn = operation.string()?;
    let mut list = operation.expect(SEQUENCE)?;
    let mut attributes = Vec::new();
    while !list.is_empty() {
        let mut attribute = list.expect(SEQUENCE)?;
        let name = attribute.string()?;
        let mut set = attribute.expect(SET)?;
        let mut values = Vec::new();
        while !set.is_empty() {
            values.push(Zeroizing::new(set.expect(OCTET_STRING)?.rest().to_vec()));
        }
        attributes.push((name, values));
    }
    Ok(SearchResultEntry { dn, attributes })
}

fn outcome(mut operation: Reader<'_>) -> Result<Outcome, Malformed> {
    let code = ResultCode(operation.number(ENUMERATED)?);
    let _matched = operation.string()?;
    let text = operation.string()?;
    let referral = match operation.peek() {
        Some(0xa3) => Some(operation.element()?.1.string()?),
        _ => None,
    };
    Ok(Outcome { code, text, referral, cookie: Vec::new() })
}

/// Returns the cookie of the control for paged results, if it is present.
fn cookie(mut controls: Reader<'_>) -> Result<Vec<u8>, Malformed> {
    while !controls.is_empty() {
        let mut control = controls.expect(SEQUENCE)?;
        if control.expect(OCTET_STRING)?.rest() != PAGED_RESULTS {
            continue;
        }
        while !control.is_empty() {
            let (tag, mut value) = control.element()?;
            if tag == OCTET_STRING {
                let mut value = value.expect(SEQUENCE)?;
                value.number(INTEGER)?;
                return Ok(value.expect(OCTET_STRING)?.rest().to_vec());
            }
        }
    }
    Ok(Vec::new())
}
