//! Logons, and the ends of sessions.

use std::fmt;
use std::net::SocketAddr;

use proto::smb2::negotiate::Dialect;
use proto::status::Status;

use super::record::{Moment, plain};
use crate::policy::limits::AUDITED_NAME;
use crate::policy::snapshots::UtcOffset;
use crate::vfs::Time;

/// The priority values of syslog: the facility `authpriv` (10), and `notice` or `info`.
const REFUSED: u8 = 10 << 3 | 5;
const ADMITTED: u8 = 10 << 3 | 6;

/// What has happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogonEvent {
    /// A client has tried to log on.
    Logon,
    /// A session has ended.
    Logoff,
}

/// The names that a client has sent. A client chooses them, so they are bounded and have no characters that could end
/// a line or a field: no control characters and no brackets, which no name of a Windows user has.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Sent {
    /// The domain.
    pub domain: String,
    /// The user.
    pub user: String,
    /// The machine.
    pub workstation: String,
}

impl Sent {
    /// Returns the names in the form in which they are recorded.
    pub fn new(domain: &str, user: &str, workstation: &str) -> Sent {
        let [domain, user, workstation] = [domain, user, workstation].map(sent_name);
        Sent { domain, user, workstation }
    }
}

/// Returns a name that a client has sent, in the form in which events and the log of the server have it.
pub(crate) fn sent_name(sent: &str) -> String {
    let short: String = sent.chars().take(AUDITED_NAME).collect();
    plain(&short).replace(['[', ']'], "?")
}

/// The user that a client has logged on as.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Became {
    /// The account.
    pub name: String,
    /// Its domain or server.
    pub domain: String,
    /// Its SID; empty for a guest or an anonymous user.
    pub sid: String,
    /// `user`, `guest` or `anonymous`.
    pub kind: &'static str,
}

/// A logon or the end of a session.
#[derive(Clone, Debug)]
pub struct Logon {
    /// When.
    pub time: Time,
    /// Which of them.
    pub event: LogonEvent,
    /// The session.
    pub session: u64,
    /// The result. For a wrong user or password it is more exact than the status that the client gets.
    pub status: Status,
    /// `NTLMv2`, `NTLMv1`, `Kerberos`, `anonymous`, or empty if the client has sent none of them.
    pub method: &'static str,
    /// The dialect of the connection.
    pub dialect: Dialect,
    /// The client's address.
    pub remote: SocketAddr,
    /// The server's address.
    pub local: SocketAddr,
    /// The names that the client has sent.
    pub sent: Sent,
    /// The user, if the logon has succeeded.
    pub became: Option<Became>,
    /// The offset of local time.
    pub utc_offset: UtcOffset,
}

impl Logon {
    pub(super) fn size(&self) -> usize {
        let Sent { domain, user, workstation } = &self.sent;
        let became = self.became.as_ref().map_or(0, |it| it.name.len() + it.domain.len() + it.sid.len());
        size_of::<Logon>() + domain.len() + user.len() + workstation.len() + became
    }

    pub(super) fn priority(&self) -> u8 {
        if self.status.is_error() { REFUSED } else { ADMITTED }
    }

    pub(super) fn moment(&self) -> Moment {
        Moment::new(self.time.secs, (self.utc_offset)(self.time.secs))
    }

    /// Returns Samba's name of the status.
    pub fn status_name(&self) -> String {
        match self.status {
            Status::SUCCESS => "NT_STATUS_OK".to_owned(),
            status => status.name().map_or_else(|| format!("{:#010x}", status.0), |name| format!("NT_{name}")),
        }
    }

    /// Returns Samba's description of the protocol or of Kerberos, which is `(null)` for NTLM.
    pub fn description(&self) -> Option<&'static str> {
        (self.method == "Kerberos").then_some("krb5")
    }

    /// Returns the level of Samba's class `auth_audit` from which on the event is recorded.
    pub fn level(&self) -> u8 {
        match &self.became {
            None => 2,
            Some(became) if became.kind == "anonymous" => 5,
            Some(_) => 3,
        }
    }
}

