//! Advice about TCP, multichannel and the size of requests.

use report::units::{bytes, count, rate, seconds};

use super::{Advice, Facts, Location, Report, bits, yes_or_no};
use crate::network::UNKNOWN_SPEED;
use crate::tune::measurements::Link;

/// Connections that the server lets the kernel queue.
const BACKLOG: u64 = 1024;
/// Bytes of a request for each credit.
const CREDIT: f64 = 65_536.0;
/// The default of `smb2 max credits`.
const CREDITS: u16 = 8192;
/// The default of `smb2 max read` and `smb2 max write`.
const TRANSFER: u32 = 8_388_608;
/// A smaller request costs noticeable time for each byte.
const SMALL_TRANSFER: u32 = 1 << 20;
/// A buffer holds the data in flight and the kernel's overhead, which is about as much.
const OVERHEAD: f64 = 2.0;
/// A link at which one connection is usually limited by one core, bits per second.
const FAST: u64 = 10_000_000_000;

pub(super) fn advise(facts: &Facts<'_>, advised: &mut Report) {
    buffers(facts, advised);
    fixed_buffers(facts, advised);
    switches(facts, advised);
    channels(facts, advised);
    requests(facts, advised);
}

/// Returns the fastest link and the bytes in flight that it needs.
fn fastest<'f>(facts: &Facts<'f>) -> Option<(&'f Link, u64, f64)> {
    let network = &facts.measured.network;
    let (link, speed) = network.links.iter().filter_map(|link| Some((link, link.speed?))).max_by_key(|it| it.1)?;
    Some((link, speed, speed as f64 / 8.0 * network.round_trip))
}

fn need(facts: &Facts<'_>, link: &Link, speed: u64, in_flight: f64) -> String {
    format!(
        "{} has {}, so {} are in flight at a round trip of {}",
        link.name,
        bits(speed as f64),
        bytes(in_flight),
        seconds(facts.measured.network.round_trip)
    )
}

/// The limits of the kernel's automatic buffers.
fn buffers(facts: &Facts<'_>, advised: &mut Report) {
    let Some((link, speed, in_flight)) = fastest(facts) else { return };
    let network = &facts.measured.network;
    let needed = (in_flight * OVERHEAD) as u64;
    for (name, found, direction) in
        [("net.ipv4.tcp_wmem", network.send_buffer, "reads"), ("net.ipv4.tcp_rmem", network.receive_buffer, "writes")]
    {
        let Some([least, initial, most]) = found.filter(|found| found[2] < needed) else { continue };
        let three = |most: u64| format!("{least} {initial} {most}");
        let advice = Advice::new(Location::Sysctl, name, three(most), three(needed.next_power_of_two()));
        let fits = most as f64 / OVERHEAD / network.round_trip * 8.0;
        let effect = format!("one connection {direction} with up to {} instead of {}", bits(speed as f64), bits(fits));
        let because =
            format!("{}; the kernel buffers at most {}", need(facts, link, speed, in_flight), bytes(most as f64));
        advised.recommend(advice.because(because).effect(effect));
    }
}

/// `SO_SNDBUF` and `SO_RCVBUF` switch the kernel's automatic buffers off. They are too small if a connection cannot
/// fill the fastest link with them.
fn fixed_buffers(facts: &Facts<'_>, advised: &mut Report) {
    let network = &facts.measured.network;
    let options = &facts.daemon.socket_options;
    let speed = fastest(facts).map_or(UNKNOWN_SPEED, |(_, speed, _)| speed);
    let mut smaller = Vec::new();
    for (name, automatic, largest) in [
        ("SO_SNDBUF", network.send_buffer, network.largest_send_option),
        ("SO_RCVBUF", network.receive_buffer, network.largest_receive_option),
    ] {
        let Some(option) = options.iter().rfind(|option| option.name == name) else { continue };
        let asked = u64::try_from(option.value).unwrap_or(0);
        // The kernel doubles the value for its overhead, after it has limited it.
        let fixed = asked.min(largest.unwrap_or(u64::MAX)).saturating_mul(2);
        let fits = fixed as f64 / OVERHEAD / network.round_trip * 8.0;
        if fits < speed as f64 && automatic.is_some_and(|automatic| fixed < automatic[2]) {
            let limit = if largest.is_some_and(|largest| largest < asked) { " (limited by net.core)" } else { "" };
            smaller.push(format!("{name}={asked} is {}{limit}, for at most {}", bytes(fixed as f64), bits(fits)));
        }
    }
    if smaller.is_empty() {
        return;
    }
    let text = |keep: &dyn Fn(&str) -> bool| {
        let kept = options.iter().filter(|option| keep(option.name));
        kept.map(|option| format!("{}={}", option.name, option.value)).collect::<Vec<_>>().join(" ")
    };
    let recommended = text(&|name| !["SO_SNDBUF", "SO_RCVBUF"].contains(&name));
    // The server always sets this one, and an empty value would be hard to read.
    let recommended = if recommended.is_empty() { "TCP_NODELAY".to_owned() } else { recommended };
    let most = |found: Option<[u64; 3]>| found.map_or(0.0, |found| found[2] as f64);
    let because = format!("{} at a round trip of {}", smaller.join("; "), seconds(network.round_trip));
    let effect = format!(
        "buffers follow the speed and the distance of each client, up to {} for sending and {} for receiving",
        bytes(most(network.send_buffer)),
        bytes(most(network.receive_buffer))
    );
    let advice = Advice::new(Location::Global, "socket options", text(&|_| true), recommended);
    advised.recommend(advice.because(because).effect(effect));
}

