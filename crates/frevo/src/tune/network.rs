//! Reads the links and the kernel's settings of TCP, and measures the loopback interface.

use std::io::Read;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use smbconf::Daemon;
use smbconf::interfaces::interfaces;

use super::measurements::{Link, Network};
use super::work::Work;
use crate::listen::Transport;
use crate::network::{link_speed, receive_queues};

/// Bytes that are sent at once.
const CHUNK: usize = 1 << 20;

/// Measures for the interfaces of `daemon`. `round_trip` is the time in seconds to the clients and back.
pub(super) fn measure(work: &Work, daemon: &Daemon, round_trip: f64) -> Result<Network> {
    let deadline = work.start("network", 1)?;
    let fixed = daemon.socket_options.iter().any(|option| ["SO_SNDBUF", "SO_RCVBUF"].contains(&option.name));
    let time = deadline.time() / if fixed { 2 } else { 1 };
    let options = Transport { socket_options: daemon.socket_options.clone(), keepalive: None };
    // A host without a loopback address is still measured otherwise.
    let loopback = |transport: &Transport| loopback(transport, time).ok();
    Ok(Network {
        links: links(daemon),
        round_trip,
        receive_buffer: three("net/ipv4/tcp_rmem"),
        send_buffer: three("net/ipv4/tcp_wmem"),
        largest_receive_option: number("net/core/rmem_max"),
        largest_send_option: number("net/core/wmem_max"),
        backlog: number("net/core/somaxconn"),
        window_scaling: number("net/ipv4/tcp_window_scaling").map(|value| value != 0),
        receive_autotuning: number("net/ipv4/tcp_moderate_rcvbuf").map(|value| value != 0),
        loopback: loopback(&Transport::default()),
        loopback_with_options: if fixed { loopback(&options) } else { None },
    })
}

/// Returns the value of a setting in `/proc/sys`.
pub(super) fn setting(name: &str) -> Option<String> {
    std::fs::read_to_string(Path::new("/proc/sys").join(name)).ok()
}

/// Returns a setting that is a number.
pub(super) fn number(name: &str) -> Option<u64> {
    setting(name)?.trim().parse().ok()
}

fn three(name: &str) -> Option<[u64; 3]> {
    let values: Vec<u64> = setting(name)?.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    values.try_into().ok()
}

/// Returns the interfaces that clients can use, once each.
fn links(daemon: &Daemon) -> Vec<Link> {
    let all = interfaces().unwrap_or_default();
    let mut links: Vec<Link> = Vec::new();
    for interface in &all {
        let choice = daemon.interfaces.iter().find(|choice| choice.matches(interface));
        if choice.is_none() && !daemon.interfaces.is_empty() {
            continue;
        }
        if !interface.up || interface.loopback || links.iter().any(|link| link.name == interface.name) {
            continue;
        }
        let kernel = Path::new("/sys/class/net").join(&interface.name);
        let mtu = std::fs::read_to_string(kernel.join("mtu")).ok().and_then(|text| text.trim().parse().ok());
        links.push(Link {
            name: interface.name.clone(),
            speed: choice.and_then(|choice| choice.speed).or_else(|| link_speed(&kernel)),
            mtu,
            is_device: kernel.join("device").exists(),
            receive_queues: receive_queues(&kernel),
        });
    }
    links
}

/// Returns the bytes per second that one connection transfers, with `transport` at the sending end.
fn loopback(transport: &Transport, time: Duration) -> Result<f64> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    transport.apply(&listener);
    let mut receiver = TcpStream::connect(listener.local_addr()?)?;
    let (mut sender, _) = listener.accept()?;
    let begun = Instant::now();
    let sending = std::thread::spawn(move || {
        let content = vec![0; CHUNK];
        while begun.elapsed() < time && sender.write_all(&content).is_ok() {}
    });
    let mut buffer = vec![0; CHUNK];
    let mut received = 0;
    loop {
        match receiver.read(&mut buffer)? {
            0 => break,
            count => received += count,
        }
    }
    let rate = received as f64 / begun.elapsed().as_secs_f64();
    let _ = sending.join();
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_and_loopback_are_read() {
        let buffers = three("net/ipv4/tcp_wmem").expect("Linux has this setting");
        assert!(buffers.is_sorted());
        assert_eq!(three("net/ipv4/no_such_setting"), None);
        assert!(loopback(&Transport::default(), Duration::from_millis(50)).unwrap() > 0.0);
    }
}
