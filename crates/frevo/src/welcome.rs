//! The output of `frevo serve DIR`: how to connect to the share, with which account, from which program.
//!
//! If the database has no accounts, one is created for the user who started the server. Its password is shown once and
//! stored only as a hash.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use zeroize::Zeroizing;

use crate::admin;
use crate::admin::message::{UserReply, UserRequest};
use accounts::Directory;
use accounts::record::nt_hash;
use accounts::unix::{Key, Users};

/// Letters and digits that look different in every typeface: without 0 O o, 1 l I i.
const ALPHABET: &[u8] = b"abcdefghjkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789";

/// Length of a generated password: 16 of 55 characters are 92 bits.
const PASSWORD_LENGTH: usize = 16;

/// The standard SMB port, and the only one that Windows Explorer supports.
const SMB_PORT: u16 = 445;

/// The account shown in the output.
pub struct Owner {
    /// The account's name.
    pub name: String,
    /// The account's password, if it was just created.
    pub password: Option<Zeroizing<String>>,
}

/// Returns the account for the user who started the server: the one with their name, else the first one. If there is no
/// account, one is created.
pub fn owner(accounts: &Directory) -> Result<Owner> {
    let name = invoker(accounts.users(), std::env::var("SUDO_USER").ok())?;
    if !accounts.is_empty()? {
        let there = match accounts.record(&name)? {
            Some(record) => Some(record),
            None => accounts.first()?,
        };
        let name = there.context("the accounts were deleted meanwhile")?.name.clone();
        return Ok(Owner { name, password: None });
    }
    let password = generate_password()?;
    let nt_hash = Some(nt_hash(&password)?);
    let add = UserRequest::Add { name: name.clone(), nt_hash, full_name: String::new(), uid: None };
    match admin::perform(accounts, add).with_context(|| format!("cannot create the account {name}"))? {
        UserReply::Done(_) => Ok(Owner { name, password: Some(password) }),
        _ => bail!("cannot create the account {name}: unexpected answer"),
    }
}

/// Returns the user who started the server: the one who called sudo, else the process's user.
fn invoker(users: &Users, sudo_user: Option<String>) -> Result<String> {
    if let Some(only) = users.only() {
        return Ok(only.name.clone());
    }
    // Any process of root may set the variable, but gains nothing, because the account acts as the user of its name.
    let known = |name: &String| matches!(users.glance_blocking(&Key::Name(name.clone())), Ok(Ok(_)));
    Ok(sudo_user.filter(known).unwrap_or_else(|| "root".to_owned()))
}

/// Generates a random password.
pub fn generate_password() -> Result<Zeroizing<String>> {
    let mut password = Zeroizing::new(String::with_capacity(PASSWORD_LENGTH));
    // Byte values above the last whole multiple of the alphabet's length would make its first characters more likely.
    let fair = 256 - 256 % ALPHABET.len();
    while password.len() < PASSWORD_LENGTH {
        let mut random = Zeroizing::new([0; 2 * PASSWORD_LENGTH]);
        aws_lc_rs::rand::fill(&mut *random).map_err(|_| anyhow!("cannot generate random numbers"))?;
        for byte in random.iter().map(|byte| usize::from(*byte)).filter(|byte| *byte < fair) {
            if password.len() < PASSWORD_LENGTH {
                password.push(char::from(ALPHABET[byte % ALPHABET.len()]));
            }
        }
    }
    Ok(password)
}

/// The values that the text contains.
pub struct Welcome<'a> {
    /// The directory that is served.
    pub directory: &'a Path,
    /// The share's name.
    pub share: &'a str,
    /// The account to log on with.
    pub owner: &'a Owner,
    /// The machine's name.
    pub host: &'a str,
    /// The addresses at which clients reach the server, best first ([`smbconf::interfaces::reachable`]).
    pub addresses: &'a [IpAddr],
    /// The port.
    pub port: u16,
    /// The user that all clients act as, if the server does not run as root.
    pub only: Option<&'a str>,
    /// The state directory, if it is not the default one.
    pub state_dir: Option<&'a Path>,
}

