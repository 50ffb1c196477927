//! The fuzz targets, which process arbitrary bytes. None of them may panic, hang or use excessive memory.
//!
//! `cargo xtask fuzz` builds and runs them. An input that once failed is stored in `regressions/TARGET/` and replayed
//! by this crate's own test.

mod logged_on;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use discovery::{llmnr, mdns, netbios, wsd};
use proto::auth::{kerberos, ntlm, pac, spnego};
use proto::bytes::{Reader, Writer};
use proto::crypto::seal::SealingKey;
use proto::dfsc::{ReferralRequest, ReferralResponse};
use proto::dtyp::security_descriptor::SecurityDescriptor;
use proto::dtyp::{Guid, Sid, sddl};
use proto::fscc;
use proto::mac::aapl::{ServerAnswer, ServerQuery};
use proto::mac::afp_info::AfpInfo;
use proto::mac::apple_double::AppleDouble;
use proto::rpc;
use proto::rpc::ndr::Arguments;
use proto::smb2::decoders;
use proto::smb2::negotiate::CipherId;
use proto::{frame, smb1};
use server::name;

pub use logged_on::connection;

/// The POSIX extensions of SMB 3.1.1: names, and a connection that has them, on which opens have the create context.
pub fn posix(bytes: &[u8]) {
    if let Ok(name) = name::parse_posix(bytes) {
        for path in name::meant(&name.path).iter().chain([&name.path]) {
            for component in path.components() {
                assert!(!matches!(component, b"" | b"." | b".."), "a component that is not a name");
                assert!(!component.contains(&0) && !component.contains(&b'/'), "a component that is not a name");
                let shown: Vec<u8> = name::to_wire_posix(component).into_iter().flat_map(u16::to_le_bytes).collect();
                assert!(shown.len() <= 2 * component.len());
            }
        }
    }
    logged_on::posix(bytes);
}

/// Every decoder of SMB2 messages and their parts.
pub fn smb2(bytes: &[u8]) {
    for (_, decode) in decoders::MESSAGES.iter().chain(decoders::PARTS).chain(decoders::LISTS) {
        decode(bytes);
    }
}

/// The first packets of a connection: the transport's header and SMB1's NEGOTIATE.
pub fn packets(bytes: &[u8]) {
    if let Some(header) = bytes.first_chunk::<4>() {
        let _ = frame::FrameHeader::decode(*header);
        let _ = frame::FrameHeader::decode_direct(*header);
    }
    let _ = smb1::Smb1NegotiateRequest::decode(bytes).map(|request| request.offer());
}

/// Structures of files, directories and volumes.
pub fn fscc(bytes: &[u8]) {
    let reader = || Reader::new(bytes);
    let _ = fscc::FileBasicInformation::decode(&mut reader());
    let _ = fscc::FileAllInformation::decode(&mut reader());
    let _ = fscc::FileRenameInformation::decode(&mut reader());
    let _ = fscc::FileRenameInformationEx::decode(&mut reader());
    let _ = fscc::FileDispositionInformation::decode(&mut reader());
    let _ = fscc::FileDispositionInformationEx::decode(&mut reader());
    let _ = fscc::SymbolicLinkReparseData::decode(bytes);
    if let Ok(buffer) = fscc::ReparseDataBuffer::decode(bytes) {
        let _ = fscc::SymbolicLinkReparseData::decode(buffer.data());
        let _ = fscc::NfsReparseData::decode(buffer.data());
    }
    let _ = fscc::FileLevelTrim::decode(&mut reader());
    let _ = fscc::OffloadWriteInput::decode(&mut reader());
    let _ = fscc::FileFullEaInformation::list(bytes).count();
    let _ = fscc::FileGetEaInformation::list(bytes).count();
    let _ = fscc::FileStreamInformation::list(bytes).count();
    let _ = fscc::FileQuotaInformation::list(bytes).count();
    let _ = fscc::FileGetQuotaInformation::list(bytes).count();
    let _ = fscc::FileFsControlInformation::decode(&mut reader());
    if let Ok(information) = fscc::FilePosixInformation::decode(&mut reader()) {
        let mut again = Vec::new();
        information.encode(&mut Writer::new(&mut again));
        assert_eq!(fscc::FilePosixInformation::decode(&mut Reader::new(&again)), Ok(information));
    }
    let _ = fscc::FileFsPosixInformation::decode(&mut reader());
    if let Ok(special) = fscc::NfsReparseData::decode(bytes) {
        assert_eq!(special.to_bytes(), bytes, "each has one encoding");
    }
    for class in (0..=u8::MAX).filter_map(|class| fscc::DirectoryClass::new(fscc::FileInformationClass(class))) {
        let _ = fscc::DirectoryEntry::list(class, bytes).count();
    }
}

