//! Administration: types, cells, grants, modes and limits.

mod cells;
mod errors;
mod grants;
mod limits;
mod local;
mod modes;
pub mod statements;
mod tables;
pub mod types;
mod version;

pub use self::tables::*;

::pgrx::extension_sql_file!("../../../sql/install/service/type_names.sql", name = "type_names", requires = ["tables"]);
::pgrx::extension_sql_file!(
    "../../../sql/install/service/seeded_types.sql",
    name = "seeded_types",
    requires = ["type_names"]
);
::pgrx::extension_sql_file!(
    "../../../sql/install/service/admin.sql",
    name = "admin",
    requires = ["type_names", "records", "names"]
);
::pgrx::extension_sql_file!(
    "../../../sql/install/service/lists.sql",
    name = "lists",
    requires = ["type_names", kernel::access::require_own_tables]
);
::pgrx::extension_sql_file!(
    "../../../sql/install/service/change_grants.sql",
    name = "change_grants",
    requires = ["admin"]
);
::pgrx::extension_sql_file!("../../../sql/install/service/modes.sql", name = "modes", requires = ["tables"]);
::pgrx::extension_sql_file!("../../../sql/install/service/limits.sql", name = "limits", requires = ["tables"]);
::pgrx::extension_sql_file!("../../../sql/install/service/replicas.sql", name = "replicas", requires = ["admin"]);
