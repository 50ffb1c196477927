//! The arguments of calls by which an administrator changes users, groups, aliases and the domain ([MS-SAMR] 3.1.5.4,
//! 3.1.5.6, 3.1.5.7, 3.1.5.8).

use super::super::ndr::{Arguments, ContextHandle, Decoder, Encoder};
use super::{AliasInformationClass, DomainInformationClass, GroupInformationClass, UserInformationClass, sids};
use crate::auth::ntlm::change::{SALTED_PASSWORD, SEALED_PASSWORD};
use crate::bytes::{Malformed, Result};
use crate::dtyp::Sid;
use crate::status::Status;

/// USER_ALL values ([MS-SAMR] 2.2.1.8).
#[allow(missing_docs, reason = "the names are those of the specification")]
pub mod fields {
    pub const USER_NAME: u32 = 0x1;
    pub const FULL_NAME: u32 = 0x2;
    pub const PRIMARY_GROUP_ID: u32 = 0x8;
    pub const ADMIN_COMMENT: u32 = 0x10;
    pub const USER_COMMENT: u32 = 0x20;
    pub const HOME_DIRECTORY: u32 = 0x40;
    pub const HOME_DIRECTORY_DRIVE: u32 = 0x80;
    pub const SCRIPT_PATH: u32 = 0x100;
    pub const PROFILE_PATH: u32 = 0x200;
    pub const WORK_STATIONS: u32 = 0x400;
    pub const LOGON_HOURS: u32 = 0x2000;
    pub const ACCOUNT_EXPIRES: u32 = 0x8_0000;
    pub const USER_ACCOUNT_CONTROL: u32 = 0x10_0000;
    pub const PARAMETERS: u32 = 0x20_0000;
    pub const COUNTRY_CODE: u32 = 0x40_0000;
    pub const CODE_PAGE: u32 = 0x80_0000;
    pub const NT_PASSWORD_PRESENT: u32 = 0x100_0000;
    pub const LM_PASSWORD_PRESENT: u32 = 0x200_0000;
    pub const PASSWORD_EXPIRED: u32 = 0x800_0000;
    /// The fields that cannot be set (3.1.5.6.4.2).
    pub const NOT_SETTABLE: u32 = 0xd407_d804;
}

/// The texts of SAMPR_USER_ALL_INFORMATION in their order.
const TEXTS: [u32; 10] = [
    fields::USER_NAME,
    fields::FULL_NAME,
    fields::HOME_DIRECTORY,
    fields::HOME_DIRECTORY_DRIVE,
    fields::SCRIPT_PATH,
    fields::PROFILE_PATH,
    fields::ADMIN_COMMENT,
    fields::WORK_STATIONS,
    fields::USER_COMMENT,
    fields::PARAMETERS,
];

/// The longest AES cipher, in bytes: a SAMPR_USER_PASSWORD_AES with its padding has 528.
const MOST_CIPHER: usize = 1040;

/// A password as sent. It is encrypted with the session key.
#[derive(Default)]
pub enum SentPassword {
    /// None.
    #[default]
    None,
    /// The NT hash, as ENCRYPTED_NT_OWF_PASSWORD.
    Hash([u8; 16]),
    /// SAMPR_ENCRYPTED_USER_PASSWORD.
    Sealed(Box<[u8; SEALED_PASSWORD]>),
    /// SAMPR_ENCRYPTED_USER_PASSWORD_NEW.
    Salted(Box<[u8; SALTED_PASSWORD]>),
    /// SAMPR_ENCRYPTED_PASSWORD_AES.
    Aes(Box<SentAesPassword>),
}

/// SAMPR_ENCRYPTED_PASSWORD_AES ([MS-SAMR] 2.2.6.32).
pub struct SentAesPassword {
    /// The signature.
    pub auth_data: [u8; 64],
    /// The salt.
    pub salt: [u8; 16],
    /// The encrypted text.
    pub cipher: Vec<u8>,
    /// The number of iterations that make a key from an old password.
    pub iterations: u64,
}

/// What SamrSetInformationUser2 sets. Every class is converted to the fields of SAMPR_USER_ALL_INFORMATION
/// (3.1.5.6.4.1).
#[derive(Default)]
pub struct UserSettings {
    /// WhichFields: USER_ALL values of the fields that are set.
    pub which: u32,
    /// The texts, by their USER_ALL value.
    texts: Vec<(u32, String)>,
    /// AccountExpires.
    pub account_expires: i64,
    /// PrimaryGroupId.
    pub primary_group: u32,
    /// UserAccountControl.
    pub control: u32,
    /// Whether LogonHours excludes an hour.
    pub restricts_hours: bool,
    /// PasswordExpired.
    pub password_expired: bool,
    /// The password.
    pub password: SentPassword,
}

