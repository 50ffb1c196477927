//! What is told of a user ([MS-SAMR] 2.2.6). No hash of a password is among it, whatever the class.

use super::super::ndr::Encoder;
use crate::status::Status;

/// USER_INFORMATION_CLASS ([MS-SAMR] 2.2.6.28).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserInformationClass(pub u16);

#[allow(missing_docs, reason = "the names are the specification's own")]
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
    pub const PARAMETERS: UserInformationClass = UserInformationClass(20);
    pub const ALL: UserInformationClass = UserInformationClass(21);
}

/// USER_ACCOUNT codes ([MS-SAMR] 2.2.1.12).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AccountControl(pub u32);

#[allow(missing_docs, reason = "the names are the specification's own")]
impl AccountControl {
    pub const ACCOUNT_DISABLED: AccountControl = AccountControl(0x1);
    pub const NORMAL_ACCOUNT: AccountControl = AccountControl(0x10);
    pub const WORKSTATION_TRUST_ACCOUNT: AccountControl = AccountControl(0x80);
    pub const DONT_EXPIRE_PASSWORD: AccountControl = AccountControl(0x200);
    pub const ACCOUNT_AUTO_LOCKED: AccountControl = AccountControl(0x400);
    pub const PASSWORD_EXPIRED: AccountControl = AccountControl(0x2_0000);

    /// With the bits of `other` as well, where `set`.
    #[must_use]
    pub fn with(self, other: AccountControl, set: bool) -> AccountControl {
        if set { AccountControl(self.0 | other.0) } else { self }
    }

    /// Whether all bits of `other` are set, but those that are not looked for (3.1.5.2.5).
    pub fn has_all(self, other: AccountControl) -> bool {
        let looked_for = other.0 & !(AccountControl::ACCOUNT_AUTO_LOCKED.0 | AccountControl::PASSWORD_EXPIRED.0);
        self.0 & looked_for == looked_for
    }
}

/// All that is told of a user. Times are those of FILETIME; 0 is "at no time yet", `i64::MAX` "never".
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UserInformation {
    /// The name.
    pub name: String,
    /// The name in full.
    pub full_name: String,
    /// The RID.
    pub rid: u32,
    /// The RID of the primary group.
    pub primary_group: u32,
    /// What the account is.
    pub control: AccountControl,
    /// When the password was set.
    pub password_last_set: i64,
    /// From when on its owner may set another.
    pub password_can_change: i64,
    /// When he must.
    pub password_must_change: i64,
    /// When the account ends.
    pub account_expires: i64,
}

/// Every field of SAMPR_USER_ALL_INFORMATION but those that nobody is told (2.2.1.8, 3.1.5.5.5).
const TOLD_FIELDS: u32 = 0x00ff_ffff;
/// Hours of a week, and bytes for a bit of each.
const HOURS: u16 = 168;

/// The results of SamrQueryInformationUser; `None` for a class that is not told.
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

/// The texts of the two names, and `empty` ones that follow them.
fn texts(out: &mut Encoder, user: &UserInformation, empty: usize) {
    out.text(&user.name);
    out.text(&user.full_name);
    (0..empty).for_each(|_| out.text(""));
}

fn times(out: &mut Encoder, times: &[i64]) {
    times.iter().for_each(|time| out.array(4, &time.to_le_bytes()));
}

/// The fixed part of SAMPR_LOGON_HOURS (2.2.6.5).
fn hours(out: &mut Encoder) {
    out.u16(HOURS);
    out.pointer();
}

/// Everybody may log on at every hour.
fn hours_of_week(out: &mut Encoder) {
    let bytes = [0xff; HOURS as usize / 8];
    [1260, 0, bytes.len() as u32].into_iter().for_each(|number| out.u32(number));
    out.array(1, &bytes);
}

/// SAMPR_USER_LOGON_INFORMATION (2.2.6.10).
fn logon(out: &mut Encoder, user: &UserInformation) {
    out.unicode(&user.name);
    out.unicode(&user.full_name);
    out.u32(user.rid);
    out.u32(user.primary_group);
    (0..5).for_each(|_| out.unicode(""));
    let set = [user.password_last_set, user.password_can_change, user.password_must_change];
    times(out, &[0, 0]);
    times(out, &set);
    hours(out);
    out.u32(0);
    out.u32(user.control.0);
    texts(out, user, 5);
    hours_of_week(out);
}

/// SAMPR_USER_ACCOUNT_INFORMATION (2.2.6.11).
fn account(out: &mut Encoder, user: &UserInformation) {
    out.unicode(&user.name);
    out.unicode(&user.full_name);
    out.u32(user.rid);
    out.u32(user.primary_group);
    (0..6).for_each(|_| out.unicode(""));
    times(out, &[0, 0]);
    hours(out);
    out.u32(0);
    times(out, &[user.password_last_set, user.account_expires]);
    out.u32(user.control.0);
    texts(out, user, 6);
    hours_of_week(out);
}

/// SAMPR_USER_ALL_INFORMATION (2.2.6.6).
fn all(out: &mut Encoder, user: &UserInformation) {
    times(out, &[0, 0, user.password_last_set, user.account_expires]);
    times(out, &[user.password_can_change, user.password_must_change]);
    out.unicode(&user.name);
    out.unicode(&user.full_name);
    (0..8).for_each(|_| out.unicode(""));
    // LmOwfPassword, NtOwfPassword, PrivateData and SecurityDescriptor: nothing.
    (0..4).for_each(|_| out.array(4, &[0; 8]));
    out.u32(user.rid);
    out.u32(user.primary_group);
    out.u32(user.control.0);
    out.u32(TOLD_FIELDS);
    hours(out);
    // BadPasswordCount, LogonCount, CountryCode, CodePage; nothing of passwords.
    out.array(2, &[0; 8]);
    out.array(1, &[0; 4]);
    texts(out, user, 8);
    hours_of_week(out);
}
