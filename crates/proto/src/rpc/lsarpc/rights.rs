//! The arguments of calls that change the rights of accounts ([MS-LSAD] 3.1.4.5).

use super::super::ndr::{Arguments, ContextHandle, Decoder};
use crate::bytes::{Malformed, Result};
use crate::dtyp::Sid;

/// The maximum number of rights in one call. There are 36 privileges and ten rights to log on in Windows.
pub const MOST_RIGHTS: usize = 256;

/// Reads an LSAPR_PRIVILEGE_SET (2.2.5.4): the LUIDs.
fn privilege_set(from: &mut Decoder<'_>) -> Result<Vec<u64>> {
    // The size of the array comes before the structure that ends with it.
    let size = from.count(MOST_RIGHTS)?;
    let (count, _control) = (from.count(MOST_RIGHTS)?, from.u32()?);
    if count != size {
        return Err(Malformed::Value);
    }
    let luid = |from: &mut Decoder<'_>| {
        let (low, high, _attributes) = (from.u32()?, from.u32()?, from.u32()?);
        Ok(u64::from(high) << 32 | u64::from(low))
    };
    (0..count).map(|_| luid(from)).collect()
}

/// Reads an LSAPR_USER_RIGHT_SET (2.2.5.3): the names.
fn right_set(from: &mut Decoder<'_>) -> Result<Vec<String>> {
    let count = from.count(MOST_RIGHTS)?;
    if !from.pointer()? {
        return if count == 0 { Ok(Vec::new()) } else { Err(Malformed::Value) };
    }
    if from.count(MOST_RIGHTS)? != count {
        return Err(Malformed::Value);
    }
    let there = (0..count).map(|_| from.unicode()).collect::<Result<Vec<_>>>()?;
    there.into_iter().map(|there| if there { from.string() } else { Ok(String::new()) }).collect()
}

/// The arguments of LsarAddPrivilegesToAccount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddPrivileges {
    /// The account.
    pub handle: ContextHandle,
    /// The LUIDs of the privileges.
    pub luids: Vec<u64>,
}

impl Arguments for AddPrivileges {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        Ok(AddPrivileges { handle: from.handle()?, luids: privilege_set(from)? })
    }
}

/// The arguments of LsarRemovePrivilegesFromAccount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemovePrivileges {
    /// The account.
    pub handle: ContextHandle,
    /// AllPrivileges.
    pub all: bool,
    /// The LUIDs of the privileges.
    pub luids: Option<Vec<u64>>,
}

impl Arguments for RemovePrivileges {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        let (handle, [all]) = (from.handle()?, from.array()?);
        let luids = if from.pointer()? { Some(privilege_set(from)?) } else { None };
        Ok(RemovePrivileges { handle, all: all != 0, luids })
    }
}

/// The arguments of LsarAddAccountRights.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddAccountRights {
    /// The policy.
    pub handle: ContextHandle,
    /// The account.
    pub sid: Sid,
    /// The names of the rights.
    pub rights: Vec<String>,
}

impl Arguments for AddAccountRights {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        let (handle, sid) = (from.handle()?, from.sid()?);
        from.align(4)?;
        Ok(AddAccountRights { handle, sid, rights: right_set(from)? })
    }
}

/// The arguments of LsarRemoveAccountRights.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RemoveAccountRights {
    /// The policy.
    pub handle: ContextHandle,
    /// The account.
    pub sid: Sid,
    /// AllRights.
    pub all: bool,
    /// The names of the rights.
    pub rights: Vec<String>,
}

impl Arguments for RemoveAccountRights {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        let (handle, sid, [all]) = (from.handle()?, from.sid()?, from.array()?);
        Ok(RemoveAccountRights { handle, sid, all: all != 0, rights: right_set(from)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::ndr::Encoder;

    #[test]
    fn sets_of_rights_are_decoded() {
        let mut out = Encoder::default();
        out.array(4, &[3; 20]);
        out.sid(&Sid::BUILTIN_USERS);
        out.array(1, &[1]);
        out.u32(2);
        out.pointer();
        out.u32(2);
        let names = ["SeBackupPrivilege", "x"];
        names.iter().for_each(|name| out.unicode(name));
        names.iter().for_each(|name| out.text(name));
        let bytes = out.into_bytes();
        let asked = RemoveAccountRights::decode(&bytes).expect("arguments");
        assert_eq!((asked.sid, asked.all, asked.rights), (Sid::BUILTIN_USERS, true, names.map(str::to_owned).to_vec()));
        assert!((0..bytes.len()).all(|length| RemoveAccountRights::decode(&bytes[..length]).is_err()));
    }

    #[test]
    fn sets_of_privileges_are_decoded() {
        let set = |numbers: &[u32]| {
            let mut out = Encoder::default();
            out.array(4, &[3; 20]);
            numbers.iter().for_each(|number| out.u32(*number));
            AddPrivileges::decode(&out.into_bytes()).map(|asked| asked.luids)
        };
        assert_eq!(set(&[2, 2, 0, 6, 0, 0, 8, 1, 3]), Ok(vec![6, 1 << 32 | 8]));
        assert_eq!(set(&[0, 0, 0]), Ok(Vec::new()));
        assert_eq!(set(&[2, 1, 0, 6, 0, 0, 8, 1, 3]), Err(Malformed::Value));
        assert_eq!(set(&[300, 300, 0]), Err(Malformed::Value));
    }
}
