//! The text of a file that `net usershare add` writes.

use std::path::PathBuf;

use proto::dtyp::Sid;
use server::policy::{UserPattern, UserShareAcl, fold};

/// What a file defines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Definition {
    /// The share's name.
    pub(super) name: String,
    /// The shared directory, as written.
    pub(super) path: PathBuf,
    pub(super) comment: String,
    pub(super) acl: UserShareAcl,
    pub(super) guest_ok: bool,
}

/// Reads the text of the file called `name`; the error says what is wrong with it. Version 1 has no `guest_ok` and no
/// `sharename`.
pub(super) fn parse(name: &str, text: &str) -> Result<Definition, String> {
    let mut lines = text.lines();
    let version = lines.next().and_then(|line| line.strip_prefix("#VERSION ")).map(str::trim);
    if !matches!(version, Some("1" | "2")) {
        return Err("the first line is not #VERSION 1 or #VERSION 2".into());
    }
    let mut definition = Definition {
        name: name.to_owned(),
        path: PathBuf::new(),
        comment: String::new(),
        acl: UserShareAcl::default(),
        guest_ok: false,
    };
    let mut has_acl = false;
    for line in lines.map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (key, value) = line.split_once('=').ok_or_else(|| format!("the line {line:?} has no ="))?;
        match key {
            "path" => definition.path = value.into(),
            "comment" => definition.comment = value.to_owned(),
            "usershare_acl" => (definition.acl, has_acl) = (acl(value)?, true),
            "guest_ok" => definition.guest_ok = value == "y",
            "sharename" if fold(value) == fold(name) => definition.name = value.to_owned(),
            "sharename" => return Err(format!("the name {value:?} is not that of the file")),
            _ => return Err(format!("the line {line:?} is unknown")),
        }
    }
    if !has_acl || !definition.path.is_absolute() {
        return Err("it has no usershare_acl, or no absolute path".into());
    }
    Ok(definition)
}

/// Reads `SID:R,SID:F,SID:D`: users who may read, write, and may not connect. An empty ACL lets everyone read.
fn acl(text: &str) -> Result<UserShareAcl, String> {
    let mut acl = UserShareAcl::default();
    for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let wrong = || format!("{entry:?} in usershare_acl is not SID:R, SID:F or SID:D");
        let (sid, right) = entry.split_once(':').ok_or_else(wrong)?;
        let user = UserPattern::Sid(sid.parse::<Sid>().map_err(|_| wrong())?);
        match right {
            "R" | "r" => acl.connect.push(user),
            "F" | "f" => {
                acl.write.push(user.clone());
                acl.connect.push(user);
            }
            "D" | "d" => acl.refuse.push(user),
            _ => return Err(wrong()),
        }
    }
    if acl == UserShareAcl::default() {
        acl.connect.push(UserPattern::Sid(Sid::EVERYONE));
    }
    Ok(acl)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_both_versions_are_read() {
        let sid = |text: &str| UserPattern::Sid(text.parse().expect("a SID"));
        let text = "#VERSION 2\npath=/srv/x=y\ncomment=a = b\nusershare_acl=S-1-1-0:R,S-1-5-32-544:F,S-1-5-32-546:d\n\
                    guest_ok=y\nsharename=Music\n";
        let expected = Definition {
            name: "Music".into(),
            path: "/srv/x=y".into(),
            comment: "a = b".into(),
            acl: UserShareAcl {
                connect: vec![sid("S-1-1-0"), sid("S-1-5-32-544")],
                write: vec![sid("S-1-5-32-544")],
                refuse: vec![sid("S-1-5-32-546")],
            },
            guest_ok: true,
        };
        assert_eq!(parse("music", text), Ok(expected));
        let old = parse("music", "#VERSION 1\npath=/srv\ncomment=\nusershare_acl=\n").expect("a share");
        assert_eq!((&*old.name, old.guest_ok, &old.acl.connect[..]), ("music", false, &[sid("S-1-1-0")][..]));
        assert!(old.acl.write.is_empty());
    }

    #[test]
    fn other_files_are_refused() {
        let cases = [
            "",
            "path=/srv\nusershare_acl=S-1-1-0:R\n",
            "#VERSION 3\npath=/srv\nusershare_acl=S-1-1-0:R\n",
            "#VERSION 2\npath=srv\nusershare_acl=S-1-1-0:R\n",
            "#VERSION 2\npath=/srv\n",
            "#VERSION 2\nusershare_acl=S-1-1-0:R\n",
            "#VERSION 2\npath=/srv\nusershare_acl=everyone:R\n",
            "#VERSION 2\npath=/srv\nusershare_acl=S-1-1-0:W\n",
            "#VERSION 2\npath=/srv\nusershare_acl=S-1-1-0:R\nsharename=other\n",
            "#VERSION 2\npath=/srv\nusershare_acl=S-1-1-0:R\nforce user=root\n",
            "#VERSION 2\npath\n",
        ];
        for text in cases {
            assert!(parse("music", text).is_err(), "{text}");
        }
    }
}
