//! The arguments of the calls that add, change and remove shares ([MS-SRVS] 3.1.4.7 and 3.1.4.11 to 3.1.4.15).

use crate::bytes::{Malformed, Result};
use crate::rpc::enumeration::UnknownLevel;
use crate::rpc::ndr::{Arguments, ContextHandle, Decoder, Encoder};

/// The levels of NetrShareAdd.
pub const ADDED_LEVELS: &[u32] = &[2, 502, 503];
/// The levels of NetrShareSetInfo.
pub const SET_LEVELS: &[u32] = &[1, 2, 502, 503, 1004, 1005, 1006, 1501];

/// The members of a SHARE_INFO structure by which `ParmErr` identifies them ([MS-SRVS] 2.2.2.11).
#[allow(missing_docs, reason = "the names are those of the specification")]
pub mod member {
    pub const SHARE_NETNAME: u32 = 1;
    pub const SHARE_TYPE: u32 = 3;
    pub const SHARE_REMARK: u32 = 4;
    pub const SHARE_MAX_USES: u32 = 6;
    pub const SHARE_PATH: u32 = 8;
    pub const SHARE_FILE_SD: u32 = 501;
}

/// A SHARE_INFO structure ([MS-SRVS] 2.2.3.6). A member is `None` if the level does not have it or its pointer is null.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ShareInfo {
    /// `shi_netname`.
    pub name: Option<String>,
    /// `shi_type`.
    pub kind: Option<u32>,
    /// `shi_remark`.
    pub remark: Option<String>,
    /// `shi_max_uses`.
    pub max_uses: Option<u32>,
    /// `shi_path`, in Windows notation.
    pub path: Option<String>,
    /// `shi1005_flags`.
    pub flags: Option<u32>,
    /// `shi_security_descriptor`, self-relative.
    pub security: Option<Vec<u8>>,
}

/// A structure, if the call has its level. A client may send a null pointer instead.
pub type LevelledInfo = std::result::Result<Option<ShareInfo>, UnknownLevel>;

impl ShareInfo {
    /// Decodes the level, the union and `ParmErr`, of which the result says whether the client wants it. Nothing after
    /// a level that is not one of `levels` is decoded, because the union has no arm for it.
    fn read(decoder: &mut Decoder<'_>, levels: &[u32]) -> Result<(LevelledInfo, bool)> {
        let level = decoder.u32()?;
        if !levels.contains(&level) {
            return Ok((Err(UnknownLevel(level)), false));
        }
        if decoder.u32()? != level {
            return Err(Malformed::Value);
        }
        let info = if decoder.pointer()? { Some(ShareInfo::read_structure(decoder, level)?) } else { None };
        let wants_member = decoder.pointer()?;
        if wants_member {
            decoder.u32()?;
        }
        Ok((Ok(info), wants_member))
    }

    fn read_structure(decoder: &mut Decoder<'_>, level: u32) -> Result<ShareInfo> {
        let mut info = ShareInfo::default();
        let detailed = matches!(level, 2 | 502 | 503);
        let named = detailed || level == 1;
        let has_name = named && decoder.pointer()?;
        info.kind = if named { Some(decoder.u32()?) } else { None };
        let has_remark = (named || level == 1004) && decoder.pointer()?;
        let (mut has_path, mut has_password, mut has_server) = (false, false, false);
        if detailed {
            decoder.u32()?;
            info.max_uses = Some(decoder.u32()?);
            decoder.u32()?;
            (has_path, has_password) = (decoder.pointer()?, decoder.pointer()?);
            has_server = level == 503 && decoder.pointer()?;
        }
        match level {
            1005 => info.flags = Some(decoder.u32()?),
            1006 => info.max_uses = Some(decoder.u32()?),
            _ => {}
        }
        let secured = matches!(level, 502 | 503 | 1501);
        let length = if secured { decoder.u32()? } else { 0 };
        let has_security = secured && decoder.pointer()?;
        let mut text = |is_there: bool| if is_there { decoder.string().map(Some) } else { Ok(None) };
        info.name = text(has_name)?;
        info.remark = text(has_remark)?;
        info.path = text(has_path)?;
        // Passwords and scopes of names do not apply.
        text(has_password)?;
        text(has_server)?;
        if has_security {
            if decoder.u32()? != length {
                return Err(Malformed::Value);
            }
            let length = usize::try_from(length).map_err(|_| Malformed::Value)?;
            info.security = Some(decoder.bytes(length)?.to_vec());
        }
        Ok(info)
    }
}

/// The arguments of NetrShareAdd.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShareAdd {
    /// The share.
    pub info: LevelledInfo,
    /// The client wants to know the invalid member.
    pub wants_member: bool,
}

impl Arguments for ShareAdd {
    fn read(decoder: &mut Decoder<'_>) -> Result<ShareAdd> {
        decoder.optional_string()?;
        let (info, wants_member) = ShareInfo::read(decoder, ADDED_LEVELS)?;
        Ok(ShareAdd { info, wants_member })
    }
}