impl UserSettings {
    /// Returns the text of the field, if it is set.
    pub fn text(&self, field: u32) -> Option<&str> {
        let text = self.texts.iter().find(|(number, _)| self.which & field != 0 && *number == field);
        text.map(|(_, text)| text.as_str())
    }

    /// Returns the fields whose texts are set and not empty.
    pub fn filled(&self) -> u32 {
        let filled = self.texts.iter().filter(|(field, text)| self.which & field != 0 && !text.is_empty());
        filled.fold(0, |all, (field, _)| all | field)
    }
}

/// The arguments of SamrSetInformationUser and SamrSetInformationUser2.
pub struct SetUser {
    /// The user.
    pub handle: ContextHandle,
    /// What is set; `None` for a class that cannot be set.
    pub settings: Option<UserSettings>,
}

/// Reads the class, which is also the discriminant of the union that follows.
fn class(from: &mut Decoder<'_>) -> Result<u16> {
    let (class, arm) = (from.u16()?, from.u16()?);
    if class == arm { Ok(class) } else { Err(Malformed::Value) }
}

fn text_if(from: &mut Decoder<'_>, there: bool) -> Result<String> {
    if there { from.string() } else { Ok(String::new()) }
}

/// Reads texts of the `fields`.
fn texts(from: &mut Decoder<'_>, fields: &[u32]) -> Result<UserSettings> {
    let there = fields.iter().map(|_| from.unicode()).collect::<Result<Vec<_>>>()?;
    let texts = fields.iter().zip(there).map(|(field, there)| Ok((*field, text_if(from, there)?)));
    let texts = texts.collect::<Result<Vec<_>>>()?;
    Ok(UserSettings { which: fields.iter().fold(0, |all, field| all | field), texts, ..Default::default() })
}

fn time(from: &mut Decoder<'_>) -> Result<i64> {
    let (low, high) = (from.u32()?, from.u32()?);
    Ok(i64::from_le_bytes((u64::from(high) << 32 | u64::from(low)).to_le_bytes()))
}

/// Reads the hours of SAMPR_LOGON_HOURS, and returns whether one is excluded.
fn hours(from: &mut Decoder<'_>) -> Result<bool> {
    let (_, offset, count) = (from.u32()?, from.u32()?, from.count(1260)?);
    let bytes = from.bytes(count)?;
    if offset != 0 { Err(Malformed::Value) } else { Ok(bytes.iter().any(|byte| *byte != 0xff)) }
}

/// Reads the fixed part of SAMPR_LOGON_HOURS, and returns whether the hours follow.
fn hours_head(from: &mut Decoder<'_>) -> Result<bool> {
    from.align(4)?;
    from.u16()?;
    from.pointer()
}

/// Reads the fixed part of RPC_SHORT_BLOB, and returns whether its content follows.
fn blob_head(from: &mut Decoder<'_>) -> Result<bool> {
    from.unicode()
}

/// Reads the content of RPC_SHORT_BLOB.
fn blob(from: &mut Decoder<'_>) -> Result<Option<[u8; 16]>> {
    let (_, offset, count) = (from.u32()?, from.u32()?, from.count(512)?);
    let bytes: Vec<u8> = from.units(count)?.into_iter().flat_map(u16::to_le_bytes).collect();
    if offset != 0 { Err(Malformed::Value) } else { Ok(bytes.try_into().ok()) }
}

/// Reads a SAMPR_ENCRYPTED_PASSWORD_AES without the cipher, and returns whether that follows.
fn aes_head(from: &mut Decoder<'_>) -> Result<(SentAesPassword, bool)> {
    from.align(8)?;
    let (auth_data, salt, count) = (from.array()?, from.array()?, from.count(MOST_CIPHER)?);
    let there = from.pointer()?;
    let iterations = from.u64()?;
    Ok((SentAesPassword { auth_data, salt, cipher: vec![0; count], iterations }, there))
}

fn aes_cipher(from: &mut Decoder<'_>, password: &mut SentAesPassword, there: bool) -> Result<()> {
    if there {
        let count = from.count(MOST_CIPHER)?;
        if count != password.cipher.len() {
            return Err(Malformed::Value);
        }
        password.cipher = from.bytes(count)?.to_vec();
    }
    Ok(())
}

