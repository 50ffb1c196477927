//! Output of `frevo tune`: recommendations, notes, and a table of the measurements.

use report::units::{self, bytes, per_second, rate, seconds};
use serde_json::{Value, json};
use server::policy::Share;

use super::advice::{Advice, Location, Report, bits};
use super::cryptography::{ENCRYPTION, SIGNING};
use super::measurements::Measurements;
use crate::table::{printable, table};

/// Columns of the text in front of the table.
const WIDTH: usize = 100;
/// Numbers of threads in the table. JSON has all.
const SHOWN_THREADS: [usize; 5] = [1, 4, 12, 32, 64];

/// The result of the command.
pub(super) struct Result<'r> {
    pub(super) share: &'r Share,
    /// How long the measurement took.
    pub(super) seconds: f64,
    pub(super) measured: Measurements,
    pub(super) advised: Report,
}

impl Result<'_> {
    /// Returns the output of `--json`.
    pub(super) fn json(&self) -> Value {
        json!({
            "share": self.share.name,
            "path": self.share.path,
            "seconds": self.seconds,
            "recommendations": self.advised.recommendations,
            "notes": self.advised.notes,
            "measured": self.measured,
        })
    }

    /// Returns the output for people.
    pub(super) fn text(&self) -> String {
        let (share, storage) = (self.share, &self.measured.storage);
        let mut text = format!(
            "[{}] {}: {}; measured for {}\n\n",
            printable(&share.name),
            printable(&share.path.display().to_string()),
            printable(&storage.file_system),
            seconds(self.seconds)
        );
        let recommendations = &self.advised.recommendations;
        if recommendations.is_empty() {
            text += "Nothing needs a change.\n";
        } else {
            text += &format!("Recommended ({}; nothing was changed)\n", recommendations.len());
            recommendations.iter().for_each(|advice| text += &self.advice(advice));
            text += &self.how();
        }
        if !self.advised.notes.is_empty() {
            text += "\nNotes\n";
            self.advised.notes.iter().for_each(|note| text += &wrapped("- ", &format!("{}.", printable(note))));
        }
        text.push('\n');
        text + &table(&["Measured", "Value"], &self.rows())
    }

    fn advice(&self, advice: &Advice) -> String {
        let location = match advice.location {
            Location::Global => "smb.conf [global]".to_owned(),
            Location::Share => format!("smb.conf [{}]", self.share.name),
            Location::Sysctl => "sysctl".to_owned(),
            Location::Sysfs => "tmpfiles.d".to_owned(),
            Location::Unit => "systemd unit".to_owned(),
        };
        let rows = [("now", &advice.current), ("measured", &advice.because), ("effect", &advice.effect)];
        let mut text = format!("\n  {}    ({})\n", printable(&advice.line), printable(&location));
        for (head, value) in rows {
            text += &wrapped(&format!("    {head:9} "), &printable(value));
        }
        text
    }

    /// Returns how the recommended lines are put into effect.
    fn how(&self) -> String {
        let has = |locations: &[Location]| {
            self.advised.recommendations.iter().any(|advice| locations.contains(&advice.location))
        };
        let mut text = "\n".to_owned();
        if has(&[Location::Global, Location::Share]) {
            text += "smb.conf: after the change `systemctl reload frevo`; for `socket options` restart the server.\n";
        }
        if has(&[Location::Sysctl]) {
            text += "sysctl: write the lines to /etc/sysctl.d/90-frevo.conf and run `sysctl --system`.\n";
        }
        if has(&[Location::Sysfs]) {
            text += "tmpfiles.d: write the line to /etc/tmpfiles.d/frevo.conf and run `systemd-tmpfiles --create`.\n";
        }
        if has(&[Location::Unit]) {
            text += "unit: write the line below [Service] with `systemctl edit frevo`.\n";
        }
        text
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let mut rows = self.storage_rows();
        rows.extend(self.network_rows());
        let measured = &self.measured;
        let speeds = |names: &mut dyn Iterator<Item = &'static str>| {
            let speed = |name| measured.speed(name).map(|speed| format!("{name} {}", rate(speed)));
            names.filter_map(speed).collect::<Vec<_>>().join(", ")
        };
        let host = &measured.host;
        rows.extend([
            row("Signing, one core", speeds(&mut SIGNING.iter().map(|it| it.0))),
            row("Encryption, one core", speeds(&mut ENCRYPTION.iter().map(|it| it.0))),
            row("Host", format!("{}, {} cores, {} of memory", host.processor, host.cores, bytes(host.memory as f64))),
            row("Wake-up of an idle processor", host.wake_up.map_or(units::NOTHING.to_owned(), seconds)),
            row("Open files, hard limit of this shell", units::count(host.descriptors)),
            row("Watched directories", host.watches.map_or(units::NOTHING.to_owned(), units::count)),
        ]);
        rows
    }

    fn storage_rows(&self) -> Vec<Vec<String>> {
        let storage = &self.measured.storage;
        let attributes = &storage.attributes;
        let yes_or_no = |value: bool| if value { "yes" } else { "no" }.to_owned();
        let files = format!(
            "create {}, look up {}, list {} a name, remove {}",
            seconds(storage.create),
            seconds(storage.stat),
            seconds(storage.list_per_name),
            seconds(storage.remove)
        );
        let access = match (attributes.set, attributes.get) {
            (Some(set), Some(get)) => {
                let largest = bytes(attributes.largest as f64);
                format!("set {}, get {}, at most {largest} a file", seconds(set), seconds(get))
            }
            _ => "not available".to_owned(),
        };
        let cache = if storage.reads_bypass_cache { "past the cache" } else { "the cache was only asked to forget" };
        let chosen = storage.random_reads.iter().filter(|it| SHOWN_THREADS.contains(&it.threads));
        let random = chosen.map(|it| format!("{}: {}", it.threads, per_second(it.per_second)));
        let flush = &storage.flush;
        let flushes = format!(
            "median {}, longest {}, {} by eight threads",
            seconds(flush.median),
            seconds(flush.worst),
            per_second(flush.eight_threads.per_second)
        );
        let copy = match storage.features.copy_rate {
            _ if storage.features.clones => "shares blocks, so a copy takes no time".to_owned(),
            Some(copied) => rate(copied),
            None => units::NOTHING.to_owned(),
        };
        let acls = match &self.measured.acl_store {
            Some(policy) => format!("{}; frevo:acl store = {policy} pays", yes_or_no(attributes.posix_acls)),
            None => yes_or_no(attributes.posix_acls),
        };
        let features = &storage.features;
        vec![
            row("Files", files),
            row("Extended attributes", access),
            row("security. attributes", yes_or_no(attributes.security)),
            row("POSIX ACLs", acls),
            row("Sequential write with flush", rate(storage.write_rate)),
            row("Sequential read", format!("{} ({cache})", rate(storage.read_rate))),
            row("Random 4 KiB reads by threads", random.collect::<Vec<_>>().join(", ")),
            row("Flush of 4 KiB", flushes),
            row("Copy in the kernel", copy),
            row("Reserves space", yes_or_no(features.preallocates)),
            row("Reports changes (inotify)", yes_or_no(features.notifies)),
        ]
    }

    fn network_rows(&self) -> Vec<Vec<String>> {
        let network = &self.measured.network;
        let link = |link: &super::measurements::Link| {
            let speed = link.speed.map_or("speed not reported".to_owned(), |speed| bits(speed as f64));
            let mtu = link.mtu.map_or(units::NOTHING.to_owned(), |mtu| mtu.to_string());
            row(&format!("Link {}", link.name), format!("{speed}, MTU {mtu}, {} receive queues", link.receive_queues))
        };
        let largest = |found: Option<[u64; 3]>| found.map_or(units::NOTHING.to_owned(), |found| bytes(found[2] as f64));
        let mut rows: Vec<_> = network.links.iter().map(link).collect();
        let loopback = network.loopback.map_or(units::NOTHING.to_owned(), rate);
        let fixed = network.loopback_with_options.map(|fixed| format!("; with `socket options` {}", rate(fixed)));
        rows.extend([
            row("Loopback, one connection", loopback + &fixed.unwrap_or_default()),
            row(
                "TCP buffers, largest",
                format!("send {}, receive {}", largest(network.send_buffer), largest(network.receive_buffer)),
            ),
        ]);
        rows
    }
}

