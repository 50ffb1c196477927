//! `cargo xtask compare --hold`: runs both servers until Ctrl-C, for manual experiments.

use anyhow::Result;
use test_environment::{ALICE, Crowd, interrupt};

use super::pair::{Pair, SHARES, Side};

/// Prints the addresses of both servers and waits. Fails if one of them ends.
pub(super) fn hold(pair: &mut Pair) -> Result<()> {
    for side in pair.sides() {
        println!("{}", text(side));
    }
    println!("accounts   {} (password {})", ALICE.name, ALICE.password);
    println!("           {} for 1 to {} (password {})\n", Crowd::PATTERN, pair.crowd.0, Crowd::PASSWORD);
    for side in pair.sides() {
        print!("{}", variables(side));
    }
    println!("\nboth servers run until Ctrl-C");
    while !interrupt::interrupted() {
        pair.watch()?;
    }
    Ok(())
}

fn text(side: &Side) -> String {
    let mut text = format!("{:<10} {}  pid {}\n", side.name(), side.server.address(), side.server.pid());
    for share in SHARES {
        text.push_str(&format!("  {share:<8} {}  {}\n", side.url(share), side.path(share).display()));
    }
    text.push_str(&format!("  conf     {}", side.server.conf().display()));
    text
}

/// Prints the same as shell variables.
fn variables(side: &Side) -> String {
    let name = side.name().to_uppercase();
    let mut text = format!("{name}_PID={}\n{name}_PORT={}\n", side.server.pid(), side.server.port());
    text.push_str(&format!("{name}_CONF='{}'\n", side.server.conf().display()));
    for share in SHARES {
        let upper = share.to_uppercase();
        text.push_str(&format!("{name}_{upper}='{}'\n", side.url(share)));
        text.push_str(&format!("{name}_{upper}_DIR='{}'\n", side.path(share).display()));
    }
    text
}
