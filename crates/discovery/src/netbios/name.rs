//! The names of a host and their encoding ([RFC 1001] 14.1, [RFC 1002] 4.1).

/// Characters of a name, without its suffix.
const LETTERS: usize = 15;
/// The length of the label that encodes a name.
const ENCODED: u8 = 32;
/// The most bytes of an encoded name with its scope, and of a label of the scope.
const LONGEST_NAME: usize = 255;
const LONGEST_LABEL: usize = 63;
/// The most names of a host, with which the response to a node status request fits into the 576 bytes of a datagram
/// that every node accepts ([RFC 1002] 4.2.18).
const MOST_NAMES: usize = 25;
/// The suffixes of a workstation and of a file server.
const WORKSTATION: u8 = 0x00;
const FILE_SERVER: u8 = 0x20;

/// A NetBIOS name: 15 characters, padded with spaces, and a suffix.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name(pub(crate) [u8; LETTERS + 1]);

impl Name {
    /// The name to which every node answers a node status request.
    pub(crate) const ANY: Name = {
        let mut bytes = [0; LETTERS + 1];
        bytes[0] = b'*';
        Name(bytes)
    };

    fn new(text: &str, suffix: u8) -> Name {
        let mut bytes = [b' '; LETTERS + 1];
        bytes.iter_mut().zip(text.bytes().take(LETTERS)).for_each(|(to, from)| *to = from.to_ascii_uppercase());
        bytes[LETTERS] = suffix;
        Name(bytes)
    }

    /// Appends the encoded name without a scope and without the byte that ends it.
    fn encode(self, to: &mut Vec<u8>) {
        to.push(ENCODED);
        to.extend(self.0.iter().flat_map(|byte| [b'A' + (byte >> 4), b'A' + (byte & 15)]));
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [letters @ .., suffix] = &self.0;
        write!(out, "{}<{suffix:02x}>", String::from_utf8_lossy(letters).trim_end_matches([' ', '\0']))
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, out)
    }
}

/// A name as it is in a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Encoded<'a> {
    /// The name, in upper case.
    pub(crate) name: Name,
    /// The labels of the scope, and the byte that ends them.
    pub(crate) scope: &'a [u8],
    /// All bytes.
    pub(crate) bytes: &'a [u8],
}

impl<'a> Encoded<'a> {
    /// Reads a name without a pointer. Returns it and the rest.
    pub(crate) fn read(from: &'a [u8]) -> Option<(Encoded<'a>, &'a [u8])> {
        let (&ENCODED, rest) = from.split_first()? else { return None };
        let (label, mut rest) = rest.split_at_checked(usize::from(ENCODED))?;
        let mut name = [0; LETTERS + 1];
        for (byte, pair) in name.iter_mut().zip(label.as_chunks::<2>().0) {
            let [high, low] = pair.map(|letter| letter.wrapping_sub(b'A'));
            if high > 15 || low > 15 {
                return None;
            }
            *byte = high << 4 | low;
        }
        name[..LETTERS].make_ascii_uppercase();
        let start = from.len() - rest.len();
        loop {
            let (&length, after) = rest.split_first()?;
            if usize::from(length) > LONGEST_LABEL {
                return None;
            }
            rest = after.get(usize::from(length)..)?;
            if length == 0 {
                break;
            }
        }
        let bytes = &from[..from.len() - rest.len()];
        (bytes.len() <= LONGEST_NAME).then(|| (Encoded { name: Name(name), scope: &bytes[start..], bytes }, rest))
    }
}

/// A name that a host cannot have, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The name, as it was written.
    pub name: String,
    /// The reason.
    pub reason: &'static str,
}

/// The names of a host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// Each name, and whether it is one of a group.
    names: Vec<(Name, bool)>,
    /// The labels of the scope, and the byte that ends them.
    scope: Vec<u8>,
}

impl Host {
    /// Creates a file server with these names in a workgroup. An empty `scope` is the usual one. Also returns the names
    /// that it cannot have.
    pub fn new(names: &[String], workgroup: &str, scope: &str) -> (Host, Vec<Refused>) {
        let mut refused = Vec::new();
        let mut host = Host { names: Vec::new(), scope: vec![0] };
        let mut refuse = |name: &str, reason| refused.push(Refused { name: name.to_owned(), reason });
        match encode_scope(scope) {
            Some(scope) => host.scope = scope,
            None => {
                refuse(scope, "a scope has labels of 1 to 63 ASCII characters, and at most 220 characters");
                return (host, refused);
            }
        }
        match legal(workgroup) {
            Ok(()) => host.names.push((Name::new(workgroup, WORKSTATION), true)),
            Err(reason) => refuse(workgroup, reason),
        }
        for text in names {
            let new = [WORKSTATION, FILE_SERVER].map(|suffix| Name::new(text, suffix));
            if host.names.iter().any(|(known, is_group)| new.contains(known) && !is_group) {
                continue;
            }
            match legal(text) {
                Ok(()) if host.names.iter().any(|(known, _)| new.contains(known)) => {
                    refuse(text, "it is the name of the workgroup");
                }
                Ok(()) if host.names.len() + new.len() > MOST_NAMES => refuse(text, "there are too many names"),
                Ok(()) => host.names.extend(new.map(|name| (name, false))),
                Err(reason) => refuse(text, reason),
            }
        }
        (host, refused)
    }

    pub(crate) fn names(&self) -> &[(Name, bool)] {
        &self.names
    }

    /// Returns whether a name is in the scope of this host. Scopes are compared without case.
    pub(crate) fn has_scope(&self, scope: &[u8]) -> bool {
        self.scope.eq_ignore_ascii_case(scope)
    }

    /// Returns a name of this host as it is in a packet.
    pub(crate) fn encode(&self, name: Name) -> Vec<u8> {
        let mut bytes = Vec::new();
        name.encode(&mut bytes);
        bytes.extend(&self.scope);
        bytes
    }
}

/// Returns why a text cannot be a name. Characters that are not ASCII would depend on the code page of each host.
fn legal(text: &str) -> Result<(), &'static str> {
    if text.is_empty() || text.len() > LETTERS {
        return Err("a NetBIOS name has 1 to 15 characters");
    }
    if !text.is_ascii() {
        return Err("only ASCII characters mean the same on all hosts");
    }
    if text.starts_with('*') || !text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\/:*?\"<>|".contains(&byte)) {
        return Err("a NetBIOS name has none of the characters \\ / : * ? \" < > | and no spaces");
    }
    Ok(())
}

fn encode_scope(scope: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for label in scope.split('.').filter(|_| !scope.is_empty()) {
        if label.is_empty() || label.len() > LONGEST_LABEL || !label.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        bytes.push(u8::try_from(label.len()).ok()?);
        bytes.extend(label.bytes());
    }
    bytes.push(0);
    (bytes.len() + usize::from(ENCODED) < LONGEST_NAME).then_some(bytes)
}
