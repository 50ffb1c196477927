//! `frevo acl show PATH`: the security descriptor that clients see, its source, and the underlying POSIX ACL.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Args;
use proto::dtyp::{SecurityDescriptor, Sid, sddl};
use serde::Serialize;
use server::acl::model::posix_acl::{Entry, PosixAcl, Tag};
use server::security::admin::{Look, Source};

use super::place::{Counter, Where};
use super::{names, words};
use crate::table::printable;
use crate::user::print;

/// Shows the Windows ACL of a file as clients see it, and the underlying POSIX ACL
#[derive(Args, Debug)]
pub(super) struct ShowArgs {
    /// Local path of the file or directory
    path: PathBuf,
    /// The share to use if several shares contain the path [default: the one with the deepest directory]
    #[arg(long, value_name = "NAME")]
    share: Option<String>,
    /// Print only the descriptor, in SDDL, as accepted by `frevo acl set`
    #[arg(long, conflicts_with_all = ["words", "json"])]
    sddl: bool,
    /// Print only the descriptor, in words
    #[arg(long, conflicts_with = "json")]
    words: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    place: Where,
}

/// Runs the command.
pub(super) async fn run(args: ShowArgs) -> Result<ExitCode> {
    let (counter, path) = Counter::of(&args.place, &args.path, args.share.as_deref())?;
    let failed = |error: server::error::Error| anyhow!("{}: {error}", args.path.display());
    let item = counter.desk.item(&path).await.map_err(failed)?;
    let look = counter.desk.look(&item).await.map_err(failed)?;
    let shown = Shown::of(&counter, &args.path.display().to_string(), &look).await;
    let text = match &args {
        ShowArgs { json: true, .. } => serde_json::to_string_pretty(&shown)? + "\n",
        ShowArgs { sddl: true, .. } => encoded(&look.descriptor)? + "\n",
        ShowArgs { words: true, .. } => lines(&shown.words),
        _ => shown.text(),
    };
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Encodes the descriptor as SDDL.
pub(super) fn encoded(descriptor: &SecurityDescriptor) -> Result<String> {
    sddl::encode(descriptor).map_err(|error| anyhow!("{error}; use --words to show it"))
}

/// The output of `--json`.
#[derive(Serialize)]
pub(super) struct Shown {
    path: String,
    share: String,
    /// `stored`, `converted`, `outdated`, `unsure`, `default` or `posix`.
    source: &'static str,
    /// The descriptor shown to clients; `null` if an ACE cannot be written in SDDL.
    sddl: Option<String>,
    words: Vec<String>,
    /// A descriptor that is stored but not valid.
    stored_but_not_counting: Option<String>,
    /// The underlying POSIX ACL, in getfacl syntax.
    posix: Vec<String>,
}

impl Shown {
    pub(super) async fn of(counter: &Counter, path: &str, look: &Look) -> Shown {
        let people = words::People::of(&*counter.accounts.ids, &[&look.descriptor]).await;
        let text = |descriptor| sddl::encode(descriptor).ok();
        let (source, other) = match &look.source {
            Source::Stored => ("stored", None),
            Source::Converted => ("converted", None),
            Source::Outdated(other) => ("outdated", text(other)),
            Source::Unsure(other) => ("unsure", text(other)),
            Source::Default => ("default", None),
            Source::Posix => ("posix", None),
        };
        Shown {
            path: path.to_owned(),
            share: counter.desk.share().name.clone(),
            source,
            sddl: text(&look.descriptor),
            words: words::descriptor(&look.descriptor, &people, look.posix.directory),
            stored_but_not_counting: other,
            posix: posix(counter, look).await,
        }
    }

    fn text(&self) -> String {
        let from = match self.source {
            "stored" => "stored and valid",
            "converted" => "synthesized from the POSIX ACL; nothing is stored",
            "outdated" => {
                "synthesized from the POSIX ACL, which was changed after a descriptor was stored; that one is not valid"
            }
            "unsure" => "synthesized from the POSIX ACL; the stored one may not belong to this POSIX ACL",
            "default" => "acl_xattr:default acl style; nothing is stored",
            _ => "synthesized from the POSIX ACL; the share stores no descriptors",
        };
        let mut text = format!("{} in [{}]: {from}\n\n", printable(&self.path), self.share);
        if let Some(sddl) = &self.sddl {
            text += &format!("{sddl}\n\n");
        }
        text += &lines(&self.words);
        if let Some(other) = &self.stored_but_not_counting {
            text += &format!("\nStored, but not valid:\n{other}\n");
        }
        text + "\nUnderlying POSIX ACL:\n" + &lines(&self.posix)
    }
}

fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| printable(line) + "\n").collect()
}

/// Formats the POSIX ACLs in getfacl syntax, with numbers for ids without a name.
async fn posix(counter: &Counter, look: &Look) -> Vec<String> {
    let posix = &look.posix;
    let name = async |sid: Sid| {
        let name = names::name(&*counter.accounts.ids, &sid).await;
        let plain = name.rsplit('\\').next().unwrap_or_default().to_owned();
        // For an id without a name, print the number instead of the SID.
        if name == sid.to_string() { sid.rid().unwrap_or_default().to_string() } else { plain }
    };
    let mut lines = vec![format!(
        "owner {} ({}), group {} ({})",
        name(Sid::unix_user(posix.uid)).await,
        posix.uid,
        name(Sid::unix_group(posix.gid)).await,
        posix.gid
    )];
    let lists: [(&str, Option<&PosixAcl>); 2] = [("", Some(&posix.access)), ("default:", posix.default.as_ref())];
    for (prefix, list) in lists {
        for Entry { tag, permissions } in list.into_iter().flat_map(PosixAcl::entries) {
            let who = match *tag {
                Tag::Owner => "user:".to_owned(),
                Tag::User(uid) => format!("user:{}", name(Sid::unix_user(uid)).await),
                Tag::OwningGroup => "group:".to_owned(),
                Tag::Group(gid) => format!("group:{}", name(Sid::unix_group(gid)).await),
                Tag::Mask => "mask:".to_owned(),
                Tag::Other => "other:".to_owned(),
            };
            let bits = [(4, 'r'), (2, 'w'), (1, 'x')];
            let bits: String =
                bits.map(|(bit, letter)| if permissions & bit != 0 { letter } else { '-' }).iter().collect();
            lines.push(format!("{prefix}{who}:{bits}"));
        }
    }
    lines
}
