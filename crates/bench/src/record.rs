//! What a run leaves behind: the whole of it as one JSON document, enough to repeat it and to draw every plot from.
//!
//! An experiment fills in its own tables and figures, so that the report draws them without knowing any experiment.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// The form of the document; readers refuse another one.
pub const FORMAT: u32 = 1;

/// One run of the tool: one file of `--json`.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Run {
    /// [`FORMAT`].
    pub format: u32,
    /// Version of the tool.
    pub version: String,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// How long it took, seconds.
    #[serde(deserialize_with = "number")]
    pub seconds: f64,
    /// The command line, passwords left out.
    pub command: Vec<String>,
    /// What all random choices came from.
    pub seed: u64,
    /// How it was measured: warm-up, rounds, seconds a round, loop, and so on; name and value.
    pub method: Vec<(String, String)>,
    /// Where the tool ran.
    pub machine: Machine,
    /// The servers, the target first.
    pub servers: Vec<ServerRecord>,
    /// What was measured, in order.
    pub experiments: Vec<Experiment>,
}

/// A machine.
#[derive(Clone, PartialEq, Serialize, Deserialize, Default, Debug)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// The processor's model.
    pub processor: String,
    /// Cores that may be used.
    pub cores: u32,
    /// Memory, bytes.
    pub memory: u64,
    /// Kernel release.
    pub kernel: String,
    /// Distribution.
    pub system: String,
}

/// A server under test.
#[derive(Clone, PartialEq, Serialize, Deserialize, Default, Debug)]
pub struct ServerRecord {
    /// What it is called in tables and legends.
    pub name: String,
    /// Where it was, `smb://user@host:port/share`, without the password.
    pub target: String,
    /// What was agreed on: dialect, signing, sealing.
    pub protocol: String,
    /// What its program says of its version, when it runs on this machine.
    pub version: Option<String>,
    /// The file system of the share, when it is known.
    pub file_system: Option<String>,
    /// Its configuration file's text, when it is known.
    pub configuration: Option<String>,
}

/// One experiment.
#[derive(Clone, PartialEq, Serialize, Deserialize, Default, Debug)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: String,
    /// One line: what is asked.
    pub title: String,
    /// Which study it follows, and what that found, in words; empty when it follows none.
    pub study: String,
    /// What it was run with: name and value.
    pub settings: Vec<(String, String)>,
    /// What was measured, in full.
    pub cases: Vec<Case>,
    /// Tables to show.
    pub tables: Vec<Table>,
    /// Plots to draw.
    pub figures: Vec<Figure>,
    /// Sentences to read: formulas, verdicts, warnings.
    pub remarks: Vec<String>,
}

/// One thing measured on each server, such as `sequential read` or `1,000 users`.
#[derive(Clone, PartialEq, Serialize, Deserialize, Default, Debug)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// Where it stands on the experiment's axis, if it has one.
    pub x: Option<f64>,
    /// The rounds of each server, in the order of [`Run::servers`]; empty where one cannot run it.
    pub servers: Vec<Vec<Round>>,
    /// Whose rounds these are, where it is not the servers of the run, or not they alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parties: Vec<String>,
}

/// One round on one server.
#[derive(Clone, PartialEq, Serialize, Deserialize, Default, Debug)]
pub struct Round {
    /// How long it took, seconds.
    #[serde(deserialize_with = "number")]
    pub seconds: f64,
    /// Operations that succeeded.
    pub operations: u64,
    /// Bytes of payload.
    pub bytes: u64,
    /// Operations that failed; other than 0 only where errors were allowed.
    pub errors: u64,
    /// Far from the other rounds of the same case: counted, and marked.
    pub odd: bool,
    /// How long operations took.
    pub latency: Option<Latency>,
    /// How many operations took how long: upper bounds in microseconds, each 1.25 times the one before, and counts; empty
    /// buckets are left out.
    #[serde(default)]
    pub histogram: Vec<(f64, u64)>,
    /// What the server's processes spent, when they are on this machine.
    pub cost: Option<Cost>,
    /// Processor time of the tool itself, seconds.
    #[serde(deserialize_with = "number")]
    pub client_cpu: f64,
    /// Other figures, by name with unit, such as `private memory per session, KiB`.
    #[serde(deserialize_with = "numbers")]
    pub figures: BTreeMap<String, f64>,
}

