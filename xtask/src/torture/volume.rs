//! A GlusterFS volume that has the shares. The runner and the servers under test are in the namespaces of its servers.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::ground::TEMPLATE;

/// A volume, and where it is mounted.
#[derive(Clone, Debug)]
pub(crate) struct Volume {
    pub(super) name: String,
    point: PathBuf,
}

impl std::str::FromStr for Volume {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> Result<Volume> {
        let servers = std::env::var_os("FREVO_GLUSTER_DIR").context("use cargo xtask gluster torture")?;
        Ok(Volume { name: name.to_owned(), point: Path::new(&servers).join("mnt").join(name) })
    }
}

impl Volume {
    /// Creates a directory in the volume for an environment, which has a link to it called `data`. Returns the template
    /// of the configurations.
    pub(super) fn hold(&self, environment: &Path) -> Result<String> {
        let name = environment.file_name().context("the environment has no name")?;
        let there = self.point.join(name);
        fs::create_dir(&there).with_context(|| format!("cannot create {}", there.display()))?;
        symlink(&there, environment.join("data"))?;
        Ok(self.template(TEMPLATE, &name.to_string_lossy()))
    }

    /// Places the shares of a template in the directory `name` of the volume.
    fn template(&self, template: &str, name: &str) -> String {
        let globals = format!(
            "[global]
\tglusterfs:volume = {}
\tglusterfs:volfile_server = 127.0.0.1
\tglusterfs:logfile = @DIR@/gfapi.log
\t# Only this server opens the files, so that it may grant oplocks, leases and durable handles.
\tfrevo:coherence = exclusive",
            self.name
        );
        let lines = template.lines().map(|line| match line.trim_start() {
            "[global]" => globals.clone(),
            // The module of the storage is the last.
            modules if modules.starts_with("vfs objects =") => format!("{line} glusterfs"),
            _ => line.replace("@DIR@/data/", &format!("/{name}/")),
        });
        lines.map(|line| line + "\n").collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_moved_to_the_volume() {
        let volume = Volume { name: "rep".into(), point: PathBuf::new() };
        let text = volume.template("[global]\n@TARGET@\n\tvfs objects = acl_xattr\n[a]\n\tpath = @DIR@/data/a\n", "e");
        assert!(text.contains("\n@TARGET@\n\tvfs objects = acl_xattr glusterfs\n[a]\n\tpath = /e/a\n"), "{text}");
        assert!(text.contains("\n\tglusterfs:volume = rep\n"), "{text}");
    }
}
