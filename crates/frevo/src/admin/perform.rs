//! Requests about accounts and groups, carried out on the opened accounts: by a running server, or by the
//! command itself when none runs.

use anyhow::{Context, Result};
use proto::dtyp::Sid;
use server::accounts::Authenticator;

use super::message::{GroupRequest, PolicyView, UserReply, UserRequest};
use accounts::records::NewAccount;
use accounts::{Directory, policies};

/// Performs a request. Blocks. The error's text is shown to the user who sent the request.
pub fn perform(accounts: &Directory, request: UserRequest) -> Result<UserReply> {
    Ok(match request {
        UserRequest::Add { name, nt_hash, full_name, uid } => {
            UserReply::Done(accounts.add_account(NewAccount { name, nt_hash, full_name, uid })?)
        }
        UserRequest::Passwd { name, nt_hash } => UserReply::Done(accounts.set_password(&name, nt_hash)?),
        UserRequest::Enable { name, enabled } => UserReply::Done(accounts.set_enabled(&name, enabled)?),
        UserRequest::AccountControl { name, disabled, locked, never_expires } => {
            UserReply::Done(accounts.set_flags(&name, disabled, locked, never_expires)?)
        }
        UserRequest::Delete { name } => {
            accounts.delete_account(&name)?;
            UserReply::Done(None)
        }
        UserRequest::Find { name } => UserReply::Found(accounts.account_view(&name)?),
        UserRequest::List { after } => UserReply::List(accounts.account_views(after.as_deref())?),
        UserRequest::Policy { set } => {
            if let Some((name, value)) = set {
                accounts.set_policy(&name, value)?;
            }
            let view =
                |(name, value, about): (&str, i64, &str)| PolicyView { name: name.into(), value, about: about.into() };
            UserReply::Policies(policies::all(&accounts.policy()).map(view).collect())
        }
        UserRequest::MachineSid { set, forget } => {
            UserReply::MachineSid(accounts.machine_sid(set, forget)?.to_string())
        }
        UserRequest::Import { accounts: imported, dry_run } => UserReply::Imported(accounts.import(imported, dry_run)?),
        UserRequest::Sids { sids, dry_run } => UserReply::Imported(accounts.note_sids(sids, dry_run)?),
        UserRequest::Migrate { migration, dry_run } => {
            UserReply::Migrated(Box::new(accounts.migrate(*migration, dry_run)?))
        }
        UserRequest::Export { after } => UserReply::Exported(accounts.export(after.as_deref())?),
        UserRequest::ShareAcls { set } => UserReply::ShareAcls(accounts.share_acls(set)?),
        UserRequest::Group(request) => perform_on_groups(accounts, request)?,
    })
}

fn perform_on_groups(accounts: &Directory, request: GroupRequest) -> Result<UserReply> {
    Ok(match request {
        GroupRequest::Add(group) => UserReply::Groups(vec![accounts.add_group(group)?]),
        GroupRequest::Edit { name, new_name, comment } => {
            UserReply::Groups(vec![accounts.edit_group(&name, new_name, comment)?])
        }
        GroupRequest::Members { name, add, remove } => {
            UserReply::Members(accounts.group_members(&name, &add, &remove)?)
        }
        GroupRequest::Delete { name } => {
            accounts.delete_group(&name)?;
            UserReply::Done(None)
        }
        GroupRequest::List { after } => {
            let after =
                after.map(|sid| sid.parse::<Sid>()).transpose().ok().context("the SID to list after is invalid")?;
            UserReply::Groups(accounts.group_views(after)?)
        }
        GroupRequest::Import { groups, dry_run } => {
            UserReply::Imported(groups.into_iter().map(|group| accounts.import_group(group, dry_run)).collect())
        }
    })
}
