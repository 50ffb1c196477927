//! The service control manager ([MS-SCMR] 3.1.4): calls that list services and query their state and configuration.

use super::ndr::{Arguments, ContextHandle, Decoder, Encoder};
use super::pdu::SyntaxId;
use crate::bytes::{Malformed, Result};
use crate::dtyp::Guid;

/// 367abb81-9844-35f1-ad32-98f038001003, version 2.0.
pub const INTERFACE: SyntaxId = SyntaxId {
    uuid: Guid::from_fields(0x367a_bb81, 0x9844, 0x35f1, [0xad, 0x32, 0x98, 0xf0, 0x38, 0x00, 0x10, 0x03]),
    version: 2,
};

/// Operation numbers of the calls.
#[allow(missing_docs, reason = "the names are those of the specification")]
pub mod opnum {
    pub const R_CLOSE_SERVICE_HANDLE: u16 = 0;
    pub const R_CONTROL_SERVICE: u16 = 1;
    pub const R_DELETE_SERVICE: u16 = 2;
    pub const R_LOCK_SERVICE_DATABASE: u16 = 3;
    pub const R_QUERY_SERVICE_OBJECT_SECURITY: u16 = 4;
    pub const R_SET_SERVICE_OBJECT_SECURITY: u16 = 5;
    pub const R_QUERY_SERVICE_STATUS: u16 = 6;
    pub const R_SET_SERVICE_STATUS: u16 = 7;
    pub const R_UNLOCK_SERVICE_DATABASE: u16 = 8;
    pub const R_CHANGE_SERVICE_CONFIG_W: u16 = 11;
    pub const R_CREATE_SERVICE_W: u16 = 12;
    pub const R_ENUM_DEPENDENT_SERVICES_W: u16 = 13;
    pub const R_ENUM_SERVICES_STATUS_W: u16 = 14;
    pub const R_OPEN_SC_MANAGER_W: u16 = 15;
    pub const R_OPEN_SERVICE_W: u16 = 16;
    pub const R_QUERY_SERVICE_CONFIG_W: u16 = 17;
    pub const R_QUERY_SERVICE_LOCK_STATUS_W: u16 = 18;
    pub const R_START_SERVICE_W: u16 = 19;
    pub const R_GET_SERVICE_DISPLAY_NAME_W: u16 = 20;
    pub const R_GET_SERVICE_KEY_NAME_W: u16 = 21;
    pub const R_CHANGE_SERVICE_CONFIG_2_W: u16 = 37;
    pub const R_QUERY_SERVICE_CONFIG_2_W: u16 = 39;
    pub const R_QUERY_SERVICE_STATUS_EX: u16 = 40;
    pub const R_ENUM_SERVICES_STATUS_EX_W: u16 = 42;
}

/// Rights ([MS-SCMR] 3.1.4), besides the standard rights.
#[allow(missing_docs, reason = "the names are those of the specification")]
pub mod rights {
    pub const SC_MANAGER_CONNECT: u32 = 0x0001;
    pub const SC_MANAGER_CREATE_SERVICE: u32 = 0x0002;
    pub const SC_MANAGER_ENUMERATE_SERVICE: u32 = 0x0004;
    pub const SC_MANAGER_LOCK: u32 = 0x0008;
    pub const SC_MANAGER_QUERY_LOCK_STATUS: u32 = 0x0010;
    pub const SC_MANAGER_MODIFY_BOOT_CONFIG: u32 = 0x0020;
    pub const SC_MANAGER_ALL_ACCESS: u32 = 0x000f_003f;
    pub const SERVICE_QUERY_CONFIG: u32 = 0x0001;
    pub const SERVICE_CHANGE_CONFIG: u32 = 0x0002;
    pub const SERVICE_QUERY_STATUS: u32 = 0x0004;
    pub const SERVICE_ENUMERATE_DEPENDENTS: u32 = 0x0008;
    pub const SERVICE_START: u32 = 0x0010;
    pub const SERVICE_STOP: u32 = 0x0020;
    pub const SERVICE_PAUSE_CONTINUE: u32 = 0x0040;
    pub const SERVICE_INTERROGATE: u32 = 0x0080;
    pub const SERVICE_USER_DEFINED_CONTROL: u32 = 0x0100;
    pub const SERVICE_ALL_ACCESS: u32 = 0x000f_01ff;
}

