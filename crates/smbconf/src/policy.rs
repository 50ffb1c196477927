//! Stage two, the whole: a resolved configuration -> [`server::policy::Policy`] and [`super::Daemon`].

use std::sync::Arc;

use server::policy::printing::{CommandLine, QueueSystem};
use server::policy::{Guest, Homes as _, MapToGuest, Policy, Share, fold};

use super::homes::Homes;
use super::printers::Printers;
use super::problem::{Code, unanswered, warning};
use super::reader::Reader;
use super::resolve::Resolved;
use super::share;
use super::table::access::GUEST_ACCOUNT;
use super::table::{self, Global};
use super::user_shares;
use super::variables::ServerVariables;

/// Builds the settings of the server with its shares. Problems are added to the reader's; if one of them is an error,
/// the result is not used.
pub(super) fn build(global: &Reader<'_>, resolved: &Resolved) -> Global {
    let Global { mut policy, mut daemon } = table::read_global(global);
    policy.utc_offset = accounts::when::utc_offset;
    for section in &resolved.shares {
        let name = section.name.clone();
        let variables = ServerVariables {
            names: global.variables.names,
            netbios_name: global.variables.netbios_name.clone(),
            workgroup: global.variables.workgroup.clone(),
            share: Some(name.clone()),
        };
        let reader = Reader { share: Some(section), variables: &variables, ..*global };
        if fold(&name) == "homes" {
            let homes = Homes::new(&reader, section, &policy);
            policy.mac.offered |= homes.as_ref().is_some_and(|homes| homes.section().mac.is_some());
            policy.wide_links |= homes.as_ref().is_some_and(|homes| homes.section().names.wide_links);
            policy.homes = homes.map(|homes| Arc::new(homes) as _);
        } else if fold(&name) == "printers" {
            policy.printers = Printers::new(&reader, section, &policy).map(|printers| Arc::new(printers) as _);
        } else if let Some(share) = share::build(&reader, section) {
            policy.mac.offered |= share.mac.is_some();
            policy.wide_links |= share.names.wide_links;
            policy.shares.insert(fold(&name), Arc::new(share));
        }
    }
    daemon.print_commands = print_commands(&policy);
    user_shares::build(global, &resolved.shares, &mut policy);
    policy.guest = guest(global, &policy);
    Global { policy, daemon }
}

/// Returns the commands of all print shares.
fn print_commands(policy: &Policy) -> Vec<CommandLine> {
    let of_share = |share: &Share| match share.printing.as_ref().map(|printing| &printing.system) {
        Some(QueueSystem::Commands(commands)) => commands.all().cloned().collect(),
        _ => Vec::new(),
    };
    let section = policy.printers.as_ref().map(|printers| of_share(printers.section()));
    policy.shares.values().flat_map(|share| of_share(share)).chain(section.into_iter().flatten()).collect()
}

/// Returns the guest, if the configuration allows guests.
fn guest(global: &Reader<'_>, policy: &Policy) -> Option<Guest> {
    let value = global.value(&GUEST_ACCOUNT);
    let name = value.text();
    if policy.map_to_guest == MapToGuest::Never && !policy.shares.values().any(|share| share.access.guest_ok) {
        return None;
    }
    match global.variables.names.user(&name) {
        Ok(Some(identity)) => Some(Guest { name, identity }),
        Ok(None) => {
            let problem =
                warning(Code::UnknownName, format!("the UNIX user `{name}` does not exist: guests are refused"));
            let remedy = "set `guest account` to an existing user of this host";
            value.report(problem.remedy(remedy).loses("guest access", None));
            None
        }
        Err(why) => {
            value.report(unanswered(&name, &why));
            None
        }
    }
}