/// Settings of the kernel that should be on or high enough.
fn switches(facts: &Facts<'_>, advised: &mut Report) {
    let network = &facts.measured.network;
    for (name, value, effect) in [
        ("net.ipv4.tcp_window_scaling", network.window_scaling, "more than 64 KiB in flight for each connection"),
        (
            "net.ipv4.tcp_moderate_rcvbuf",
            network.receive_autotuning,
            "receive buffers grow with the speed of the client",
        ),
    ] {
        if value == Some(false) {
            advised.recommend(Advice::new(Location::Sysctl, name, 0, 1).because("it is switched off").effect(effect));
        }
    }
    if let Some(backlog) = network.backlog.filter(|backlog| *backlog < BACKLOG) {
        let because =
            format!("the server asks for a queue of {BACKLOG} new connections, and the kernel allows {backlog}");
        let advice = Advice::new(Location::Sysctl, "net.core.somaxconn", backlog, BACKLOG).because(because);
        advised
            .recommend(advice.effect("clients that connect together, as after a restart, are not delayed by seconds"));
    }
}

/// `server multi channel support`.
fn channels(facts: &Facts<'_>, advised: &mut Report) {
    let links = &facts.measured.network.links;
    let devices = links.iter().filter(|link| link.is_device).count();
    let wide = links.iter().find(|link| link.receive_queues > 1 && link.speed.is_some_and(|speed| speed >= FAST));
    let because = match wide {
        _ if facts.policy.server_multi_channel_support => None,
        Some(link) => Some(format!(
            "{} has {} and {} receive queues",
            link.name,
            bits(link.speed.unwrap_or(0) as f64),
            link.receive_queues
        )),
        None if devices > 1 => Some(format!("{devices} network devices serve clients")),
        None => None,
    };
    if let Some(because) = because {
        let advice = Advice::new(Location::Global, "server multi channel support", yes_or_no(false), yes_or_no(true));
        advised.recommend(advice.because(because).effect("a session uses several connections, links and cores"));
    }
    let unknown = links.iter().filter(|link| link.is_device && link.speed.is_none());
    let unknown: Vec<_> = unknown.map(|link| link.name.as_str()).collect();
    if devices > 1 && !unknown.is_empty() && facts.policy.server_multi_channel_support {
        advised.note(format!(
            "the drivers of {} report no speed, so clients are told 1 Gbit/s and choose links by it; state it with \
             `interfaces = \"NAME;speed=BITS\"`",
            unknown.join(", ")
        ));
    }
}

/// The size and the number of requests.
fn requests(facts: &Facts<'_>, advised: &mut Report) {
    let (policy, storage) = (facts.policy, &facts.measured.storage);
    for (name, size, measured, verb) in [
        ("smb2 max read", policy.smb2_max_read, storage.read_rate, "read"),
        ("smb2 max write", policy.smb2_max_write, storage.write_rate, "write"),
    ] {
        if size >= SMALL_TRANSFER || measured <= 0.0 {
            continue;
        }
        let because = format!(
            "the share {verb}s {}, which are {} requests of {} each second",
            rate(measured),
            count((measured / f64::from(size)) as u64),
            bytes(f64::from(size))
        );
        let effect = "clients transfer large files in fewer requests";
        advised.recommend(Advice::new(Location::Global, name, size, TRANSFER).because(because).effect(effect));
    }
    let Some((link, speed, in_flight)) = fastest(facts) else { return };
    let window = f64::from(policy.smb2_max_credits) * CREDIT;
    if window < in_flight * OVERHEAD && policy.smb2_max_credits < CREDITS {
        let because = format!(
            "{}, and the credits of a connection permit {}",
            need(facts, link, speed, in_flight),
            bytes(window)
        );
        let advice =
            Advice::new(Location::Global, "smb2 max credits", policy.smb2_max_credits, CREDITS).because(because);
        advised.recommend(advice.effect("a client can keep enough requests in flight to fill the link"));
    }
}
