//! Symbols of functions that this version no longer has. The SQL functions of released versions call them until ALTER
//! EXTENSION has run. CREATE FUNCTION looks them up when the scripts of those versions run, also in pg_upgrade.

/// Defines functions that refuse: `retired! { name_wrapper, pg_finfo_name_wrapper; … }`.
macro_rules! retired {
    ($($symbol:ident, $information:ident;)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $information() -> &'static pgrx::pg_sys::Pg_finfo_record {
                static API: pgrx::pg_sys::Pg_finfo_record = pgrx::pg_sys::Pg_finfo_record { api_version: 1 };
                &API
            }

            /// # Safety
            /// Called by PostgreSQL.
            #[pgrx::pg_guard]
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $symbol(_call: pgrx::pg_sys::FunctionCallInfo) -> pgrx::pg_sys::Datum {
                super::compatibility::require();
                pgrx::error!("{} is called by a function that this version does not have", stringify!($symbol));
            }
        )*
    };
}

retired! {
    require_owner_wrapper, pg_finfo_require_owner_wrapper;
    require_role_wrapper, pg_finfo_require_role_wrapper;
    require_service_wrapper, pg_finfo_require_service_wrapper;
    get_record_wrapper, pg_finfo_get_record_wrapper;
    get_records_wrapper, pg_finfo_get_records_wrapper;
    list_records_wrapper, pg_finfo_list_records_wrapper;
    list_discrepancies_wrapper, pg_finfo_list_discrepancies_wrapper;
    declare_attribute_wrapper, pg_finfo_declare_attribute_wrapper;
    unclaim_attribute_wrapper, pg_finfo_unclaim_attribute_wrapper;
    set_cell_limits_wrapper, pg_finfo_set_cell_limits_wrapper;
    begin_update_wrapper, pg_finfo_begin_update_wrapper;
    begin_update_text_wrapper, pg_finfo_begin_update_text_wrapper;
    try_begin_update_wrapper, pg_finfo_try_begin_update_wrapper;
    begin_first_wrapper, pg_finfo_begin_first_wrapper;
    get_records_2_wrapper, pg_finfo_get_records_2_wrapper;
    present_epoch_wrapper, pg_finfo_present_epoch_wrapper;
}