/// The extensions of macOS: the create context, the Finder info and AppleDouble data.
pub fn mac(bytes: &[u8]) {
    let _ = ServerQuery::decode(bytes);
    let _ = ServerAnswer::decode(bytes);
    let _ = AfpInfo::decode(bytes);
    if let Ok(double) = AppleDouble::decode(bytes, bytes.len() as u64) {
        let _ = double.finder_info(bytes);
        let _ = double.is_of_macos(bytes.len() as u64) && double.has_only_attributes(bytes);
        if let Some((fork, at)) = double.last_fork() {
            assert!(fork.length == 0 || fork.offset + fork.length <= bytes.len());
            assert!(at as usize + 4 <= bytes.len() && (fork.offset as u64 >= at + 4));
        }
        if let Some(at) = double.finder_info_length_at() {
            assert!(at as usize + 4 <= bytes.len());
        }
        assert!(double.attributes(bytes).unwrap_or_default().len() <= bytes.len());
    }
}

/// Packets of multicast DNS, which follow each other, and messages of WS-Discovery by UDP and by HTTP. The first byte
/// is the length of the first packet. Also packets of the NetBIOS name service and LLMNR.
pub fn discovery(bytes: &[u8]) {
    let (own, from): (IpAddr, SocketAddr) = ([192, 0, 2, 1].into(), ([192, 0, 2, 2], 5353).into());
    let now = Instant::now();
    let service = mdns::Service { kind: "_smb._tcp".into(), port: 445, text: vec!["a=b".into()] };
    let host = mdns::Host { name: "files".into(), instance: "FILES".into(), services: vec![service] };
    let mut responder = mdns::Responder::new(host, vec![own], now, 1);
    let (first, second) = bytes.split_at(bytes.first().map_or(0, |length| bytes.len().min(usize::from(*length))));
    for (number, packet) in (1..).zip([first.get(1..).unwrap_or_default(), second]) {
        let then = now + Duration::from_secs(4 * number);
        let _ = responder.poll(then);
        responder.receive(from, packet, then);
        // A packet has at most the size of an Ethernet frame's content.
        assert!(responder.poll(then).iter().all(|sent| sent.bytes.len() <= 1472));
    }
    let host = wsd::Host::new("FILES".into(), wsd::Group::Workgroup("HOME".into()), [7; 16]).expect("legal names");
    let mut responder = wsd::Responder::new(host, 1);
    let from = ([192, 0, 2, 2], 50_000).into();
    if let Some(reply) = responder.on_datagram(now, &wsd::Datagram { own, from, bytes }, 1) {
        assert!(reply.transmission.bytes.len() <= 3 * bytes.len());
    }
    let _ = responder.on_http(own, bytes, 2);
    let head =
        "POST /07070707-0707-0707-0707-070707070707 HTTP/1.1\r\nHost: x\r\nContent-Type: application/soap+xml\r\n";
    let request = [head.as_bytes(), format!("Content-Length: {}\r\n\r\n", bytes.len()).as_bytes(), bytes].concat();
    let _ = responder.on_http(own, &request, 3);
    netbios_packet(bytes, now);
    llmnr_packet(bytes, now);
}

