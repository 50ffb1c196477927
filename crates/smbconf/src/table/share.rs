//! Shares and access to them.

use std::path::Path;

use server::policy::hosts::HostList;
use server::policy::{CscPolicy, Encryption, Share};

use super::{BOOL, COUNT, Kind, LIST, OCTAL, PATH, Parameter, TEXT, share};
use super::{acls, dfs, printing};
use crate::lists;
use crate::membership;
use crate::problem::{Code, Problem, error, unanswered, warning};
use crate::reader::ValueReader;
use crate::share::modules;

const CSC: Kind = Kind::Choice(&[&["manual"], &["documents"], &["programs"], &["disable"]]);

/// Values of `server smb encrypt`, `server signing` and similar parameters.
pub(crate) const LEVEL: Kind = Kind::Choice(&[
    &["default"],
    &["off", "no", "false", "0", "disabled"],
    &["if_required", "yes", "true", "1", "on", "enabled", "auto"],
    &["desired"],
    &["required", "mandatory", "force", "forced", "enforced"],
]);

pub(crate) const SHARED_PATH: Parameter =
    share("path", PATH, "", "The shared directory; an absolute path that may contain % variables.")
        .also(&["directory"])
        .reads(read_path);

pub(crate) const READ_ONLY: Parameter =
    share("read only", BOOL, "yes", "Refuse all changes through the share, except by users in write list.")
        .also(&["!writeable", "!writable", "!write ok"])
        .reads(|value, share| share.access.read_only = value.boolean());

const GUEST_OK: Parameter = share("guest ok", BOOL, "no", "Let guests use the share.")
    .also(&["public"])
    .reads(|value, share| share.access.guest_ok = value.boolean());

pub(crate) const COPY: Parameter =
    share("copy", TEXT, "", "Start with the parameters of this share, which must be defined earlier in the file.")
        .read_by_others();

pub(crate) const INCLUDE: Parameter =
    share("include", PATH, "", "Read this file here; a relative path starts at the directory of the including file.")
        .read_by_others();

pub(crate) const VFS_OBJECTS: Parameter =
    share("vfs objects", LIST, "", "Samba's modules, interpreted as requests for their features.")
        .also(&["vfs object"])
        .read_by_others();

pub(crate) const OVERRIDE: Parameter =
    share("frevo:without", LIST, "", "Modules that the share may be served without, or preexec. Not in Samba.")
        .read_by_others();

pub(super) static TABLE: &[Parameter] = &[
    SHARED_PATH,
    share("comment", TEXT, "", "The text next to the share's name in a list of shares.")
        .reads(|value, share| share.comment = value.shown_text()),
    share("browseable", BOOL, "yes", "Show the share in lists of shares.")
        .also(&["browsable"])
        .reads(|value, share| share.browseable = value.boolean()),
    share(
        "access based share enum",
        BOOL,
        "no",
        "List the share only for users that valid users, invalid users and the ACL of the share admit.",
    )
    .reads(|value, share| share.access_based_share_enum = value.boolean()),
    share("available", BOOL, "yes", "Let clients connect to the share.")
        .reads(|value, share| share.available = value.boolean()),
    READ_ONLY,
    GUEST_OK,
    share("guest only", BOOL, "no", "Treat every user as a guest; needs guest ok.")
        .also(&["only guest"])
        .reads(|value, share| share.access.guest_only = value.boolean() && value.of(&GUEST_OK).boolean()),
    share("valid users", LIST, "", "Only these users, and members of these @groups, may connect.")
        .reads(|value, share| share.access.valid_users = membership::users(value)),
    share("invalid users", LIST, "", "These users, and members of these @groups, may not connect.")
        .reads(|value, share| share.access.invalid_users = membership::users(value)),
    share("read list", LIST, "", "These users may only read, regardless of read only.")
        .reads(|value, share| share.access.read_list = membership::users(value)),
    share("write list", LIST, "", "These users may write, regardless of read only.")
        .reads(|value, share| share.access.write_list = membership::users(value)),
    share(
        "admin users",
        LIST,
        "",
        "These users do everything in the share as root; in [global], they also administrate the server remotely.",
    )
    .reads(|value, share| share.access.admin_users = membership::users(value))
    .reads_global(|value, global| global.policy.admin_users = membership::users(value)),
    share("force user", TEXT, "", "Do everything in the share as this UNIX user.").reads(read_force_user),
    share("force group", TEXT, "", "The primary UNIX group in the share; +group: only for its members.")
        .also(&["group"])
        .reads(read_force_group),
    share(
        "hosts allow",
        LIST,
        "",
        "Only these addresses, networks, hosts and @netgroups may connect; in [global], to any share.",
    )
    .also(&["allow hosts"])
    .reads(|value, share| share.access.hosts.allow = hosts(value))
    .reads_global(|value, global| global.policy.hosts.allow = hosts(value)),
    share(
        "hosts deny",
        LIST,
        "",
        "These addresses, networks, hosts and @netgroups may not connect, unless in hosts allow.",
    )
    .also(&["deny hosts"])
    .reads(|value, share| share.access.hosts.deny = hosts(value))
    .reads_global(|value, global| global.policy.hosts.deny = hosts(value)),
    share("max connections", COUNT, "0", "Maximum number of clients connected to the share; 0: no limit.")
        .reads(|value, share| share.access.max_connections = value.number().unwrap_or(u32::MAX)),
    share("create mask", OCTAL, "0744", "Permission bits that are allowed in a new file.")
        .also(&["create mode"])
        .reads(|value, share| share.modes.create_mask = value.octal() | acls::forced_bits(&value.section, 0o666)),
    share("force create mode", OCTAL, "0000", "Permission bits that are always set in a new file.")
        .reads(|value, share| share.modes.force_create_mode = value.octal()),
    share("directory mask", OCTAL, "0755", "Permission bits that are allowed in a new directory.")
        .also(&["directory mode"])
        .reads(|value, share| share.modes.directory_mask = value.octal() | acls::forced_bits(&value.section, 0o777)),
    share("force directory mode", OCTAL, "0000", "Permission bits that are always set in a new directory.")
        .reads(|value, share| share.modes.force_directory_mode = value.octal()),
    share("server smb encrypt", LEVEL, "default", "Encryption: off, if requested by the client, desired, or required.")
        .also(&["smb encrypt"])
        .reads(|value, share| share.access.server_smb_encrypt = encryption(value))
        .reads_global(|value, global| global.policy.server_smb_encrypt = encryption(value)),
    share("csc policy", CSC, "manual", "The files that clients may cache for offline use.")
        .reads(|value, share| share.caching.csc_policy = csc_policy(value)),
    share("volume", TEXT, "", "The volume label that clients see; empty: the share's name.")
        .reads(|value, share| share.volume = value.shown_text()),
    share("fstype", TEXT, "NTFS", "The file system name that clients see.")
        .reads(|value, share| share.fstype = value.shown_text()),
    COPY,
    INCLUDE,
    VFS_OBJECTS,
    OVERRIDE,
];

