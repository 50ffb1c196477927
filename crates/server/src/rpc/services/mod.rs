//! The services. To add one, implement [`Interface`] in a file of its own and add it to [`SERVICES`].

mod fixed_rights;
mod lsarpc;
mod samr;
mod spoolss;
mod srvsvc;
mod svcctl;
mod winreg;
mod wkssvc;

use super::interface::Interface;

/// The pipe of the print system.
pub(super) const PRINT_SYSTEM: &str = "spoolss";

/// All services.
pub(super) const SERVICES: &[&dyn Interface] = &[
    &srvsvc::Srvsvc,
    &lsarpc::Lsarpc,
    &samr::Samr,
    &wkssvc::Wkssvc,
    &winreg::Winreg,
    &svcctl::Svcctl,
    &spoolss::Spoolss,
    #[cfg(test)]
    &super::tests::Calculator,
];

/// Returns the service of the pipe called `name`.
pub(super) fn find(name: &str) -> Option<&'static dyn Interface> {
    SERVICES.iter().copied().find(|service| name.eq_ignore_ascii_case(service.pipe()))
}
