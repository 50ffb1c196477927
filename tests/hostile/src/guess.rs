//! Measures how password guessing affects other users: valid logons are timed without and during an attack.
//!
//! Each guesser has its own connection, and waits for an answer only until its next guess is due. The guessers and the
//! measuring client use the same machine as the server, so the difference is an upper bound.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use client::{Client, Credentials};

/// The options.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Address on which the server listens
    #[arg(long)]
    address: SocketAddr,
    /// User with a known password
    #[arg(long)]
    user: String,
    /// That user's password
    #[arg(long)]
    password: String,
    /// User whose password is guessed [default: the same user]
    #[arg(long)]
    victim: Option<String>,
    /// Wrong passwords per second, of all guessers
    #[arg(long, default_value_t = 1000)]
    rate: u64,
    /// Number of guessers
    #[arg(long, default_value_t = 50)]
    connections: u64,
    /// Duration of each of the two measurements in seconds
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Valid logons per second
    #[arg(long, default_value_t = 20)]
    logons: u64,
}

/// Median and 99th percentile, ms.
type Times = (f64, f64);

/// Runs the measurement and prints the results.
///
/// # Errors
/// If the server refuses a valid logon, or accepts a guess.
pub fn run(options: &Options) -> Result<()> {
    let (quiet, _) = measure(options)?;
    let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let guessers = {
        let (address, stop, sent) = (options.address, stop.clone(), sent.clone());
        let name = options.victim.as_ref().unwrap_or(&options.user).clone();
        let (count, pause) =
            (options.connections, Duration::from_secs_f64(options.connections as f64 / options.rate as f64));
        std::thread::spawn(move || guess(address, &name, count, pause, &stop, &sent))
    };
    // The attack runs before anything is measured.
    std::thread::sleep(Duration::from_secs(2));
    let (begun, before) = (Instant::now(), sent.load(Ordering::Relaxed));
    let attacked = measure(options);
    let rate = (sent.load(Ordering::Relaxed) - before) as f64 / begun.elapsed().as_secs_f64();
    stop.store(true, Ordering::Relaxed);
    guessers.join().map_err(|_| anyhow::anyhow!("a guesser panicked"))??;
    let (attacked, count) = attacked?;
    println!("{} guessers, {rate:.0} wrong passwords a second; {count} valid logons:", options.connections);
    println!("  without the attack  median {:6.2} ms  p99 {:6.2} ms", quiet.0, quiet.1);
    println!("  during the attack   median {:6.2} ms  p99 {:6.2} ms", attacked.0, attacked.1);
    println!("  difference          median {:6.2} ms  p99 {:6.2} ms", attacked.0 - quiet.0, attacked.1 - quiet.1);
    Ok(())
}

fn as_user(name: &str, password: &str) -> client::Options {
    client::Options { credentials: Credentials::password(name, password), ..client::Options::default() }
}

/// Makes valid logons at their rate, each on its own connection. Returns their times and number.
fn measure(options: &Options) -> Result<(Times, usize)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut times = runtime.block_on(async {
        let user = as_user(&options.user, &options.password);
        let mut pace = tokio::time::interval(Duration::from_secs(1) / u32::try_from(options.logons.max(1))?);
        let (end, mut times) = (Instant::now() + Duration::from_secs(options.seconds), Vec::new());
        while Instant::now() < end {
            pace.tick().await;
            let begun = Instant::now();
            let client = Client::log_on(&[options.address], "127.0.0.1", &user).await.context("a valid logon")?;
            times.push(begun.elapsed().as_secs_f64() * 1000.0);
            client.log_off().await?;
        }
        anyhow::Ok(times)
    })?;
    ensure!(!times.is_empty(), "nothing was measured");
    times.sort_by(f64::total_cmp);
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    Ok(((at(0.5), at(0.99)), times.len()))
}

/// Guesses until `stop`, each guesser once per `pause`.
fn guess(
    address: SocketAddr,
    name: &str,
    count: u64,
    pause: Duration,
    stop: &Arc<AtomicBool>,
    sent: &Arc<AtomicU64>,
) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let guessers: Vec<_> = (0..count)
            .map(|number| {
                let (stop, sent, name) = (stop.clone(), sent.clone(), name.to_owned());
                let begin = tokio::time::Instant::now()
                    + pause * u32::try_from(number).unwrap_or(0) / u32::try_from(count).unwrap_or(1);
                tokio::spawn(async move {
                    let mut pace = tokio::time::interval_at(begin, pause);
                    let (mut tried, addresses) = (0u64, [address]);
                    while !stop.load(Ordering::Relaxed) {
                        pace.tick().await;
                        tried += 1;
                        let wrong = as_user(&name, &format!("wrong {number} {tried}"));
                        let guess = Client::log_on(&addresses, "127.0.0.1", &wrong);
                        let answer = tokio::time::timeout(pause, guess).await;
                        ensure!(!matches!(answer, Ok(Ok(_))), "a wrong password was accepted");
                        sent.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        for guesser in guessers {
            guesser.await??;
        }
        Ok(())
    })
}