/// A packet of the NetBIOS name service, which arrives while the names are registered and afterwards.
fn netbios_packet(bytes: &[u8], now: Instant) {
    let names = ["FILES".to_owned(), "OLD".to_owned()];
    let (address, broadcast) = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 255));
    for scope in ["", "a.b"] {
        let (host, _) = netbios::Host::new(&names, "HOME", scope);
        let mut responder = netbios::Responder::new(host, [0; 6], now, 1);
        responder.set_subnets(vec![netbios::Subnet { address, broadcast }], now);
        let _ = responder.poll(now);
        for seconds in 0..5 {
            let then = now + Duration::from_secs(seconds);
            let _ = responder.poll(then);
            let from = std::net::SocketAddrV4::new([192, 0, 2, 2].into(), 137);
            let broadcast = seconds % 2 == 0;
            responder.receive(netbios::Arrival { from, own: address, broadcast }, bytes, then);
            assert!(responder.poll(then).iter().all(|sent| sent.bytes.len() <= 576));
        }
    }
}

/// A packet of LLMNR: a query, and a response to a query of the server.
fn llmnr_packet(bytes: &[u8], now: Instant) {
    let from = ([192, 0, 2, 2], 5355).into();
    let (host, _) = llmnr::Host::new(&["files".to_owned()]);
    let mut responder = llmnr::Responder::new(&host, vec![[192, 0, 2, 1].into()], now, 1);
    let _ = responder.poll(now);
    responder.receive_response(from, bytes, || Some([192, 0, 2, 1].into()), now);
    responder.receive(from, bytes, now);
    let sent = responder.poll(now);
    assert!(sent.iter().all(|sent| !matches!(sent, llmnr::Outgoing::Answer(_, bytes) if bytes.len() > 512)));
}

/// Security descriptors, SIDs, GUIDs, and their text forms.
pub fn dtyp(bytes: &[u8]) {
    if let Ok(descriptor) = SecurityDescriptor::decode(bytes) {
        let again = descriptor.to_bytes();
        assert_eq!(SecurityDescriptor::decode(&again).as_ref(), Ok(&descriptor), "what was read can be written");
    }
    let _ = Sid::decode(&mut Reader::new(bytes));
    let _ = Guid::decode(&mut Reader::new(bytes));
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = text.parse::<Sid>();
    }
}

/// DFS referrals. What was read can be written again.
pub fn dfsc(bytes: &[u8]) {
    let _ = ReferralRequest::decode(bytes);
    if let Ok(request) = ReferralRequest::decode_ex(bytes)
        && request.request_file_name.len() < 60_000
        && request.site_name.is_none_or(|site| site.len() < 60_000)
    {
        let mut again = Vec::new();
        request.encode_ex(&mut proto::bytes::Writer::new(&mut again));
        assert_eq!(ReferralRequest::decode_ex(&again), Ok(request));
    }
    if let Ok(response) = ReferralResponse::decode(bytes) {
        for space in [100, 65_536] {
            let again = response.to_bytes(space);
            assert!(again.is_none_or(|again| again.len() <= space && ReferralResponse::decode(&again).is_ok()));
        }
    }
}

/// Security descriptors as text.
pub fn sddl(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let domains = sddl::Domains::standalone(Sid::of(5, [21, 1, 2, 3]));
    match sddl::decode(text, &domains) {
        Ok(descriptor) => {
            let again = sddl::encode(&descriptor).expect("what was read can be written");
            assert_eq!(sddl::decode(&again, &domains), Ok(descriptor), "{again}");
        }
        Err(error) => assert!(text.is_char_boundary(error.position), "{error}"),
    }
}