/// The arguments of NetrShareSetInfo.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShareSetInfo {
    /// The name of the share.
    pub name: String,
    /// What it is changed to.
    pub info: LevelledInfo,
    /// The client wants to know the invalid member.
    pub wants_member: bool,
}

impl Arguments for ShareSetInfo {
    fn read(decoder: &mut Decoder<'_>) -> Result<ShareSetInfo> {
        decoder.optional_string()?;
        let name = decoder.string()?;
        let (info, wants_member) = ShareInfo::read(decoder, SET_LEVELS)?;
        Ok(ShareSetInfo { name, info, wants_member })
    }
}

/// The arguments of NetrShareDel, NetrShareDelSticky and NetrShareDelStart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShareDel {
    /// The name of the share.
    pub name: String,
}

impl Arguments for ShareDel {
    fn read(decoder: &mut Decoder<'_>) -> Result<ShareDel> {
        decoder.optional_string()?;
        Ok(ShareDel { name: decoder.string()? })
    }
}

/// The results of NetrShareAdd and NetrShareSetInfo: the invalid member, if the client wants it, and the status.
pub fn changed_response(wants_member: bool, member: u32, status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    if wants_member {
        out.pointer();
        out.u32(member);
    } else {
        out.null();
    }
    out.u32(status);
    out.into_bytes()
}

/// The results of NetrShareDelStart and NetrShareDelCommit: a context handle and the status.
pub fn deletion_response(handle: &ContextHandle, status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    out.array(4, handle);
    out.u32(status);
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes the arguments of NetrShareAdd at a level with these texts and this descriptor.
    fn added(level: u32, security: &[u8]) -> Vec<u8> {
        let mut out = Encoder::default();
        out.null();
        out.u32(level);
        out.u32(level);
        out.pointer();
        out.pointer();
        out.u32(0);
        out.pointer();
        out.u32(0);
        out.u32(7);
        out.u32(0);
        out.pointer();
        out.null();
        if level == 503 {
            out.pointer();
        }
        if level != 2 {
            out.u32(security.len() as u32);
            out.pointer();
        }
        for text in ["data", "a comment", "C:\\srv\\data"] {
            out.string(text);
        }
        if level == 503 {
            out.string("*");
        }
        if level != 2 {
            out.u32(security.len() as u32);
            out.array(1, security);
        }
        out.pointer();
        out.u32(0);
        out.into_bytes()
    }

    #[test]
    fn shares_to_add_are_decoded_at_all_levels() {
        for level in ADDED_LEVELS {
            let bytes = added(*level, &[1, 2, 3]);
            let expected = ShareInfo {
                name: Some("data".into()),
                kind: Some(0),
                remark: Some("a comment".into()),
                max_uses: Some(7),
                path: Some("C:\\srv\\data".into()),
                flags: None,
                security: (*level != 2).then(|| vec![1, 2, 3]),
            };
            let decoded = ShareAdd::decode(&bytes);
            assert_eq!(decoded, Ok(ShareAdd { info: Ok(Some(expected)), wants_member: true }), "{level}");
            for length in 0..bytes.len() {
                assert!(ShareAdd::decode(&bytes[..length]).is_err(), "{level} {length}");
            }
        }
        let decoded = ShareAdd::decode(&[0, 0, 0, 0, 9, 0, 0, 0]);
        assert_eq!(decoded, Ok(ShareAdd { info: Err(UnknownLevel(9)), wants_member: false }));
    }

    #[test]
    fn short_levels_have_single_members() {
        let set = |level: u32, write: &dyn Fn(&mut Encoder)| {
            let mut out = Encoder::default();
            out.null();
            out.string("x");
            out.u32(level);
            out.u32(level);
            out.pointer();
            write(&mut out);
            out.null();
            let decoded = ShareSetInfo::decode(&out.into_bytes()).expect("valid arguments");
            assert_eq!((&*decoded.name, decoded.wants_member), ("x", false));
            decoded.info.expect("a known level").expect("a structure")
        };
        let remark = |out: &mut Encoder| {
            out.pointer();
            out.string("r");
        };
        assert_eq!(set(1004, &remark), ShareInfo { remark: Some("r".into()), ..ShareInfo::default() });
        assert_eq!(set(1005, &|out| out.u32(48)), ShareInfo { flags: Some(48), ..ShareInfo::default() });
        assert_eq!(set(1006, &|out| out.u32(3)), ShareInfo { max_uses: Some(3), ..ShareInfo::default() });
        let security = |out: &mut Encoder| {
            out.u32(2);
            out.pointer();
            out.u32(2);
            out.array(1, &[8, 9]);
        };
        assert_eq!(set(1501, &security), ShareInfo { security: Some(vec![8, 9]), ..ShareInfo::default() });
    }
}
