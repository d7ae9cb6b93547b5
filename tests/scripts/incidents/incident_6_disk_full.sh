#!/usr/bin/env bash
# The service's disk is full: first for its tables, then for its log, which stops the server. No acknowledged call is lost, no name has two owners,
# and with free space everything works again.
. "$(dirname "$0")/../cells.bash"

disk=$(cd /tmp && mktemp -d /tmp/claims-disk.XXXXXX)
if ! mount -t tmpfs -o size=192m tmpfs "$disk" 2>/dev/null; then
  rmdir "$disk"
  echo 'ok: skipped, only root may mount a small disk'
  exit 0
fi
trap 'cleanup; umount "$disk"; rmdir "$disk"' EXIT
start_cells -c log_min_messages=panic -c min_wal_size=32MB -c max_wal_size=64MB -c restart_after_crash=on
trap 'for session in "${!SESSION_PID[@]}"; do close "$session"; done; cleanup; umount "$disk"; rmdir "$disk"' EXIT
at shared "CREATE ROLE watch LOGIN; SELECT claims.grant_monitor('watch')" >/dev/null

# The service moves to the small disk.
halt shared
chmod 755 "$disk"
old=${CLUSTER_DIR[shared]}
CLUSTER_DIR[shared]=$disk/shared
mkdir "$disk/shared"; [ "$(id -u)" != 0 ] || chown "$SERVER_USER" "$disk/shared"
(cd /tmp && as_server cp -a "$old/data" "$disk/shared/data" && as_server sed -i "s|$old|$disk/shared|" "$disk/shared/data/postgresql.conf")
rm -rf "$old"
resume shared
# A batch of 2,000 names, made by the server.
batch="(SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', 'ROUTES', 'value', 'big-' || repeat('x', 200) || i), 'subject', '{\"type\": \"GROUP\", \"id\": 1}'::jsonb, 'source', jsonb_build_object('type', 'RAILS_TABLE_ROUTES', 'id', i))) FROM generate_series(1, 2000) i)"

save 1 1 kept; commit 1 1 >/dev/null
save 1 2 unsettled
begin 2 3 waiting
at shared 'SELECT pg_switch_wal(); CHECKPOINT' >/dev/null
dd if=/dev/zero of="$disk/filler" bs=64k 2>/dev/null || true

# Look.
expect 'the disk is full' "$(df --output=avail "$disk" | tail -1 | tr -d ' ')" 0
expect 'a big batch is told so' "$(state_as_cell 1 "SELECT claims.begin_update(1, $batch)")" 53100
expect 'and has left nothing' "$(at shared "SELECT count(*) FROM claims.claims WHERE bucket_value LIKE 'big-%'")" 0
expect 'reading works' "$(as_cell 1 "SELECT status FROM claims.get_record('ROUTES', 'kept')")" ACTIVE
expect 'what has grown is told' "$( (use_cluster shared; export PGUSER=watch; sql "SELECT count(*) > 3 FROM claims.metrics() WHERE name = 'claims_table_bytes'") )" t

# The log has no room either: the server stops.
for _ in $(seq 1 40); do
  at shared "SELECT pg_current_xact_id(), pg_switch_wal()" >/dev/null 2>&1 || break
done
sleep 1
expect 'a cell is told that the service is not there' "$(state_as_app 1 "SELECT claims.explain_lease(1, 'service', '$(lease 2)')" | sed 's/57P0[0-9]/08001/')" 08001
expect 'saves fail, and nothing is saved' "$(saved 1)" 'kept unsettled'

# Act: room, and a start.
rm -f "$disk/filler"
halt shared immediate 2>/dev/null || true
rm -f "$disk/shared/data/postmaster.pid"
resume shared

# Check.
expect 'nothing that was told is lost' "$(as_cell 1 "SELECT status FROM claims.get_record('ROUTES', 'kept')") $(outcome 1 1) $(outcome 1 2) $(outcome 2 3)" 'ACTIVE committed outstanding outstanding'
expect 'the big batch goes through' "$(as_cell 1 "SELECT claims.rollback_update(1, claims.begin_update(1, $batch))")" t
for _ in 1 2 3; do
  as_app 1 "SELECT count(*) FROM claims.reconcile(1, 'service', '0 s')" >/dev/null 2>&1 || sleep 1
  as_app 2 "SELECT count(*) FROM claims.reconcile(2, 'service', '0 s')" >/dev/null 2>&1 || sleep 1
done
expect 'recovery has settled what was left' "$(outcome 1 2) $(outcome 2 3)" 'committed rolled_back'
agree 'at the end'
