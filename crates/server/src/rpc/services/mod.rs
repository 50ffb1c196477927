//! The services. To add one, implement [`Interface`] in a file of its own and add it to [`SERVICES`].

mod fixed_rights;
mod lsarpc;
mod samr;
mod srvsvc;
mod svcctl;
mod winreg;
mod wkssvc;

use super::interface::Interface;

/// All services.
pub(super) const SERVICES: &[&dyn Interface] = &[
    &srvsvc::Srvsvc,
    &lsarpc::Lsarpc,
    &samr::Samr,
    &wkssvc::Wkssvc,
    &winreg::Winreg,
    &svcctl::Svcctl,
    #[cfg(test)]
    &super::tests::Calculator,
];

/// Returns the service of the pipe called `name`.
pub(super) fn find(name: &str) -> Option<&'static dyn Interface> {
    SERVICES.iter().copied().find(|service| name.eq_ignore_ascii_case(service.pipe()))
}
