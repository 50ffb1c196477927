//! The service control manager ([MS-SCMR] 3.1.4), as far as programs for the administration of servers read it. The
//! services are parts of this server. Clients cannot start, stop or change them.

#[cfg(test)]
mod tests;

use proto::dtyp::{AccessMask, GenericMapping};
use proto::rpc::enumeration::error;
use proto::rpc::ndr::ContextHandle;
use proto::rpc::pdu::SyntaxId;
use proto::rpc::srvsvc::status_response;
use proto::rpc::svcctl::{
    self, BUFFER_8K, BUFFER_256K, CONFIG_DESCRIPTION, CONFIG_FAILURE_ACTIONS, CONTROL_INTERROGATE, EnumServices,
    EnumServicesEx, NamedService, OpenManager, Query, QueryConfig, Service, opnum, rights,
};
use proto::rpc::winreg::handle_response;
use proto::smb2::SecurityInformation;

use super::fixed_rights::FixedRights;
use crate::rpc::interface::{Call, Interface, Operation, operations};

/// The service control manager.
pub(super) struct Svcctl;

impl Interface for Svcctl {
    fn pipe(&self) -> &'static str {
        "svcctl"
    }

    fn syntax(&self) -> SyntaxId {
        svcctl::INTERFACE
    }

    fn operations(&self) -> &'static [Operation] {
        operations![
            (opnum::R_CLOSE_SERVICE_HANDLE, "RCloseServiceHandle", close),
            (opnum::R_CONTROL_SERVICE, "RControlService", control),
            (opnum::R_DELETE_SERVICE, "RDeleteService", refuse),
            (opnum::R_LOCK_SERVICE_DATABASE, "RLockServiceDatabase", lock),
            (opnum::R_QUERY_SERVICE_OBJECT_SECURITY, "RQueryServiceObjectSecurity", object_security),
            (opnum::R_SET_SERVICE_OBJECT_SECURITY, "RSetServiceObjectSecurity", refuse),
            (opnum::R_QUERY_SERVICE_STATUS, "RQueryServiceStatus", query_status),
            (opnum::R_SET_SERVICE_STATUS, "RSetServiceStatus", refuse),
            (opnum::R_UNLOCK_SERVICE_DATABASE, "RUnlockServiceDatabase", unlock),
            (opnum::R_CHANGE_SERVICE_CONFIG_W, "RChangeServiceConfigW", change_config),
            (opnum::R_CREATE_SERVICE_W, "RCreateServiceW", create),
            (opnum::R_ENUM_DEPENDENT_SERVICES_W, "REnumDependentServicesW", enum_dependents),
            (opnum::R_ENUM_SERVICES_STATUS_W, "REnumServicesStatusW", enum_services),
            (opnum::R_OPEN_SC_MANAGER_W, "ROpenSCManagerW", open_manager),
            (opnum::R_OPEN_SERVICE_W, "ROpenServiceW", open_service),
            (opnum::R_QUERY_SERVICE_CONFIG_W, "RQueryServiceConfigW", query_config),
            (opnum::R_QUERY_SERVICE_LOCK_STATUS_W, "RQueryServiceLockStatusW", lock_status),
            (opnum::R_START_SERVICE_W, "RStartServiceW", refuse),
            (opnum::R_GET_SERVICE_DISPLAY_NAME_W, "RGetServiceDisplayNameW", display_name),
            (opnum::R_GET_SERVICE_KEY_NAME_W, "RGetServiceKeyNameW", key_name),
            (opnum::R_CHANGE_SERVICE_CONFIG_2_W, "RChangeServiceConfig2W", refuse),
            (opnum::R_QUERY_SERVICE_CONFIG_2_W, "RQueryServiceConfig2W", query_config_2),
            (opnum::R_QUERY_SERVICE_STATUS_EX, "RQueryServiceStatusEx", query_status_ex),
            (opnum::R_ENUM_SERVICES_STATUS_EX_W, "REnumServicesStatusExW", enum_services_ex),
        ]
    }
}

/// The services of a server without print shares, and with some.
static SERVICES: [[Service; 5]; 2] = [services(false), services(true)];