/// SERVICE_CONTROL_INTERROGATE ([MS-SCMR] 3.1.4.2).
pub const CONTROL_INTERROGATE: u32 = 4;
/// The largest buffer of a list or a descriptor ([MS-SCMR] 2.2.6).
pub const BUFFER_256K: u32 = 256 * 1024;
/// The largest buffer of a configuration ([MS-SCMR] 2.2.7).
pub const BUFFER_8K: u32 = 8 * 1024;
/// SERVICE_CONFIG_DESCRIPTION ([MS-SCMR] 3.1.4.36).
pub const CONFIG_DESCRIPTION: u32 = 1;
/// SERVICE_CONFIG_FAILURE_ACTIONS.
pub const CONFIG_FAILURE_ACTIONS: u32 = 2;

/// The type of the services that are listed: SERVICE_WIN32_SHARE_PROCESS.
const SERVICE_TYPE: u32 = 0x20;
const SERVICE_STOPPED: u32 = 1;
const SERVICE_RUNNING: u32 = 4;
const SERVICE_AUTO_START: u32 = 2;
const SERVICE_DISABLED: u32 = 4;
const SERVICE_ERROR_NORMAL: u32 = 1;
/// ERROR_SERVICE_NEVER_STARTED.
const NEVER_STARTED: u32 = 1077;
/// Sizes of the fixed parts of structures.
const STATUS_SIZE: usize = 28;
const STATUS_PROCESS_SIZE: usize = 36;
const CONFIG_SIZE: usize = 36;

/// A service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Service {
    /// The name.
    pub name: &'static str,
    /// The name for users.
    pub display_name: &'static str,
    /// What it does.
    pub description: &'static str,
    /// Whether it runs. One that does not run is disabled.
    pub running: bool,
}

impl Service {
    /// Returns whether a list of these types and states includes the service (SERVICE_ACTIVE 1, SERVICE_INACTIVE 2).
    pub fn matches(&self, types: u32, states: u32) -> bool {
        types & SERVICE_TYPE != 0 && states & if self.running { 1 } else { 2 } != 0
    }

    /// Returns SERVICE_STATUS ([MS-SCMR] 2.2.47). No control is accepted.
    fn status(&self) -> [u32; 7] {
        let (state, exit) = if self.running { (SERVICE_RUNNING, 0) } else { (SERVICE_STOPPED, NEVER_STARTED) };
        [SERVICE_TYPE, state, 0, exit, 0, 0, 0]
    }

    /// Returns SERVICE_STATUS_PROCESS ([MS-SCMR] 2.2.49), with `process` as its process id if it runs.
    fn status_process(&self, process: u32) -> Vec<u32> {
        self.status().into_iter().chain([if self.running { process } else { 0 }, 0]).collect()
    }

    /// Returns the texts of QUERY_SERVICE_CONFIGW: the program, the load order group, the dependencies, the user and
    /// the name for users.
    fn texts<'a>(&self, program: &'a str) -> [&'a str; 5] {
        [program, "", "", "LocalSystem", self.display_name]
    }
}

/// The arguments of ROpenSCManagerW.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenManager {
    /// The database.
    pub database: Option<String>,
    /// The desired rights.
    pub desired: u32,
}

impl Arguments for OpenManager {
    fn read(from: &mut Decoder<'_>) -> Result<OpenManager> {
        from.optional_string()?;
        Ok(OpenManager { database: from.optional_string()?, desired: from.u32()? })
    }
}

/// The arguments of ROpenServiceW, RGetServiceDisplayNameW and RGetServiceKeyNameW.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedService {
    /// The manager.
    pub handle: ContextHandle,
    /// A name of the service.
    pub name: String,
    /// The desired rights, or the size of the client's buffer in characters.
    pub number: u32,
}

impl Arguments for NamedService {
    fn read(from: &mut Decoder<'_>) -> Result<NamedService> {
        Ok(NamedService { handle: from.handle()?, name: from.string()?, number: from.u32()? })
    }
}

/// The arguments of a call with a handle, a level or other number, and the size of the client's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Query<const MOST: u32> {
    /// The service.
    pub handle: ContextHandle,
    /// The level, states, or parts of a descriptor.
    pub number: u32,
    /// The size of the buffer in bytes.
    pub size: u32,
}

impl<const MOST: u32> Arguments for Query<MOST> {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        Ok(Query { handle: from.handle()?, number: from.u32()?, size: buffer_size(from, MOST)? })
    }
}

/// Reads the size of a buffer, of which all bytes are in the response.
fn buffer_size(from: &mut Decoder<'_>, most: u32) -> Result<u32> {
    let size = from.u32()?;
    if size <= most { Ok(size) } else { Err(Malformed::Value) }
}

