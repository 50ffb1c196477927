//! A directory whose Windows ACLs Frevo and Samba keep at the same time, each in the other's format.

use anyhow::{Context, Result, ensure};

use crate::bed::{ALICE, Bed, Server, Target};
use crate::stage::Stage;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[Case::new("acls.shared_with_samba", shared_with_samba).frevo_only()];

const SHARE: &str = "[global]\n@TARGET@\n\tread only = no\n\tcreate mask = 0755\n\tmap archive = no\n\tvfs objects = acl_xattr\n\
                     [acls]\n\tpath = @ACLS@\n";

fn shared_with_samba(stage: &mut Stage) -> Result<()> {
    let path = stage.bed.make_dir("data/acls", &ALICE, 0o777)?;
    let template = SHARE.replace("@ACLS@", path.to_str().context("a path of text")?);
    let samba_bed = Bed::make(Target::Samba)?;
    let samba: Server = samba_bed.start("samba", &template)?;
    let frevo = stage.bed.start("acls", &template)?;
    let usual = std::mem::replace(&mut stage.server, frevo);
    let done = stage.script("descriptors.py", &[&samba.port().to_string()]);
    stage.server = usual;
    done?;
    ensure!(path.join("from-first").exists(), "the share is another directory");
    Ok(())
}