/// A latency histogram in short, microseconds.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Default, Debug)]
pub struct Latency {
    /// The mean.
    #[serde(deserialize_with = "number")]
    pub mean: f64,
    /// Half were faster.
    #[serde(deserialize_with = "number")]
    pub p50: f64,
    /// Nine of ten were faster.
    #[serde(deserialize_with = "number")]
    pub p90: f64,
    /// 99 of 100 were faster.
    #[serde(deserialize_with = "number")]
    pub p99: f64,
    /// 999 of 1,000 were faster.
    #[serde(deserialize_with = "number")]
    pub p999: f64,
    /// The slowest.
    #[serde(deserialize_with = "number")]
    pub max: f64,
}

/// What a server's processes spent in a round, and what they held at its end.
#[derive(Clone, PartialEq, Serialize, Deserialize, Default, Debug)]
pub struct Cost {
    /// Processor time, seconds.
    #[serde(deserialize_with = "number")]
    pub cpu: f64,
    /// Of it in the kernel, seconds.
    #[serde(deserialize_with = "number")]
    pub system: f64,
    /// Context switches.
    pub switches: u64,
    /// Bytes that read(2) and its like returned, of files above all: whoever uses recv(2) has sockets left out. Nothing
    /// where it may not be known.
    #[serde(default)]
    pub read: Option<u64>,
    /// System calls by name, when they were counted; the times of such a round count for nothing.
    pub calls: Option<BTreeMap<String, u64>>,
    /// Memory that is the processes' own, bytes.
    pub private: u64,
    /// Memory with shared pages divided by those who share them, bytes.
    pub proportional: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Processes.
    pub processes: u64,
}

/// A table: a head and rows of text, ready to print.
#[derive(Clone, PartialEq, Serialize, Deserialize, Default, Debug)]
pub struct Table {
    /// What it shows.
    pub title: String,
    /// Column titles, with units.
    pub head: Vec<String>,
    /// The rows; the first column names the row.
    pub rows: Vec<Vec<String>>,
}

/// A plot, laid out like the study's own.
#[derive(Clone, PartialEq, Serialize, Deserialize, Default, Debug)]
pub struct Figure {
    /// What it shows.
    pub title: String,
    /// Its horizontal axis.
    pub x: Axis,
    /// Its vertical axis.
    pub y: Axis,
    /// Lines or bars.
    pub kind: Kind,
    /// The names along the horizontal axis of [`Kind::Bars`].
    pub categories: Vec<String>,
    /// What is drawn.
    pub series: Vec<Series>,
}

/// How a figure is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Points joined by lines.
    #[default]
    Lines,
    /// A group of bars for each category.
    Bars,
    /// Points alone.
    Points,
}

/// An axis.
#[derive(Clone, PartialEq, Serialize, Deserialize, Default, Debug)]
pub struct Axis {
    /// What it measures.
    pub label: String,
    /// In what unit; empty for a count.
    pub unit: String,
    /// Whether it is logarithmic.
    pub logarithmic: bool,
}

/// One line or one colour of bars.
#[derive(Clone, PartialEq, Serialize, Deserialize, Default, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// From the study of then, not from this run: drawn apart.
    pub then: bool,
    /// Index into [`Run::servers`]: a server has the same colour in every figure.
    pub server: Option<usize>,
    /// Its points; for bars `x` is the index of the category.
    pub points: Vec<Point>,
}

/// A point with its spread.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Default, Debug)]
pub struct Point {
    /// Horizontally.
    #[serde(deserialize_with = "number")]
    pub x: f64,
    /// Vertically: the median of the rounds.
    #[serde(deserialize_with = "number")]
    pub y: f64,
    /// The smallest of the rounds.
    #[serde(deserialize_with = "number")]
    pub low: f64,
    /// The largest.
    #[serde(deserialize_with = "number")]
    pub high: f64,
}

/// JSON has no "not a number": it is written as `null`, and must not make a record unreadable.
fn number<'a, D: Deserializer<'a>>(source: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(source)?.unwrap_or(f64::NAN))
}

/// As [`number`], for each value.
fn numbers<'a, D: Deserializer<'a>>(source: D) -> Result<BTreeMap<String, f64>, D::Error> {
    let values = BTreeMap::<String, Option<f64>>::deserialize(source)?;
    Ok(values.into_iter().map(|(name, value)| (name, value.unwrap_or(f64::NAN))).collect())
}
