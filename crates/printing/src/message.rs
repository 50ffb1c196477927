//! The messages between the server and the process that executes commands.

use server::vfs::Identity;

/// The maximum length of a request in bytes. The groups of a user take 4 bytes each.
pub(crate) const LONGEST_REQUEST: usize = 32 * 1024 + 4 * GROUPS;
/// The maximum length of an output in bytes; the rest is discarded.
pub(crate) const LONGEST_OUTPUT: usize = 96 * 1024;
/// The maximum number of groups of a user, as in Linux.
const GROUPS: usize = 65_536;

/// A command to execute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    /// The number of the request.
    pub(crate) id: u64,
    /// The command of the configuration.
    pub(crate) command: String,
    /// The values of its variables.
    pub(crate) values: Vec<(char, String)>,
    /// The user who executes it.
    pub(crate) identity: Identity,
    /// The directory in which it is executed.
    pub(crate) directory: String,
    /// How long it may take, in milliseconds.
    pub(crate) limit: u32,
}

/// How a command ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// It ended with this exit status.
    Exited(i32),
    /// It took too long, and was killed.
    Late,
    /// It was not executed; the output says why.
    NotExecuted,
    /// It took too long, and could not be killed; the output says why.
    Lost,
}

/// The answer to a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub(crate) id: u64,
    pub(crate) outcome: Outcome,
    pub(crate) output: Vec<u8>,
}

fn put(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u32).to_le_bytes());
    bytes.extend(text.bytes());
}

fn number(bytes: &mut &[u8]) -> Option<u32> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u32::from_le_bytes(*number))
}

fn text(bytes: &mut &[u8]) -> Option<String> {
    let length = number(bytes)? as usize;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    String::from_utf8(text.to_vec()).ok()
}

impl Request {
    /// Returns the encoded request; `None` if it is too long.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let mut bytes = self.id.to_le_bytes().to_vec();
        let Identity { uid, gid, groups } = &self.identity;
        let head = [self.limit, *uid, *gid, groups.len() as u32];
        head.iter().chain(groups).for_each(|number| bytes.extend(number.to_le_bytes()));
        put(&mut bytes, &self.command);
        put(&mut bytes, &self.directory);
        bytes.extend((self.values.len() as u32).to_le_bytes());
        for (letter, value) in &self.values {
            bytes.extend(u32::from(*letter).to_le_bytes());
            put(&mut bytes, value);
        }
        (bytes.len() <= LONGEST_REQUEST).then_some(bytes)
    }

    /// Decodes a request.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Request> {
        let (id, mut rest) = bytes.split_first_chunk()?;
        let rest = &mut rest;
        let (limit, uid, gid, count) = (number(rest)?, number(rest)?, number(rest)?, number(rest)? as usize);
        if count > GROUPS {
            return None;
        }
        let groups = (0..count).map(|_| number(rest)).collect::<Option<_>>()?;
        let (command, directory, count) = (text(rest)?, text(rest)?, number(rest)?);
        let value = |rest: &mut &[u8]| Some((char::from_u32(number(rest)?)?, text(rest)?));
        let values = (0..count).map(|_| value(rest)).collect::<Option<_>>()?;
        let identity = Identity { uid, gid, groups };
        let id = u64::from_le_bytes(*id);
        rest.is_empty().then_some(Request { id, command, values, identity, directory, limit })
    }
}

impl Answer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let (kind, status) = match self.outcome {
            Outcome::Exited(status) => (0_u32, status),
            Outcome::Late => (1, 0),
            Outcome::NotExecuted => (2, 0),
            Outcome::Lost => (3, 0),
        };
        let mut bytes = self.id.to_le_bytes().to_vec();
        bytes.extend(kind.to_le_bytes());
        bytes.extend(status.to_le_bytes());
        bytes.extend(&self.output[..self.output.len().min(LONGEST_OUTPUT)]);
        bytes
    }

    /// Decodes an answer.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Answer> {
        let (id, mut rest) = bytes.split_first_chunk()?;
        let (kind, status) = (number(&mut rest)?, number(&mut rest)? as i32);
        let outcome = match kind {
            0 => Outcome::Exited(status),
            1 => Outcome::Late,
            2 => Outcome::NotExecuted,
            3 => Outcome::Lost,
            _ => return None,
        };
        Some(Answer { id: u64::from_le_bytes(*id), outcome, output: rest.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_encoding() {
        let request = Request {
            id: u64::MAX,
            command: "lp -d%p %s".into(),
            values: vec![('s', "/a b".into()), ('J', "é; x".into())],
            identity: Identity { uid: 1, gid: 2, groups: [3, 4].into() },
            directory: "/var/tmp".into(),
            limit: 10_000,
        };
        let bytes = request.encode().expect("it is short");
        assert_eq!(Request::decode(&bytes), Some(request.clone()));
        for length in 0..bytes.len() {
            assert_eq!(Request::decode(&bytes[..length]), None, "{length}");
        }
        assert_eq!(Request { command: "x".repeat(LONGEST_REQUEST), ..request }.encode(), None);
        for outcome in [Outcome::Exited(-1), Outcome::Exited(3), Outcome::Late, Outcome::NotExecuted, Outcome::Lost] {
            let answer = Answer { id: 7, outcome, output: b"rank\n".to_vec() };
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
        assert_eq!(Answer::decode(&[0; 15]), None);
        assert_eq!(Answer::decode(&[9; 16]), None);
    }
}