impl Welcome<'_> {
    /// Returns the text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        self.write(&mut text).expect("a string takes all text");
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let user = &self.owner.name;
        let state_dir =
            self.state_dir.map_or(String::new(), |dir| format!(" --state-dir {}", shell(&dir.to_string_lossy())));
        writeln!(text, "Serving {} as share {:?}.\n", self.directory.display(), self.share)?;
        writeln!(text, "  Machine     {}, port {}", self.machine(), self.port)?;
        writeln!(text, "  User        {user}")?;
        match &self.owner.password {
            Some(password) => writeln!(text, "  Password    {}   (shown only this once)", password.as_str())?,
            None => writeln!(
                text,
                "  Password    the one you have; for a new one: frevo user passwd {}{state_dir}",
                shell(user)
            )?,
        }
        writeln!(text, "\nConnect from\n")?;
        self.write_clients(text)?;
        writeln!(text, "\nMore accounts: frevo user add NAME{state_dir}")?;
        match self.only {
            Some(only) => writeln!(
                text,
                "Not running as root: all users read and write files as {only}. As root, each account acts as the\n\
                 UNIX user of its name."
            ),
            None if user == "root" => {
                writeln!(text, "Account root may do everything in this directory; add accounts for other UNIX users.")
            }
            None => Ok(()),
        }
    }

    fn write_clients(&self, text: &mut String) -> std::fmt::Result {
        let (host, port, share) = (self.primary(), self.port, self.share);
        let user = &self.owner.name;
        let unc = format!(r"\\{}\{share}", host.map_or(self.host.to_owned(), unc_host));
        match port {
            SMB_PORT => writeln!(text, "  Windows     {unc}   (in the address bar of Explorer)")?,
            _ => {
                writeln!(text, "  Windows     net use * \"{unc}\" /user:{} /tcpport:{port}", cmd(user))?;
                writeln!(
                    text,
                    "              (Windows 11 24H2 and later; Explorer itself only supports port {SMB_PORT})"
                )?;
            }
        }
        let url_port = if port == SMB_PORT { String::new() } else { format!(":{port}") };
        let url_host = host
            .map_or(self.host.to_owned(), |ip| SocketAddr::new(ip, 0).to_string().trim_end_matches(":0").to_owned());
        writeln!(
            text,
            "  macOS       smb://{}@{url_host}{url_port}/{}   (Finder: Go, Connect to Server)",
            url(user),
            url(share)
        )?;
        let plain_host = host.map_or(self.host.to_owned(), |ip| ip.to_string());
        let service = shell(&format!("//{plain_host}/{share}"));
        writeln!(text, "  smbclient   smbclient {service} -p {port} -U {}", shell(user))?;
        let options = shell(&format!("port={port},username={user},vers=3.1.1"));
        writeln!(text, "  Linux       mount -t cifs {service} /mnt -o {options}")
    }

    /// Returns the address shown in the client lines. Addresses are used because host names may not resolve everywhere.
    fn primary(&self) -> Option<IpAddr> {
        self.addresses.first().copied()
    }

    fn machine(&self) -> String {
        let addresses: Vec<String> = self.addresses.iter().map(IpAddr::to_string).collect();
        match addresses.is_empty() {
            true => self.host.to_owned(),
            false => format!("{} ({})", self.host, addresses.join(", ")),
        }
    }
}

/// Formats an address as the host of a UNC path, which cannot contain a colon. For IPv6, Windows uses a special host
/// name.
fn unc_host(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("{}.ipv6-literal.net", address.to_string().replace(':', "-")),
    }
}

