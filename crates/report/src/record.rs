//! The results of a run as one JSON document, with everything that is needed to repeat the run and to draw every plot.
//!
//! An experiment fills in its own tables and figures, so that the report can draw them without code for each
//! experiment.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

/// The version of the document's format. Readers reject other versions.
pub const FORMAT: u32 = 1;

/// One run of the tool, stored in one file of `--json`.
#[derive(Clone, PartialEq, Serialize, Deserialize, Debug)]
pub struct Run {
    /// The format version, [`FORMAT`].
    pub format: u32,
    /// Version of the tool.
    pub version: String,
    /// When the run began, in RFC 3339 format, UTC.
    pub started: String,
    /// Duration of the run, in seconds.
    #[serde(deserialize_with = "number")]
    pub seconds: f64,
    /// The command line without passwords.
    pub command: Vec<String>,
    /// The seed of all random choices.
    pub seed: u64,
    /// The settings of the measurement as names and values: warm-up, rounds, seconds of a round, loop, and so on.
    pub method: Vec<(String, String)>,
    /// The machine on which the tool ran.
    pub machine: Machine,
    /// The servers, the target first.
    pub servers: Vec<ServerRecord>,
    /// The measurements, in order.
    pub experiments: Vec<Experiment>,
}

/// A machine.
#[derive(Clone, PartialEq, Serialize, Deserialize, Default, Debug)]
pub struct Machine {
    /// Its name.
    pub name: String,
    /// The processor's model.
    pub processor: String,
    /// Number of usable cores.
    pub cores: u32,
    /// Memory, in bytes.
    pub memory: u64,
    /// Kernel release.
    pub kernel: String,
    /// Distribution.
    pub system: String,
}

/// A server under test.
#[derive(Clone, PartialEq, Serialize, Deserialize, Default, Debug)]
pub struct ServerRecord {
    /// Its name in tables and legends.
    pub name: String,
    /// Its address, `smb://user@host:port/share`, without the password.
    pub target: String,
    /// The negotiated dialect, signing and encryption.
    pub protocol: String,
    /// The version that its program prints, if it runs on this machine.
    pub version: Option<String>,
    /// The file system of the share, if it is known.
    pub file_system: Option<String>,
    /// The text of its configuration file, if it is known.
    pub configuration: Option<String>,
}

/// One experiment.
#[derive(Clone, PartialEq, Serialize, Deserialize, Default, Debug)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: String,
    /// One line that states the question of the experiment.
    pub title: String,
    /// The study that it follows, with the study's results in words. Empty if it follows none.
    pub study: String,
    /// Its settings as names and values.
    pub settings: Vec<(String, String)>,
    /// The complete measurements.
    pub cases: Vec<Case>,
    /// Tables to show.
    pub tables: Vec<Table>,
    /// Plots to draw.
    pub figures: Vec<Figure>,
    /// Sentences for the reader: formulas, verdicts, warnings.
    pub remarks: Vec<String>,
}

/// One thing measured on each server, such as `sequential read` or `1,000 users`.
#[derive(Clone, PartialEq, Serialize, Deserialize, Default, Debug)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// Its coordinate on the experiment's axis, if it has one.
    pub x: Option<f64>,
    /// The rounds of each server, in the order of [`Run::servers`]. Empty for a server that cannot run the case.
    pub servers: Vec<Vec<Round>>,
    /// The names of the parties that the rounds belong to, if they are not exactly the servers of the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parties: Vec<String>,
}

/// One round on one server.
#[derive(Clone, PartialEq, Serialize, Deserialize, Default, Debug)]
pub struct Round {
    /// Duration of the round, in seconds.
    #[serde(deserialize_with = "number")]
    pub seconds: f64,
    /// Operations that succeeded.
    pub operations: u64,
    /// Payload, in bytes.
    pub bytes: u64,
    /// Operations that failed. Not 0 only if errors were allowed.
    pub errors: u64,
    /// Whether the round is far from the other rounds of the same case. It is included, and marked.
    pub odd: bool,
    /// The latency of the operations.
    pub latency: Option<Latency>,
    /// Distribution of the latency: upper bounds in microseconds, each 1.25 times the previous one, with counts. Empty
    /// buckets are omitted.
    #[serde(default)]
    pub histogram: Vec<(f64, u64)>,
    /// Resource use of the server's processes, if they run on this machine.
    pub cost: Option<Cost>,
    /// Processor time of the tool itself, in seconds.
    #[serde(deserialize_with = "number")]
    pub client_cpu: f64,
    /// Other values by name and unit, such as `private memory per session, KiB`.
    #[serde(deserialize_with = "numbers")]
    pub figures: BTreeMap<String, f64>,
}

