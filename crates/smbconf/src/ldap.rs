//! Stage two, the directory of `passdb backend = ldapsam`: the parameters of its queries.

use std::time::Duration;

use super::problem::{Code, error};
use super::reader::Reader;
use ldap::Deref;

use accounts::ldap::Settings;

/// Reads the settings; the caller sets `servers` and `name` for each element of `passdb backend`.
pub(super) fn settings(global: &Reader<'_>) -> Settings {
    let suffix = global.text("ldap suffix");
    let below = |name: &str| match global.text(name) {
        part if part.is_empty() => suffix.clone(),
        part => format!("{part},{suffix}"),
    };
    let seconds = |name| Duration::from_secs(global.number::<u64>(name).unwrap_or(0).clamp(1, 3600));
    let authority = global.text("tls cafile");
    if !authority.is_empty() && !authority.starts_with('/') {
        let problem = error(Code::BadValue, format!("`tls cafile` = {authority} is not an absolute path"));
        global.report("tls cafile", problem.remedy("write the file's full path"));
    }
    Settings {
        name: String::new(),
        servers: Vec::new(),
        user_suffix: below("ldap user suffix"),
        group_suffix: below("ldap group suffix"),
        admin_dn: global.text("ldap admin dn"),
        start_tls: global.choice("ldap ssl") == "start tls",
        authority: (!authority.is_empty()).then(|| authority.into()),
        timeout: seconds("ldap timeout"),
        connection_timeout: seconds("ldap connection timeout"),
        page_size: u16::try_from(global.number::<u64>("ldap page size").unwrap_or(0).clamp(1, 10_000)).unwrap_or(1000),
        deref: match global.choice("ldap deref").as_str() {
            "searching" => Deref::Searching,
            "finding" => Deref::Finding,
            "always" => Deref::Always,
            _ => Deref::Never,
        },
        delete_dn: global.boolean("ldap delete dn"),
        trusted: global.boolean("ldapsam:trusted"),
        domain: global.variables.netbios_name.clone(),
        suffix,
    }
}
