//! Symbols of functions that this version no longer has, and that the SQL of released ones still calls until ALTER EXTENSION
//! has run. CREATE FUNCTION looks for them too, when the scripts of those versions run, or pg_upgrade does.

/// `retired! { name_wrapper, pg_finfo_name_wrapper; … }`: functions that refuse.
macro_rules! retired {
    ($($symbol:ident, $information:ident;)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $information() -> &'static pgrx::pg_sys::Pg_finfo_record {
                static API: pgrx::pg_sys::Pg_finfo_record = pgrx::pg_sys::Pg_finfo_record { api_version: 1 };
                &API
            }

            /// # Safety
            /// Called by Postgres.
            #[pgrx::pg_guard]
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $symbol(_call: pgrx::pg_sys::FunctionCallInfo) -> pgrx::pg_sys::Datum {
                super::gate::pass();
                pgrx::error!("{} is called by a function that this version does not have", stringify!($symbol));
            }
        )*
    };
}

retired! {
    require_owner_wrapper, pg_finfo_require_owner_wrapper;
    require_role_wrapper, pg_finfo_require_role_wrapper;
    get_record_wrapper, pg_finfo_get_record_wrapper;
    get_records_wrapper, pg_finfo_get_records_wrapper;
    list_records_wrapper, pg_finfo_list_records_wrapper;
}