/// Writes an address as Samba does: `ipv4:192.0.2.1:50000` or `ipv6:2001:db8::1:50000`.
pub struct Endpoint(pub SocketAddr);

impl fmt::Display for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.0.ip().to_canonical();
        let family = if address.is_ipv4() { "ipv4" } else { "ipv6" };
        write!(out, "{family}:{address}:{}", self.0.port())
    }
}

/// The line of Samba's class `auth_audit`, which has no line for the end of a session; that is in its form.
impl fmt::Display for Logon {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Logon { sent, method, .. } = self;
        let Sent { domain, user, workstation } = sent;
        let (remote, local) = (Endpoint(self.remote), Endpoint(self.local));
        let what = match self.event {
            LogonEvent::Logon => "Auth",
            LogonEvent::Logoff => "Logoff",
        };
        let description = self.description().unwrap_or("(null)");
        let time = self.moment().of_logon(self.time.nanos / 1_000);
        write!(out, r"{what}: [SMB2,{description}] user [{domain}]\[{user}] at [{time}] with [{method}] ")?;
        write!(out, "status [{}] workstation [{workstation}] remote host [{remote}] ", self.status_name())?;
        match &self.became {
            Some(Became { name, domain, sid, .. }) => write!(out, r"became [{domain}]\[{name}] [{sid}]. ")?,
            None => write!(out, r"mapped to [{domain}]\[{user}]. ")?,
        }
        write!(out, "local host [{local}]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(user: &str) -> Logon {
        Logon {
            time: Time { secs: 1_751_301_779, nanos: 410_514_000 },
            event: LogonEvent::Logon,
            session: 7,
            status: Status::WRONG_PASSWORD,
            method: "NTLMv2",
            dialect: Dialect::SMB_3_1_1,
            remote: "[::ffff:192.168.2.4]:53838".parse().expect("an address"),
            local: "192.168.2.99:445".parse().expect("an address"),
            sent: Sent::new("", user, "MOBILE"),
            became: None,
            utc_offset: |_| 8 * 3_600,
        }
    }

    #[test]
    fn a_line_has_the_form_of_samba() {
        let expected = concat!(
            r"Auth: [SMB2,(null)] user []\[jay] at [Tue, 01 Jul 2025 00:42:59.410514 +0800] with [NTLMv2] ",
            "status [NT_STATUS_WRONG_PASSWORD] workstation [MOBILE] remote host [ipv4:192.168.2.4:53838] ",
            r"mapped to []\[jay]. local host [ipv4:192.168.2.99:445]",
        );
        assert_eq!(refused("jay").to_string(), expected);
        let sid = "S-1-5-21-1-2-3-1000".to_owned();
        let became = Became { name: "jay".into(), domain: "BOX".into(), sid, kind: "user" };
        let admitted = Logon { status: Status::SUCCESS, became: Some(became), method: "Kerberos", ..refused("jay") };
        let line = admitted.to_string();
        assert!(line.starts_with(r"Auth: [SMB2,krb5] user []\[jay] at ["), "{line}");
        assert!(line.contains(r"] became [BOX]\[jay] [S-1-5-21-1-2-3-1000]. local host ["), "{line}");
        assert!(line.contains("status [NT_STATUS_OK]"), "{line}");
    }

    #[test]
    fn a_client_cannot_forge_an_address_or_a_line() {
        let line = refused("a]. remote host [ipv4:192.0.2.1:1]\nAuth: ").to_string();
        assert_eq!(line.matches("remote host [").count(), 1, "{line}");
        assert!(!line.contains('\n'));
        let long = Sent::new("", &"x".repeat(100_000), "");
        assert_eq!(long.user.len(), AUDITED_NAME);
    }

    #[test]
    fn levels_are_those_of_samba() {
        let as_kind = |kind| Logon { became: Some(Became { kind, ..Became::default() }), ..refused("a") }.level();
        assert_eq!((refused("a").level(), as_kind("user"), as_kind("guest"), as_kind("anonymous")), (2, 3, 3, 5));
    }
}
