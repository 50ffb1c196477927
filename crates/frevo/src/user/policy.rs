//! `frevo user policy`: shows and sets the account policies, like `pdbedit -P` of Samba.

use std::process::ExitCode;

use anyhow::{Result, bail};
use server::accounts::AccountPolicy;

use super::{Performer, print};
use crate::admin::message::{PolicyView, UserReply, UserRequest};
use crate::table::table;
use accounts::policies;
use smbconf::location::AccountPlace;

/// Lists all policies, or the one called `name` after setting it to `value`, if given.
pub(super) fn run(place: &AccountPlace, name: Option<String>, value: Option<i64>, json: bool) -> Result<ExitCode> {
    let name = name.map(|name| policies::known(&name)).transpose()?;
    let set = name.zip(value).map(|(name, value)| (name.to_owned(), value));
    let mut all = match Performer::open(place, set.is_some())? {
        Some(mut performer) => match performer.perform(UserRequest::Policy { set })? {
            UserReply::Policies(all) => all,
            _ => bail!("the server sent an unexpected answer"),
        },
        None => defaults(),
    };
    if let Some(name) = name {
        all.retain(|policy| policy.name == name);
    }
    if json {
        print(&format!("{}\n", serde_json::to_string_pretty(&all)?))?;
    } else {
        let row = |policy: &PolicyView| vec![policy.name.clone(), policy.value.to_string(), policy.about.clone()];
        print(&table(&["Policy", "Value", "Meaning"], &all.iter().map(row).collect::<Vec<_>>()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the policies of a server without any accounts.
fn defaults() -> Vec<PolicyView> {
    let view = |(name, value, about): (&str, i64, &str)| PolicyView { name: name.into(), value, about: about.into() };
    policies::all(&AccountPolicy::default()).map(view).collect()
}
