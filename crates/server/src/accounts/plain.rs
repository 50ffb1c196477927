//! What [`Accounts`](super::Accounts) that know little answer, for tests and programs that ask for little. The trait has no bodies of its own: an
//! implementation that passes questions on and forgets one would answer it instead of who is asked.

/// Methods of [`Accounts`](crate::accounts::Accounts), by name, as they are where there is nothing to say: nobody is known
/// but users and groups of Linux by their plain SIDs, and nothing can be changed.
#[macro_export]
macro_rules! plain_accounts {
    (@ of_client) => {
        fn of_client(
            &self,
            _: &$crate::tickets::ClientName,
            _: ::core::option::Option<&::proto::auth::pac::LogonInfo>,
        ) -> $crate::answer::Answer<::core::result::Result<::core::option::Option<$crate::accounts::Account>, $crate::accounts::Unavailable>> {
            $crate::answer::Answer::now(Ok(None))
        }
    };
    (@ find_anew) => {
        fn find_anew(
            &self,
            _: &str,
        ) -> $crate::answer::Answer<::core::result::Result<::core::option::Option<$crate::accounts::Account>, $crate::accounts::Unavailable>> {
            $crate::answer::Answer::now(Ok(None))
        }
    };
    (@ logged_on) => {
        fn logged_on(&self, _: &str, _: $crate::accounts::LogonOutcome) {}
    };
    (@ uid_of) => {
        fn uid_of(
            &self,
            _: &::proto::dtyp::Sid,
        ) -> $crate::answer::Answer<::core::result::Result<::core::option::Option<u32>, $crate::accounts::Unavailable>> {
            $crate::answer::Answer::now(Ok(None))
        }
    };
    (@ id_of) => {
        fn id_of(
            &self,
            sid: &::proto::dtyp::Sid,
        ) -> $crate::answer::Answer<::core::result::Result<::core::option::Option<$crate::principals::UnixId>, $crate::accounts::Unavailable>> {
            if let Some(id) = $crate::principals::UnixId::in_sid(sid) {
                return $crate::answer::Answer::now(Ok(Some(id)));
            }
            self.uid_of(sid).map(|uid| uid.map(|uid| uid.map($crate::principals::UnixId::User)))
        }
    };
    (@ sid_of) => {
        fn sid_of(
            &self,
            id: $crate::principals::UnixId,
        ) -> $crate::answer::Answer<::core::result::Result<::proto::dtyp::Sid, $crate::accounts::Unavailable>> {
            $crate::answer::Answer::now(Ok(id.plain_sid()))
        }
    };
    (@ sids_of) => {
        fn sids_of(
            &self,
            _: &std::sync::Arc<$crate::vfs::Identity>,
        ) -> $crate::answer::Answer<::core::result::Result<Vec<::proto::dtyp::Sid>, $crate::accounts::Unavailable>> {
            $crate::answer::Answer::now(Ok(Vec::new()))
        }
    };
    (@ principal) => {
        fn principal(
            &self,
            _: &::proto::dtyp::Sid,
        ) -> $crate::answer::Answer<::core::result::Result<::core::option::Option<$crate::principals::Principal>, $crate::accounts::Unavailable>> {
            $crate::answer::Answer::now(Ok(None))
        }
    };
    (@ expect_sids) => {
        fn expect_sids(&self, _: &[::proto::dtyp::Sid]) -> $crate::answer::Answer<()> {
            $crate::answer::Answer::now(())
        }
    };
    (@ named) => {
        fn named(
            &self,
            _: ::core::option::Option<&str>,
            _: &str,
        ) -> $crate::answer::Answer<::core::result::Result<::core::option::Option<$crate::principals::Principal>, $crate::accounts::Unavailable>> {
            $crate::answer::Answer::now(Ok(None))
        }
    };
    (@ is_in_netgroup) => {
        fn is_in_netgroup(
            &self,
            _: &str,
            _: &str,
        ) -> $crate::answer::Answer<::core::result::Result<bool, $crate::accounts::Unavailable>> {
            $crate::answer::Answer::now(Ok(false))
        }
    };
    (@ users) => {
        fn users(&self, _: ::core::option::Option<&str>, _: usize) -> $crate::answer::Answer<
            ::core::result::Result<Vec<$crate::accounts::ListedAccount>, $crate::accounts::Unavailable>,
        > {
            $crate::answer::Answer::now(Ok(Vec::new()))
        }
    };
    (@ groups) => {
        fn groups(&self, _: ::core::option::Option<&::proto::dtyp::Sid>, _: usize) -> $crate::answer::Answer<
            ::core::result::Result<Vec<$crate::accounts::ListedGroup>, $crate::accounts::Unavailable>,
        > {
            $crate::answer::Answer::now(Ok(Vec::new()))
        }
    };
    (@ group) => {
        fn group(&self, _: &::proto::dtyp::Sid) -> $crate::answer::Answer<
            ::core::result::Result<::core::option::Option<$crate::accounts::ListedGroup>, $crate::accounts::Unavailable>,
        > {
            $crate::answer::Answer::now(Ok(None))
        }
    };
    (@ members) => {
        fn members(&self, _: &::proto::dtyp::Sid, _: usize) -> $crate::answer::Answer<
            ::core::result::Result<Vec<::proto::dtyp::Sid>, $crate::accounts::Unavailable>,
        > {
            $crate::answer::Answer::now(Ok(Vec::new()))
        }
    };
    (@ policy) => {
        fn policy(&self) -> $crate::accounts::AccountPolicy {
            $crate::accounts::AccountPolicy::default()
        }
    };
    (@ lock) => {
        fn lock(&self, _: &str) {}
    };
    (@ change_password) => {
        fn change_password(
            &self,
            _: &str,
            _: $crate::accounts::NtHash,
            _: $crate::accounts::NtHash,
        ) -> $crate::answer::Answer<::core::result::Result<(), $crate::accounts::NotChanged>> {
            let why = "its back end changes no passwords".to_owned();
            $crate::answer::Answer::now(Err($crate::accounts::NotChanged::Unavailable(why)))
        }
    };
    ($($method:ident),+ $(,)?) => {
        $($crate::plain_accounts!(@ $method);)+
    };
}
