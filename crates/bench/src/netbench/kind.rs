//! The kinds of operation that a load file knows, and how its lines are written.

/// A kind of operation, by the load file's name. In the order in which tables show them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// `NTCreateX`
    NtCreateX,
    /// `Close`
    Close,
    /// `ReadX`
    ReadX,
    /// `WriteX`
    WriteX,
    /// `Flush`
    Flush,
    /// `LockX`
    LockX,
    /// `UnlockX`
    UnlockX,
    /// `Rename`
    Rename,
    /// `Unlink`
    Unlink,
    /// `Mkdir`
    Mkdir,
    /// `Rmdir`
    Rmdir,
    /// `Deltree`
    Deltree,
    /// `QUERY_PATH_INFORMATION`
    QueryPath,
    /// `QUERY_FILE_INFORMATION`
    QueryFile,
    /// `QUERY_FS_INFORMATION`
    QueryFs,
    /// `SET_FILE_INFORMATION`
    SetFile,
    /// `FIND_FIRST`
    FindFirst,
    /// `Sleep`
    Sleep,
}

impl Kind {
    /// All of them, in order.
    pub const ALL: [Kind; 18] = [
        Kind::NtCreateX,
        Kind::Close,
        Kind::ReadX,
        Kind::WriteX,
        Kind::Flush,
        Kind::LockX,
        Kind::UnlockX,
        Kind::Rename,
        Kind::Unlink,
        Kind::Mkdir,
        Kind::Rmdir,
        Kind::Deltree,
        Kind::QueryPath,
        Kind::QueryFile,
        Kind::QueryFs,
        Kind::SetFile,
        Kind::FindFirst,
        Kind::Sleep,
    ];

    /// How a line of it is written, without the time before it.
    pub fn usage(self) -> &'static str {
        match self {
            Kind::NtCreateX => "NTCreateX \"PATH\" OPTIONS DISPOSITION HANDLE STATUS",
            Kind::Close => "Close HANDLE STATUS",
            Kind::ReadX => "ReadX HANDLE OFFSET BYTES ANSWERED STATUS",
            Kind::WriteX => "WriteX HANDLE OFFSET BYTES ANSWERED STATUS",
            Kind::Flush => "Flush HANDLE STATUS",
            Kind::LockX => "LockX HANDLE OFFSET BYTES STATUS",
            Kind::UnlockX => "UnlockX HANDLE OFFSET BYTES STATUS",
            Kind::Rename => "Rename \"FROM\" \"TO\" STATUS",
            Kind::Unlink => "Unlink \"PATH\" ATTRIBUTES STATUS",
            Kind::Mkdir => "Mkdir \"PATH\" STATUS",
            Kind::Rmdir => "Rmdir \"PATH\" STATUS",
            Kind::Deltree => "Deltree \"PATH\" STATUS",
            Kind::QueryPath => "QUERY_PATH_INFORMATION \"PATH\" LEVEL STATUS",
            Kind::QueryFile => "QUERY_FILE_INFORMATION HANDLE LEVEL STATUS",
            Kind::QueryFs => "QUERY_FS_INFORMATION LEVEL STATUS",
            Kind::SetFile => "SET_FILE_INFORMATION HANDLE LEVEL STATUS",
            Kind::FindFirst => "FIND_FIRST \"PATTERN\" LEVEL MOST ENTRIES STATUS",
            Kind::Sleep => "Sleep MICROSECONDS STATUS",
        }
    }

    /// The word that begins its lines.
    pub fn name(self) -> &'static str {
        self.usage().split(' ').next().unwrap_or_default()
    }

    /// How many words stand between its name and the status.
    pub fn arguments(self) -> usize {
        self.usage().split(' ').count() - 2
    }

    /// The kind whose lines begin with `name`.
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_arguments_come_from_the_usage() {
        for (kind, name, arguments) in [
            (Kind::NtCreateX, "NTCreateX", 4),
            (Kind::Close, "Close", 1),
            (Kind::QueryFs, "QUERY_FS_INFORMATION", 1),
            (Kind::FindFirst, "FIND_FIRST", 4),
        ] {
            assert_eq!((kind.name(), kind.arguments(), Kind::from_name(name)), (name, arguments, Some(kind)));
        }
        assert_eq!(Kind::from_name("close"), None);
        assert!(Kind::ALL.is_sorted());
    }
}