/// SPNEGO and NTLM tokens, decoded as a server and as a client.
pub fn auth(bytes: &[u8]) {
    let _ = spnego::Token::decode(bytes);
    let _ = kerberos::Envelope::decode(bytes);
    let _ = pac::LogonInfo::decode(bytes);
    let names = ntlm::TargetNames {
        netbios_computer: "FREVO".into(),
        netbios_domain: "FREVO".into(),
        dns_computer: "frevo".into(),
        dns_domain: String::new(),
        domain_joined: false,
    };
    let mut acceptor = ntlm::Acceptor::new(names.clone());
    let _ = acceptor.challenge(bytes, [1; 8], 0);
    let mut acceptor = ntlm::Acceptor::new(names);
    let _ = acceptor.challenge(ntlm::Initiator::new(None, "FUZZ", "").negotiate(), [1; 8], 0);
    if let Ok(claim) = acceptor.authenticate(bytes) {
        assert!(acceptor.verify(&claim, Some(&[7; 16])).is_err(), "nobody knows that hash");
    }
}

/// Remote procedure calls.
pub fn rpc(bytes: &[u8]) {
    if let Ok(header) = rpc::pdu::Header::decode(bytes) {
        let _ = rpc::pdu::Request::decode(&header, bytes);
        let _ = rpc::auth::Trailer::decode(&header, bytes).map(|found| {
            // The keys are unknown to the sender.
            if let (Some((trailer, at)), Some(mut sealing)) = (found, sealing()) {
                assert!(!trailer.unprotect(&mut bytes.to_vec(), at, &mut sealing), "a forged signature");
            }
        });
    }
    let _ = rpc::pdu::Bind::decode(bytes);
    let _ = rpc::srvsvc::ShareEnum::decode(bytes);
    let _ = rpc::srvsvc::ShareGetInfo::decode(bytes);
    let _ = rpc::srvsvc::share_changes::ShareAdd::decode(bytes);
    let _ = rpc::srvsvc::share_changes::ShareSetInfo::decode(bytes);
    let _ = rpc::srvsvc::share_changes::ShareDel::decode(bytes);
    let _ = rpc::srvsvc::ServerGetInfo::decode(bytes);
    let _ = rpc::srvsvc::TransportEnum::decode(bytes);
    let _ = rpc::srvsvc::SessionEnum::decode(bytes);
    let _ = rpc::srvsvc::FileEnum::decode(bytes);
    let _ = rpc::srvsvc::FileClose::decode(bytes);
    let _ = rpc::srvsvc::SessionDel::decode(bytes);
    let _ = rpc::srvsvc::FileGetInfo::decode(bytes);
    let _ = rpc::srvsvc::ConnectionEnum::decode(bytes);
    if let Ok(asked) = rpc::srvsvc::NameValidate::decode(bytes) {
        let _ = rpc::srvsvc::names::validate(&asked.name, asked.kind);
    }
    let _ = rpc::srvsvc::file_security::GetFileSecurity::decode(bytes);
    let _ = rpc::srvsvc::file_security::SetFileSecurity::decode(bytes);
    let _ = rpc::winreg::OpenRoot::decode(bytes);
    let _ = rpc::winreg::OpenKey::decode(bytes);
    let _ = rpc::winreg::EnumKey::decode(bytes);
    let _ = rpc::winreg::EnumValue::decode(bytes);
    let _ = rpc::winreg::QueryValue::decode(bytes);
    let _ = rpc::winreg::GetKeySecurity::decode(bytes);
    let _ = rpc::svcctl::OpenManager::decode(bytes);
    let _ = rpc::svcctl::NamedService::decode(bytes);
    let _ = rpc::svcctl::EnumServices::decode(bytes);
    let _ = rpc::svcctl::EnumServicesEx::decode(bytes);
    let _ = rpc::svcctl::Query::<{ rpc::svcctl::BUFFER_8K }>::decode(bytes);
    let _ = rpc::svcctl::QueryConfig::decode(bytes);
    let _ = rpc::spoolss::EnumPrinters::decode(bytes);
    let _ = rpc::spoolss::OpenPrinter::decode(bytes);
    let _ = rpc::spoolss::OpenPrinterEx::decode(bytes);
    let _ = rpc::spoolss::SetJob::decode(bytes);
    let _ = rpc::spoolss::GetJob::decode(bytes);
    let _ = rpc::spoolss::EnumJobs::decode(bytes);
    let _ = rpc::spoolss::SetPrinter::decode(bytes);
    let _ = rpc::spoolss::GetPrinter::decode(bytes);
    let _ = rpc::spoolss::GetForm::decode(bytes);
    let _ = rpc::spoolss::Named::decode(bytes);
    let _ = rpc::spoolss::DriverQuery::decode(bytes);
    let _ = rpc::spoolss::GetPrinterDriver2::decode(bytes);
    let _ = rpc::spoolss::StartDocPrinter::decode(bytes);
    let _ = rpc::spoolss::WritePrinter::decode(bytes);
    let _ = rpc::spoolss::GetPrinterData::decode(bytes);
    let _ = rpc::spoolss::GetPrinterDataEx::decode(bytes);
    let _ = rpc::spoolss::EnumPrinterData::decode(bytes);
    let _ = rpc::spoolss::EnumPrinterDataEx::decode(bytes);
    let _ = rpc::spoolss::EnumPrinterKey::decode(bytes);
    let _ = rpc::spoolss::XcvData::decode(bytes);
    let _ = rpc::wkssvc::WkstaGetInfo::decode(bytes);
    let _ = rpc::wkssvc::WkstaUserEnum::decode(bytes);
    let _ = rpc::wkssvc::WkstaTransportEnum::decode(bytes);
    let _ = rpc::wkssvc::WkstaTransportAdd::decode(bytes);
    let _ = rpc::wkssvc::StatisticsGet::decode(bytes);
    let _ = rpc::srvsvc::DiskEnum::decode(bytes);
    let _ = rpc::srvsvc::ShareCheck::decode(bytes);
    let _ = rpc::lsarpc::NamedSecret::decode(bytes);
    if let Ok(set) = rpc::lsarpc::SetSecret::decode(bytes)
        && let Some(cipher) = set.current
    {
        let _ = ntlm::secret::decrypt(&cipher, &[7; 16]);
    }
    let _ = rpc::lsarpc::QuerySecret::decode(bytes);
    let _ = rpc::lsarpc::PrivateData::decode(bytes);
    let _ = rpc::lsarpc::AddPrivileges::decode(bytes);
    let _ = rpc::lsarpc::RemovePrivileges::decode(bytes);
    let _ = rpc::lsarpc::AddAccountRights::decode(bytes);
    let _ = rpc::lsarpc::RemoveAccountRights::decode(bytes);
    // As a client with the other order of bytes sends them.
    let mut big = rpc::ndr::Decoder::with_order(bytes, rpc::pdu::ByteOrder::Big);
    let _ = rpc::lsarpc::AddAccountRights::read(&mut big);
    let _ = rpc::lsarpc::LookupNames::decode(bytes);
    let _ = rpc::lsarpc::LookupSids::decode(bytes);
    let _ = rpc::lsarpc::GetUserName::decode(bytes);
    let _ = rpc::samr::LookupDomain::decode(bytes);
    let _ = rpc::samr::OpenDomain::decode(bytes);
    let _ = rpc::samr::EnumerateUsers::decode(bytes);
    let _ = rpc::samr::LookupNames::decode(bytes);
    let _ = rpc::samr::LookupIds::decode(bytes);
    let _ = rpc::samr::GetAliasMembership::decode(bytes);
    let _ = <(rpc::ndr::ContextHandle, rpc::samr::DisplayQuery)>::decode(bytes);
    if let Ok(change) = rpc::samr::ChangePassword::decode(bytes)
        && let (Some(sealed), Some(proof)) = (change.new_password, change.old_hash)
    {
        assert!(ntlm::change::NewPassword::open(&[7; 16], &sealed, &proof).is_none(), "nobody knows that hash");
    }
}