/// The arguments of RQueryServiceConfigW.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueryConfig {
    /// The service.
    pub handle: ContextHandle,
    /// The size of the client's buffer in bytes.
    pub size: u32,
}

impl Arguments for QueryConfig {
    fn read(from: &mut Decoder<'_>) -> Result<QueryConfig> {
        Ok(QueryConfig { handle: from.handle()?, size: buffer_size(from, BUFFER_8K)? })
    }
}

/// The arguments of a call that lists services.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnumServices {
    /// The manager.
    pub handle: ContextHandle,
    /// The level; `None` for REnumServicesStatusW, which has none.
    pub level: Option<u32>,
    /// The types of services.
    pub types: u32,
    /// The states of services.
    pub states: u32,
    /// The size of the client's buffer in bytes.
    pub size: u32,
    /// The number of services that earlier calls have returned; `None` if the client cannot continue.
    pub resume: Option<u32>,
    /// The load order group.
    pub group: Option<String>,
}

impl EnumServices {
    fn read_from(from: &mut Decoder<'_>, ex: bool) -> Result<EnumServices> {
        let handle = from.handle()?;
        let level = if ex { Some(from.u32()?) } else { None };
        let (types, states, size) = (from.u32()?, from.u32()?, buffer_size(from, BUFFER_256K)?);
        let resume = if from.pointer()? { Some(from.u32()?) } else { None };
        let group = if ex { from.optional_string()? } else { None };
        Ok(EnumServices { handle, level, types, states, size, resume, group })
    }
}

impl Arguments for EnumServices {
    fn read(from: &mut Decoder<'_>) -> Result<EnumServices> {
        EnumServices::read_from(from, false)
    }
}

/// The arguments of REnumServicesStatusExW.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EnumServicesEx(pub EnumServices);

impl Arguments for EnumServicesEx {
    fn read(from: &mut Decoder<'_>) -> Result<EnumServicesEx> {
        EnumServices::read_from(from, true).map(EnumServicesEx)
    }
}

/// Returns the size of a text with its NUL in bytes.
fn bytes_of(text: &str) -> usize {
    (text.encode_utf16().count() + 1) * 2
}

/// Writes the whole buffer of a client, as a conformant array: `bytes`, then zeros.
fn buffer(out: &mut Encoder, bytes: &[u8], size: u32) {
    let mut whole = bytes.to_vec();
    whole.resize(size as usize, 0);
    out.u32(size);
    out.array(1, &whole);
}

/// The results of a call that returns bytes in the client's buffer, if they fit: the bytes, the size that they need,
/// and a Win32 error code, which is `too_small` otherwise.
pub fn buffer_response(size: u32, bytes: std::result::Result<&[u8], u32>, too_small: u32) -> Vec<u8> {
    let needed = bytes.map_or(0, |bytes| bytes.len() as u32);
    let fits = bytes.is_ok() && needed <= size;
    let mut out = Encoder::default();
    buffer(&mut out, if fits { bytes.unwrap_or_default() } else { &[] }, size);
    out.u32(needed);
    out.u32(bytes.err().unwrap_or(if fits { 0 } else { too_small }));
    out.into_bytes()
}

/// The size of the fixed part of a listed service.
fn entry_size(ex: bool) -> usize {
    8 + if ex { STATUS_PROCESS_SIZE } else { STATUS_SIZE }
}

/// The results of a call that lists services: as many as fit into the client's buffer, or a Win32 error code.
/// `more_data` is the code if some do not fit.
pub fn services_response(
    asked: &EnumServices,
    services: std::result::Result<&[&Service], u32>,
    process: u32,
    more_data: u32,
) -> Vec<u8> {
    let ex = asked.level.is_some();
    let all = services.unwrap_or_default();
    let from = (asked.resume.unwrap_or(0) as usize).min(all.len());
    let size_of = |service: &Service| entry_size(ex) + bytes_of(service.name) + bytes_of(service.display_name);
    let (mut used, mut count, mut left) = (0, 0, 0);
    for service in &all[from..] {
        let size = size_of(service);
        if left == 0 && used + size <= asked.size as usize {
            used += size;
            count += 1;
        } else {
            left += size;
        }
    }
    let sent = &all[from..from + count];
    let (mut fixed, mut texts) = (Vec::new(), Vec::new());
    for service in sent {
        for text in [service.name, service.display_name] {
            let offset = (count * entry_size(ex) + texts.len()) as u32;
            fixed.extend_from_slice(&offset.to_le_bytes());
            texts.extend(text.encode_utf16().chain([0]).flat_map(u16::to_le_bytes));
        }
        let status = if ex { service.status_process(process) } else { service.status().to_vec() };
        status.iter().for_each(|number| fixed.extend_from_slice(&number.to_le_bytes()));
    }
    fixed.append(&mut texts);
    let mut out = Encoder::default();
    buffer(&mut out, &fixed, asked.size);
    out.u32(if left == 0 && services.is_ok() { used as u32 } else { left as u32 });
    out.u32(count as u32);
    match asked.resume {
        Some(_) => {
            out.pointer();
            out.u32(if left == 0 { 0 } else { (from + count) as u32 });
        }
        None => out.null(),
    }
    out.u32(services.err().unwrap_or(if left == 0 { 0 } else { more_data }));
    out.into_bytes()
}

