//! Declares the order in which CREATE EXTENSION runs the files of `sql/install` and creates the functions in Rust.

use pgrx::prelude::*;

extension_sql_file!("../sql/install/schema.sql", name = "schema", bootstrap);
extension_sql_file!("../sql/install/service/tables.sql", name = "tables", requires = ["schema"]);
extension_sql_file!("../sql/install/service/type_names.sql", name = "type_names", requires = ["tables"]);
extension_sql_file!("../sql/install/service/transfers.sql", name = "transfers", requires = ["tables"]);
extension_sql_file!("../sql/install/service/records.sql", name = "records", requires = ["transfers"]);
extension_sql_file!("../sql/install/service/names.sql", name = "names", requires = ["tables"]);
extension_sql_file!("../sql/install/service/hold_naming.sql", name = "hold_naming", requires = ["tables"]);
extension_sql_file!("../sql/install/service/seeded_types.sql", name = "seeded_types", requires = ["type_names"]);
extension_sql_file!("../sql/install/service/admin.sql", name = "admin", requires = ["type_names", "records", "names"]);
extension_sql_file!(
    "../sql/install/service/lists.sql",
    name = "lists",
    requires = ["type_names", access::require_own_tables]
);
extension_sql_file!(
    "../sql/install/service/batch_limit.sql",
    name = "batch_limit",
    requires = ["admin", service::lease::limit::batch_limit]
);
extension_sql_file!("../sql/install/service/change_grants.sql", name = "change_grants", requires = ["admin"]);
extension_sql_file!("../sql/install/service/modes.sql", name = "modes", requires = ["tables"]);
extension_sql_file!("../sql/install/service/limits.sql", name = "limits", requires = ["tables"]);
extension_sql_file!(
    "../sql/install/service/waiters.sql",
    name = "waiters",
    requires = ["admin", service::metrics::list_lease_waiters]
);
extension_sql_file!("../sql/install/service/replicas.sql", name = "replicas", requires = ["admin"]);
extension_sql_file!("../sql/install/service/epochs.sql", name = "service_epochs", requires = ["admin"]);
extension_sql_file!(
    "../sql/install/service/acting_cell.sql",
    name = "acting_cell",
    requires = ["service_epochs", service::epoch::acting_cell]
);
extension_sql_file!(
    "../sql/install/service/verification_slots.sql",
    name = "verification_slots",
    requires = ["admin", service::verify::slots::hold_verification_slot]
);
extension_sql_file!("../sql/install/cell/epochs.sql", name = "cell_epochs", requires = ["tables"]);
extension_sql_file!(
    "../sql/install/service/ids.sql",
    name = "service_ids",
    requires = [
        "admin",
        service::ids::add_id_space,
        service::ids::lease_id_range,
        service::ids::confirm_id_range,
        service::ids::restore_id_range
    ]
);
extension_sql_file!(
    "../sql/install/cell/ids.sql",
    name = "cell_ids",
    requires = ["admin", cell::ids::declare::use_id_space, cell::ids::refill::refill_ids]
);
extension_sql_file!(
    "../sql/install/service/audit.sql",
    name = "audit",
    requires = ["tables", service::retention::purge_audit]
);
extension_sql_file!("../sql/install/cell/orphans.sql", name = "orphans", requires = ["admin", "cell"]);
extension_sql_file!("../sql/install/service/changes.sql", name = "changes", requires = ["admin"]);
extension_sql_file!("../sql/install/service/feed_holder.sql", name = "feed_holder", requires = ["changes"]);
extension_sql_file!("../sql/install/admin_log.sql", name = "admin_log", requires = ["tables"]);
extension_sql_file!(
    "../sql/install/passes.sql",
    name = "passes",
    requires = ["tables", cell::reading::may_read_sources]
);
extension_sql_file!(
    "../sql/install/cell/services.sql",
    name = "services",
    requires = ["admin", cell::services::add_service, cell::services::remove_service]
);
extension_sql_file!("../sql/install/cell/worker.sql", name = "worker", requires = ["admin", cell::attend::attend]);
extension_sql_file!(
    "../sql/install/service/check_distributed.sql",
    name = "check_distributed",
    requires = ["tables", "names", "transfers", access::require_tables_here]
);
extension_sql_file!(
    "../sql/install/check_database.sql",
    name = "check_database",
    requires = ["declarations", "requests", "cell_ids", "changes", "feed_holder", service::admin::version::version]
);
extension_sql_file!(
    "../sql/install/service/check.sql",
    name = "check",
    requires = [
        "tables",
        "transfers",
        "changes",
        "service_ids",
        "cell_ids",
        "check_distributed",
        "check_database",
        direct::find_altered_tables
    ]
);
extension_sql_file!(
    "../sql/install/cell/cell.sql",
    name = "cell",
    requires = [
        "admin",
        cell::track::track_lease,
        cell::track::forget_leases,
        cell::recovery::judge::judge_leases,
        cell::recovery::judge::purge_fences,
        cell::recovery::reconcile::reconcile
    ]
);
extension_sql_file!(
    "../sql/install/cell/verify.sql",
    name = "verify",
    requires = [
        "admin",
        "capture",
        service::verify::digest::digest_records,
        cell::verify::digest::digest_expected,
        cell::verify::expected::expected_records,
        service::verify::records::verify_records,
        cell::verify::whole::verify
    ]
);
extension_sql_file!(
    "../sql/install/cell/discrepancies.sql",
    name = "discrepancies",
    requires = ["verify", cell::verify::list::list_discrepancies_2]
);
extension_sql_file!(
    "../sql/install/cell/look_up.sql",
    name = "look_up",
    requires = ["admin", cell::look_up::is_available, cell::look_up::look_up, service::verify::holder::name_holder]
);
extension_sql_file!(
    "../sql/install/cell/import.sql",
    name = "import",
    requires = [
        cell::verify::unclaimed::unclaimed_rows,
        "verify",
        cell::import::begin_import,
        cell::import::import_step,
        cell::import::wait_for_import,
        cell::import::import_cursor,
        cell::import::preview::preview_import,
        service::verify::import::import_records
    ]
);
extension_sql_file!(
    "../sql/install/service/metrics_distributed.sql",
    name = "metrics_distributed",
    requires = ["tables", "transfers", "passes"]
);
extension_sql_file!(
    "../sql/install/metrics.sql",
    name = "metrics",
    requires = [
        "metrics_distributed",
        "check",
        "passes",
        "cell",
        "enforcement",
        "orphans",
        "client",
        "expiring",
        "requests",
        "modes",
        service::admin::version::version,
        service::metrics::read_counters,
        cell::client::calls::service_calls,
        service::metrics::note_check
    ]
);
extension_sql_file!(
    "../sql/install/cell/share.sql",
    name = "share",
    requires = ["verify", "expiring", cell::verify::begin::begin_verification, cell::verify::share::verify_share]
);
extension_sql_file!(
    "../sql/install/cell/progress.sql",
    name = "progress",
    requires = ["share", cell::reading::may_read_sources]
);
extension_sql_file!(
    "../sql/install/cell/client.sql",
    name = "client",
    requires = ["admin", cell::client::options::service_validator, cell::client::breaker::service_states]
);
extension_sql_file!(
    "../sql/install/holds/expiring.sql",
    name = "expiring",
    requires = [
        "admin",
        holds::expiring::add_expiring,
        holds::expiring::remove_expiring,
        holds::expiring::acquire_expiring,
        holds::expiring::renew_expiring,
        holds::expiring::held_expiring,
        holds::expiring::release_expiring,
        holds::expiring::assert_held,
        service::admin::grants::grant_worker
    ]
);
extension_sql_file!(
    "../sql/install/holds/requests.sql",
    name = "requests",
    requires = [
        "expiring",
        holds::requests::enqueue::enqueue_request,
        holds::requests::take::take_requests,
        holds::requests::settle::settle_requests,
        holds::requests::settle::extend_requests,
        holds::requests::enqueue::retry_requests,
        holds::requests::enqueue::purge_requests,
        holds::requests::declare::capture_requests,
        holds::requests::declare::uncapture_requests
    ]
);
extension_sql_file!("../sql/install/cell/capture.sql", name = "capture", requires = ["admin", "cell"]);
extension_sql_file!(
    "../sql/install/cell/declare.sql",
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
extension_sql_file!(
    "../sql/install/cell/declarations.sql",
    name = "declarations",
    requires = [
        "declare",
        cell::reading::acts_for_database,
        cell::capture::attribute::declare_attribute_2,
        cell::capture::attribute::unclaim_attribute_2,
        cell::capture::conflicts::last_conflicts
    ]
);
extension_sql_file!(
    "../sql/install/cell/enforcement.sql",
    name = "enforcement",
    requires = ["declarations", cell::capture::enforcement::set_enforcement]
);
extension_sql_file!("../sql/install/cell/automatic_types.sql", name = "automatic_types", requires = ["capture"]);
extension_sql_file!(
    "../sql/install/cell/automatic.sql",
    name = "automatic",
    requires = ["declare", "automatic_types", cell::capture::choose::automatic]
);
extension_sql_file!("../sql/install/cell/automatic_here.sql", name = "automatic_here", requires = ["automatic"]);
extension_sql_file!(
    "../sql/install/functions.sql",
    name = "functions",
    requires = [
        "admin",
        "admin_log",
        "audit",
        "modes",
        "waiters",
        "records",
        "changes",
        "check",
        "passes",
        "cell",
        "worker",
        "services",
        "client",
        "automatic",
        "automatic_here",
        "declarations",
        "enforcement",
        "verify",
        "share",
        "progress",
        "expiring",
        "requests",
        "discrepancies",
        "import",
        "look_up",
        "metrics"
    ],
    finalize
);
