//! The container image: an archive of an OCI image layout, with one layer that has the program and its libraries.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::{Program, Tree, Work, epoch, output, succeed};

/// The user of the image. Any other works as well.
const USER: &str = "65532:65532";

/// Builds the image. Returns the path of the archive.
pub(super) fn build(program: &Program, work: &Work, out: &Path) -> Result<PathBuf> {
    let root = Tree::new(work.path().join("image"))?;
    fill(&root, program)?;
    let layout = Tree::new(work.path().join("layout"))?;
    layout.directory("blobs/sha256", 0o755)?;
    let layer = work.path().join("layer.tar");
    archive(&root.0, &layer)?;
    let uncompressed = digest(&layer)?;
    succeed(Command::new("gzip").args(["-9", "-n"]).arg(&layer))?;
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let created =
        output(Command::new("date").args(["--utc", "+%Y-%m-%dT%H:%M:%SZ", "-d"]).arg(format!("@{}", epoch()?)))?;
    let version = program.version()?;
    let settings = json!({
        "User": USER,
        "ExposedPorts": { "445/tcp": {}, "4450/tcp": {} },
        "Env": ["PATH=/usr/bin", "FREVO_STATE_DIR=/state/frevo"],
        "Entrypoint": ["/usr/bin/frevo"],
        "Cmd": ["serve"],
        "Volumes": { "/state": {} },
        "StopSignal": "SIGTERM",
        // Not part of the OCI specification. Docker and podman read it where they support it.
        "Healthcheck": { "Test": ["CMD", "/usr/bin/frevo", "status"], "Interval": 30_000_000_000_u64 },
        "Labels": { "org.opencontainers.image.title": "frevo", "org.opencontainers.image.version": version },
    });
    let config = json!({
        "created": created.trim(),
        "architecture": architecture,
        "os": "linux",
        "config": settings,
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{uncompressed}")] },
        "history": [{ "created": created.trim(), "created_by": "cargo xtask package oci" }],
    });
    let layer =
        blob(&layout, "application/vnd.oci.image.layer.v1.tar+gzip", &fs::read(layer.with_extension("tar.gz"))?)?;
    let config = blob(&layout, "application/vnd.oci.image.config.v1+json", config.to_string().as_bytes())?;
    let media_type = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({ "schemaVersion": 2, "mediaType": media_type, "config": config, "layers": [layer] });
    let mut manifest = blob(&layout, media_type, manifest.to_string().as_bytes())?;
    manifest["annotations"] = json!({ "org.opencontainers.image.ref.name": format!("frevo:{version}") });
    layout.write("index.json", 0o644, json!({ "schemaVersion": 2, "manifests": [manifest] }).to_string())?;
    layout.write("oci-layout", 0o644, json!({ "imageLayoutVersion": "1.0.0" }).to_string())?;
    let path = out.join(format!("frevo-{version}-{architecture}.oci.tar"));
    archive(&layout.0, &path)?;
    Ok(path)
}

/// Adds the program, its libraries, and the files in which libraries look for users.
fn fill(root: &Tree, program: &Program) -> Result<()> {
    root.copy("usr/bin/frevo", 0o755, &program.path)?;
    for library in libraries(&program.path)? {
        root.copy(library.trim_start_matches('/'), 0o755, Path::new(&library))?;
    }
    let user = USER.split(':').next().unwrap_or_default();
    root.write(
        "etc/passwd",
        0o644,
        format!("root:x:0:0:root:/:/nonexistent\nfrevo:x:{user}:{user}:Frevo:/state:/nonexistent\n"),
    )?;
    root.write("etc/group", 0o644, format!("root:x:0:\nfrevo:x:{user}:\n"))?;
    root.write("etc/nsswitch.conf", 0o644, "passwd: files\ngroup: files\nhosts: files dns\n")?;
    root.directory("etc/frevo", 0o755)?;
    root.directory("share", 0o755)?;
    // The state directory is created below it, private, by whichever user runs the server.
    root.directory("state", 0o1777)?;
    root.directory("tmp", 0o1777)
}

/// Returns the paths of the libraries that the dynamic linker loads, and its own.
fn libraries(program: &Path) -> Result<BTreeSet<String>> {
    let text = output(Command::new("ldd").arg(program))?;
    Ok(text.split_whitespace().filter(|word| word.starts_with('/')).map(str::to_owned).collect())
}

/// Archives the content of a directory, with the same bytes for the same content.
fn archive(directory: &Path, to: &Path) -> Result<()> {
    let mut command = Command::new("tar");
    command.args(["--create", "--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    succeed(command.arg(format!("--mtime=@{}", epoch()?)).arg("--file").arg(to).arg("-C").arg(directory).arg("."))
}

/// Adds a blob. Returns its descriptor.
fn blob(layout: &Tree, media_type: &str, content: &[u8]) -> Result<Value> {
    layout.write("blobs/sha256/new", 0o644, content)?;
    let path = layout.0.join("blobs/sha256/new");
    let digest = digest(&path)?;
    fs::rename(&path, path.with_file_name(&digest))?;
    Ok(json!({ "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": content.len() }))
}

fn digest(path: &Path) -> Result<String> {
    let text = output(Command::new("sha256sum").arg(path))?;
    text.split_whitespace().next().map(str::to_owned).context("sha256sum printed nothing")
}