/// The summary of a latency histogram, in microseconds.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Default, Debug)]
pub struct Latency {
    /// The mean.
    #[serde(deserialize_with = "number")]
    pub mean: f64,
    /// Half of the operations were faster.
    #[serde(deserialize_with = "number")]
    pub p50: f64,
    /// 90 of 100 operations were faster.
    #[serde(deserialize_with = "number")]
    pub p90: f64,
    /// 99 of 100 operations were faster.
    #[serde(deserialize_with = "number")]
    pub p99: f64,
    /// 999 of 1,000 operations were faster.
    #[serde(deserialize_with = "number")]
    pub p999: f64,
    /// The slowest operation.
    #[serde(deserialize_with = "number")]
    pub max: f64,
}

/// The resources that a server's processes used in a round, and held at its end.
#[derive(Clone, PartialEq, Serialize, Deserialize, Default, Debug)]
pub struct Cost {
    /// Processor time, in seconds.
    #[serde(deserialize_with = "number")]
    pub cpu: f64,
    /// The part of it spent in the kernel, in seconds.
    #[serde(deserialize_with = "number")]
    pub system: f64,
    /// Context switches.
    pub switches: u64,
    /// Bytes returned by read(2) and similar calls, usually from files. For servers that use recv(2), data from sockets
    /// is not included. `None` if the value may not be read.
    #[serde(default)]
    pub read: Option<u64>,
    /// System calls by name, if they were counted. The times of such a round are ignored.
    pub calls: Option<BTreeMap<String, u64>>,
    /// Private memory, in bytes.
    pub private: u64,
    /// Memory in bytes, where shared pages are divided by the number of processes that share them.
    pub proportional: u64,
    /// Number of open descriptors.
    pub descriptors: u64,
    /// Number of processes.
    pub processes: u64,
}

/// A table of text, ready to print.
#[derive(Clone, PartialEq, Serialize, Deserialize, Default, Debug)]
pub struct Table {
    /// Its title.
    pub title: String,
    /// Column titles with units.
    pub head: Vec<String>,
    /// The rows. The first column names the row.
    pub rows: Vec<Vec<String>>,
}

/// A plot, laid out like that of the study.
#[derive(Clone, PartialEq, Serialize, Deserialize, Default, Debug)]
pub struct Figure {
    /// Its title.
    pub title: String,
    /// Its horizontal axis.
    pub x: Axis,
    /// Its vertical axis.
    pub y: Axis,
    /// How it is drawn.
    pub kind: Kind,
    /// The names along the horizontal axis of [`Kind::Bars`].
    pub categories: Vec<String>,
    /// The lines, bars or points.
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
    /// The measured quantity.
    pub label: String,
    /// Its unit; empty for a count.
    pub unit: String,
    /// Whether it is logarithmic.
    pub logarithmic: bool,
}

/// One line, or the bars of one colour.
#[derive(Clone, PartialEq, Serialize, Deserialize, Default, Debug)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Whether the values are from the earlier study instead of this run. They are drawn differently.
    pub then: bool,
    /// Index into [`Run::servers`]. A server has the same colour in every figure.
    pub server: Option<usize>,
    /// Its points; for bars `x` is the index of the category.
    pub points: Vec<Point>,
}

/// A point with its spread.
#[derive(Clone, Copy, PartialEq, Serialize, Deserialize, Default, Debug)]
pub struct Point {
    /// Horizontal coordinate.
    #[serde(deserialize_with = "number")]
    pub x: f64,
    /// Vertical coordinate: the median of the rounds.
    #[serde(deserialize_with = "number")]
    pub y: f64,
    /// The smallest value of the rounds.
    #[serde(deserialize_with = "number")]
    pub low: f64,
    /// The largest value of the rounds.
    #[serde(deserialize_with = "number")]
    pub high: f64,
}

/// Reads a number, or `null` as NaN. JSON has no NaN, so it is written as `null`, which must not make a record
/// unreadable.
fn number<'a, D: Deserializer<'a>>(source: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(source)?.unwrap_or(f64::NAN))
}

/// Like [`number`], for each value of a map.
fn numbers<'a, D: Deserializer<'a>>(source: D) -> Result<BTreeMap<String, f64>, D::Error> {
    let values = BTreeMap::<String, Option<f64>>::deserialize(source)?;
    Ok(values.into_iter().map(|(name, value)| (name, value.unwrap_or(f64::NAN))).collect())
}
