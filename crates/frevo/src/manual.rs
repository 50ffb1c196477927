//! `frevo man` and `frevo completions`: the manual pages and the completions of shells, for packages. They are made
//! from the definition of the command line.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

/// Prints the manual page frevo-smb.conf(5), or writes all pages
#[derive(clap::Args, Debug)]
pub struct ManArgs {
    /// Write frevo(1), a page for each command, and frevo-smb.conf(5) to this directory
    #[arg(long, value_name = "DIR")]
    all: Option<PathBuf>,
}

/// Prints the completions for a shell
#[derive(clap::Args, Debug)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Runs `frevo man`.
pub fn run(args: &ManArgs, program: Command) -> Result<ExitCode> {
    match &args.all {
        Some(directory) => write_all(directory, program)?,
        None => print(smbconf::man::page().as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs `frevo completions`.
pub fn complete(args: &CompletionsArgs, mut program: Command) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut program, "frevo", &mut text);
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn print(text: &[u8]) -> Result<()> {
    match std::io::stdout().lock().write_all(text) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error).context("cannot write to stdout"),
        _ => Ok(()),
    }
}

fn write_all(directory: &Path, program: Command) -> Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("cannot create {}", directory.display()))?;
    let mut pages = vec![("frevo-smb.conf.5".to_owned(), smbconf::man::page().into_bytes())];
    for (name, page) in pages_of(program)? {
        pages.push((format!("{name}.1"), page));
    }
    for (name, page) in pages {
        let path = directory.join(name);
        std::fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Returns the name and the page of the program and of each command that is shown, `frevo-user-add` for
/// `frevo user add`.
fn pages_of(program: Command) -> Result<Vec<(String, Vec<u8>)>> {
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let mut pages = Vec::new();
    add(&mut pages, &program)?;
    Ok(pages)
}

fn add(pages: &mut Vec<(String, Vec<u8>)>, command: &Command) -> Result<()> {
    let name = command.get_display_name().unwrap_or(command.get_name()).to_owned();
    let mut page = Vec::new();
    let source = concat!("Frevo ", env!("CARGO_PKG_VERSION"));
    Man::new(command.clone()).title(name.to_uppercase()).source(source).manual("Frevo").render(&mut page)?;
    pages.push((name, page));
    command.get_subcommands().filter(|command| !command.is_hide_set()).try_for_each(|command| add(pages, command))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_shown_command_has_a_page_that_names_its_options() {
        let pages = pages_of(crate::cli::Cli::command()).unwrap();
        let page = |name: &str| {
            let found = pages.iter().find(|(known, _)| known == name);
            String::from_utf8(found.unwrap_or_else(|| panic!("{name} has no page")).1.clone()).unwrap()
        };
        assert!(page("frevo-serve").contains("\\-\\-state\\-dir"));
        assert!(page("frevo-user-add").contains(".SH NAME\n"));
        let program = page("frevo");
        for command in [
            "serve", "check", "user", "group", "join", "migrate", "status", "close", "reload", "console", "acl",
            "snapshot", "tune", "bench", "help",
        ] {
            assert!(program.contains(&format!("frevo\\-{command}(1)")), "{command}: {program}");
        }
        assert!(!program.contains("completions"), "hidden commands are not on the page");
    }

    #[test]
    fn shells_complete_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut crate::cli::Cli::command(), "frevo", &mut text);
            let text = String::from_utf8(text).unwrap();
            assert!(text.contains("state-dir") && text.contains("calibrate"), "{shell}");
        }
    }
}
