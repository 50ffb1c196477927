//! The commands of smb.conf that print, which are executed without a shell.
//!
//! A command is divided into words as a shell would, before its variables have values. A value is therefore always part
//! of one argument, whatever it contains.

use std::fmt;

/// The variables of print commands: `%s` and `%f` are the file with and without its directory, `%p` the queue, `%j` the
/// number of the job, `%J` its title, `%z` its size, `%c` its pages. The others are those of other parameters.
pub const PRINT_VARIABLES: &[char] =
    &['s', 'f', 'p', 'j', 'J', 'z', 'c', 'u', 'U', 'g', 'G', 'm', 'M', 'I', 'i', 'S', 'R', 't', 'L', 'N', 'D'];

/// The variables whose values a client may choose.
const CHOSEN_BY_CLIENTS: &[char] = &['J', 'm', 'U', 'u'];

/// A command with variables.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CommandLine {
    text: String,
    words: Vec<Vec<Part>>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum Part {
    Text(String),
    Variable(char),
}

/// Why a text is not a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WrongCommand {
    /// It has something that only a shell understands.
    Shell(String),
    /// It has a quote without an end.
    Quote,
    /// It has an unknown variable.
    Variable(String),
    /// It does not begin with a program.
    NoProgram,
    /// The path of its program is not absolute.
    Relative(String),
}

impl fmt::Display for WrongCommand {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WrongCommand::Shell(what) => write!(out, "`{what}` needs a shell, and commands are executed without one"),
            WrongCommand::Quote => write!(out, "a quote has no end"),
            WrongCommand::Variable(name) => write!(out, "`{name}` is not a variable of print commands"),
            WrongCommand::NoProgram => write!(out, "the command does not begin with the name of a program"),
            WrongCommand::Relative(program) => {
                write!(out, "`{program}` is relative to a directory of users; write the whole path, or the name alone")
            }
        }
    }
}

/// The characters that have a meaning for a shell outside of quotes, and are not supported.
const OPERATORS: &[char] = &[';', '|', '&', '<', '>', '(', ')', '`', '$', '*', '?', '[', ']', '{', '}', '#', '~', '\n'];
/// Those that have one in double quotes.
const OPERATORS_IN_QUOTES: &[char] = &['`', '$'];

impl CommandLine {
    /// Parses a command.
    pub fn parse(text: &str) -> Result<CommandLine, WrongCommand> {
        let mut words = Vec::new();
        let mut word: Option<Vec<Part>> = None;
        let mut quote = None;
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match (quote, letter) {
                (None, ' ' | '\t') => words.extend(word.take()),
                (None, '"' | '\'') => {
                    quote = Some(letter);
                    word.get_or_insert_default();
                }
                (Some(open), letter) if letter == open => quote = None,
                // As in Samba, variables are expanded in both kinds of quotes.
                (_, '%') => word.get_or_insert_default().push(variable(letters.next())?),
                (None, '\\') => add(word.get_or_insert_default(), letters.next().ok_or(WrongCommand::Quote)?),
                (Some('"'), '\\') => {
                    let next = letters.next().ok_or(WrongCommand::Quote)?;
                    let word = word.get_or_insert_default();
                    if !matches!(next, '"' | '\\' | '$' | '`') {
                        add(word, '\\');
                    }
                    add(word, next);
                }
                (None, letter) if OPERATORS.contains(&letter) => return Err(operator(letter, letters.as_str())),
                (Some('"'), letter) if OPERATORS_IN_QUOTES.contains(&letter) => {
                    return Err(operator(letter, letters.as_str()));
                }
                (_, letter) => add(word.get_or_insert_default(), letter),
            }
        }
        if quote.is_some() {
            return Err(WrongCommand::Quote);
        }
        words.extend(word);
        match words.first().map(Vec::as_slice) {
            Some([Part::Text(program)]) if program.contains('=') => Err(WrongCommand::Shell(program.clone())),
            // It would be executed below the directory of the jobs, in which users create files.
            Some([Part::Text(program)]) if program.contains('/') && !program.starts_with('/') => {
                Err(WrongCommand::Relative(program.clone()))
            }
            Some([Part::Text(program)]) if !program.is_empty() => Ok(CommandLine { text: text.to_owned(), words }),
            _ => Err(WrongCommand::NoProgram),
        }
    }

    /// Returns the command as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether the command has a variable.
    pub fn has(&self, variable: char) -> bool {
        self.words.iter().flatten().any(|part| *part == Part::Variable(variable))
    }

    /// Returns a variable that may make an argument an option of the program: an argument begins with it, no `--` is
    /// before it, and a client chooses its value.
    pub fn exposed(&self) -> Option<char> {
        let ends_options = |word: &&Vec<Part>| word[..] == [Part::Text("--".to_owned())];
        self.words.iter().skip(1).take_while(|word| !ends_options(word)).find_map(|word| match word.first() {
            Some(Part::Variable(letter)) if CHOSEN_BY_CLIENTS.contains(letter) => Some(*letter),
            _ => None,
        })
    }

    /// Returns the program and its arguments. A variable without a value is empty.
    pub fn arguments(&self, value: impl Fn(char) -> Option<String>) -> Vec<String> {
        let expand = |part: &Part| match part {
            Part::Text(text) => text.clone(),
            // An argument cannot contain a zero. A client may choose the value, which must not control a terminal.
            Part::Variable(letter) => value(*letter).unwrap_or_default().replace(char::is_control, ""),
        };
        self.words.iter().map(|word| word.iter().map(expand).collect()).collect()
    }
}

