#!/usr/bin/env bash
# docs/where-a-name-is-kept.md has every table that can hold a name: the test reads the catalog, and a table with texts must be in the document's list of
# places, or in the list of those without names below. What the document says of erase_name is tried: the rows that it returns are the places
# with "yes", and after it no table of the database has the name.
. "$(dirname "$0")/../common.bash"

fresh_database name_places
document=$CLAIMS_ROOT/docs/where-a-name-is-kept.md

# Tables with texts that are never names, and why.
declare -A WITHOUT=(
  [attended_cells]='cells and servers' [audiences]='functions' [automatic_service]='a server' [automatic_types]='types and servers'
  [bucket_types]='types' [captured_tables]='tables and queues' [cell_epochs]='addresses of databases' [cells]='cells' [cells_outstanding_leases]='servers'
  [claimed_attributes]='declarations' [erasure_key]='a key' [id_sequences]='sequences' [id_spaces]='sets of ids' [lease_fences]='leases' [leased_id_ranges]='ids'
  [limit_settings]='limits' [lost_holds]='queues' [mode_settings]='modes' [named_services]='servers' [own_epochs]='servers' [seen_orphans]='outcomes'
  [source_types]='types' [subject_types]='types' [type_names]='types' [type_renames]='types' [unique_constraints]='declarations' [unique_members]='tables'
  [verification_slots]='cells'
)
# Every table that has a column in which a text fits.
with_texts() {
  sql "SELECT DISTINCT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
         JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_type e ON e.oid = t.typelem
        WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind IN ('r', 'p', 'm')
          AND coalesce(e.typname, t.typname) IN ('text', 'varchar', 'bpchar', 'char', 'name', 'json', 'jsonb', 'bytea', 'xml') ORDER BY 1"
}
listed() { sed -n '/^## Places/,/^## /p' "$document" | grep '^| `claims\.' | cut -d'|' -f2 | grep -o 'claims\.[a-z_]*' | sed 's/claims\.//' | sort -u; }
unknown=''
while read -r table; do
  grep -qx "$table" <(listed) || [ -n "${WITHOUT[$table]:-}" ] || unknown+="$table "
done < <(with_texts)
expect 'every table that can hold a name is in the document, or known to have none' "$unknown" ''
expect 'no table is in both lists' "$(for table in "${!WITHOUT[@]}"; do grep -x "$table" <(listed) || true; done)" ''
expect 'the document lists no table that does not exist' \
  "$(while read -r table; do sql "SELECT '$table' WHERE to_regclass('claims.$table') IS NULL"; done < <(listed))" ''
expect 'nor does the list of tables without names' \
  "$(for table in "${!WITHOUT[@]}"; do sql "SELECT '$table' WHERE to_regclass('claims.$table') IS NULL"; done)" ''
# The retention that the document gives is the setting's own.
while IFS='|' read -r setting days; do
  expect "$setting" "$(sql "DO \$\$ BEGIN PERFORM claims.version(); END \$\$; SELECT setting::bigint / 86400 FROM pg_settings WHERE name = '$setting'")" "$days"
done < <(sed -n '/^## Places/,/^## /p' "$document" | sed -nE 's/^\|[^|]*\|[^|]*\| ([0-9]+) days[^|]*\| `(claims\.[a-z_]+)` .*/\2|\1/p')

# --- the places that erase_name reaches ------------------------------------------------------------------------------------
expect 'erase_name returns the places of the document' \
  "$(sql "SELECT claims.register_cell(1, current_user)" >/dev/null; sql "SELECT place FROM claims.erase_name('ROUTES', 'nobody', 'a test') ORDER BY 1" | sed 's/^observations$/observed/; s/^import_collisions$/imported_collisions/' | sort)" \
  "$(sed -n '/^## Places/,/^## /p' "$document" | grep '^| `claims\.' | awk -F'|' '$6 ~ /^ yes/ {print $2}' | grep -o 'claims\.[a-z_]*' | sed 's/claims\.//' | sort)"
# A table is searched by the text of its rows: a new column that keeps names fails here, too.
name=a-name-to-be-forgotten
sql "SET claims.audit = 'all'; SET claims.change_feed = on; SET claims.context = 'a test';
  SELECT claims.add_bucket_type(100, 'HANDLES', 'casefold', 'reject');
  SELECT claims.reserve_names('HANDLES', '{${name^^},kept}', 'a test'), claims.unreserve_names('HANDLES', '{$name}', 'a test');
  SELECT claims.set_quarantine('HANDLES', '1 day', 'a test');
  SELECT claims.commit_update(1, claims.begin_update(1, '[{\"bucket\": {\"type\": \"HANDLES\", \"value\": \"${name^^}\"}, \"subject\": {\"type\": \"USER\", \"id\": 1}, \"source\": {\"type\": \"RAILS_TABLE_USERS\", \"id\": 1}}]'));
  SELECT claims.commit_update(1, claims.begin_update(1, '[]', '[{\"bucket\": {\"type\": \"HANDLES\", \"value\": \"$name\"}}]'))" >/dev/null
kept() {
  sql "DO \$\$ DECLARE t regclass; n bigint; found text := ''; BEGIN
         FOR t IN SELECT c.oid FROM pg_class c WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind = 'r' ORDER BY relname LOOP
           EXECUTE format('SELECT count(*) FROM %s r WHERE r::text ILIKE %L', t, '%$name%') INTO n;
           IF n > 0 THEN found := found || t || ' '; END IF;
         END LOOP; RAISE INFO 'in: %', found; END \$\$" 2>&1 | sed -n 's/^.*INFO:  in: //p'
}
expect 'before' "$(kept)" 'claims.admin_log claims.audit_log claims.change_sets claims.claims claims.skeletons '
sql "SELECT * FROM claims.erase_name('HANDLES', '${name^}', 'a test')" >/dev/null
expect 'afterwards no table has it, in any spelling' "$(kept)" ''
expect 'the names beside it stay' "$(sql "SELECT count(*) FROM claims.admin_log WHERE arguments::text LIKE '%kept%'")" 1
