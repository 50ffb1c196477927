//! Results of the calls of the local security authority ([MS-LSAT] 2.2, [MS-LSAD] 2.2.4).

use super::{Generation, PolicyInformationClass, SidNameUse};
use crate::dtyp::Sid;
use crate::rpc::ndr::Encoder;
use crate::status::Status;

/// A domain that results refer to: LSAPR_TRUST_INFORMATION.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReferencedDomain {
    /// Its NetBIOS name.
    pub name: String,
    /// Its SID.
    pub sid: Option<Sid>,
}

/// The result for one name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TranslatedSid {
    /// The type of the principal.
    pub kind: SidNameUse,
    /// The SID; `None` if the name is unknown.
    pub sid: Option<Sid>,
    /// The index of its referenced domain; `None` without one.
    pub domain: Option<u32>,
}

/// The result for one SID.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TranslatedName {
    /// The type of the principal.
    pub kind: SidNameUse,
    /// The name without the domain's.
    pub name: String,
    /// The index of its referenced domain; `None` without one.
    pub domain: Option<u32>,
}

/// The domains of the server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Domains {
    /// The domain of its own user accounts.
    pub account: ReferencedDomain,
    /// The domain or workgroup of which it is a member; a workgroup has no SID.
    pub primary: ReferencedDomain,
    /// The DNS name of that domain; empty if there is none.
    pub dns: String,
}

/// The results of LsarQueryInformationPolicy; `None` for an unsupported class.
pub fn information_response(class: PolicyInformationClass, domains: &Domains) -> Option<Vec<u8>> {
    let mut out = Encoder::default();
    out.pointer();
    out.u16(class.0);
    match class {
        PolicyInformationClass::PRIMARY_DOMAIN => trust(&domains.primary, &mut out),
        PolicyInformationClass::ACCOUNT_DOMAIN | PolicyInformationClass::LOCAL_ACCOUNT_DOMAIN => {
            trust(&domains.account, &mut out);
        }
        PolicyInformationClass::DNS_DOMAIN => dns_domain(domains, &mut out),
        // PolicyServerRolePrimary: no server is above this one.
        PolicyInformationClass::LSA_SERVER_ROLE => {
            // The union is aligned as its longest arms.
            out.array(4, &[]);
            out.u16(3);
        }
        _ => return None,
    }
    out.u32(Status::SUCCESS.0);
    Some(out.into_bytes())
}

fn trust(domain: &ReferencedDomain, out: &mut Encoder) {
    trust_fixed(domain, out);
    trust_rest(domain, out);
}

fn trust_fixed(domain: &ReferencedDomain, out: &mut Encoder) {
    out.unicode(&domain.name);
    if domain.sid.is_some() { out.pointer() } else { out.null() }
}

fn trust_rest(domain: &ReferencedDomain, out: &mut Encoder) {
    out.text(&domain.name);
    if let Some(sid) = &domain.sid {
        out.sid(sid);
    }
}

fn dns_domain(domains: &Domains, out: &mut Encoder) {
    let names = [&domains.primary.name, &domains.dns, &domains.dns];
    names.iter().for_each(|name| out.unicode(name));
    out.array(4, &[0; 16]);
    if domains.primary.sid.is_some() {
        out.pointer()
    } else {
        out.null()
    }
    names.iter().for_each(|name| out.text(name));
    if let Some(sid) = &domains.primary.sid {
        out.sid(sid);
    }
}

/// The results of LsarLookupNames and its later generations.
pub fn names_response(domains: &[ReferencedDomain], sids: &[TranslatedSid], generation: Generation) -> Vec<u8> {
    let mut out = Encoder::default();
    referenced(domains, &mut out);
    array_head(sids.len(), &mut out);
    for sid in sids {
        out.array(4, &[]);
        out.u16(sid.kind.0);
        match (generation, &sid.sid) {
            (Generation::Third, Some(_)) => out.pointer(),
            (Generation::Third, None) => out.null(),
            // The SID of a domain has no RID.
            (_, Some(_)) if sid.kind == SidNameUse::DOMAIN => out.u32(u32::MAX),
            (_, known) => out.u32(known.and_then(|sid| sid.rid()).unwrap_or(0)),
        }
        out.u32(sid.domain.unwrap_or(u32::MAX));
        if generation != Generation::First {
            out.u32(0);
        }
    }
    if generation == Generation::Third {
        sids.iter().filter_map(|translated| translated.sid.as_ref()).for_each(|sid| out.sid(sid));
    }
    let mapped = sids.iter().filter(|translated| translated.sid.is_some()).count();
    lookup_end(mapped, sids.len(), &mut out);
    out.into_bytes()
}

