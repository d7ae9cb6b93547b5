//! The extension on the other nodes of a cluster. Citus creates it on a node that is added, as Citus's own superuser and with the
//! defaults of CREATE EXTENSION. These statements give it to its owner there, and repeat the changes of `claims.distribute()`.

use super::distribute::{here_only, on_other_nodes};
use super::errors::DistributionError;
use crate::kernel::error::ClaimsError;
use pg::owner::as_role;
use pg::query::{query, record};
use pg::roles;
use pg::spi::Connection;

record! {
    /// A node on which the extension has another owner than on this one.
    struct ForeignNode { node: String, its_owner: String, owner: String }
}

query! {
    /// Returns the first node on which the extension has another owner than here: Citus creates the extension on an added node as its
    /// own superuser. Skips nodes that do not answer.
    fn foreign_node() -> Option<ForeignNode> = [Statement Anywhere]
        "SELECT format('%s:%s', n.nodename, n.nodeport) AS node, r.result AS its_owner, o.rolname::text AS owner
           FROM pg_catalog.run_command_on_all_nodes($$
                SELECT r.rolname FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner WHERE n.nspname = 'claims' $$) r
           JOIN pg_catalog.pg_dist_node n USING (nodeid)
           JOIN pg_catalog.pg_namespace s ON s.nspname = 'claims' JOIN pg_catalog.pg_roles o ON o.oid = s.nspowner
          WHERE r.success AND r.result NOT IN ('', o.rolname::text) ORDER BY 1 LIMIT 1";
    fn quoted(text: &str) -> Option<String> = [Latest Anywhere] "SELECT pg_catalog.quote_literal(:text)";
}

/// Raises 55000 if the extension has another owner on a node, where this owner may not change it. Asks all nodes.
pub fn require_own_nodes(connection: &Connection) -> Result<(), ClaimsError> {
    let foreign = foreign_node(connection);
    foreign.map_or(Ok(()), |ForeignNode { node, its_owner, owner }| {
        Err(DistributionError::NodeOfAnother { node, its_owner, owner }.into())
    })
}

/// Gives the objects of the extension to their owner on every other node. Only a superuser may do that; for other callers nothing
/// changes. Raises 55000 if objects of another role are left.
pub fn hand_over(connection: &Connection) -> Result<(), ClaimsError> {
    let (foreign, caller) = (foreign_node(connection), roles::caller());
    let Some(foreign) = foreign.filter(|_| roles::is_superuser(caller)) else {
        return require_own_nodes(connection);
    };
    let owner = quoted(connection, &foreign.owner).unwrap_or_default();
    as_role(caller, || on_other_nodes(connection, &HAND_OVER.replace("OWNER_OF_CLAIMS", &owner)))?;
    require_own_nodes(connection)
}

/// Changes the owners of those objects of the extension that have another one, each in a transaction of its own: with the locks on
/// several tables it would end in deadlocks with calls, which take them in another order. Objects that run with the rights of others stay with the first superuser, who
/// owns them after CREATE EXTENSION: otherwise the owner could replace them. Row types, array types and sequences of columns
/// follow the objects that they belong to.
const HAND_OVER: &str = "
    DECLARE
        object pg_catalog.text;
    BEGIN
        FOR object IN
            SELECT i.type || ' ' || i.identity
              FROM pg_depend d
              LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
              LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
              LEFT JOIN pg_type t ON d.classid = 'pg_type'::regclass AND t.oid = d.objid
              LEFT JOIN pg_namespace n ON d.classid = 'pg_namespace'::regclass AND n.oid = d.objid
             CROSS JOIN pg_identify_object(d.classid, d.objid, 0) i
             WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
               AND d.refobjid = (SELECT e.oid FROM pg_extension e WHERE e.extname = 'claims')
               AND coalesce(p.proowner, c.relowner, t.typowner, n.nspowner) IS DISTINCT FROM to_regrole(quote_ident(OWNER_OF_CLAIMS))
               AND i.type NOT IN ('event trigger', 'foreign-data wrapper')
               AND (p.oid IS NULL OR p.prorettype <> 'event_trigger'::regtype
                                     AND p.proname NOT IN ('refuse_unrecorded_truncate', 'service_validator'))
               AND NOT EXISTS (SELECT FROM pg_depend a WHERE a.classid = d.classid AND a.objid = d.objid AND a.deptype IN ('a', 'i'))
        LOOP
            EXECUTE format('ALTER %s OWNER TO %I', object, OWNER_OF_CLAIMS);
            COMMIT;
        END LOOP;
    END";

/// Makes all functions that read the tables PARALLEL UNSAFE on every node, so that no query that calls them is parallel. A parallel
/// worker would make its own connections to other nodes, which do not see what the transaction has written; and while workers
/// run, their leader may not do what Citus does in a transaction. In one database these functions are parallel safe.
pub fn forbid_parallel(connection: &Connection) -> Result<(), ClaimsError> {
    here_only(|| connection.run_text(&format!("DO $here$ {FORBID_PARALLEL} $here$"), []));
    on_other_nodes(connection, FORBID_PARALLEL)
}

/// Immutable functions read no table.
const FORBID_PARALLEL: &str = "
    DECLARE
        function pg_catalog.regprocedure;
    BEGIN
        FOR function IN
            SELECT p.oid FROM pg_proc p
             WHERE p.pronamespace = 'claims'::regnamespace AND p.proparallel <> 'u' AND p.provolatile <> 'i'
        LOOP
            EXECUTE format('ALTER FUNCTION %s PARALLEL UNSAFE', function);
        END LOOP;
    END";
