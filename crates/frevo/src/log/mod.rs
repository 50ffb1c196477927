//! The log: which events are written (`log level`), the destination (`log file`, `max log size`, or else standard
//! error), and the format (text or JSON lines).
//!
//! A disabled event costs one load, because levels are compared at the event before its fields are evaluated. Secrets
//! are never logged. Names chosen by clients cannot forge lines or move a terminal's cursor.

mod level;
mod writer;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use tracing::{Dispatch, warn};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload;

pub use level::LogLevel;
use writer::{LogWriter, Shared};

/// Format of log lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
pub enum LogFormat {
    /// Text
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

/// Settings of the log.
#[derive(Clone, Debug)]
pub struct LogOptions {
    /// `log level`.
    pub level: LogLevel,
    /// `log file`; `None` logs to standard error, and so does a file whose directory does not exist.
    pub file: Option<PathBuf>,
    /// `max log size` in bytes: a longer file is renamed to `FILE.old`. 0 means no limit.
    pub max_size: u64,
    /// Format of log lines.
    pub format: LogFormat,
}

impl LogOptions {
    /// Returns the directory of the log file if it does not exist.
    fn missing_directory(&self) -> Option<&Path> {
        self.file.as_ref()?.parent().filter(|directory| !directory.exists())
    }
}

/// The running log.
pub struct Log {
    writer: Arc<LogWriter>,
    level: reload::Handle<Targets, Registry>,
}

impl Log {
    /// Starts the log of this process. Fails if the file cannot be opened or if a log is already running.
    pub fn start(options: &LogOptions) -> Result<Self> {
        let missing = options.missing_directory();
        let (log, dispatch) = match missing {
            Some(_) => Self::build(&LogOptions { file: None, ..options.clone() })?,
            None => Self::build(options)?,
        };
        tracing::dispatcher::set_global_default(dispatch).context("cannot start the log")?;
        if let Some(directory) = missing {
            warn!(
                directory = %directory.display(),
                "the directory of the log file does not exist; the log goes to the standard error output. \
                 Create the directory, or change `log file`, and restart the server"
            );
        }
        Ok(log)
    }

    fn build(options: &LogOptions) -> Result<(Self, Dispatch)> {
        let writer = Arc::new(match &options.file {
            Some(path) => LogWriter::file(path, options.max_size)?,
            None => LogWriter::standard_error(),
        });
        let (filter, level) = reload::Layer::new(options.level.targets());
        let lines = tracing_subscriber::fmt::layer().log_internal_errors(false).with_writer(Shared(writer.clone()));
        let registry = tracing_subscriber::registry().with(filter);
        let dispatch = match options.format {
            LogFormat::Json => Dispatch::new(registry.with(lines.json().flatten_event(true))),
            // The journal of a service manager adds its own timestamps.
            LogFormat::Text if options.file.is_none() && in_journal() => {
                Dispatch::new(registry.with(lines.without_time()))
            }
            LogFormat::Text => Dispatch::new(registry.with(lines)),
        };
        Ok((Log { writer, level }, dispatch))
    }

    /// Reopens the log file after it was renamed, for example by logrotate (SIGHUP).
    pub fn reopen(&self) -> Result<()> {
        self.writer.reopen()
    }

    /// Changes the log level.
    pub fn set_level(&self, level: &LogLevel) -> Result<()> {
        self.level.reload(level.targets()).context("cannot change the log level")
    }
}

/// Returns whether standard error goes to the systemd journal, which sets an environment variable. A terminal inherits
/// that variable from the desktop session, hence the second condition.
fn in_journal() -> bool {
    std::env::var_os("JOURNAL_STREAM").is_some() && !std::io::stderr().is_terminal()
}

#[cfg(test)]
mod tests {
    use tracing::dispatcher::with_default;
    use tracing::{debug, info};

    use super::*;

    #[test]
    fn a_log_file_without_a_directory_does_not_stop_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let (level, format) = (LogLevel::default(), LogFormat::Text);
        let mut options = LogOptions { level, file: Some(dir.path().join("none/log")), max_size: 0, format };
        assert!(options.missing_directory().is_some());
        options.file = Some(dir.path().join("log"));
        assert!(options.missing_directory().is_none());
        options.file = None;
        assert!(options.missing_directory().is_none());
    }

    fn log(format: LogFormat, test: impl FnOnce(&Log)) -> String {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("log");
        let options = LogOptions { level: LogLevel::default(), file: Some(file.clone()), max_size: 0, format };
        let (log, dispatch) = Log::build(&options).unwrap();
        with_default(&dispatch, || test(&log));
        std::fs::read_to_string(file).unwrap()
    }

    #[test]
    fn the_level_filters_messages_and_can_change() {
        let text = log(LogFormat::Text, |log| {
            debug!("one");
            info!(user = "ann\nforged", "two");
            log.set_level(&LogLevel::parse("3").unwrap()).unwrap();
            debug!("three");
            log.set_level(&LogLevel::parse("0").unwrap()).unwrap();
            info!("four");
        });
        assert!(!text.contains("one") && text.contains("two") && text.contains("three") && !text.contains("four"));
        assert_eq!(text.lines().count(), 2, "{text}");
    }

    #[test]
    fn json_output_has_one_object_per_line() {
        let text = log(LogFormat::Json, |_| {
            info!(user = "ann\n\u{1b}[2J", number = 7, "hello");
            info!("again");
        });
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!((&lines[0]["message"], &lines[0]["number"]), (&"hello".into(), &7.into()));
        assert_eq!((&lines[0]["user"], &lines[0]["level"]), (&"ann\n\u{1b}[2J".into(), &"INFO".into()));
    }
}
