//! The extensions for macOS, as in Samba's module fruit.

/// What the server offers to Macs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MacServer {
    /// A share has the extensions, so that they are offered on every share of a connection.
    pub offered: bool,
    /// `fruit:aapl`: the extensions are negotiated at all.
    pub aapl: bool,
    /// `fruit:nfs_aces`: security descriptors contain the UNIX mode, and set it.
    pub nfs_aces: bool,
    /// `fruit:copyfile`: FSCTL_SRV_COPYCHUNK without chunks copies a whole file with its streams.
    pub copyfile: bool,
    /// `fruit:model`: the model of the server, which selects its icon.
    pub model: String,
}

impl Default for MacServer {
    fn default() -> Self {
        MacServer { offered: false, aapl: true, nfs_aces: true, copyfile: false, model: "MacSamba".to_owned() }
    }
}

/// The extensions of a share with `vfs objects = fruit`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MacPolicy {
    /// `readdir_attr:aapl_rsize`: entries of listings have the length of the resource fork.
    pub lists_fork: bool,
    /// `readdir_attr:aapl_finder_info`: they have the Finder info.
    pub lists_finder_info: bool,
    /// `readdir_attr:aapl_max_access`: they have the rights of the user; otherwise all rights.
    pub lists_access: bool,
    /// `fruit:veto_appledouble`: clients cannot see or create AppleDouble files, if resource forks are in them.
    pub hides_files_beside: bool,
    /// `fruit:convert_adouble`: AppleDouble files that Macs wrote are converted.
    pub converts_files: bool,
    /// `fruit:wipe_intentionally_left_blank_rfork`: a conversion discards a resource fork without information.
    pub wipes_blank_forks: bool,
    /// `fruit:delete_empty_adfiles`: a conversion removes an AppleDouble file without a resource fork.
    pub removes_empty_files: bool,
    /// `fruit:posix_rename`: a directory can be renamed while files in it are open.
    pub posix_rename: bool,
    /// `fruit:zero_file_id`: the id of a file on disk is not told.
    pub zero_file_id: bool,
    /// `fruit:locking = netatalk`: share modes are exchanged with Netatalk.
    pub netatalk_locks: bool,
    /// `fruit:time machine`: the share is for backups of Time Machine.
    pub time_machine: bool,
    /// `fruit:time machine max size`: the size of the volume that clients see; `None` for the actual one.
    pub time_machine_max_size: Option<u64>,
}

impl Default for MacPolicy {
    fn default() -> Self {
        MacPolicy {
            lists_fork: true,
            lists_finder_info: true,
            lists_access: true,
            hides_files_beside: true,
            converts_files: true,
            wipes_blank_forks: false,
            removes_empty_files: false,
            posix_rename: true,
            zero_file_id: true,
            netatalk_locks: false,
            time_machine: false,
            time_machine_max_size: None,
        }
    }
}

/// Where the streams of macOS are stored.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct MacStreams {
    /// `fruit:metadata`: where `AFP_AfpInfo` is stored.
    pub metadata: MetadataPlace,
    /// `fruit:resource`: where `AFP_Resource` is stored.
    pub resource: ResourcePlace,
}

impl MacStreams {
    /// Whether resource forks are in AppleDouble files beside the files.
    pub fn has_files_beside(self) -> bool {
        self.resource == ResourcePlace::File
    }
}

/// The values of `fruit:resource`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ResourcePlace {
    /// In the AppleDouble file beside the file.
    #[default]
    File,
    /// As other streams.
    Stream,
}

/// The values of `fruit:metadata`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum MetadataPlace {
    /// In the attribute `org.netatalk.Metadata`.
    #[default]
    Netatalk,
    /// As other streams.
    Stream,
}
