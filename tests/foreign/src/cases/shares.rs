//! Listing shares: `smbclient -L` and the calls of the server service that rpcclient makes ([MS-SRVS]).

use anyhow::{Result, ensure};

use crate::fixture::Fixture;
use crate::suite::Case;

pub(super) const CASES: &[Case] = &[
    Case::new("shares.smbclient_list", smbclient_list),
    Case::new("shares.netshareenumall", netshareenumall),
    Case::new("shares.netsharegetinfo", netsharegetinfo),
];

const COMMENTS: [(&str, &str); 3] =
    [("files", "a plain directory"), ("sealed", "encrypted only"), ("fixed", "nobody writes here")];

fn smbclient_list(fixture: &mut Fixture) -> Result<()> {
    let text = fixture.smbclient().list_shares()?.fine()?;
    for (name, comment) in COMMENTS {
        let row = |line: &str| line.trim().starts_with(name) && line.contains("Disk") && line.contains(comment);
        ensure!(text.lines().any(row), "no row for {name} in\n{text}");
    }
    ensure!(text.lines().any(|line| line.contains("IPC$") && line.contains("IPC")), "no IPC$ in\n{text}");
    Ok(())
}

fn netshareenumall(fixture: &mut Fixture) -> Result<()> {
    let text = fixture.rpcclient("netshareenumall")?.fine()?;
    for (name, comment) in COMMENTS {
        ensure!(text.contains(&format!("netname: {name}\n")), "no {name} in\n{text}");
        ensure!(text.contains(&format!("remark:\t{comment}")), "no {comment:?} in\n{text}");
    }
    Ok(())
}

fn netsharegetinfo(fixture: &mut Fixture) -> Result<()> {
    let text = fixture.rpcclient("netsharegetinfo files 1")?.fine()?;
    ensure!(text.contains("netname: files") && text.contains("remark:\ta plain directory"), "{text}");
    let said = fixture.rpcclient("netsharegetinfo nothing-like-it 1")?;
    let unknown = ["WERR_NERR_NETNAMENOTFOUND", "WERR_INVALID_NAME"].iter().any(|word| said.text.contains(word));
    ensure!(unknown, "an unknown share gives\n{}", said.text);
    Ok(())
}
