//! Default answers for minimal implementations of [`Accounts`](super::Accounts), for tests and small programs. They are
//! not in the trait itself, because a wrapper that forgets to forward a method would then silently answer in place of
//! the wrapped implementation.

/// Implements all methods of [`Accounts`](crate::accounts::Accounts) except the named ones, for an implementation with
/// nothing to report: it has only UNIX users and groups under their plain SIDs, and nothing can be changed. `find` and
/// `domain` must always be implemented.
///
/// ```text
/// plain_accounts!(all but find, domain, uid_of);
/// ```
#[macro_export]
macro_rules! plain_accounts {
    (@ of_client) => {
        fn of_client(
            &self,
            _: &$crate::tickets::ClientName,
            _: ::core::option::Option<&::proto::auth::pac::LogonInfo>,
        ) -> $crate::answer::Answer<
            ::core::result::Result<
                ::core::option::Option<$crate::accounts::Account>,
                $crate::accounts::Unavailable
            >
        > {
            $crate::answer::Answer::now(Ok(None))
        }
    };
    (@ find_anew) => {
        fn find_anew(
            &self,
            _: &str,
        ) -> $crate::answer::Answer<
            ::core::result::Result<
                ::core::option::Option<$crate::accounts::Account>,
                $crate::accounts::Unavailable
            >
        > {
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
        ) -> $crate::answer::Answer<
            ::core::result::Result<
                ::core::option::Option<u32>,
                $crate::accounts::Unavailable
            >
        > {
            $crate::answer::Answer::now(Ok(None))
        }
    };
    (@ id_of) => {
        fn id_of(
            &self,
            sid: &::proto::dtyp::Sid,
        ) -> $crate::answer::Answer<
            ::core::result::Result<
                ::core::option::Option<$crate::accounts::principals::UnixId>,
                $crate::accounts::Unavailable
            >
        > {
            if let Some(id) = $crate::accounts::principals::UnixId::in_sid(sid) {
                return $crate::answer::Answer::now(Ok(Some(id)));
            }
            self.uid_of(sid).map(|uid| uid.map(|uid| uid.map($crate::accounts::principals::UnixId::User)))
        }
    };
    (@ sid_of) => {
        fn sid_of(
            &self,
            id: $crate::accounts::principals::UnixId,
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
        ) -> $crate::answer::Answer<
            ::core::result::Result<
                ::core::option::Option<$crate::accounts::principals::Principal>,
                $crate::accounts::Unavailable
            >
        > {
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
        ) -> $crate::answer::Answer<
            ::core::result::Result<
                ::core::option::Option<$crate::accounts::principals::Principal>,
                $crate::accounts::Unavailable
            >
        > {
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
    (@ count_users) => {
        fn count_users(&self) -> $crate::answer::Answer<::core::result::Result<u32, $crate::accounts::Unavailable>> {
            $crate::answer::Answer::now(Ok(0))
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
            ::core::result::Result<
                ::core::option::Option<$crate::accounts::ListedGroup>,
                $crate::accounts::Unavailable
            >,
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
    (@ is_of_machine) => {
        fn is_of_machine(&self, sid: &::proto::dtyp::Sid) -> bool {
            sid.domain() == Some(self.domain().sid())
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
            let why = "its back end cannot change passwords".to_owned();
            $crate::answer::Answer::now(Err($crate::accounts::NotChanged::Unavailable(why)))
        }
    };
    (@ unless of_client [of_client $($more:ident)*]) => {};
    (@ unless find_anew [find_anew $($more:ident)*]) => {};
    (@ unless logged_on [logged_on $($more:ident)*]) => {};
    (@ unless uid_of [uid_of $($more:ident)*]) => {};
    (@ unless id_of [id_of $($more:ident)*]) => {};
    (@ unless sid_of [sid_of $($more:ident)*]) => {};
    (@ unless sids_of [sids_of $($more:ident)*]) => {};
    (@ unless principal [principal $($more:ident)*]) => {};
    (@ unless expect_sids [expect_sids $($more:ident)*]) => {};
    (@ unless named [named $($more:ident)*]) => {};
    (@ unless is_in_netgroup [is_in_netgroup $($more:ident)*]) => {};
    (@ unless users [users $($more:ident)*]) => {};
    (@ unless count_users [count_users $($more:ident)*]) => {};
    (@ unless groups [groups $($more:ident)*]) => {};
    (@ unless group [group $($more:ident)*]) => {};
    (@ unless members [members $($more:ident)*]) => {};
    (@ unless is_of_machine [is_of_machine $($more:ident)*]) => {};
    (@ unless policy [policy $($more:ident)*]) => {};
    (@ unless lock [lock $($more:ident)*]) => {};
    (@ unless change_password [change_password $($more:ident)*]) => {};
    (@ unless $method:ident [$other:ident $($more:ident)*]) => {
        $crate::plain_accounts!(@ unless $method [$($more)*]);
    };
    (@ unless $method:ident []) => {
        $crate::plain_accounts!(@ $method);
    };
    (@ each $own:tt [$($method:ident)*]) => {
        $($crate::plain_accounts!(@ unless $method $own);)*
    };
    (all but $($own:ident),+ $(,)?) => {
        $crate::plain_accounts!(@ each [$($own)+] [
            of_client find_anew logged_on uid_of id_of sid_of sids_of principal expect_sids named is_in_netgroup
            users count_users groups group members is_of_machine policy lock change_password
        ]);
    };
}
