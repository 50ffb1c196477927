//! `frevo help`: the help of a command, or the manual entry of an smb.conf parameter.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::Command;

use smbconf::man;
use smbconf::table;

/// Shows the help of a command, or what is known about an smb.conf parameter
#[derive(clap::Args, Debug)]
pub(crate) struct HelpArgs {
    /// A command, or a parameter such as `create mask`, `fruit:model` or the name of a VFS module
    #[arg(value_name = "COMMAND or PARAMETER")]
    words: Vec<String>,
}

/// Runs the command. A command has precedence over a parameter with the same name.
pub(crate) fn run(args: &HelpArgs, mut program: Command) -> Result<ExitCode> {
    program.build();
    if let Some(command) = command(&mut program, &args.words) {
        crate::check::print(&command.render_long_help().to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let name = args.words.join(" ");
    match man::text(&name) {
        Some(text) => {
            crate::check::print(&text)?;
            Ok(ExitCode::SUCCESS)
        }
        None => {
            eprintln!("frevo: {}", unknown(&name));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Returns the command with this name; `frevo` itself for no words.
fn command<'c>(program: &'c mut Command, words: &[String]) -> Option<&'c mut Command> {
    words.iter().try_fold(program, |command, word| command.find_subcommand_mut(word))
}

/// Returns the command line with `help` as the first word, if it follows a command that has commands of its own:
/// `frevo user help add` is `frevo help user add`.
pub(crate) fn moved_to_front(mut words: Vec<OsString>, program: &Command) -> Vec<OsString> {
    let mut command = program;
    for at in 1..words.len() {
        if words[at] == "help" {
            words[1..=at].rotate_right(1);
            break;
        }
        match words[at].to_str().and_then(|word| command.find_subcommand(word)) {
            Some(found) if found.has_subcommands() => command = found,
            _ => break,
        }
    }
    words
}

/// The most names that are suggested.
const MOST_NAMES: usize = 5;

fn unknown(name: &str) -> String {
    let near: Vec<String> = table::near(name).into_iter().take(MOST_NAMES).map(|known| format!("`{known}`")).collect();
    match near.is_empty() {
        true => format!(
            "`{name}` is neither a command nor an smb.conf parameter; `frevo --help` lists the commands, \
             `frevo check --parameters` the parameters"
        ),
        false => format!("`{name}` is not an smb.conf parameter; did you mean {}?", near.join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn commands_are_found_before_parameters() {
        let found = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let mut program = crate::cli::Cli::command();
            command(&mut program, &words).map(|command| command.get_name().to_owned())
        };
        assert_eq!(found(&[]).as_deref(), Some("frevo"));
        assert_eq!(found(&["user"]).as_deref(), Some("user"));
        assert_eq!(found(&["user", "add"]).as_deref(), Some("add"));
        assert_eq!(found(&["create", "mask"]), None);
    }

    #[test]
    fn help_may_follow_a_command_that_has_commands() {
        let check = |line: &str, expected: &str| {
            let words = line.split(' ').map(OsString::from).collect();
            assert_eq!(moved_to_front(words, &crate::cli::Cli::command()).join(" ".as_ref()), expected);
        };
        check("frevo", "frevo");
        check("frevo help user", "frevo help user");
        check("frevo user help add", "frevo help user add");
        check("frevo serve help", "frevo serve help");
        check("frevo -c help", "frevo -c help");
    }

    #[test]
    fn similar_names_are_suggested() {
        assert_eq!(unknown("raed only"), "`raed only` is not an smb.conf parameter; did you mean `read only`?");
        let near = unknown("hide file");
        assert!(near.contains("`hide files`"), "{near}");
        assert!(unknown("quantum entanglement").contains("neither a command"), "{}", unknown("quantum entanglement"));
    }
}
