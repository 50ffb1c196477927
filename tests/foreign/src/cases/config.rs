//! A wrong smb.conf: file, line, value and what to do about it, and exit status 1.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::bed;
use crate::stage::Stage;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[
    Case::new("config.unknown_parameter", |stage| {
        check(stage, "[global]\nworkgroup = W\nraed only = yes\n[a]\npath = @DIR@\n", 3, &["raed only"])
    })
    .frevo_only(),
    Case::new("config.bad_value", |stage| {
        check(stage, "[a]\npath = @DIR@\nread only = perhaps\n", 3, &["perhaps", "read only", "yes"])
    })
    .frevo_only(),
    Case::new("config.missing_path", |stage| {
        check(stage, "[global]\n\n[nowhere]\ncomment = x\n", 3, &["nowhere", "path"])
    })
    .frevo_only(),
    Case::new("config.duplicate_share", |stage| {
        check(stage, "[a]\npath = @DIR@\n[b]\npath = @DIR@\n[A]\npath = @DIR@\n", 5, &["A"])
    })
    .frevo_only(),
    Case::new("config.include_loop", |stage| {
        check(stage, "[global]\ninclude = @DIR@/wrong.conf\n[a]\npath = @DIR@\n", 2, &["wrong.conf", "include"])
    })
    .frevo_only(),
];

/// `frevo check` and `frevo serve` both refuse the text, and name the file, the line and all of `words`.
fn check(stage: &mut Stage, text: &str, line: usize, words: &[&str]) -> Result<()> {
    let dir = stage.local("config")?;
    let conf = dir.join("wrong.conf");
    fs::write(&conf, text.replace("@DIR@", &dir.display().to_string()))?;
    for verb in ["check", "serve"] {
        let mut command = Command::new(bed::frevo());
        command.args([verb, "-c"]).arg(&conf);
        if verb == "serve" {
            command.args(["--port", "0", "--bind", "127.0.0.1", "--state-dir"]).arg(dir.join("state"));
        }
        let mut limited = Command::new("timeout");
        limited.arg("20").arg(command.get_program()).args(command.get_args());
        let output = limited.output().context("cannot start frevo")?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        ensure!(output.status.code() == Some(1), "frevo {verb} ends with {}:\n{said}", output.status);
        let place = format!("wrong.conf:{line}");
        for word in [place.as_str()].iter().chain(words) {
            ensure!(said.contains(word), "frevo {verb}: no {word:?} in\n{said}");
        }
    }
    Ok(())
}
