//! The messages between the server and the helper.

use server::restrictions::HostLogon;

/// The maximum length of a request in bytes.
pub(crate) const LONGEST: usize = 2048;
/// The maximum length of the text of an answer in bytes.
const LONGEST_TEXT: usize = 400;
/// The length of an answer without its text.
pub(crate) const HEAD: usize = 7;

/// A request, sent together with a socket. The helper answers on that socket. If it opened a session, it closes the
/// session when the other end of the socket is closed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) client: String,
    /// The id of the session to open; `None` to check the account only.
    pub(crate) session: Option<u64>,
}

impl From<HostLogon> for Request {
    fn from(logon: HostLogon) -> Request {
        let HostLogon { name, uid, client, session } = logon;
        Request { name, uid, client: client.to_canonical().to_string(), session }
    }
}

impl Request {
    /// Returns the encoded request; `None` if the name is too long or contains a zero.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let mut bytes = self.uid.to_le_bytes().to_vec();
        bytes.push(self.session.is_some().into());
        bytes.extend(self.session.unwrap_or(0).to_le_bytes());
        for text in [&self.client, &self.name] {
            if text.contains('\0') {
                return None;
            }
            bytes.extend(text.bytes().chain([0]));
        }
        (bytes.len() <= LONGEST).then_some(bytes)
    }

    /// Decodes a request.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Request> {
        let (uid, rest) = bytes.split_first_chunk()?;
        let (opens, rest) = rest.split_first()?;
        let (session, rest) = rest.split_first_chunk()?;
        let texts: Vec<&[u8]> = rest.strip_suffix(&[0])?.split(|byte| *byte == 0).collect();
        let [client, name] = texts[..] else { return None };
        Some(Request {
            name: String::from_utf8(name.to_vec()).ok()?,
            uid: u32::from_le_bytes(*uid),
            client: String::from_utf8(client.to_vec()).ok()?,
            session: (*opens != 0).then_some(u64::from_le_bytes(*session)),
        })
    }
}

/// How far a logon came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// The user may log on.
    Admitted,
    /// The library could not start.
    Start,
    /// The account was refused.
    Account,
    /// The session was refused.
    Session,
    /// The UNIX user does not exist.
    User,
}

impl Stage {
    const ALL: [Stage; 5] = [Stage::Admitted, Stage::Start, Stage::Account, Stage::Session, Stage::User];
}

/// The answer to a request: where the logon ended, and PAM's code and text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Answer {
    pub(crate) stage: Stage,
    pub(crate) code: i32,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let longest = self.text.len().min(LONGEST_TEXT);
        let end = (0..=longest).rev().find(|end| self.text.is_char_boundary(*end)).unwrap_or(0);
        let text = &self.text[..end];
        let stage = Stage::ALL.iter().position(|stage| *stage == self.stage).unwrap_or_default();
        let mut bytes = vec![stage as u8];
        bytes.extend(self.code.to_le_bytes());
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.bytes());
        bytes
    }

    /// Decodes the fixed part of an answer, and returns the length of its text; `None` if it is invalid.
    pub(crate) fn decode_head(head: &[u8; HEAD]) -> Option<(Answer, usize)> {
        let [stage, code @ .., low, high] = *head;
        let stage = *Stage::ALL.get(usize::from(stage))?;
        let length = usize::from(u16::from_le_bytes([low, high]));
        let answer = Answer { stage, code: i32::from_le_bytes(code), text: String::new() };
        (length <= LONGEST_TEXT).then_some((answer, length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers_survive_encoding() {
        for session in [None, Some(0), Some(u64::MAX)] {
            let request = Request { name: r"DOM\ann é".into(), uid: 7, client: "2001:db8::1".into(), session };
            let bytes = request.encode().unwrap();
            assert_eq!(Request::decode(&bytes).unwrap(), request);
            for length in 0..bytes.len() {
                assert_eq!(Request::decode(&bytes[..length]), None, "{length}");
            }
        }
        let named = |name: String| Request { name, uid: 7, client: "::1".into(), session: None }.encode();
        assert!(named("a\0b".into()).is_none() && named("x".repeat(LONGEST)).is_none());
        for stage in Stage::ALL {
            let answer = Answer { stage, code: -5, text: "é".repeat(1000) };
            let bytes = answer.encode();
            let (head, text) = bytes.split_first_chunk().unwrap();
            let (decoded, length) = Answer::decode_head(head).unwrap();
            assert_eq!((decoded.stage, decoded.code, length), (stage, -5, LONGEST_TEXT));
            assert_eq!(text.len(), length);
        }
        assert_eq!(Answer::decode_head(&[9, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(Answer::decode_head(&[0, 0, 0, 0, 0, 255, 255]), None);
    }
}