/// SamrUnicodeChangePasswordUser4 ([MS-SAMR] 3.1.5.10.4).
pub struct ChangePassword4 {
    /// The user whose password changes.
    pub user: String,
    /// The new password, encrypted with a key made from the old one.
    pub new_password: SentAesPassword,
}

impl Arguments for ChangePassword4 {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        if from.pointer()? && from.unicode()? {
            from.string()?;
        }
        let user = if from.unicode()? { from.string()? } else { String::new() };
        let (mut new_password, there) = aes_head(from)?;
        aes_cipher(from, &mut new_password, there)?;
        Ok(ChangePassword4 { user, new_password })
    }
}

/// The forms of a password after SAMPR_USER_ALL_INFORMATION.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    None,
    Sealed,
    Salted,
    Aes,
}

/// Reads a SAMPR_USER_ALL_INFORMATION (2.2.6.6), with a password after it in some classes.
fn all(from: &mut Decoder<'_>, form: Form) -> Result<UserSettings> {
    let mut set = UserSettings::default();
    if form == Form::Aes {
        from.align(8)?;
    }
    let times = (0..6).map(|_| time(from)).collect::<Result<Vec<_>>>()?;
    set.account_expires = times[3];
    let there = TEXTS.iter().map(|_| from.unicode()).collect::<Result<Vec<_>>>()?;
    let (lm, nt, private) = (blob_head(from)?, blob_head(from)?, from.unicode()?);
    let (_, descriptor) = (from.u32()?, from.pointer()?);
    (_, set.primary_group, set.control, set.which) = (from.u32()?, from.u32()?, from.u32()?, from.u32()?);
    let restricted = hours_head(from)?;
    (0..4).try_for_each(|_| from.u16().map(|_| ()))?;
    let [_, nt_present, expired, _] = from.array::<4>()?;
    set.password_expired = expired != 0;
    let mut aes = None;
    match form {
        Form::None => {}
        Form::Sealed => set.password = SentPassword::Sealed(Box::new(from.array()?)),
        Form::Salted => set.password = SentPassword::Salted(Box::new(from.array()?)),
        Form::Aes => aes = Some(aes_head(from)?),
    }
    for (field, there) in TEXTS.into_iter().zip(there) {
        set.texts.push((field, text_if(from, there)?));
    }
    if lm {
        blob(from)?;
    }
    let hash = if nt { blob(from)? } else { None };
    text_if(from, private)?;
    if descriptor {
        let count = from.count(1 << 16)?;
        from.bytes(count)?;
    }
    set.restricts_hours = restricted && hours(from)?;
    if let Some((mut password, there)) = aes {
        aes_cipher(from, &mut password, there)?;
        set.password = SentPassword::Aes(Box::new(password));
    }
    if let (Form::None, Some(hash)) = (form, hash.filter(|_| nt_present != 0)) {
        set.password = SentPassword::Hash(hash);
    }
    Ok(set)
}

const PASSWORD: u32 = fields::NT_PASSWORD_PRESENT | fields::LM_PASSWORD_PRESENT | fields::PASSWORD_EXPIRED;

