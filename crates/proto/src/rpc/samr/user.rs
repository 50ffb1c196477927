//! Information about a user ([MS-SAMR] 2.2.6). No class includes a password hash.

use super::super::ndr::Encoder;
use crate::status::Status;

/// USER_INFORMATION_CLASS ([MS-SAMR] 2.2.6.28).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserInformationClass(pub u16);

#[allow(missing_docs, reason = "the names are those of the specification")]
impl UserInformationClass {
    pub const GENERAL: UserInformationClass = UserInformationClass(1);
    pub const PREFERENCES: UserInformationClass = UserInformationClass(2);
    pub const LOGON: UserInformationClass = UserInformationClass(3);
    pub const LOGON_HOURS: UserInformationClass = UserInformationClass(4);
    pub const ACCOUNT: UserInformationClass = UserInformationClass(5);
    pub const NAME: UserInformationClass = UserInformationClass(6);
    pub const ACCOUNT_NAME: UserInformationClass = UserInformationClass(7);
    pub const FULL_NAME: UserInformationClass = UserInformationClass(8);
    pub const PRIMARY_GROUP: UserInformationClass = UserInformationClass(9);
    pub const HOME: UserInformationClass = UserInformationClass(10);
    pub const SCRIPT: UserInformationClass = UserInformationClass(11);
    pub const PROFILE: UserInformationClass = UserInformationClass(12);
    pub const ADMIN_COMMENT: UserInformationClass = UserInformationClass(13);
    pub const WORK_STATIONS: UserInformationClass = UserInformationClass(14);
    pub const CONTROL: UserInformationClass = UserInformationClass(16);
    pub const EXPIRES: UserInformationClass = UserInformationClass(17);
    pub const INTERNAL_1: UserInformationClass = UserInformationClass(18);
    pub const PARAMETERS: UserInformationClass = UserInformationClass(20);
    pub const ALL: UserInformationClass = UserInformationClass(21);
    pub const INTERNAL_4: UserInformationClass = UserInformationClass(23);
    pub const INTERNAL_5: UserInformationClass = UserInformationClass(24);
    pub const INTERNAL_4_NEW: UserInformationClass = UserInformationClass(25);
    pub const INTERNAL_5_NEW: UserInformationClass = UserInformationClass(26);
    pub const INTERNAL_7: UserInformationClass = UserInformationClass(31);
    pub const INTERNAL_8: UserInformationClass = UserInformationClass(32);
}

/// USER_ACCOUNT codes ([MS-SAMR] 2.2.1.12).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AccountControl(pub u32);

#[allow(missing_docs, reason = "the names are those of the specification")]
impl AccountControl {
    pub const ACCOUNT_DISABLED: AccountControl = AccountControl(0x1);
    pub const NORMAL_ACCOUNT: AccountControl = AccountControl(0x10);
    pub const INTERDOMAIN_TRUST_ACCOUNT: AccountControl = AccountControl(0x40);
    pub const WORKSTATION_TRUST_ACCOUNT: AccountControl = AccountControl(0x80);
    pub const SERVER_TRUST_ACCOUNT: AccountControl = AccountControl(0x100);
    pub const DONT_EXPIRE_PASSWORD: AccountControl = AccountControl(0x200);
    pub const ACCOUNT_AUTO_LOCKED: AccountControl = AccountControl(0x400);
    pub const PASSWORD_EXPIRED: AccountControl = AccountControl(0x2_0000);

    /// The flags that may be set. USER_HOME_DIRECTORY_REQUIRED and USER_PASSWORD_NOT_REQUIRED have no effect.
    pub const SETTABLE: AccountControl = AccountControl(0x2_0000 | 0x400 | 0x200 | 0x10 | 0x4 | 0x2 | 0x1);

    /// Adds the bits of `other` if `set`.
    #[must_use]
    pub fn with(self, other: AccountControl, set: bool) -> AccountControl {
        if set { AccountControl(self.0 | other.0) } else { self }
    }

    /// Returns whether all bits of `other` are set, except those that the filter ignores (3.1.5.2.5).
    pub fn has_all(self, other: AccountControl) -> bool {
        let looked_for = other.0 & !(AccountControl::ACCOUNT_AUTO_LOCKED.0 | AccountControl::PASSWORD_EXPIRED.0);
        self.0 & looked_for == looked_for
    }
}

/// The information about a user. Times are FILETIMEs; 0 means "not yet", `i64::MAX` means "never".
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserInformation {
    /// The name.
    pub name: String,
    /// The full name.
    pub full_name: String,
    /// The RID.
    pub rid: u32,
    /// The RID of the primary group.
    pub primary_group: u32,
    /// The type and state of the user account.
    pub control: AccountControl,
    /// When the password was last set.
    pub password_last_set: i64,
    /// When the user may change it at the earliest.
    pub password_can_change: i64,
    /// When the user must change it at the latest.
    pub password_must_change: i64,
    /// When the user account expires.
    pub account_expires: i64,
}

/// All fields of SAMPR_USER_ALL_INFORMATION except those that are never disclosed (2.2.1.8, 3.1.5.5.5).
const TOLD_FIELDS: u32 = 0x00ff_ffff;
/// LastLogoff: no logoff is recorded. Samba returns this value, too.
const NEVER: i64 = i64::MAX;
/// The hours of a week. LogonHours has one bit for each.
const HOURS: u16 = 168;

