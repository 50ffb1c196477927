//! Connections to one volume beside an exclusive one: with `frevo:coherence = exclusive`, nobody else changes the
//! files, and another connection of this process is another client of the volume.

use server::policy::{Coherence, GlusterVolume};

/// What a share does if its volume is open with other settings.
pub(crate) enum Beside {
    /// It uses the connection that is open.
    Together,
    /// It has a connection of its own.
    Independent,
}

/// Returns what a share with the settings `ours` does beside a connection to the same volume with the settings
/// `theirs`.
///
/// # Errors
/// They cannot be used together. The text says why, and what to do.
pub(crate) fn beside(ours: &GlusterVolume, theirs: &GlusterVolume) -> Result<Beside, String> {
    let is_exclusive = |volume: &GlusterVolume| volume.coherence == Some(Coherence::Exclusive);
    match (is_exclusive(ours), is_exclusive(theirs)) {
        (true, true) => Ok(Beside::Together),
        (false, false) => Ok(Beside::Independent),
        _ => Err(
            "another share uses the volume, and only one of them has `frevo:coherence = exclusive`, so that changes \
                  by clients of the other share would not be noticed; give both shares the same value, and restart the \
                  server"
                .to_owned(),
        ),
    }
}

/// Returns why shares with these settings of one volume cannot be used together, and what to do; `None` if they can.
pub fn conflict(one: &GlusterVolume, other: &GlusterVolume) -> Option<String> {
    beside(one, other).err()
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
            assert!(matches!(beside(&volume(None, 4), &volume(other, 7)), Ok(Beside::Independent)));
            assert!(conflict(&volume(exclusive, 4), &volume(other, 4)).is_some());
            assert!(conflict(&volume(other, 4), &volume(exclusive, 4)).is_some());
        }
        assert!(matches!(beside(&volume(exclusive, 4), &volume(exclusive, 7)), Ok(Beside::Together)));
    }
}
