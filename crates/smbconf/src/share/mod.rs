//! Stage two, one share: its section -> [`server::policy::Share`].

mod modules;
mod snapshots;

use std::path::Path;
use std::time::Duration;

use server::policy::stream_layout::Layout;
use server::policy::{
    AclStore, AclStyle, CscPolicy, InheritOwner, Policy, Share, StoredAcls, Template, UserPattern, fold,
};

use super::acl_store;
use super::membership::Naming;
use super::policy;
use super::problem::{Code, Problem, error, note, warning};
use super::reader::Reader;
use super::resolve;

/// Builds the share; `None` if the section is not one that is served.
pub(super) fn build(reader: &Reader<'_>, section: &resolve::Share, policy: &Policy) -> Option<Share> {
    if let Some(feature) = resolve::special(&section.name, &section.settings, reader.global) {
        let message = format!("the section [{}] is not supported: {feature}", section.name);
        report(
            reader,
            section,
            warning(Code::NotServed, message)
                .remedy("the other shares are served; remove the section to silence this warning"),
        );
        return None;
    }
    let servable = modules::judge(reader, section);
    let mut share = Share::new(&section.name, "");
    access(reader, policy, &mut share);
    share.available &= servable;
    identity(reader, &mut share);
    files(reader, &mut share);
    path(reader, section, &mut share);
    share.snapshots = snapshots::read(reader);
    Some(share)
}

fn report(reader: &Reader<'_>, section: &resolve::Share, problem: Problem) {
    let problem = problem.of(&section.name, "");
    reader.problems.borrow_mut().add(match &section.place {
        Some(place) => problem.at(place),
        None => problem,
    });
}

fn access(reader: &Reader<'_>, policy: &Policy, share: &mut Share) {
    let naming = Naming::of(reader, &policy.netbios_name, &policy.workgroup, policy.membership.is_some());
    let named = |template: Template| match template.constant() {
        Some(element) => naming.patterns(&element),
        None => vec![UserPattern::Variable(template)],
    };
    let users = |name| -> Vec<UserPattern> { reader.templates(name).into_iter().flat_map(named).collect() };
    share.comment = reader.shown_text("comment");
    share.browseable = reader.boolean("browseable");
    share.available = reader.boolean("available");
    share.access.read_only = reader.boolean("read only");
    share.access.guest_ok = reader.boolean("guest ok");
    share.access.guest_only = reader.boolean("guest only") && share.access.guest_ok;
    share.access.hosts = policy::hosts(reader);
    share.access.valid_users = users("valid users");
    share.access.invalid_users = users("invalid users");
    share.access.read_list = users("read list");
    share.access.write_list = users("write list");
    share.access.admin_users = users("admin users");
    share.access.server_smb_encrypt = policy::encryption(reader);
    share.access.max_connections = reader.number("max connections").unwrap_or(u32::MAX);
    share.caching.csc_policy = match reader.choice("csc policy").as_str() {
        "documents" => CscPolicy::Documents,
        "programs" => CscPolicy::Programs,
        "disable" => CscPolicy::Disable,
        _ => CscPolicy::Manual,
    };
}

fn identity(reader: &Reader<'_>, share: &mut Share) {
    let names = reader.variables.names;
    let user = reader.text("force user");
    if !user.is_empty() {
        match names.user(&user) {
            Ok(Some(identity)) => share.access.force_user = Some(identity),
            Ok(None) => reader.report("force user", no_such("user", &user)),
            Err(why) => reader.report("force user", policy::unanswered(&user, &why)),
        }
    }
    let group = reader.text("force group");
    let plain = group.trim_start_matches(['@', '+', '&']);
    if !plain.is_empty() {
        share.access.force_group_members_only = group.starts_with('+');
        match names.group(plain) {
            Ok(Some(gid)) => share.access.force_group = Some(gid),
            Ok(None) => reader.report("force group", no_such("group", plain)),
            Err(why) => reader.report("force group", policy::unanswered(plain, &why)),
        }
    }
}

fn no_such(kind: &str, name: &str) -> Problem {
    error(Code::UnknownName, format!("the UNIX {kind} `{name}` does not exist"))
        .remedy(format!("add the {kind} to this host, or name an existing one"))
}

