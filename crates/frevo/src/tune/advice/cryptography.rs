//! Advice about signing and encryption. It changes only the order of algorithms with keys of the same length, never
//! whether messages are protected.

use report::units::rate;
use server::policy::{Encryption, EncryptionAlgorithm, Signing, SigningAlgorithm};

use super::{Advice, Facts, Location, Report, bits};

/// How much faster an algorithm must be to be preferred.
const GAIN: f64 = 1.5;

pub(super) fn advise(facts: &Facts<'_>, advised: &mut Report) {
    signing(facts, advised);
    encryption(facts, advised);
    cores(facts, advised);
}

fn signing_name(algorithm: SigningAlgorithm) -> &'static str {
    match algorithm {
        SigningAlgorithm::Aes128Gmac => "AES-128-GMAC",
        SigningAlgorithm::Aes128Cmac => "AES-128-CMAC",
        SigningAlgorithm::HmacSha256 => "HMAC-SHA256",
    }
}

/// Returns the name and the length of the key in bits.
fn encryption_name(algorithm: EncryptionAlgorithm) -> (&'static str, u32) {
    match algorithm {
        EncryptionAlgorithm::Aes128Gcm => ("AES-128-GCM", 128),
        EncryptionAlgorithm::Aes128Ccm => ("AES-128-CCM", 128),
        EncryptionAlgorithm::Aes256Gcm => ("AES-256-GCM", 256),
        EncryptionAlgorithm::Aes256Ccm => ("AES-256-CCM", 256),
    }
}

/// All algorithms for signing have keys of the same length, so the fastest should be the first.
fn signing(facts: &Facts<'_>, advised: &mut Report) {
    let current: Vec<_> =
        facts.policy.server_smb3_signing_algorithms.iter().map(|algorithm| signing_name(*algorithm)).collect();
    let all = SigningAlgorithm::ALL.map(signing_name);
    recommend(facts, advised, "server smb3 signing algorithms", &current, &all);
}

/// Only algorithms with keys as long as those of the preferred one are compared.
fn encryption(facts: &Facts<'_>, advised: &mut Report) {
    let chosen = &facts.policy.server_smb3_encryption_algorithms;
    let Some(first) = chosen.first() else { return };
    let (_, length) = encryption_name(*first);
    let current: Vec<_> = chosen.iter().map(|algorithm| encryption_name(*algorithm).0).collect();
    let named = EncryptionAlgorithm::ALL.map(encryption_name);
    let equal: Vec<_> = named.into_iter().filter(|(_, bits)| *bits == length).map(|(name, _)| name).collect();
    recommend(facts, advised, "server smb3 encryption algorithms", &current, &equal);
}

/// Recommends the fastest algorithm of `candidates` as the first one, if it is much faster than the current first one.
fn recommend(facts: &Facts<'_>, advised: &mut Report, setting: &str, current: &[&str], candidates: &[&'static str]) {
    let measured = facts.measured;
    let speed = |name: &&str| measured.speed(name).unwrap_or(0.0);
    let Some(first) = current.first() else { return };
    let Some(fastest) = candidates.iter().max_by(|a, b| speed(a).total_cmp(&speed(b))) else { return };
    let (now, then) = (speed(first), speed(fastest));
    if now <= 0.0 || then < now * GAIN {
        return;
    }
    let rest = current.iter().filter(|name| *name != fastest);
    let order: Vec<&str> = std::iter::once(fastest).chain(rest).copied().collect();
    let because = format!("one core: {first} {}, {fastest} {}", rate(now), rate(then));
    let advice = Advice::new(Location::Global, setting, current.join(", "), order.join(", ")).because(because);
    advised
        .recommend(advice.effect(format!("{:.1} times as fast for clients that support it (SMB 3.1.1)", then / now)));
}

/// Compares what the cores can encrypt or sign with the links.
fn cores(facts: &Facts<'_>, advised: &mut Report) {
    let (measured, policy) = (facts.measured, facts.policy);
    let links: u64 = measured.network.links.iter().filter_map(|link| link.speed).sum();
    let required = [policy.server_smb_encrypt, facts.share.access.server_smb_encrypt].contains(&Encryption::Required);
    let first = if required {
        policy.server_smb3_encryption_algorithms.first().map(|first| encryption_name(*first).0)
    } else if policy.server_signing == Signing::Required {
        policy.server_smb3_signing_algorithms.first().map(|first| signing_name(*first))
    } else {
        None
    };
    let Some((name, one)) = first.and_then(|name| Some((name, measured.speed(name)? * 8.0))) else { return };
    let all = one * f64::from(measured.host.cores);
    if links > 0 && all < links as f64 {
        advised.note(format!(
            "{name} limits the throughput, because all {} cores reach {} with it and the links {}",
            measured.host.cores,
            bits(all),
            bits(links as f64)
        ));
    }
}
