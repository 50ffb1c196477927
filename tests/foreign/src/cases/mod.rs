//! The cases, one file per area.

mod acls;
mod addresses;
mod audit;
mod audit_events;
mod budgets;
mod characters;
mod config;
mod console;
mod console_openid;
mod console_process;
mod content;
mod convert;
mod dfs;
mod dialects;
mod discovery;
mod domain;
mod escape;
mod everyday;
mod first_run;
mod hammer;
mod handback;
mod health;
mod kerberos;
mod keytabs;
mod ldap;
mod libraries;
mod local;
mod mac;
mod mac_files;
mod many;
mod metrics;
mod migrate;
mod netatalk;
mod netbench;
mod parity;
mod parity_set;
mod passwords;
mod people;
mod printing;
mod python;
mod random_tree;
mod rclone;
mod recycle;
mod refusals;
mod reload;
mod rpc;
mod rpc_accounts;
mod rpc_compared;
mod rpc_security;
mod shares;
mod signals;
mod sizes;
mod smbpasswd;
mod snapshots;
mod store;
mod streams;
mod testparm;
mod trees;
mod tune;
mod twins;
mod versions;
mod vetoed;

use crate::suite::Case;

/// The areas, in the order in which they run.
const AREAS: &[&[Case]] = &[
    everyday::CASES,
    shares::CASES,
    rpc::CASES,
    rpc_accounts::CASES,
    rpc_compared::CASES,
    rpc_security::CASES,
    metrics::CASES,
    health::CASES,
    console::CASES,
    console_openid::CASES,
    console_process::CASES,
    refusals::CASES,
    dialects::CASES,
    discovery::CASES,
    python::CASES,
    rclone::CASES,
    libraries::CASES,
    many::CASES,
    escape::CASES,
    config::CASES,
    content::CASES,
    testparm::CASES,
    first_run::CASES,
    addresses::CASES,
    signals::CASES,
    reload::CASES,
    budgets::CASES,
    sizes::CASES,
    snapshots::CASES,
    streams::CASES,
    acls::CASES,
    convert::CASES,
    parity::CASES,
    parity_set::CASES,
    store::CASES,
    handback::CASES,
    trees::CASES,
    migrate::CASES,
    netatalk::CASES,
    netbench::CASES,
    hammer::CASES,
    kerberos::CASES,
    keytabs::CASES,
    domain::CASES,
    ldap::CASES,
    local::CASES,
    tune::CASES,
    smbpasswd::CASES,
    passwords::CASES,
    people::CASES,
    printing::CASES,
    versions::CASES,
    vetoed::CASES,
    dfs::CASES,
    recycle::CASES,
    audit::CASES,
    audit_events::CASES,
    characters::CASES,
    mac::CASES,
    mac_files::CASES,
];

/// Returns every case, in the order in which they run.
pub(crate) fn all() -> impl Iterator<Item = &'static Case> {
    AREAS.iter().copied().flatten()
}