fn settings(from: &mut Decoder<'_>, class: UserInformationClass) -> Result<Option<UserSettings>> {
    from.align(4)?;
    let mut set = UserSettings::default();
    Ok(Some(match class {
        UserInformationClass::PREFERENCES => {
            let (comment, reserved) = (from.unicode()?, from.unicode()?);
            from.u32()?;
            let text = text_if(from, comment)?;
            text_if(from, reserved)?;
            set.texts.push((fields::USER_COMMENT, text));
            set.which = fields::USER_COMMENT | fields::COUNTRY_CODE | fields::CODE_PAGE;
            set
        }
        UserInformationClass::LOGON_HOURS => {
            set.which = fields::LOGON_HOURS;
            set.restricts_hours = hours_head(from)? && hours(from)?;
            set
        }
        UserInformationClass::NAME => texts(from, &[fields::USER_NAME, fields::FULL_NAME])?,
        UserInformationClass::ACCOUNT_NAME => texts(from, &[fields::USER_NAME])?,
        UserInformationClass::FULL_NAME => texts(from, &[fields::FULL_NAME])?,
        UserInformationClass::HOME => texts(from, &[fields::HOME_DIRECTORY, fields::HOME_DIRECTORY_DRIVE])?,
        UserInformationClass::SCRIPT => texts(from, &[fields::SCRIPT_PATH])?,
        UserInformationClass::PROFILE => texts(from, &[fields::PROFILE_PATH])?,
        UserInformationClass::ADMIN_COMMENT => texts(from, &[fields::ADMIN_COMMENT])?,
        UserInformationClass::WORK_STATIONS => texts(from, &[fields::WORK_STATIONS])?,
        UserInformationClass::PARAMETERS => texts(from, &[fields::PARAMETERS])?,
        UserInformationClass::PRIMARY_GROUP => {
            UserSettings { which: fields::PRIMARY_GROUP_ID, primary_group: from.u32()?, ..set }
        }
        UserInformationClass::CONTROL => {
            UserSettings { which: fields::USER_ACCOUNT_CONTROL, control: from.u32()?, ..set }
        }
        UserInformationClass::EXPIRES => {
            UserSettings { which: fields::ACCOUNT_EXPIRES, account_expires: time(from)?, ..set }
        }
        UserInformationClass::INTERNAL_1 => {
            let (hash, _, [present, _, expired]) = (from.array()?, from.array::<16>()?, from.array::<3>()?);
            let password = if present != 0 { SentPassword::Hash(hash) } else { SentPassword::None };
            UserSettings { which: PASSWORD, password, password_expired: expired != 0, ..set }
        }
        UserInformationClass::ALL => all(from, Form::None)?,
        UserInformationClass::INTERNAL_4 => all(from, Form::Sealed)?,
        UserInformationClass::INTERNAL_4_NEW => all(from, Form::Salted)?,
        UserInformationClass::INTERNAL_8 => all(from, Form::Aes)?,
        UserInformationClass::INTERNAL_5 => {
            let (password, [expired]) = (SentPassword::Sealed(Box::new(from.array()?)), from.array::<1>()?);
            UserSettings { which: PASSWORD, password, password_expired: expired != 0, ..set }
        }
        UserInformationClass::INTERNAL_5_NEW => {
            let (password, [expired]) = (SentPassword::Salted(Box::new(from.array()?)), from.array::<1>()?);
            UserSettings { which: PASSWORD, password, password_expired: expired != 0, ..set }
        }
        UserInformationClass::INTERNAL_7 => {
            let ((mut password, there), [expired]) = (aes_head(from)?, from.array::<1>()?);
            aes_cipher(from, &mut password, there)?;
            let password = SentPassword::Aes(Box::new(password));
            UserSettings { which: PASSWORD, password, password_expired: expired != 0, ..set }
        }
        _ => return Ok(None),
    }))
}

impl Arguments for SetUser {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        let (handle, class) = (from.handle()?, class(from)?);
        Ok(SetUser { handle, settings: settings(from, UserInformationClass(class))? })
    }
}

/// The arguments of SamrCreateUserInDomain, SamrCreateGroupInDomain and SamrCreateAliasInDomain. The requested access
/// is ignored.
pub struct Create {
    /// The domain.
    pub handle: ContextHandle,
    /// The name.
    pub name: String,
}

impl Arguments for Create {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        let (handle, there) = (from.handle()?, from.unicode()?);
        Ok(Create { handle, name: text_if(from, there)? })
    }
}

/// The arguments of SamrCreateUser2InDomain.
pub struct CreateUser2 {
    /// The domain and the name.
    pub create: Create,
    /// AccountType.
    pub kind: u32,
}

impl Arguments for CreateUser2 {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        Ok(CreateUser2 { create: Create::read(from)?, kind: from.u32()? })
    }
}

/// What SamrSetInformationGroup or SamrSetInformationAlias sets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GroupSetting {
    /// The name.
    Name(String),
    /// The administrator's comment.
    Comment(String),
    /// The attributes.
    Attributes(u32),
}

/// The arguments of SamrSetInformationGroup.
pub struct SetGroup {
    /// The group.
    pub handle: ContextHandle,
    /// What is set; `None` for a class that cannot be set.
    pub setting: Option<GroupSetting>,
}

impl Arguments for SetGroup {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        let (handle, class) = (from.handle()?, class(from)?);
        let setting = match GroupInformationClass(class) {
            GroupInformationClass::NAME => Some(GroupSetting::Name(whole_text(from)?)),
            GroupInformationClass::ADMIN_COMMENT => Some(GroupSetting::Comment(whole_text(from)?)),
            GroupInformationClass::ATTRIBUTE => Some(GroupSetting::Attributes(from.u32()?)),
            _ => None,
        };
        Ok(SetGroup { handle, setting })
    }
}

