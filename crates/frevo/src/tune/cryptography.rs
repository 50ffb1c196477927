//! Measures how fast one core signs and encrypts, with the code that the server uses.

use std::time::Instant;

use anyhow::{Result, anyhow};
use proto::crypto::seal::{SealingKey, TRANSFORM_HEADER};
use proto::crypto::sign::SigningKey;
use proto::smb2::negotiate::{CipherId, SigningAlgorithm};

use super::measurements::Speed;
use super::work::Work;

/// Bytes of a message: a large READ.
const MESSAGE: usize = 1 << 20;

/// Signing algorithms by their names in smb.conf, in the order of preference of the default.
pub(super) const SIGNING: [(&str, SigningAlgorithm); 3] = [
    ("AES-128-GMAC", SigningAlgorithm::AES_GMAC),
    ("AES-128-CMAC", SigningAlgorithm::AES_CMAC),
    ("HMAC-SHA256", SigningAlgorithm::HMAC_SHA256),
];

/// Encryption algorithms by their names in smb.conf, with the length of their keys.
pub(super) const ENCRYPTION: [(&str, CipherId, usize); 4] = [
    ("AES-128-GCM", CipherId::AES_128_GCM, 16),
    ("AES-128-CCM", CipherId::AES_128_CCM, 16),
    ("AES-256-GCM", CipherId::AES_256_GCM, 32),
    ("AES-256-CCM", CipherId::AES_256_CCM, 32),
];

/// Measures all algorithms.
pub(super) fn measure(work: &Work) -> Result<Vec<Speed>> {
    let deadline = work.start("cryptography", 1)?;
    let time = deadline.time() / (SIGNING.len() + ENCRYPTION.len()) as u32;
    let mut message = vec![0x5a; TRANSFORM_HEADER + MESSAGE];
    let mut found = Vec::new();
    let mut add = |algorithm, once: &mut dyn FnMut()| {
        work.check()?;
        let begun = Instant::now();
        let mut times = 0;
        while times == 0 || begun.elapsed() < time {
            once();
            times += 1;
        }
        let bytes_per_second = (times * MESSAGE) as f64 / begun.elapsed().as_secs_f64();
        found.push(Speed { algorithm, bytes_per_second });
        anyhow::Ok(())
    };
    for (name, algorithm) in SIGNING {
        let key = SigningKey::new(algorithm, &[7; 16]).map_err(|error| anyhow!("{name}: {error}"))?;
        add(name, &mut || key.sign(&mut message[TRANSFORM_HEADER..]))?;
    }
    for (name, cipher, length) in ENCRYPTION {
        let key = SealingKey::new(cipher, &[7; 32][..length]).map_err(|error| anyhow!("{name}: {error}"))?;
        let mut nonce = 0;
        add(name, &mut || {
            nonce += 1;
            key.seal(1, nonce, &mut message);
        })?;
    }
    Ok(found)
}
