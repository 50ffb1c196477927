//! Connections to one volume that must not exist together: with `frevo:coherence = exclusive`, nobody else changes the
//! files, and another connection of this process is another client of the volume.

use std::path::Path;

use server::policy::{Coherence, GlusterVolume, VolfileServer};

/// Returns why a share with the settings `ours` cannot be used beside one of the same volume with the settings
/// `theirs`, and what to do; `None` if it can.
pub fn conflict(ours: &GlusterVolume, theirs: &GlusterVolume) -> Option<String> {
    let is_exclusive = |volume: &GlusterVolume| volume.coherence == Some(Coherence::Exclusive);
    if ours == theirs || !is_exclusive(ours) && !is_exclusive(theirs) {
        return None;
    }
    let differ = values(ours).into_iter().zip(values(theirs)).filter(|(ours, theirs)| ours != theirs);
    let differ: Vec<_> =
        differ.map(|((name, ours), (_, theirs))| format!("`{name}` is {ours} here and {theirs} there")).collect();
    Some(format!(
        "another share uses the volume with different settings, and with `frevo:coherence = exclusive` changes by \
         clients of the one share would not be noticed in the other ({}); give both shares the same values, or remove \
         `frevo:coherence = exclusive`",
        differ.join(", ")
    ))
}

/// Returns the parameters of a volume with their values.
fn values(volume: &GlusterVolume) -> [(&'static str, String); 7] {
    let coherence = match volume.coherence {
        None => "auto",
        Some(Coherence::Exclusive) => "exclusive",
        Some(Coherence::Callback) => "callback",
        Some(Coherence::Timestamp) => "timestamp",
    };
    let servers: Vec<String> = volume.servers.iter().map(VolfileServer::to_string).collect();
    [
        ("glusterfs:volume", volume.volume.clone()),
        ("glusterfs:volfile_server", servers.join(" ")),
        ("glusterfs:logfile", volume.log_file.as_deref().unwrap_or(Path::new("not set")).display().to_string()),
        ("glusterfs:loglevel", volume.log_level.to_string()),
        ("frevo:coherence", coherence.to_owned()),
        ("frevo:glusterfs threads", volume.threads.to_string()),
        ("frevo:glusterfs timeout", volume.timeout.as_secs().to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use server::policy::Storage;

    use super::*;

    #[test]
    fn an_exclusive_connection_is_the_only_one() {
        let Storage::Gluster(volume) = server::testing::gluster("gv0") else { unreachable!("it is a volume") };
        let volume = |coherence, log_level| GlusterVolume { coherence, log_level, ..(*volume).clone() };
        let exclusive = Some(Coherence::Exclusive);
        for other in [None, Some(Coherence::Callback), Some(Coherence::Timestamp)] {
            assert_eq!(conflict(&volume(None, 4), &volume(other, 7)), None);
            assert!(conflict(&volume(exclusive, 4), &volume(other, 4)).is_some());
            assert!(conflict(&volume(other, 4), &volume(exclusive, 4)).is_some());
        }
        let text =
            conflict(&volume(exclusive, 4), &volume(exclusive, 7)).expect("neither notices changes by the other");
        assert!(text.contains("(`glusterfs:loglevel` is 4 here and 7 there); give both shares"), "{text}");
    }
}