fn read_path(value: ValueReader<'_>, share: &mut Share) {
    let template = value.template();
    match template.constant() {
        Some(path) if path.is_empty() && dfs::is_elsewhere(value) => {}
        Some(path) if path.is_empty() && value.of(&printing::PRINTABLE).boolean() => {
            share.path = printing::SPOOL.into();
        }
        Some(path) if path.is_empty() => {
            let problem = error(Code::NoPath, format!("the share [{}] has no `path`", share.name));
            value.section.report_share(problem.remedy("add `path = /directory/to/share`"));
        }
        Some(path) if !Path::new(&path).is_absolute() => value.bad_value(&path, "an absolute path"),
        Some(path) => {
            // A path in a volume is looked up when a client connects.
            if !modules::is_in_volume(&value.section)
                && let Err(why) = directory(Path::new(&path))
            {
                let problem = warning(Code::MissingPath, format!("the directory of [{}] {why}: {path}", share.name));
                let remedy = "create the directory, mount its file system, or correct `path`; \
                              until then clients cannot connect to the share";
                value.report(problem.remedy(remedy).loses("", Some(&share.name)));
            }
            share.path = path.into();
        }
        None => {
            // The first expansion in a session must yield a path, whatever the session's values are.
            if template.expand_path(|_| Some("x".into())).or(template.expand_path(|_| Some("/x".into()))).is_none() {
                value.bad_value(&value.choice(), "an absolute path, with variables for single components");
            }
            share.path = value.choice().into();
            share.path_template = Some(template);
        }
    }
}

fn directory(path: &Path) -> Result<(), String> {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err("is not a directory".into()),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => Err("does not exist".into()),
        Err(why) => Err(format!("cannot be accessed ({why})")),
    }
}

fn read_force_user(value: ValueReader<'_>, share: &mut Share) {
    let user = value.text();
    if user.is_empty() {
        return;
    }
    match value.section.variables.names.user(&user) {
        Ok(Some(identity)) => share.access.force_user = Some(identity),
        Ok(None) => value.report(no_such("user", &user)),
        Err(why) => value.report(unanswered(&user, &why)),
    }
}

fn read_force_group(value: ValueReader<'_>, share: &mut Share) {
    let group = value.text();
    let plain = group.trim_start_matches(['@', '+', '&']);
    if plain.is_empty() {
        return;
    }
    share.access.force_group_members_only = group.starts_with('+');
    match value.section.variables.names.group(plain) {
        Ok(Some(gid)) => share.access.force_group = Some(gid),
        Ok(None) => value.report(no_such("group", plain)),
        Err(why) => value.report(unanswered(plain, &why)),
    }
}

fn no_such(kind: &str, name: &str) -> Problem {
    error(Code::UnknownName, format!("the UNIX {kind} `{name}` does not exist"))
        .remedy(format!("add the {kind} to this host, or name an existing one"))
}

fn hosts(value: ValueReader<'_>) -> HostList {
    lists::hosts(&value.list()).unwrap_or_else(|wrong| {
        let allowed = "addresses (10.0.0.5), networks (10.0.0.0/8, 10.0.0.0/255.0.0.0, 10., fd00::/8), localhost, ALL, \
                       host names, .domain, @netgroup, and EXCEPT before exceptions";
        value.bad_value(&wrong, allowed);
        HostList::default()
    })
}

fn encryption(value: ValueReader<'_>) -> Encryption {
    match value.choice().as_str() {
        "off" => Encryption::Off,
        "desired" => Encryption::Desired,
        "required" => Encryption::Required,
        _ => Encryption::Enabled,
    }
}

fn csc_policy(value: ValueReader<'_>) -> CscPolicy {
    match value.choice().as_str() {
        "documents" => CscPolicy::Documents,
        "programs" => CscPolicy::Programs,
        "disable" => CscPolicy::Disable,
        _ => CscPolicy::Manual,
    }
}
