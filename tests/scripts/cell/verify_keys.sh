#!/usr/bin/env bash
# Capture and verification of tables whose keys are uuids or texts, between separate clusters: the same as with
# integers, damage at both ends and beyond them, an empty table, calls that stop at max_runtime, several workers.
. "$(dirname "$0")/../cells.bash"

start_cells -c max_parallel_workers_per_gather=0
at cell1 "SELECT claims.automatic(1, 'service')" >/dev/null
as_verified() { as_app 1 "SELECT * FROM claims.verify(1, 'service', '$SOURCE'${1:+, $1})" 2>>"$CLAIMS_TMP/warnings"; }
# In the shared database: the claims of the source type in the order of their ids, each with its place.
IN_ORDER="(SELECT ctid AS at, source_id AS id, row_number() OVER (ORDER BY length(source_id), source_id) AS place FROM claims.claims WHERE source_type = \$TYPE)"
at_service() { local text=${1//IN_ORDER/$IN_ORDER}; at shared "${text//\$TYPE/$TYPE}"; }
age() { at_service "UPDATE claims.claims SET updated_at = now() - interval '2 hours'"; }
agree_here() {
  expect "$KIND: $1" "$(as_cell 1 "SELECT records, digest FROM claims.digest_records(1, '$SOURCE')")" \
    "$(as_app 1 "SELECT records, digest FROM claims.digest_expected('$SOURCE')")"
}

# story KIND TYPE KEY FIRST LAST: KEY makes the key of number n, FIRST comes before all keys, LAST behind them
story() {
  local key=$3 first=$4 last=$5 number worker workers=() sum step
  KIND=$1
  at cell1 "CREATE TABLE $KIND (id $2 PRIMARY KEY, name text UNIQUE, owner $2, n int); GRANT SELECT, INSERT, UPDATE, DELETE ON $KIND TO app;
    $([ "$KIND" != texts ] || echo "CREATE INDEX ON texts (length(id::text), (id::text) COLLATE \"C\");")
    SELECT claims.claim_attribute('$KIND', 'name', 'ROUTES', 'GROUP', 'owner', '$SOURCE');" >/dev/null
  expect "$KIND: nothing here, nothing there" "$(as_verified 'correct => true')" '0|0|0|0|0|0|0|t'

  # saved by the application: claimed by itself
  as_app 1 "INSERT INTO $KIND SELECT $key, '$KIND-' || n, $key, n FROM generate_series(1, 400) n; UPDATE $KIND SET name = 'new-' || name WHERE n % 40 = 0;
    DELETE FROM $KIND WHERE n % 50 = 0" >/dev/null
  reconcile 1 >/dev/null
  expect "$KIND: captured, sent and committed" "$(as_verified)" '392|0|0|0|0|0|0|t'
  agree_here 'digests agree'

  # written past capture: verification claims it
  at cell1 "SET session_replication_role = replica; INSERT INTO $KIND SELECT $key, '$KIND-' || n, $key, n FROM generate_series(1, 4000) n ON CONFLICT (id) DO NOTHING" >/dev/null
  age
  expect "$KIND: missing" "$(as_verified)" '4000|3608|0|0|0|0|0|t'
  expect "$KIND: put right" "$(as_verified 'correct => true')" '4000|3608|0|0|3608|0|0|t'
  age
  expect "$KIND: in order" "$(as_verified) $(as_verified 10)" '4000|0|0|0|0|0|0|t 4000|0|0|0|0|0|0|t'

  # at the first key, in the middle, at the last one; leftovers before the first, of a row that is there, behind the last
  damage() {
    at_service "DELETE FROM claims.claims USING IN_ORDER o WHERE ctid = at AND place IN (1, 2000, 4000);
      UPDATE claims.claims SET subject_id = 'x' FROM IN_ORDER o WHERE ctid = at AND place IN (1, 1999, 3997);
      INSERT INTO claims.claims (bucket_type, bucket_value, subject_type, subject_id, source_type, source_id, creator_id, status, updated_at)
        SELECT 1, 'leftover of ' || id, 2, '1', \$TYPE, id, 1, 1, now() - interval '2 hours' FROM (VALUES ('$first'), ('$last')) v (id)
        UNION ALL SELECT 1, 'leftover of ' || id, 2, '1', \$TYPE, id, 1, 1, now() - interval '2 hours' FROM IN_ORDER o WHERE place IN (1, 1000, 3997)"
  }
  damage
  expect "$KIND: damage is reported" "$(as_verified)" '4005|3|3|5|0|0|0|t'
  expect "$KIND: and corrected" "$(as_verified '100, correct => true')" '4005|3|3|5|11|0|0|t'
  age
  agree_here 'digests agree again'

  # out of time after the first step, and on from there
  damage
  sum=0
  for number in $(seq 1 60); do
    step=$(as_verified "100, correct => true, max_runtime => '0'")
    sum=$((sum + ${step%%|*}))
    [ "$number" != 1 ] || expect "$KIND: stopped after a step" "$(at cell1 "SELECT source_id <> '' FROM claims.verification_progress") ${step##*|}" 't f'
    case $step in *'|t') break ;; esac
  done
  expect "$KIND: in several calls each claim is checked once" "$sum $([ "$number" -gt 2 ] && [ "$number" -lt 60 ] && echo several)" '4005 several'
  age
  agree_here 'and all are put right'

  # workers: ranges are divided among them
  damage
  at cell1 "CREATE TABLE ${KIND}_counts (worker text, checked bigint, corrected bigint); GRANT SELECT, INSERT ON ${KIND}_counts TO app"
  for worker in one two three; do
    (leave_sessions; as_app 1 "DO \$\$
      DECLARE pass uuid; share record;
      BEGIN
        pass := claims.begin_verification(1, '$SOURCE', correct => true);
        COMMIT;
        LOOP
          SELECT * INTO share FROM claims.verify_share(pass, '$worker', 'service', batch_size => 20);
          INSERT INTO ${KIND}_counts VALUES ('$worker', share.checked, share.corrected);
          COMMIT;
          EXIT WHEN share.finished;
          IF NOT share.in_hand THEN PERFORM pg_sleep(0.05); END IF;
        END LOOP;
      END \$\$" >"$CLAIMS_TMP/$worker.out" 2>&1) &
    workers+=($!)
  done
  for worker in "${workers[@]}"; do wait "$worker"; done
  expect "$KIND: workers share it" "$(at cell1 "SELECT sum(checked), sum(corrected), count(*) FILTER (WHERE checked > 0) > 10, count(DISTINCT worker) FROM ${KIND}_counts")" '4005|11|t|3'
  age
  agree_here 'and leave nothing'

  # a name that both cells want; a row without a key that can be an id is none of it
  at shared "UPDATE claims.claims SET creator_id = 2 WHERE bucket_value = '$KIND-7'"
  expect "$KIND: held by another cell" "$(as_verified 'correct => true')" '4000|1|0|0|0|1|0|t'
  at shared "UPDATE claims.claims SET creator_id = 1 WHERE bucket_value = '$KIND-7'"
  at cell1 "SET session_replication_role = replica; DELETE FROM $KIND"
  expect "$KIND: an empty table" "$(as_verified 'correct => true') $(at_service 'SELECT count(*) FROM claims.claims WHERE source_type = $TYPE')" '4000|0|0|4000|4000|0|0|t 0'
}

SOURCE=RAILS_TABLE_USERS TYPE=1 story ints bigint 'n * 7' 0 99999999999
SOURCE=RAILS_TABLE_EMAILS TYPE=2 story uuids uuid 'md5(n::text)::uuid' 00000000-0000-0000-0000-000000000000 ffffffff-ffff-ffff-ffff-ffffffffffff
# of several lengths and scripts, under a collation that orders them in another way
SOURCE=RAILS_TABLE_PROJECTS TYPE=4 story texts 'text COLLATE "en-x-icu"' "CASE n % 3 WHEN 0 THEN 'k' || n WHEN 1 THEN repeat('é', n % 50) || 'K' || n ELSE n || ' 🦀''' END" ' ' "$(printf 'z%.0s' {1..128})"
expect 'check' "$(at shared 'SELECT count(*) FROM claims.check()')" 0