/// The results of SamrQueryInformationUser; `None` for an unsupported class.
pub fn user_information_response(class: UserInformationClass, user: &UserInformation) -> Option<Vec<u8>> {
    let mut out = Encoder::default();
    out.pointer();
    out.u16(class.0);
    out.array(4, &[]);
    match class {
        UserInformationClass::GENERAL => {
            out.unicode(&user.name);
            out.unicode(&user.full_name);
            out.u32(user.primary_group);
            (0..2).for_each(|_| out.unicode(""));
            texts(&mut out, user, 2);
        }
        UserInformationClass::PREFERENCES => {
            (0..2).for_each(|_| out.unicode(""));
            out.u32(0);
            (0..2).for_each(|_| out.text(""));
        }
        UserInformationClass::LOGON => logon(&mut out, user),
        UserInformationClass::LOGON_HOURS => {
            hours(&mut out);
            hours_of_week(&mut out);
        }
        UserInformationClass::ACCOUNT => account(&mut out, user),
        UserInformationClass::NAME => {
            out.unicode(&user.name);
            out.unicode(&user.full_name);
            texts(&mut out, user, 0);
        }
        UserInformationClass::ACCOUNT_NAME => out.whole_unicode(&user.name),
        UserInformationClass::FULL_NAME => out.whole_unicode(&user.full_name),
        UserInformationClass::PRIMARY_GROUP => out.u32(user.primary_group),
        UserInformationClass::HOME => {
            (0..2).for_each(|_| out.unicode(""));
            (0..2).for_each(|_| out.text(""));
        }
        UserInformationClass::SCRIPT
        | UserInformationClass::PROFILE
        | UserInformationClass::ADMIN_COMMENT
        | UserInformationClass::WORK_STATIONS
        | UserInformationClass::PARAMETERS => out.whole_unicode(""),
        UserInformationClass::CONTROL => out.u32(user.control.0),
        UserInformationClass::EXPIRES => out.array(4, &user.account_expires.to_le_bytes()),
        UserInformationClass::ALL => all(&mut out, user),
        _ => return None,
    }
    out.u32(Status::SUCCESS.0);
    Some(out.into_bytes())
}

/// Writes the texts of the two names, and `empty` empty texts after them.
fn texts(out: &mut Encoder, user: &UserInformation, empty: usize) {
    out.text(&user.name);
    out.text(&user.full_name);
    (0..empty).for_each(|_| out.text(""));
}

fn times(out: &mut Encoder, times: &[i64]) {
    times.iter().for_each(|time| out.array(4, &time.to_le_bytes()));
}

/// Writes the fixed part of SAMPR_LOGON_HOURS (2.2.6.5).
fn hours(out: &mut Encoder) {
    out.u16(HOURS);
    out.pointer();
}

/// Writes the logon hours, which allow all users to log on at any time.
fn hours_of_week(out: &mut Encoder) {
    let bytes = [0xff; HOURS as usize / 8];
    [1260, 0, bytes.len() as u32].into_iter().for_each(|number| out.u32(number));
    out.array(1, &bytes);
}

/// Writes a SAMPR_USER_LOGON_INFORMATION (2.2.6.10).
fn logon(out: &mut Encoder, user: &UserInformation) {
    out.unicode(&user.name);
    out.unicode(&user.full_name);
    out.u32(user.rid);
    out.u32(user.primary_group);
    (0..5).for_each(|_| out.unicode(""));
    let set = [user.password_last_set, user.password_can_change, user.password_must_change];
    times(out, &[0, NEVER]);
    times(out, &set);
    hours(out);
    out.u32(0);
    out.u32(user.control.0);
    texts(out, user, 5);
    hours_of_week(out);
}

/// Writes a SAMPR_USER_ACCOUNT_INFORMATION (2.2.6.11).
fn account(out: &mut Encoder, user: &UserInformation) {
    out.unicode(&user.name);
    out.unicode(&user.full_name);
    out.u32(user.rid);
    out.u32(user.primary_group);
    (0..6).for_each(|_| out.unicode(""));
    times(out, &[0, NEVER]);
    hours(out);
    out.u32(0);
    times(out, &[user.password_last_set, user.account_expires]);
    out.u32(user.control.0);
    texts(out, user, 6);
    hours_of_week(out);
}

/// Writes a SAMPR_USER_ALL_INFORMATION (2.2.6.6).
fn all(out: &mut Encoder, user: &UserInformation) {
    times(out, &[0, NEVER, user.password_last_set, user.account_expires]);
    times(out, &[user.password_can_change, user.password_must_change]);
    out.unicode(&user.name);
    out.unicode(&user.full_name);
    (0..8).for_each(|_| out.unicode(""));
    // LmOwfPassword, NtOwfPassword, PrivateData and SecurityDescriptor: empty.
    (0..4).for_each(|_| out.array(4, &[0; 8]));
    out.u32(user.rid);
    out.u32(user.primary_group);
    out.u32(user.control.0);
    out.u32(TOLD_FIELDS);
    hours(out);
    // BadPasswordCount, LogonCount, CountryCode, CodePage, then the password flags, all 0.
    out.array(2, &[0; 8]);
    out.array(1, &[0; 4]);
    texts(out, user, 8);
    hours_of_week(out);
}