fn files(reader: &Reader<'_>, share: &mut Share) {
    share.modes.create_mask = reader.octal("create mask");
    share.modes.force_create_mode = reader.octal("force create mode");
    share.modes.directory_mask = reader.octal("directory mask");
    share.modes.force_directory_mode = reader.octal("force directory mode");
    share.names.case_sensitive = reader.choice("case sensitive") == "yes";
    share.names.follow_symlinks = reader.boolean("follow symlinks");
    share.names.wide_links = wide_links(reader);
    share.names.hide_dot_files = reader.boolean("hide dot files");
    share.names.hide_files = reader.patterns("hide files");
    share.names.veto_files = reader.patterns("veto files");
    share.names.delete_veto_files = reader.boolean("delete veto files");
    share.names.hide_unreadable = reader.boolean("hide unreadable");
    share.names.honor_change_notify_privilege = reader.boolean("honor change notify privilege");
    share.names.hide_special_files = reader.boolean("hide special files");
    share.attributes.store_dos_attributes = reader.boolean("store dos attributes");
    share.attributes.map_archive = reader.boolean("map archive");
    share.attributes.map_system = reader.boolean("map system");
    share.attributes.map_hidden = reader.boolean("map hidden");
    share.attributes.map_read_only = match reader.choice("map readonly").as_str() {
        "permissions" => {
            let problem =
                warning(Code::NotServed, "`map readonly` = permissions is treated as yes: the owner's w bit decides");
            reader.report("map readonly", problem.remedy("write yes or no"));
            true
        }
        other => other == "yes",
    };
    share.attributes.delete_readonly = reader.boolean("delete readonly");
    share.acls.dos_filemode = reader.boolean("dos filemode");
    share.acls.inherit_owner = match reader.choice("inherit owner").as_str() {
        "windows and unix" => InheritOwner::WindowsAndUnix,
        "unix only" => InheritOwner::UnixOnly,
        _ => InheritOwner::No,
    };
    share.modes.inherit_permissions = reader.boolean("inherit permissions");
    share.acls.stored = stored_acls(reader);
    share.acls.acl_store = conversions_stored(reader, share.acls.stored.as_ref());
    if share.acls.stored.as_ref().is_some_and(|acls| acls.ignore_system_acls) {
        // The kernel must not deny what a stored descriptor grants.
        share.modes.create_mask |= 0o666;
        share.modes.directory_mask |= 0o777;
    }
    share.acls.acl_flag_inherited_canonicalization = reader.boolean("acl flag inherited canonicalization");
    share.acls.acl_allow_execute_always = reader.boolean("acl allow execute always");
    share.acls.nt_acl_support = reader.boolean("nt acl support");
    share.acls.acl_group_control = reader.boolean("acl group control");
    share.acls.acl_map_full_control = reader.boolean("acl map full control");
    share.acls.force_unknown_acl_user = reader.boolean("force unknown acl user");
    share.attributes.ea_support = reader.boolean("ea support");
    share.streams = streams(reader);
    share.locks.locking = reader.boolean("locking");
    share.locks.strict_locking = reader.choice("strict locking") != "no";
    share.locks.posix_locking = reader.boolean("posix locking");
    share.locks.blocking_locks = reader.boolean("blocking locks");
    share.caching.oplocks = reader.boolean("oplocks");
    share.caching.level2_oplocks = reader.boolean("level2 oplocks");
    share.caching.fake_oplocks = reader.boolean("fake oplocks");
    share.caching.kernel_oplocks = reader.boolean("kernel oplocks");
    share.caching.veto_oplock_files = reader.patterns("veto oplock files");
    share.handles.durable_handles = reader.boolean("durable handles");
    share.handles.continuously_available = share.handles.durable_handles && reader.boolean("continuously available");
    // Names that Windows cannot show are mapped, so nothing is left for `illegal` to mangle.
    share.names.mangled_names = reader.choice("mangled names") == "yes";
    share.sync.strict_sync = reader.boolean("strict sync");
    share.sync.write_time_delay = Duration::from_micros(reader.number("smbd:writetimeupdatedelay").unwrap_or(0));
    share.sync.sync_always = reader.boolean("sync always");
    share.sync.strict_allocate = reader.boolean("strict allocate");
    share.volume = reader.shown_text("volume");
    share.fstype = reader.shown_text("fstype");
}

/// `vfs objects = acl_xattr`.
pub(super) fn stored_acls(reader: &Reader<'_>) -> Option<StoredAcls> {
    let attribute = reader.text("acl_xattr:security_acl_name");
    if !["security.", "user.", "trusted."].iter().any(|namespace| attribute.starts_with(namespace)) {
        reader.bad_value(
            "acl_xattr:security_acl_name",
            &attribute,
            "the name of an extended attribute, such as security.NTACL",
        );
    }
    let acls = StoredAcls {
        of_owner: None,
        attribute,
        ignore_system_acls: reader.boolean("acl_xattr:ignore system acls"),
        default_style: match reader.choice("acl_xattr:default acl style").as_str() {
            "windows" => AclStyle::Windows,
            "everyone" => AclStyle::Everyone,
            _ => AclStyle::Posix,
        },
    };
    modules::are_asked_for(reader, "acl_xattr").then_some(acls)
}