/// The results of REnumDependentServicesW: no service, and a Win32 error code.
pub fn no_dependents_response(size: u32, status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    buffer(&mut out, &[], size);
    [0, 0, status].iter().for_each(|number| out.u32(*number));
    out.into_bytes()
}

/// The results of RQueryServiceStatus and RControlService: the state of a service, or a Win32 error code.
pub fn status_response(service: std::result::Result<&Service, u32>) -> Vec<u8> {
    let mut out = Encoder::default();
    service.map_or([0; 7], Service::status).iter().for_each(|number| out.u32(*number));
    out.u32(service.err().unwrap_or(0));
    out.into_bytes()
}

/// Returns SERVICE_STATUS_PROCESS as bytes, for RQueryServiceStatusEx.
pub fn status_process(service: &Service, process: u32) -> Vec<u8> {
    service.status_process(process).into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Returns SERVICE_DESCRIPTION_WOW64 as bytes, for RQueryServiceConfig2W: the offset of the description, and its text.
pub fn description(service: &Service) -> Vec<u8> {
    let text = service.description.encode_utf16().chain([0]).flat_map(u16::to_le_bytes);
    4_u32.to_le_bytes().into_iter().chain(text).collect()
}

/// Returns SERVICE_FAILURE_ACTIONS_WOW64 without actions as bytes.
pub fn no_failure_actions() -> Vec<u8> {
    vec![0; 20]
}

/// The results of RQueryServiceConfigW: the configuration of a service whose program is `program`, or a Win32 error
/// code, which is `too_small` if it does not fit into a buffer of `size`.
pub fn config_response(service: std::result::Result<(&Service, &str), u32>, size: u32, too_small: u32) -> Vec<u8> {
    let texts = service.map(|(service, program)| service.texts(program)).ok();
    let needed = texts.map_or(0, |texts| CONFIG_SIZE + texts.iter().map(|text| bytes_of(text)).sum::<usize>());
    let mut out = Encoder::default();
    match (service, texts) {
        (Ok((service, _)), Some(texts)) if needed <= size as usize => {
            let start = if service.running { SERVICE_AUTO_START } else { SERVICE_DISABLED };
            [SERVICE_TYPE, start, SERVICE_ERROR_NORMAL].iter().for_each(|number| out.u32(*number));
            out.pointer();
            out.pointer();
            // The tag in the load order group.
            out.u32(0);
            (0..3).for_each(|_| out.pointer());
            texts.iter().for_each(|text| out.string(text));
        }
        _ => (0..CONFIG_SIZE / 4).for_each(|_| out.u32(0)),
    }
    out.u32(needed as u32);
    out.u32(service.err().unwrap_or(if needed <= size as usize { 0 } else { too_small }));
    out.into_bytes()
}

/// The results of RQueryServiceLockStatusW: the database is not locked, or a Win32 error code.
pub fn lock_status_response(status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    // QUERY_SERVICE_LOCK_STATUSW: a number, the owner, which is empty, and the duration.
    out.u32(0);
    out.pointer();
    out.u32(0);
    out.string("");
    out.u32(12 + 2);
    out.u32(status);
    out.into_bytes()
}

/// The results of RGetServiceDisplayNameW and RGetServiceKeyNameW: a name, or a Win32 error code, which is `too_small`
/// if it does not fit into `size` characters.
pub fn name_response(name: std::result::Result<&str, u32>, size: u32, too_small: u32) -> Vec<u8> {
    let length = name.map_or(0, |name| name.encode_utf16().count() as u32);
    // The array has one more character than the buffer of the client.
    let fits = length <= size;
    let mut out = Encoder::default();
    out.string(if fits { name.unwrap_or_default() } else { "" });
    out.u32(length);
    out.u32(name.err().unwrap_or(if fits { 0 } else { too_small }));
    out.into_bytes()
}

/// The results of RCreateServiceW, which creates no service: no tag, no handle, and a Win32 error code.
pub fn not_created_response(status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    out.null();
    out.array(4, &ContextHandle::default());
    out.u32(status);
    out.into_bytes()
}

/// The results of RChangeServiceConfigW, which changes nothing: no tag, and a Win32 error code.
pub fn not_changed_response(status: u32) -> Vec<u8> {
    let mut out = Encoder::default();
    out.null();
    out.u32(status);
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MORE: u32 = 234;
    const SERVICES: [Service; 2] = [
        Service { name: "one", display_name: "First", description: "", running: true },
        Service { name: "two", display_name: "Second", description: "", running: false },
    ];

    fn list(level: Option<u32>, size: u32, resume: Option<u32>) -> Vec<u32> {
        let asked = EnumServices { handle: [0; 20], level, types: 0x30, states: 3, size, resume, group: None };
        let services: Vec<&Service> = SERVICES.iter().collect();
        let bytes = services_response(&asked, Ok(&services), 7, MORE);
        assert_eq!(bytes[..4], size.to_le_bytes());
        let rest = &bytes[4 + size.next_multiple_of(4) as usize..];
        rest.chunks_exact(4).map(|four| u32::from_le_bytes(four.try_into().expect("four bytes"))).collect()
    }

    #[test]
    fn as_many_services_as_fit_are_listed() {
        let [one, two] = [36 + 8 + 12, 36 + 8 + 14];
        assert_eq!(list(None, 0, None), [one + two, 0, 0, MORE]);
        assert_eq!(list(None, one + two, None), [one + two, 2, 0, 0]);
        let part = list(None, one + 3, Some(0));
        assert_eq!((part[0], part[1], part[3], part[4]), (two, 1, 1, MORE));
        let rest = list(None, one + two, Some(1));
        assert_eq!((rest[0], rest[1], rest[3], rest[4]), (two, 1, 0, 0));
        assert_eq!(list(Some(0), one + two + 16, None), [one + two + 16, 2, 0, 0]);
        let past = list(None, 100, Some(9));
        assert_eq!((past[0], past[1], past[4]), (0, 0, 0));
    }

    #[test]
    fn a_service_has_a_type_and_a_state() {
        let [running, stopped] = SERVICES;
        let found = |types, states| [running, stopped].map(|service| service.matches(types, states));
        assert_eq!((found(0x30, 3), found(0x30, 1), found(0x30, 2)), ([true; 2], [true, false], [false, true]));
        assert_eq!(found(0x10, 3), [false; 2]);
        assert_eq!(status_response(Ok(&running))[4..8], 4_u32.to_le_bytes());
        assert_eq!(status_process(&running, 7)[28..32], 7_u32.to_le_bytes());
        assert_eq!(status_process(&stopped, 7).len(), STATUS_PROCESS_SIZE);
    }

    #[test]
    fn what_does_not_fit_is_left_out_and_its_size_returned() {
        assert_eq!(buffer_response(4, Ok(&[1, 2]), 122), [4, 0, 0, 0, 1, 2, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(buffer_response(1, Ok(&[1, 2]), 122), [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 122, 0, 0, 0]);
        assert_eq!(buffer_response(0, Err(5), 122), [0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0]);
        let short = config_response(Ok((&SERVICES[0], "")), 10, 122);
        assert_eq!((short.len(), short[40..].to_vec()), (44, vec![122, 0, 0, 0]));
        let whole = config_response(Ok((&SERVICES[0], "")), 8192, 122);
        assert_eq!(whole[whole.len() - 4..], [0; 4]);
        assert!(name_response(Ok("name"), 3, 122).ends_with(&[4, 0, 0, 0, 122, 0, 0, 0]));
        assert!(name_response(Ok("name"), 4, 122).ends_with(&[4, 0, 0, 0, 0, 0, 0, 0]));
    }

    #[test]
    fn a_buffer_has_a_limit() {
        let query = |size: u32| {
            let mut out = Encoder::default();
            out.array(4, &[1; 20]);
            out.u32(1);
            out.u32(size);
            Query::<BUFFER_8K>::decode(&out.into_bytes())
        };
        assert_eq!(query(8192), Ok(Query { handle: [1; 20], number: 1, size: 8192 }));
        assert_eq!(query(8193), Err(Malformed::Value));
    }
}
