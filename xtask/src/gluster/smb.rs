//! Clients of the server in the namespaces.

use anyhow::{Context, Result};
use client::{Client, Credentials, Open, Options};
use proto::dtyp::acl::{Ace, AceFlags};
use proto::dtyp::security_descriptor::Control;
use proto::dtyp::{AccessMask, Acl, SecurityDescriptor, Sid};
use proto::smb2::set_info::SetInfoRequest;
use proto::smb2::{InfoType, SecurityInformation};
use test_environment::{ALICE, Person, Server};

/// The access that setting rules needs.
const WRITE_DAC: u32 = AccessMask::READ_CONTROL.0 | AccessMask::WRITE_DAC.0;

/// Connects to a share as alice.
pub(super) async fn connect(server: &Server, share: &str) -> Result<Client> {
    connect_as(server, share, &ALICE).await
}

/// Connects to a share.
pub(super) async fn connect_as(server: &Server, share: &str, person: &Person) -> Result<Client> {
    let options = Options { credentials: Credentials::password(person.name, person.password), ..Options::default() };
    Client::connect(server.address(), "127.0.0.1", share, &options)
        .await
        .with_context(|| format!("{} cannot connect to the share {share}", person.name))
}

/// Sets the rules of a directory, which new files inherit.
pub(super) async fn set_rules(client: &mut Client, directory: &str, rules: Vec<(Sid, AccessMask)>) -> Result<()> {
    let inherited = AceFlags::OBJECT_INHERIT | AceFlags::CONTAINER_INHERIT;
    let aces = rules.into_iter().map(|(sid, rights)| Ace::allow(sid, rights, inherited)).collect();
    let dacl = Acl::new(Acl::REVISION, aces).context("too many rules")?;
    let control = Control(Control::DACL_PRESENT.0 | Control::SELF_RELATIVE.0);
    let descriptor = SecurityDescriptor { control, dacl: Some(dacl), ..SecurityDescriptor::default() }.to_bytes();
    let file = client.open(&Open::directory(directory).with_access(WRITE_DAC)).await?;
    let set = SetInfoRequest {
        info_type: InfoType::SECURITY,
        additional_information: SecurityInformation::DACL.0,
        buffer: &descriptor,
        file_id: file,
        ..SetInfoRequest::default()
    };
    client.set_info(&set).await?;
    Ok(client.close(file).await?)
}