/// The results of LsarLookupSids and LsarLookupSids2.
pub fn sids_response(domains: &[ReferencedDomain], names: &[TranslatedName], generation: Generation) -> Vec<u8> {
    let mut out = Encoder::default();
    referenced(domains, &mut out);
    array_head(names.len(), &mut out);
    for translated in names {
        out.array(4, &[]);
        out.u16(translated.kind.0);
        out.unicode(&translated.name);
        out.u32(translated.domain.unwrap_or(u32::MAX));
        if generation != Generation::First {
            out.u32(0);
        }
    }
    names.iter().for_each(|translated| out.text(&translated.name));
    let mapped = names.iter().filter(|translated| translated.kind != SidNameUse::UNKNOWN).count();
    lookup_end(mapped, names.len(), &mut out);
    out.into_bytes()
}

/// Writes an LSAPR_REFERENCED_DOMAIN_LIST with its pointer.
fn referenced(domains: &[ReferencedDomain], out: &mut Encoder) {
    out.pointer();
    let count = domains.len() as u32;
    out.u32(count);
    if domains.is_empty() {
        out.null()
    } else {
        out.pointer()
    }
    // MaxEntries, which receivers ignore ([MS-LSAT] 2.2.12).
    out.u32(32);
    if domains.is_empty() {
        return;
    }
    out.u32(count);
    domains.iter().for_each(|domain| trust_fixed(domain, out));
    domains.iter().for_each(|domain| trust_rest(domain, out));
}

/// Writes a count, the pointer to as many elements, and the array's own count.
pub(super) fn array_head(count: usize, out: &mut Encoder) {
    out.u32(count as u32);
    if count == 0 {
        out.null();
    } else {
        out.pointer();
        out.u32(count as u32);
    }
}

fn lookup_end(mapped: usize, all: usize, out: &mut Encoder) {
    out.u32(mapped as u32);
    out.u32(match mapped {
        _ if mapped == all => Status::SUCCESS.0,
        0 => Status::NONE_MAPPED.0,
        _ => Status::SOME_NOT_MAPPED.0,
    });
}

/// The results of LsarEnumerateAccounts: the elements of `sids` from index `from` on.
pub fn accounts_response(from: u32, sids: &[Sid]) -> Vec<u8> {
    let rest = sids.get(from as usize..).unwrap_or_default();
    let mut out = Encoder::default();
    out.u32(sids.len() as u32);
    array_head(rest.len(), &mut out);
    rest.iter().for_each(|_| out.pointer());
    rest.iter().for_each(|sid| out.sid(sid));
    out.u32(if rest.is_empty() { Status::NO_MORE_ENTRIES.0 } else { Status::SUCCESS.0 });
    out.into_bytes()
}

/// The results of LsarQuerySecurityObject: an LSAPR_SR_SECURITY_DESCRIPTOR ([MS-LSAD] 2.2.2.4).
pub fn security_response(descriptor: &[u8]) -> Vec<u8> {
    let mut out = Encoder::default();
    let length = descriptor.len() as u32;
    out.pointer();
    out.u32(length);
    out.pointer();
    out.u32(length);
    out.array(1, descriptor);
    out.u32(Status::SUCCESS.0);
    out.into_bytes()
}

/// The results of LsarEnumerateTrustedDomains if there are none.
pub fn no_trusted_domains_response() -> Vec<u8> {
    let mut out = Encoder::default();
    out.u32(0);
    array_head(0, &mut out);
    out.u32(Status::NO_MORE_ENTRIES.0);
    out.into_bytes()
}

/// The results of LsarGetUserName.
pub fn user_name_response(name: &str, domain: Option<&str>) -> Vec<u8> {
    let mut out = Encoder::default();
    out.pointer();
    out.unicode(name);
    out.text(name);
    match domain {
        Some(domain) => {
            out.pointer();
            out.pointer();
            out.unicode(domain);
            out.text(domain);
        }
        None => out.null(),
    }
    out.u32(Status::SUCCESS.0);
    out.into_bytes()
}