/// Quotes `text` as one word for a shell.
fn shell(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.to_owned(),
        false => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

/// Quotes `text` as one word for the Windows command line. Account names cannot contain quotation marks.
fn cmd(text: &str) -> String {
    if text.contains(' ') { format!("\"{text}\"") } else { text.to_owned() }
}

/// Escapes `text` as part of a URL: all but the unreserved characters (RFC 3986, 2.3).
fn url(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => escaped.push(char::from(byte)),
            _ => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use accounts::state_dir::StateDir;

    fn check(welcome: &Welcome<'_>, expected: &str) {
        assert_eq!(welcome.text(), expected, "\n{}", welcome.text());
    }

    #[test]
    fn the_text_of_the_first_start_as_root() {
        let owner = Owner { name: "ann".into(), password: Some(Zeroizing::new("abcdEFGH23456789".into())) };
        let welcome = Welcome {
            directory: Path::new("/srv/data"),
            share: "data",
            owner: &owner,
            host: "box",
            addresses: &["192.0.2.7".parse().unwrap(), "2001:db8::7".parse().unwrap()],
            port: 445,
            only: None,
            state_dir: None,
        };
        check(
            &welcome,
            r#"Serving /srv/data as share "data".

  Machine     box (192.0.2.7, 2001:db8::7), port 445
  User        ann
  Password    abcdEFGH23456789   (shown only this once)

Connect from

  Windows     \\192.0.2.7\data   (in the address bar of Explorer)
  macOS       smb://ann@192.0.2.7/data   (Finder: Go, Connect to Server)
  smbclient   smbclient //192.0.2.7/data -p 445 -U ann
  Linux       mount -t cifs //192.0.2.7/data /mnt -o port=445,username=ann,vers=3.1.1

More accounts: frevo user add NAME
"#,
        );
    }

    #[test]
    fn the_text_of_a_later_start_without_root_on_another_port() {
        let owner = Owner { name: "Ann B".into(), password: None };
        let welcome = Welcome {
            directory: Path::new("/home/ann/my files"),
            share: "my files",
            owner: &owner,
            host: "box",
            addresses: &["2001:db8::7".parse().unwrap()],
            port: 4450,
            only: Some("ann"),
            state_dir: Some(Path::new("/tmp/it's")),
        };
        check(
            &welcome,
            r#"Serving /home/ann/my files as share "my files".

  Machine     box (2001:db8::7), port 4450
  User        Ann B
  Password    the one you have; for a new one: frevo user passwd 'Ann B' --state-dir '/tmp/it'\''s'

Connect from

  Windows     net use * "\\2001-db8--7.ipv6-literal.net\my files" /user:"Ann B" /tcpport:4450
              (Windows 11 24H2 and later; Explorer itself only supports port 445)
  macOS       smb://Ann%20B@[2001:db8::7]:4450/my%20files   (Finder: Go, Connect to Server)
  smbclient   smbclient '//2001:db8::7/my files' -p 4450 -U 'Ann B'
  Linux       mount -t cifs '//2001:db8::7/my files' /mnt -o 'port=4450,username=Ann B,vers=3.1.1'

More accounts: frevo user add NAME --state-dir '/tmp/it'\''s'
Not running as root: all users read and write files as ann. As root, each account acts as the
UNIX user of its name.
"#,
        );
    }

    #[test]
    fn without_an_address_the_host_name_is_shown() {
        let owner = Owner { name: "root".into(), password: None };
        let welcome = Welcome {
            directory: Path::new("/srv"),
            share: "srv",
            owner: &owner,
            host: "box",
            addresses: &[],
            port: 445,
            only: None,
            state_dir: None,
        };
        let text = welcome.text();
        for line in [r"\\box\srv", "smb://root@box/srv", "//box/srv -p 445", "Account root may do everything"] {
            assert!(text.contains(line), "{line}");
        }
    }

    #[test]
    fn passwords_are_long_and_readable() {
        let (one, other) = (generate_password().unwrap(), generate_password().unwrap());
        assert_ne!(*one, *other);
        for password in [one, other] {
            assert_eq!(password.len(), 16);
            assert!(password.bytes().all(|byte| ALPHABET.contains(&byte)));
        }
        assert!(ALPHABET.iter().all(|byte| !b"0Oo1lIi".contains(byte)));
    }

    #[test]
    fn the_first_start_creates_the_account_and_later_ones_keep_it() {
        let dir = tempfile::tempdir().unwrap();
        let accounts =
            Directory::of_server(&StateDir::create(dir.path()).unwrap(), &[accounts::PassdbBackend::Embedded]).unwrap();
        let first = owner(&accounts).unwrap();
        let hash = nt_hash(first.password.as_deref().unwrap()).unwrap();
        assert_eq!(accounts.record(&first.name).unwrap().unwrap().nt_hash.as_ref().unwrap().0, hash.0);
        let later = owner(&accounts).unwrap();
        assert_eq!(later.name, first.name);
        assert!(later.password.is_none());
    }

    #[test]
    fn sudo_identifies_the_user() {
        let users = Users::of_host().unwrap();
        let me = users.only().map_or("root", |user| &user.name);
        assert_eq!(invoker(&users, None).unwrap(), me);
        assert_eq!(invoker(&users, Some("no such user here".into())).unwrap(), me);
    }
}
