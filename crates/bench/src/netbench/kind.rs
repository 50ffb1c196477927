//! The kinds of operation in a load file, and the syntax of their lines.

/// A kind of operation, by its name in the load file. The order is that of the tables.
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
    /// All kinds, in order.
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

    /// Returns the syntax of its lines, without the time before the name.
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

    /// Returns the word at the beginning of its lines.
    pub fn name(self) -> &'static str {
        self.usage().split(' ').next().unwrap_or_default()
    }

    /// Returns the number of words between its name and the status.
    pub fn arguments(self) -> usize {
        self.usage().split(' ').count() - 2
    }

    /// Returns the kind whose lines begin with `name`.
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