/// The services: the server, and those that Samba always lists.
const fn services(prints: bool) -> [Service; 5] {
    [
        Service {
            name: "LanmanServer",
            display_name: "Server",
            description: "Shares files and named pipes with computers in the network.",
            running: true,
        },
        Service {
            name: "NETLOGON",
            display_name: "Net Logon",
            description: "Authenticates users of a domain for other computers. This server is not a domain controller.",
            running: false,
        },
        Service {
            name: "RemoteRegistry",
            display_name: "Remote Registry Service",
            description: "Shows values that describe this server to programs on other computers.",
            running: true,
        },
        Service {
            name: "Spooler",
            display_name: "Print Spooler",
            description: "Accepts documents for printers, if the server has any.",
            running: prints,
        },
        Service {
            name: "WINS",
            display_name: "Windows Internet Name Service (WINS)",
            description: "Resolves NetBIOS names for other computers. This server does not use NetBIOS.",
            running: false,
        },
    ]
}

/// Returns the services of the server. The print spooler runs if the configuration has print shares.
fn all(call: &Call<'_>) -> &'static [Service] {
    let policy = call.server.policy();
    let prints = policy.printers.is_some() || policy.shares.values().any(|share| share.printing.is_some());
    &SERVICES[usize::from(prints)]
}

/// The process that clients see for all services. The real one is of no use to them.
const PROCESS: u32 = 1;

/// The program that clients see for all services.
const PROGRAM: &str = "frevo serve";

const READ_CONTROL: u32 = AccessMask::READ_CONTROL.0;

/// The rights to the manager: as in Samba, users can list and administrators can do all.
const MANAGER: FixedRights = FixedRights {
    users: AccessMask(MANAGER_READ | rights::SC_MANAGER_CONNECT),
    administrators: AccessMask(rights::SC_MANAGER_ALL_ACCESS),
    generic: GenericMapping {
        generic_read: AccessMask(MANAGER_READ),
        generic_write: AccessMask(
            READ_CONTROL | rights::SC_MANAGER_CREATE_SERVICE | rights::SC_MANAGER_MODIFY_BOOT_CONFIG,
        ),
        generic_execute: AccessMask(READ_CONTROL | rights::SC_MANAGER_CONNECT | rights::SC_MANAGER_LOCK),
        generic_all: AccessMask(rights::SC_MANAGER_ALL_ACCESS),
    },
};

const MANAGER_READ: u32 = READ_CONTROL | rights::SC_MANAGER_ENUMERATE_SERVICE | rights::SC_MANAGER_QUERY_LOCK_STATUS;

/// The rights to a service.
const SERVICE: FixedRights = FixedRights {
    users: AccessMask(SERVICE_READ),
    administrators: AccessMask(rights::SERVICE_ALL_ACCESS),
    generic: GenericMapping {
        generic_read: AccessMask(SERVICE_READ),
        generic_write: AccessMask(READ_CONTROL | rights::SERVICE_CHANGE_CONFIG),
        generic_execute: AccessMask(
            READ_CONTROL
                | rights::SERVICE_START
                | rights::SERVICE_STOP
                | rights::SERVICE_PAUSE_CONTINUE
                | rights::SERVICE_USER_DEFINED_CONTROL,
        ),
        generic_all: AccessMask(rights::SERVICE_ALL_ACCESS),
    },
};

const SERVICE_READ: u32 = READ_CONTROL
    | rights::SERVICE_QUERY_CONFIG
    | rights::SERVICE_QUERY_STATUS
    | rights::SERVICE_ENUMERATE_DEPENDENTS
    | rights::SERVICE_INTERROGATE;

/// The object of a context handle.
#[derive(Clone, Copy)]
enum Object {
    Manager(AccessMask),
    Service(&'static Service, AccessMask),
    /// The lock of the database, which keeps nobody from anything because there are no changes.
    Lock,
}

fn open(call: &Call<'_>, object: Result<Object, u32>) -> Vec<u8> {
    let opened = object
        .and_then(|object| call.handles.lock().open(object, &*call.server.environment).ok_or(error::NOT_ENOUGH_MEMORY));
    handle_response(&opened.unwrap_or_default(), opened.err().unwrap_or(error::SUCCESS))
}

/// Checks that `handle` is one of the manager and has this right.
fn manager(call: &Call<'_>, handle: &ContextHandle, needed: u32) -> Result<(), u32> {
    match call.handles.lock().get::<Object>(handle) {
        Some(Object::Manager(rights)) if rights.contains(AccessMask(needed)) => Ok(()),
        Some(Object::Manager(_)) => Err(error::ACCESS_DENIED),
        _ => Err(error::INVALID_HANDLE),
    }
}

/// Returns the service of a handle that has this right.
fn service(call: &Call<'_>, handle: &ContextHandle, needed: u32) -> Result<&'static Service, u32> {
    match call.handles.lock().get::<Object>(handle) {
        Some(Object::Service(service, rights)) if rights.contains(AccessMask(needed)) => Ok(service),
        Some(Object::Service(..)) => Err(error::ACCESS_DENIED),
        _ => Err(error::INVALID_HANDLE),
    }
}

fn find(call: &Call<'_>, name: &str) -> Result<&'static Service, u32> {
    let found = all(call).iter().find(|service| service.name.eq_ignore_ascii_case(name));
    found.ok_or(error::SERVICE_DOES_NOT_EXIST)
}

async fn open_manager(call: &Call<'_>, asked: OpenManager) -> Vec<u8> {
    const ACTIVE: &str = "ServicesActive";
    if asked.database.is_some_and(|name| !name.is_empty() && !name.eq_ignore_ascii_case(ACTIVE)) {
        return open(call, Err(error::DATABASE_DOES_NOT_EXIST));
    }
    // A handle always has the right to connect ([MS-SCMR] 3.1.4.15).
    let desired = AccessMask(asked.desired | rights::SC_MANAGER_CONNECT);
    open(call, MANAGER.grant(call, desired).await.map(Object::Manager))
}

async fn open_service(call: &Call<'_>, asked: NamedService) -> Vec<u8> {
    let found = manager(call, &asked.handle, rights::SC_MANAGER_CONNECT).and_then(|()| find(call, &asked.name));
    let opened = match found {
        Ok(service) => {
            let granted = SERVICE.grant(call, AccessMask(asked.number)).await;
            granted.map(|rights| Object::Service(service, rights))
        }
        Err(status) => Err(status),
    };
    open(call, opened)
}

async fn close(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    let mut handles = call.handles.lock();
    let is_open = matches!(handles.get::<Object>(&handle), Some(Object::Manager(_) | Object::Service(..)));
    let status = if is_open && handles.close(&handle) { error::SUCCESS } else { error::INVALID_HANDLE };
    handle_response(&ContextHandle::default(), status)
}

async fn lock(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    open(call, manager(call, &handle, rights::SC_MANAGER_LOCK).map(|()| Object::Lock))
}

async fn unlock(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    let mut handles = call.handles.lock();
    let is_lock = matches!(handles.get::<Object>(&handle), Some(Object::Lock));
    let status = if is_lock && handles.close(&handle) { error::SUCCESS } else { error::INVALID_SERVICE_LOCK };
    handle_response(&ContextHandle::default(), status)
}

async fn lock_status(call: &Call<'_>, asked: QueryConfig) -> Vec<u8> {
    let allowed = manager(call, &asked.handle, rights::SC_MANAGER_QUERY_LOCK_STATUS);
    svcctl::lock_status_response(allowed.err().unwrap_or(error::SUCCESS))
}

/// Refuses to start, change or delete a service.
async fn refuse(_: &Call<'_>, _: ContextHandle) -> Vec<u8> {
    status_response(error::ACCESS_DENIED)
}

async fn create(_: &Call<'_>, _: ContextHandle) -> Vec<u8> {
    svcctl::not_created_response(error::ACCESS_DENIED)
}

async fn change_config(_: &Call<'_>, _: ContextHandle) -> Vec<u8> {
    svcctl::not_changed_response(error::ACCESS_DENIED)
}

/// Returns the state of a service. Every other control is refused.
async fn control(call: &Call<'_>, (handle, control): (ContextHandle, u32)) -> Vec<u8> {
    svcctl::status_response(match service(call, &handle, rights::SERVICE_INTERROGATE) {
        Ok(_) if control != CONTROL_INTERROGATE => Err(error::ACCESS_DENIED),
        Ok(service) if !service.running => Err(error::SERVICE_NOT_ACTIVE),
        found => found,
    })
}

async fn query_status(call: &Call<'_>, handle: ContextHandle) -> Vec<u8> {
    svcctl::status_response(service(call, &handle, rights::SERVICE_QUERY_STATUS))
}

async fn query_status_ex(call: &Call<'_>, asked: Query<BUFFER_8K>) -> Vec<u8> {
    const PROCESS_INFO: u32 = 0;
    let found = service(call, &asked.handle, rights::SERVICE_QUERY_STATUS);
    let found = found.and_then(|it| if asked.number == PROCESS_INFO { Ok(it) } else { Err(error::INVALID_LEVEL) });
    let bytes = found.map(|service| svcctl::status_process(service, PROCESS));
    svcctl::buffer_response(asked.size, bytes.as_deref().map_err(|status| *status), error::INSUFFICIENT_BUFFER)
}

async fn query_config(call: &Call<'_>, asked: QueryConfig) -> Vec<u8> {
    let found = service(call, &asked.handle, rights::SERVICE_QUERY_CONFIG);
    svcctl::config_response(found.map(|service| (service, PROGRAM)), asked.size, error::INSUFFICIENT_BUFFER)
}

async fn query_config_2(call: &Call<'_>, asked: Query<BUFFER_8K>) -> Vec<u8> {
    let found = service(call, &asked.handle, rights::SERVICE_QUERY_CONFIG);
    let bytes = found.and_then(|service| match asked.number {
        CONFIG_DESCRIPTION => Ok(svcctl::description(service)),
        CONFIG_FAILURE_ACTIONS => Ok(svcctl::no_failure_actions()),
        _ => Err(error::INVALID_LEVEL),
    });
    svcctl::buffer_response(asked.size, bytes.as_deref().map_err(|status| *status), error::INSUFFICIENT_BUFFER)
}

/// Returns the security descriptor of the manager or of a service.
async fn object_security(call: &Call<'_>, asked: Query<BUFFER_256K>) -> Vec<u8> {
    let parts = SecurityInformation(asked.number);
    let object = call.handles.lock().get::<Object>(&asked.handle).copied();
    let needed = FixedRights::needed_to_query(parts);
    let bytes = match object {
        Some(Object::Manager(rights)) if rights.contains(needed) => Ok(MANAGER.descriptor(parts)),
        Some(Object::Service(_, rights)) if rights.contains(needed) => Ok(SERVICE.descriptor(parts)),
        Some(Object::Manager(_) | Object::Service(..)) => Err(error::ACCESS_DENIED),
        Some(Object::Lock) | None => Err(error::INVALID_HANDLE),
    };
    svcctl::buffer_response(asked.size, bytes.as_deref().map_err(|status| *status), error::INSUFFICIENT_BUFFER)
}

async fn enum_dependents(call: &Call<'_>, asked: Query<BUFFER_256K>) -> Vec<u8> {
    let found = service(call, &asked.handle, rights::SERVICE_ENUMERATE_DEPENDENTS);
    svcctl::no_dependents_response(asked.size, found.err().unwrap_or(error::SUCCESS))
}

async fn enum_services(call: &Call<'_>, asked: EnumServices) -> Vec<u8> {
    let listed = manager(call, &asked.handle, rights::SC_MANAGER_ENUMERATE_SERVICE).map(|()| {
        // No service has a load order group. An empty name selects the services without one.
        let in_group = asked.group.as_ref().is_none_or(String::is_empty);
        let is_listed = |service: &&Service| in_group && service.matches(asked.types, asked.states);
        all(call).iter().filter(is_listed).collect::<Vec<_>>()
    });
    svcctl::services_response(&asked, listed.as_deref().map_err(|status| *status), PROCESS, error::MORE_DATA)
}

async fn enum_services_ex(call: &Call<'_>, EnumServicesEx(asked): EnumServicesEx) -> Vec<u8> {
    const PROCESS_INFO: u32 = 0;
    match asked.level {
        Some(PROCESS_INFO) => enum_services(call, asked).await,
        _ => svcctl::services_response(&asked, Err(error::INVALID_LEVEL), PROCESS, error::MORE_DATA),
    }
}

async fn display_name(call: &Call<'_>, asked: NamedService) -> Vec<u8> {
    let found = manager(call, &asked.handle, rights::SC_MANAGER_CONNECT).and_then(|()| find(call, &asked.name));
    svcctl::name_response(found.map(|service| service.display_name), asked.number, error::INSUFFICIENT_BUFFER)
}

async fn key_name(call: &Call<'_>, asked: NamedService) -> Vec<u8> {
    let by_display_name = || {
        let found = all(call).iter().find(|service| service.display_name.eq_ignore_ascii_case(&asked.name));
        found.ok_or(error::SERVICE_DOES_NOT_EXIST)
    };
    let found = manager(call, &asked.handle, rights::SC_MANAGER_CONNECT).and_then(|()| by_display_name());
    svcctl::name_response(found.map(|service| service.name), asked.number, error::INSUFFICIENT_BUFFER)
}