/// Returns `text` in lines behind `head` and below its end.
fn wrapped(head: &str, text: &str) -> String {
    let indent = head.chars().count();
    let (mut lines, mut column) = (head.to_owned(), indent);
    for (number, word) in text.split(' ').enumerate() {
        let length = word.chars().count();
        if number > 0 && column + 1 + length > WIDTH {
            lines += &format!("\n{:indent$}", "");
            column = indent;
        } else if number > 0 {
            lines.push(' ');
            column += 1;
        }
        lines += word;
        column += length;
    }
    lines.push('\n');
    lines
}

fn row(head: &str, value: String) -> Vec<String> {
    vec![head.to_owned(), value]
}

#[cfg(test)]
mod tests {
    use server::policy::Policy;
    use smbconf::Daemon;

    use super::super::advice::{Facts, advise};
    use super::*;

    #[test]
    fn long_texts_are_wrapped_below_their_head() {
        let text = wrapped("- ", &"word ".repeat(40));
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("  w")), "{text}");
        assert_eq!(wrapped("- ", "one"), "- one\n");
    }

    #[test]
    fn recommendations_are_first_and_control_characters_are_replaced() {
        let share = Share::new("da\x1bta", "/srv/data");
        let (policy, daemon) = (Policy::default(), Daemon::default());
        let mut measured = Measurements::default();
        measured.network.backlog = Some(128);
        let advised = advise(&Facts { measured: &measured, policy: &policy, daemon: &daemon, share: &share });
        let text = Result { share: &share, seconds: 5.0, measured, advised }.text();
        let locations =
            ["[da\u{fffd}ta]", "net.core.somaxconn = 1024    (sysctl)", "sysctl --system", "Notes", "Measured"];
        let found: Vec<_> = locations.iter().map(|part| text.find(part)).collect();
        assert!(found.is_sorted() && found.iter().all(Option::is_some), "{found:?} in {text}");
    }
}