/// Returns the server-side state that signs and seals calls after a logon.
fn sealing() -> Option<ntlm::Sealing> {
    let names = ntlm::TargetNames { netbios_computer: "FREVO".into(), ..ntlm::TargetNames::default() };
    let mut acceptor = ntlm::Acceptor::new(names);
    let credentials = ntlm::Credentials { user: "a".into(), domain: String::new(), nt_hash: [7; 16] };
    let initiator = ntlm::Initiator::new(Some(credentials), "FUZZ", "");
    let challenge = acceptor.challenge(initiator.negotiate(), [1; 8], 0).ok()?;
    let random = ntlm::Random { client_challenge: [4; 8], session_key: [5; 16] };
    let (proof, _) = initiator.authenticate(&challenge, &random, 0).ok()?;
    let claim = acceptor.authenticate(&proof).ok()?;
    acceptor.verify(&claim, Some(&[7; 16])).ok()?.sealing(ntlm::Sender::Server)
}

/// Sealed frames: data that was not sealed with the key must be rejected.
pub fn sealed(bytes: &[u8]) {
    for cipher in [CipherId::AES_128_CCM, CipherId::AES_128_GCM] {
        let Ok(key) = SealingKey::new(cipher, &[3; 16]) else { continue };
        assert!(key.open(&mut bytes.to_vec()).is_err(), "a forged tag");
    }
}

