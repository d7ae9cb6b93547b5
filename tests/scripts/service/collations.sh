#!/usr/bin/env bash
# Databases with other locales: values are compared and ordered bytewise there, too.
. "$(dirname "$0")/../common.bash"

try_locale() {
  local name=$1 options=$2 odd
  sql postgres 'DROP DATABASE IF EXISTS script_locale' 2>/dev/null
  if [ "$(sqlstate postgres "CREATE DATABASE script_locale ENCODING 'UTF8' TEMPLATE template0 $options")" != 00000 ]; then
    echo "left out: $name is not on this machine"; return 0
  fi
  tried=$((tried + 1))
  sql script_locale 'CREATE EXTENSION claims'
  PGDATABASE=script_locale fresh_roles
  sql script_locale "SELECT claims.register_cell(1, 'script_claims_one')" >/dev/null
  # the locale does what it is known for
  odd=$(sql script_locale "SELECT string_agg(v, '' ORDER BY v) FROM unnest('{b,B,a,A,é,z,Z,-,_}'::text[]) v")
  PGDATABASE=script_locale have 1 b B a A é z Z - _ a-b ab 'a b' É e
  expect "$name ($odd): list_records is in bytewise order" "$(sql script_locale "SELECT string_agg(bucket_value, ',') = string_agg(bucket_value, ',' ORDER BY bucket_value COLLATE \"C\") FROM claims.list_records(1)")" t
  expect "$name: pages of one" "$(sql script_locale "WITH RECURSIVE p AS ((SELECT 1 AS n, bucket_value, cursor FROM claims.list_records(1, max_results => 1)) UNION ALL SELECT n + 1, r.bucket_value, r.cursor FROM p, LATERAL claims.list_records(1, NULL, p.cursor, 1) r WHERE n < 50) SELECT count(*), count(DISTINCT bucket_value) FROM p")" '14|14'
  expect "$name: each finds itself" "$(sql script_locale "SELECT count(*) FROM claims.list_records(1) l, claims.get_record('ROUTES', l.bucket_value) g WHERE g.uuid = l.uuid")" 14
  expect "$name: source ids in order" "$(sql script_locale "SELECT claims.commit_update(1, claims.begin_update(1, (SELECT jsonb_agg(jsonb_build_object('bucket', jsonb_build_object('type', 4, 'value', v), 'subject', '{\"type\": 2, \"id\": 1}'::jsonb, 'source', jsonb_build_object('type', 1, 'id', v))) FROM unnest('{a,B,-,é,10,9,Z,_}'::text[]) v)));
      SELECT string_agg(source_id, ' ') FROM claims.list_records(1, 'RAILS_TABLE_USERS')" | tail -1)" '- 9 B Z _ a é 10'
  expect "$name: a range of them" "$(sql script_locale "SELECT string_agg(source_id, ' ') FROM claims.list_records(1, 'RAILS_TABLE_USERS', source_id_gt => 'B', source_id_lte => 'a')")" 'Z _ a'
  expect "$name: conflicts are of the very value" "$(sql script_locale "SELECT jsonb_array_length(conflicts), conflicts->0->'bucket'->>'value' FROM claims.try_begin_update(1, '[$(claim b), $(claim ä)]')")" '1|b'
  expect "$name: check" "$(sql script_locale 'SELECT count(*) FROM claims.check()')" 0
  sql postgres 'DROP DATABASE script_locale'
}
tried=0
try_locale C "LOCALE 'C'"
try_locale 'ICU en' "LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C.UTF-8'"
try_locale 'ICU that ignores case and accents' "LOCALE_PROVIDER icu ICU_LOCALE 'und-u-ks-level1' LOCALE 'C.UTF-8'"
try_locale 'en_US.UTF-8' "LOCALE 'en_US.UTF-8'"
[ "$tried" -ge 2 ] || { echo 'FAILED: no locale to try' >&2; exit 1; }
