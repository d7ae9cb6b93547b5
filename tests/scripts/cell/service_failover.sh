#!/usr/bin/env bash
# A cell whose service has several hosts: it uses the one that is the primary, and the next one after a failover.
. "$(dirname "$0")/../cells.bash"

start_cells
use_cluster shared
make_standby other
expect 'a standby' "$(at other 'SELECT pg_is_in_recovery()')" t

# The standby is the first of the hosts.
at cell1 "ALTER SERVER service OPTIONS (SET host '127.0.0.1,127.0.0.1', SET port '${CLUSTER_PORT[other]},${CLUSTER_PORT[shared]}', SET connect_timeout '20', ADD target_session_attrs 'read-write');
  SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'); SELECT claims.automatic(1, 'service')" >/dev/null
open session cell1
expect 'a save goes to the primary' "$(tell session "INSERT INTO routes (name) VALUES ('before')")" ''
wait_for before1 at other 'SELECT string_agg(bucket_value || status, NULL) FROM claims.claims' >/dev/null
crash shared
control other promote
expect 'the same session saves at the new primary' "$(tell session "INSERT INTO routes (name) VALUES ('after')")" ''
wait_for 0 at other 'SELECT count(*) FROM claims.claim_leases' >/dev/null
expect 'which has both names' "$(at other "SELECT string_agg(bucket_value || ' ' || status, ', ' ORDER BY created_at) FROM claims.claims")" 'before 1, after 1'
