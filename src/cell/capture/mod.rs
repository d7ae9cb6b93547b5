//! Capture: records what a transaction changes in claimed columns, and sends it to the service.

mod adopt;
pub mod attribute;
pub mod automatic;
mod batch;
pub mod choose;
pub mod conflicts;
pub mod declare;
pub mod enforcement;
pub mod errors;
mod leases;
pub mod log;
pub mod observation_counts;
mod observations;
mod observe;
mod observed_rows;
mod own_database;
mod own_leases;
pub mod pins;
mod refused_save;
pub mod rows;
pub mod send;
mod skip;
mod skipped_destroys;
mod slow_search;
mod unfit_tables;
pub mod uniques;
pub mod wanted_claims;

::pgrx::extension_sql_file!("../../../sql/install/cell/capture.sql", name = "capture", requires = ["admin", "cell"]);
::pgrx::extension_sql_file!(
    "../../../sql/install/cell/declare.sql",
    name = "declare",
    requires = [
        "admin",
        "capture",
        cell::capture::declare::spell_out_condition,
        cell::capture::declare::change_capture_triggers,
        cell::capture::declare::change_request_triggers,
        cell::capture::automatic::require_cell,
        cell::capture::send::pending_batch,
        cell::capture::send::begin_pending,
        cell::capture::send::finish
    ]
);
::pgrx::extension_sql_file!(
    "../../../sql/install/cell/declarations.sql",
    name = "declarations",
    requires = [
        "declare",
        cell::reading::acts_for_database,
        cell::capture::attribute::declare_attribute_2,
        cell::capture::attribute::unclaim_attribute_2,
        cell::capture::conflicts::last_conflicts
    ]
);
::pgrx::extension_sql_file!(
    "../../../sql/install/cell/enforcement.sql",
    name = "enforcement",
    requires = ["declarations", cell::capture::enforcement::set_enforcement]
);
::pgrx::extension_sql_file!(
    "../../../sql/install/cell/automatic_types.sql",
    name = "automatic_types",
    requires = ["capture"]
);
::pgrx::extension_sql_file!(
    "../../../sql/install/cell/automatic.sql",
    name = "automatic",
    requires = ["declare", "automatic_types", cell::capture::choose::automatic]
);
::pgrx::extension_sql_file!(
    "../../../sql/install/cell/automatic_here.sql",
    name = "automatic_here",
    requires = ["automatic"]
);
