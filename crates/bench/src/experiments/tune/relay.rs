//! A link implemented in this program: packets from one TUN device leave the other one after the delay given by
//! bandwidth and distance.
//!
//! There are two threads for each direction, one that reads and one that waits and writes. Packets are passed with the
//! kernel's description of them (virtio_net_hdr), so that large packets pass whole, as with current network cards.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::num::NonZeroU64;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::link::Shape;

/// Interval at which a waiting reader checks whether to stop.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Size of the largest packet with its description.
const PACKET: usize = (64 << 10) + 64;
/// Bytes that each 1500 bytes take on the wire in addition: Ethernet header, trailer and gap.
const FRAME: f64 = 38.0;
const MTU: f64 = 1500.0;

/// A running relay, stopped when dropped.
pub(super) struct Relay {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

struct Packet {
    due: Instant,
    data: Vec<u8>,
}

impl Relay {
    /// Creates two devices with these names and passes packets between them.
    pub(super) fn start(names: [&str; 2], shape: Shape) -> Result<Relay> {
        let [one, two] = [device(names[0])?, device(names[1])?];
        let mut relay = Relay { stop: Arc::default(), threads: Vec::new() };
        relay.direction(one.try_clone()?, two.try_clone()?, shape);
        relay.direction(two, one, shape);
        Ok(relay)
    }

    fn direction(&mut self, from: File, to: File, shape: Shape) {
        let (sender, receiver) = channel();
        let (stop, waiting) = (Arc::clone(&self.stop), Arc::new(AtomicUsize::new(0)));
        let held = Arc::clone(&waiting);
        self.threads.push(std::thread::spawn(move || read(from, &sender, shape, &stop, &held)));
        self.threads.push(std::thread::spawn(move || write(to, &receiver, &waiting)));
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The thread does not panic, and its result is not needed.
            let _ = thread.join();
        }
    }
}

/// Reads packets and computes when each is due. Ends when requested, or when the device is gone.
fn read(from: File, sender: &Sender<Packet>, shape: Shape, stop: &AtomicBool, waiting: &AtomicUsize) {
    // As much as is in flight, and as much again in the queue, but enough for a burst.
    let most = (shape.rate / 8.0 * shape.round_trip.as_secs_f64() * 2.0).max(4e6) as usize;
    let mut free = Instant::now();
    let mut buffer = vec![0; PACKET];
    while !stop.load(Ordering::Relaxed) {
        let mut polled = [PollFd::new(&from, PollFlags::IN)];
        match poll(&mut polled, Some(&LOOK)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => {}
            Err(_) => return,
        }
        let Ok(length) = (&from).read(&mut buffer) else { return };
        if waiting.load(Ordering::Relaxed) + length > most {
            continue;
        }
        free = free.max(Instant::now()) + wire_time(length, shape.rate);
        waiting.fetch_add(length, Ordering::Relaxed);
        if sender.send(Packet { due: free + shape.round_trip / 2, data: buffer[..length].to_vec() }).is_err() {
            return;
        }
    }
}

/// Passes packets on when they are due. Ends with its reader.
fn write(mut to: File, receiver: &Receiver<Packet>, waiting: &AtomicUsize) {
    // By default the kernel adds 50 us to each wait, half of the delay of a short link.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    for Packet { due, data } in receiver {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        // A device that is not up yet drops packets, like an unplugged cable.
        let _ = to.write(&data);
        waiting.fetch_sub(data.len(), Ordering::Relaxed);
    }
}

/// Returns how long a packet occupies the line.
fn wire_time(length: usize, rate: f64) -> Duration {
    let length = length as f64;
    let bits = (length + FRAME * (length / MTU).ceil()) * 8.0;
    Duration::from_secs_f64(bits / rate)
}

/// Creates a TUN device that exists as long as its file.
fn device(name: &str) -> Result<File> {
    const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
    const TUNSETOFFLOAD: libc::c_ulong = 0x4004_54d0;
    const CHECKSUM_AND_TCP4: libc::c_ulong = 0x01 | 0x02;
    const FLAGS: libc::c_int = libc::IFF_TUN | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    let file = OpenOptions::new().read(true).write(true).open("/dev/net/tun").context("cannot open /dev/net/tun")?;
    ensure!(name.len() < libc::IFNAMSIZ, "{name} is too long for a network device");
    // SAFETY: an ifreq is plain data, for which all zeros are a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (place, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *place = byte as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = FLAGS as libc::c_short;
    // SAFETY: TUNSETIFF reads and writes one ifreq, which `request` is.
    let made = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF, &raw mut request) };
    ensure!(made == 0, "cannot create the device {name}: {}", std::io::Error::last_os_error());
    // SAFETY: TUNSETOFFLOAD takes a number, not a pointer.
    let set = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETOFFLOAD, CHECKSUM_AND_TCP4) };
    ensure!(set == 0, "cannot set up the device {name}: {}", std::io::Error::last_os_error());
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_takes_time_by_its_length_and_the_rate() {
        let check = |length, rate, expected: u128| assert_eq!(wire_time(length, rate).as_nanos(), expected, "{length}");
        check(1500, 1e9, 12_304);
        check(15_000, 1e9, 123_040);
        check(60, 1e8, 7_840);
    }
}