/// `frevo:acl store`.
fn conversions_stored(reader: &Reader<'_>, acls: Option<&StoredAcls>) -> AclStore {
    const NAME: &str = "frevo:acl store";
    let text = reader.text(NAME);
    let Some(store) = acl_store::parse(&text) else {
        reader.bad_value(NAME, &text, acl_store::ALLOWED);
        return AclStore::Auto(None);
    };
    let why = match acls {
        None => "the share stores no descriptors without vfs objects = acl_xattr",
        Some(acls) if acls.ignore_system_acls => "no POSIX ACL is converted with acl_xattr:ignore system acls = yes",
        Some(_) => return store,
    };
    if reader.share.is_some_and(|share| share.0.contains_key(NAME)) {
        let problem = note(Code::Accepted, format!("`{NAME}` has no effect: {why}"));
        reader.report(NAME, problem.remedy("the line may be removed"));
    }
    store
}

/// Returns the layout of alternate streams; `None` if `vfs objects` is set and does not contain `streams_xattr`.
fn streams(reader: &Reader<'_>) -> Option<Layout> {
    if reader.is_set("vfs objects") && !modules::are_asked_for(reader, "streams_xattr") {
        return None;
    }
    let prefix = reader.text("streams_xattr:prefix");
    // Users may only write attributes in this namespace.
    if !prefix.starts_with("user.") || prefix.len() > 64 {
        reader.bad_value("streams_xattr:prefix", &prefix, "a text of at most 64 bytes that begins with `user.`");
        return Some(Layout::default());
    }
    Some(Layout { prefix, typed: reader.boolean("streams_xattr:store_stream_type") })
}

/// Returns whether wide links are on. As in Samba, they stay off while `unix extensions` are on, unless `allow insecure
/// wide links` is also set.
fn wide_links(reader: &Reader<'_>) -> bool {
    let (wanted, insecure) = (reader.boolean("wide links"), reader.boolean("allow insecure wide links"));
    let allowed = !reader.boolean("smb1 unix extensions") || insecure;
    if wanted && !allowed {
        let message = "`wide links` stay off: with `unix extensions` clients could create links out of the share";
        let remedy = "set `allow insecure wide links = yes` or `unix extensions = no` in [global] to enable them";
        reader.report("wide links", warning(Code::Contradiction, message).remedy(remedy));
    }
    wanted && allowed
}

fn path(reader: &Reader<'_>, section: &resolve::Share, share: &mut Share) {
    let template = reader.template("path");
    match template.constant() {
        Some(path) if path.is_empty() => {
            let problem = error(Code::NoPath, format!("the share [{}] has no `path`", section.name));
            report(reader, section, problem.remedy("add `path = /directory/to/share`"));
        }
        Some(path) if !Path::new(&path).is_absolute() => reader.bad_value("path", &path, "an absolute path"),
        Some(path) => {
            if let Err(why) = directory(Path::new(&path)) {
                let problem = warning(Code::MissingPath, format!("the directory of [{}] {why}: {path}", section.name));
                let remedy = "create the directory, mount its file system, or correct `path`; \
                              until then clients cannot connect to the share";
                reader.report("path", problem.remedy(remedy));
            }
            if share.available && fold(&section.name) != "homes" && is_root(Path::new(&path)) {
                reader.report("path", root_shared(section, share));
            }
            share.path = path.into();
        }
        None => {
            // The first expansion in a session must yield a path, whatever the session's values are.
            if template.expand_path(|_| Some("x".into())).or(template.expand_path(|_| Some("/x".into()))).is_none() {
                reader.bad_value(
                    "path",
                    &reader.choice("path"),
                    "an absolute path, with variables for single components",
                );
            }
            share.path = reader.choice("path").into();
            share.path_template = Some(template);
        }
    }
}

fn is_root(path: &Path) -> bool {
    std::fs::canonicalize(path).is_ok_and(|path| path == Path::new("/"))
}

/// Returns the problem of a share of the host's root directory.
fn root_shared(section: &resolve::Share, share: &Share) -> Problem {
    let message = format!("the share [{}] exposes the whole file system of this host", section.name);
    if share.access.guest_ok && (!share.access.read_only || !share.access.write_list.is_empty()) {
        warning(Code::RootShared, message + ", and guests can write to it with the guest account's rights")
            .remedy("share a subdirectory, or set `guest ok = no` and `valid users`")
    } else if share.access.guest_ok {
        warning(Code::RootShared, message + ", and guests can read it with the guest account's rights")
            .remedy("share a subdirectory, or set `guest ok = no` and `valid users`")
    } else {
        note(Code::RootShared, message).remedy("share a subdirectory, unless the share is for administrators")
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