/// The arguments of SamrSetInformationAlias.
pub struct SetAlias {
    /// The alias.
    pub handle: ContextHandle,
    /// What is set; `None` for a class that cannot be set.
    pub setting: Option<GroupSetting>,
}

impl Arguments for SetAlias {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        let (handle, class) = (from.handle()?, class(from)?);
        let setting = match AliasInformationClass(class) {
            AliasInformationClass::NAME => Some(GroupSetting::Name(whole_text(from)?)),
            AliasInformationClass::ADMIN_COMMENT => Some(GroupSetting::Comment(whole_text(from)?)),
            _ => None,
        };
        Ok(SetAlias { handle, setting })
    }
}

fn whole_text(from: &mut Decoder<'_>) -> Result<String> {
    let there = from.unicode()?;
    text_if(from, there)
}

/// The arguments of the calls that add a member to an alias or remove one.
pub struct AliasMembers {
    /// The alias, or the domain of SamrRemoveMemberFromForeignDomain.
    pub handle: ContextHandle,
    /// The members.
    pub sids: Vec<Sid>,
}

impl Arguments for AliasMembers {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        Ok(AliasMembers { handle: from.handle()?, sids: vec![from.sid()?] })
    }
}

/// The arguments of SamrAddMultipleMembersToAlias and SamrRemoveMultipleMembersFromAlias.
pub struct ManyAliasMembers(pub AliasMembers);

impl Arguments for ManyAliasMembers {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        Ok(ManyAliasMembers(AliasMembers { handle: from.handle()?, sids: sids(from)? }))
    }
}

/// What SamrSetInformationDomain sets. Times are intervals as in [`super::DomainPolicy`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DomainSetting {
    /// DOMAIN_PASSWORD_INFORMATION.
    Password {
        /// MinPasswordLength.
        min_length: u16,
        /// PasswordHistoryLength.
        history: u16,
        /// PasswordProperties.
        properties: u32,
        /// MaxPasswordAge.
        max_age: i64,
        /// MinPasswordAge.
        min_age: i64,
    },
    /// SAMPR_DOMAIN_LOCKOUT_INFORMATION.
    Lockout {
        /// LockoutDuration.
        duration: i64,
        /// LockoutObservationWindow.
        window: i64,
        /// LockoutThreshold.
        threshold: u16,
    },
    /// A class whose values are not stored.
    NotStored,
}

/// The arguments of SamrSetInformationDomain.
pub struct SetDomain {
    /// The domain.
    pub handle: ContextHandle,
    /// What is set; `None` for a class that cannot be set.
    pub setting: Option<DomainSetting>,
}

impl Arguments for SetDomain {
    fn read(from: &mut Decoder<'_>) -> Result<Self> {
        let (handle, class) = (from.handle()?, class(from)?);
        from.align(8)?;
        let setting = match DomainInformationClass(class) {
            DomainInformationClass::PASSWORD => Some(DomainSetting::Password {
                min_length: from.u16()?,
                history: from.u16()?,
                properties: from.u32()?,
                max_age: time(from)?,
                min_age: time(from)?,
            }),
            DomainInformationClass::LOCKOUT => {
                Some(DomainSetting::Lockout { duration: time(from)?, window: time(from)?, threshold: from.u16()? })
            }
            DomainInformationClass::LOGOFF
            | DomainInformationClass::OEM
            | DomainInformationClass::REPLICATION
            | DomainInformationClass::SERVER_ROLE
            | DomainInformationClass::STATE => Some(DomainSetting::NotStored),
            _ => None,
        };
        Ok(SetDomain { handle, setting })
    }
}

/// The results of SamrCreateUserInDomain, SamrCreateGroupInDomain and SamrCreateAliasInDomain.
pub fn created_response(handle: &ContextHandle, rid: u32, status: Status) -> Vec<u8> {
    let mut out = Encoder::default();
    out.array(4, handle);
    out.u32(rid);
    out.u32(status.0);
    out.into_bytes()
}

/// The results of SamrCreateUser2InDomain, which grants USER_ALL_ACCESS.
pub fn created_2_response(handle: &ContextHandle, rid: u32, status: Status) -> Vec<u8> {
    const USER_ALL_ACCESS: u32 = 0x000f_07ff;
    let mut out = Encoder::default();
    out.array(4, handle);
    out.u32(if status == Status::SUCCESS { USER_ALL_ACCESS } else { 0 });
    out.u32(rid);
    out.u32(status.0);
    out.into_bytes()
}