/// Answers of an LDAP server, and the addresses of servers in smb.conf.
pub fn ldap(bytes: &[u8]) {
    let mut rest = bytes;
    // As a connection does: whole messages from a stream.
    while let Ok(Some(length)) = ldap::ber::whole_length(rest) {
        let Some((message, after)) = rest.split_at_checked(length) else { break };
        match ldap::message::decode(message) {
            Ok((_, ldap::message::Response::Entry(found))) => {
                assert!(found.dn.len() <= 3 * message.len(), "replaced bytes have at most three each");
                let _ = (found.first("uid"), found.all("uid").count());
            }
            Ok((_, ldap::message::Response::Done(outcome))) => assert!(outcome.cookie.len() < message.len()),
            Ok((_, ldap::message::Response::Reference)) | Err(_) => {}
        }
        rest = after;
    }
    if let Ok(uris) = std::str::from_utf8(bytes).map_err(drop).and_then(|text| ldap::Uri::list(text).map_err(drop)) {
        assert!(!uris.is_empty(), "an empty list means this host");
    }
}

/// Configuration files.
pub fn smb_conf(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // Included files would be outside the test.
    if text.to_lowercase().contains("include") {
        return;
    }
    let path = std::env::temp_dir().join(format!("frevo-fuzz-{}.conf", std::process::id()));
    if std::fs::write(&path, text).is_err() {
        return;
    }
    if let Ok(host) = smbconf::host::Host::of_process()
        && let Err(problems) = smbconf::load(&path, &host)
    {
        assert!(problems.any_error(), "a refusal without an error");
    }
    let _ = std::fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    type Target = (&'static str, fn(&[u8]));

    /// Replays inputs that once made a target fail.
    #[test]
    fn regressions_stay_mended() {
        let targets: [Target; 15] = [
            ("smb2", super::smb2),
            ("packets", super::packets),
            ("fscc", super::fscc),
            ("mac", super::mac),
            ("discovery", super::discovery),
            ("dtyp", super::dtyp),
            ("dfsc", super::dfsc),
            ("sddl", super::sddl),
            ("auth", super::auth),
            ("rpc", super::rpc),
            ("sealed", super::sealed),
            ("ldap", super::ldap),
            ("smb_conf", super::smb_conf),
            ("connection", super::connection),
            ("posix", super::posix),
        ];
        for (name, target) in targets {
            // The minimum inputs: no bytes, and every byte value.
            target(&[]);
            target(&(0..=u8::MAX).collect::<Vec<_>>());
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions").join(name);
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                target(&std::fs::read(entry.path()).expect("a regression is readable"));
            }
        }
    }
}
