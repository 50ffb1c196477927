//! `frevo acl show PATH`: the descriptor that clients are shown, where it comes from, and the POSIX ACL beneath.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Args;
use proto::dtyp::{SecurityDescriptor, Sid, sddl};
use serde::Serialize;
use server::security::desk::{Look, Source};
use server::security::posix_acl::{Entry, PosixAcl, Tag};

use super::place::{Counter, Where};
use super::{names, words};
use crate::table::printable;
use crate::user::print;

/// Shows the access control list of a file as clients see it, and the POSIX ACL beneath
#[derive(Args, Debug)]
pub(super) struct ShowArgs {
    /// The file or directory, by its path on this machine
    path: PathBuf,
    /// The share to look through, where several have the path [default: the one with the deepest directory]
    #[arg(long, value_name = "NAME")]
    share: Option<String>,
    /// Only the descriptor, in SDDL, as `frevo acl set` takes it
    #[arg(long, conflicts_with_all = ["words", "json"])]
    sddl: bool,
    /// Only the descriptor, in words
    #[arg(long, conflicts_with = "json")]
    words: bool,
    /// Prints JSON
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

/// The descriptor in SDDL.
pub(super) fn encoded(descriptor: &SecurityDescriptor) -> Result<String> {
    sddl::encode(descriptor).map_err(|error| anyhow!("{error}; --words shows it"))
}

/// What `--json` prints.
#[derive(Serialize)]
struct Shown {
    path: String,
    share: String,
    /// `stored`, `converted`, `outdated`, `unsure`, `default` or `posix`.
    source: &'static str,
    /// What clients are shown; `null` where an entry has no text in SDDL.
    sddl: Option<String>,
    words: Vec<String>,
    /// One that is stored and does not count.
    stored_but_not_counting: Option<String>,
    /// The POSIX ACL beneath, as getfacl writes it.
    posix: Vec<String>,
}

impl Shown {
    async fn of(counter: &Counter, path: &str, look: &Look) -> Shown {
        let people = words::People::of(&*counter.accounts, &[&look.descriptor]).await;
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
            "stored" => "stored, and it counts",
            "converted" => "made from the POSIX ACL; nothing is stored",
            "outdated" => {
                "made from the POSIX ACL, which was changed after a descriptor was stored; that one does not count"
            }
            "unsure" => "made from the POSIX ACL; of the stored one it cannot be told whether it is for this POSIX ACL",
            "default" => "acl_xattr:default acl style; nothing is stored",
            _ => "made from the POSIX ACL; the share stores no descriptors",
        };
        let mut text = format!("{} in [{}]: {from}\n\n", printable(&self.path), self.share);
        if let Some(sddl) = &self.sddl {
            text += &format!("{sddl}\n\n");
        }
        text += &lines(&self.words);
        if let Some(other) = &self.stored_but_not_counting {
            text += &format!("\nStored, but not counting:\n{other}\n");
        }
        text + "\nPOSIX ACL beneath:\n" + &lines(&self.posix)
    }
}

fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| printable(line) + "\n").collect()
}

/// The lists as getfacl writes them, with numbers where nobody has a name.
async fn posix(counter: &Counter, look: &Look) -> Vec<String> {
    let posix = &look.posix;
    let name = async |sid: Sid| {
        let name = names::name(&*counter.accounts, &sid).await;
        let plain = name.rsplit('\\').next().unwrap_or_default().to_owned();
        // A SID is no name for what has a number.
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