fn add(word: &mut Vec<Part>, letter: char) {
    match word.last_mut() {
        Some(Part::Text(text)) => text.push(letter),
        _ => word.push(Part::Text(letter.to_string())),
    }
}

fn variable(letter: Option<char>) -> Result<Part, WrongCommand> {
    match letter {
        Some('%') => Ok(Part::Text("%".to_owned())),
        Some(letter) if PRINT_VARIABLES.contains(&letter) => Ok(Part::Variable(letter)),
        other => Err(WrongCommand::Variable(format!("%{}", other.map(String::from).unwrap_or_default()))),
    }
}

fn operator(letter: char, rest: &str) -> WrongCommand {
    let pair = rest.chars().next().filter(|next| letter == '$' && *next == '(' || *next == letter);
    WrongCommand::Shell([Some(letter), pair].into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Vec<String> {
        let value = |letter| match letter {
            's' => Some("/spool/a b".to_owned()),
            'J' => Some("; touch x $(id) | '\" %s".to_owned()),
            'p' => Some("-P\0x".to_owned()),
            'm' => Some("\u{1b}[2J\nbox\u{9b}".to_owned()),
            _ => None,
        };
        CommandLine::parse(text).unwrap_or_else(|why| panic!("{text}: {why}")).arguments(value)
    }

    #[test]
    fn a_value_never_leaves_its_argument() {
        let title = "; touch x $(id) | '\" %s";
        assert_eq!(arguments("lp -t %J %s"), ["lp", "-t", title, "/spool/a b"]);
        assert_eq!(arguments("lp -t'%J' \"<%s>\""), ["lp", &format!("-t{title}"), "</spool/a b>"]);
        assert_eq!(arguments("lp -P%p"), ["lp", "-P-Px"]);
        assert_eq!(arguments("lp %j ''"), ["lp", "", ""]);
        assert_eq!(arguments("lp %m"), ["lp", "[2Jbox"]);
    }

    #[test]
    fn a_value_of_a_client_may_be_an_option() {
        for (text, expected) in [
            ("x %s %J", Some('J')),
            ("x '%m' %s", Some('m')),
            ("x %U--", Some('U')),
            ("x --title=%J -- %m", None),
            ("x -t\\ %J %s %p %j", None),
        ] {
            assert_eq!(CommandLine::parse(text).expect("a command").exposed(), expected, "{text}");
        }
    }

    #[test]
    fn words_are_those_of_a_shell() {
        let text = r#"lpr  -r 'a  b'c "d\"e\f\\" g\ h \; 100%% "#;
        assert_eq!(arguments(text), ["lpr", "-r", "a  bc", r#"d"e\f\"#, "g h", ";", "100%"]);
    }

    #[test]
    fn what_only_a_shell_understands_is_an_error() {
        for (text, what) in [
            ("lp %s; rm %s", ";"),
            ("lp %s | tee x", "|"),
            ("lp %s && rm %s", "&&"),
            ("lp > /dev/null", ">"),
            ("lp $(id)", "$("),
            ("lp \"$(id)\"", "$("),
            ("lp `id`", "`"),
            ("lp \"`id`\"", "`"),
            ("lp $HOME", "$"),
            ("lp *", "*"),
            ("A=b lp", "A=b"),
        ] {
            assert_eq!(CommandLine::parse(text), Err(WrongCommand::Shell(what.to_owned())), "{text}");
        }
        assert_eq!(CommandLine::parse("lp 'x"), Err(WrongCommand::Quote));
        assert_eq!(CommandLine::parse("lp %Y"), Err(WrongCommand::Variable("%Y".into())));
        assert_eq!(CommandLine::parse("lp %"), Err(WrongCommand::Variable("%".into())));
        for text in ["", "%s", "%p x", "''"] {
            assert_eq!(CommandLine::parse(text), Err(WrongCommand::NoProgram), "{text}");
        }
        for program in ["./plot", "bin/plot"] {
            let relative = Err(WrongCommand::Relative(program.to_owned()));
            assert_eq!(CommandLine::parse(&format!("{program} %s")), relative);
        }
        assert_eq!(arguments("lp '$(id)' ';'"), ["lp", "$(id)", ";"]);
    }
}
