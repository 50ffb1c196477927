//! `shadow:` parameters -> [`server::policy::snapshots::Snapshots`], if `vfs objects` contains shadow_copy2.

use std::path::PathBuf;
use std::sync::Arc;

use server::policy::snapshots::Format;
use server::policy::snapshots::Snapshots;
use server::policy::snapshots::Sort;

use crate::problem::{Code, error};
use crate::reader::Reader;
use crate::table::fold_name;
use accounts::when;

pub(super) fn read(reader: &Reader<'_>) -> Option<Arc<Snapshots>> {
    let wanted = reader.list("vfs objects").iter().any(|name| fold_name(name) == "shadow_copy2");
    let path = |name| Some(PathBuf::from(reader.text(name))).filter(|path| !path.as_os_str().is_empty());
    let snapshots = Snapshots {
        directory: path("shadow:snapdir").unwrap_or_default(),
        everywhere: reader.boolean("shadow:snapdirseverywhere"),
        mount_point: path("shadow:mountpoint"),
        base: path("shadow:basedir"),
        share_path: path("shadow:snapsharepath"),
        format: format(reader),
        local: reader.boolean("shadow:localtime").then_some(when::utc_offset),
        sort: match reader.choice("shadow:sort").as_str() {
            "asc" => Sort::Ascending,
            "none" => Sort::Unsorted,
            _ => Sort::Descending,
        },
    };
    if wanted && snapshots.everywhere && snapshots.directory.is_absolute() {
        let problem =
            error(Code::Contradiction, "`shadow:snapdirseverywhere` does not work with an absolute `shadow:snapdir`");
        reader.report("shadow:snapdir", problem.remedy("set a name relative to each directory, such as .snapshots"));
    }
    wanted.then(|| Arc::new(snapshots))
}

fn format(reader: &Reader<'_>) -> Format {
    // Variables of smb.conf are not expanded here: the percent signs are those of strftime.
    let text = reader.choice("shadow:format");
    Format::parse(&text, reader.boolean("shadow:sscanf")).unwrap_or_else(|conversion| {
        let allowed = "%Y %y %m %d %j %H %M %S %s %F %T %R %%, or with shadow:sscanf %ld";
        reader.bad_value("shadow:format", &conversion, allowed);
        Format::token()
    })
}
