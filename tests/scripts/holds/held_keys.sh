#!/usr/bin/env bash
# examples/held_keys, as docs/holds/held-keys.md has it: two instances, of which one is killed, suspended, too slow, cut off, or ended; no step of work is
# missing or done twice.
. "$(dirname "$0")/../common.bash"

PYTHON=/usr/bin/python3
"$PYTHON" -c 'import psycopg' 2>/dev/null || skip "$PYTHON has no module psycopg"
held_keys() { PGUSER=script_held_keys exec "$PYTHON" -B "$CLAIMS_ROOT/examples/held_keys/held_keys.py" "$@"; }

fresh_database script_held_keys
sql "SELECT claims.add_expiring('example', '{a,b,c,d}')" >/dev/null
sql "DO \$\$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'script_held_keys') THEN CREATE ROLE script_held_keys LOGIN; END IF; END \$\$"
sql "CREATE TABLE example_steps (key text, position bigint, token bigint, instance text, PRIMARY KEY (key, position));
  GRANT SELECT, INSERT ON example_steps TO script_held_keys; SELECT claims.grant_worker('script_held_keys')" >/dev/null

declare -A instances=()
# start NAME TTL POLL: an instance for all keys. finish NAME SIGNAL
start() { ( PGAPPNAME=$1 held_keys work "$1" --ttl "$2" --poll "$3" >>"$CLAIMS_TMP/$1.out" 2>&1 ) & instances[$1]=$!; }
finish() { kill -CONT "${instances[$1]}"; kill "-$2" "${instances[$1]}"; wait "${instances[$1]}" 2>/dev/null || true; unset "instances[$1]"; }
trap 'for name in "${!instances[@]}"; do finish "$name" KILL; done; cleanup' EXIT

# Who holds the four keys by the database's clock.
holders() { sql "SELECT coalesce(string_agg(DISTINCT claimant, ' '), 'nobody') || ' ' || count(*) FROM claims.expiring_claims WHERE expires_at > clock_timestamp()"; }
# works NAME: waits until an instance holds all keys, and has done a step of each with its new token.
works() { expect "$1 works on all keys" "$(wait_for 4 sql "SELECT count(DISTINCT e.key) FROM claims.expiring_claims e JOIN example_steps s USING (key, token) WHERE e.claimant = '$1' AND s.instance = '$1'")" 4; }
tokens() { sql "SELECT string_agg(token::text, ' ' ORDER BY key) FROM claims.expiring_claims"; }
# The deadline that the killed or suspended instance had at last.
deadline() { sql 'SELECT max(expires_at) FROM claims.expiring_claims'; }
acquired_later() { expect "$1: not before the expiry" "$(sql "SELECT count(*) FROM claims.expiring_claims WHERE acquired_at >= '$2'")" 4; }

# --- a second instance has nothing to do, and takes over from one that is killed -------------------------------------

start one 10 0.5
works one
start two 2 0.5
expect 'the second waits' "$(wait_for 1 sql "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'two'") $(holders)" '1 one 4'
finish one KILL
deadline=$(deadline)
works two
acquired_later 'taken over from a killed one' "$deadline"

# --- one that is suspended past its deadline saves nothing with its old token ----------------------------------------

old_tokens=$(tokens)
kill -STOP "${instances[two]}"
deadline=$(deadline)
start three 600 0.5
works three
acquired_later 'taken over from a suspended one' "$deadline"
before=$(sql "SELECT count(*) FROM example_steps WHERE instance = 'two'")
kill -CONT "${instances[two]}"
# If it was within a step, the server has ended its session.
wait_until grep -qE 'lost [abcd]|trying again' "$CLAIMS_TMP/two.out"
expect 'nothing is saved with an old token' "$(sql "SELECT count(*) FROM example_steps WHERE instance = 'two'")" "$before"
expect 'a single step with an old token' "$( (held_keys step a "${old_tokens%% *}" late) 2>&1 | grep -c ' is not held with token ')" 1
finish two TERM

# --- a lost connection, and a token in the hands of another process --------------------------------------------------

tokens=$(tokens)
sql "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'three'" >/dev/null
wait_until grep -q 'trying again' "$CLAIMS_TMP/three.out"
last=$(sql 'SELECT count(*) FROM example_steps')
wait_until eval '[ "$(sql "SELECT count(*) FROM example_steps")" -gt $((last + 4)) ]'
expect 'a lost connection: the same keys and tokens' "$(holders) $(tokens)" "three 4 $tokens"
expect 'the keys with their tokens' "$( (held_keys held three) | cut -d ' ' -f 2 | tr '\n' ' ')" "$tokens "
# The instance does its own steps meanwhile: a step that it has just done is refused, and the next one is tried.
wait_until eval '(held_keys step a "${tokens%% *}" helper)'
expect 'a step of another process with the token' "$(sql "SELECT count(*) FROM example_steps WHERE instance = 'helper' AND token = ${tokens%% *}")" 1
expect 'show' "$( (held_keys show) | grep -cE '^[abcd]: three with token [0-9]+, for 0:0[0-9]:[0-9.]+, [0-9]+ steps done$')" 4

# --- an orderly end hands on, long before the expiry -----------------------------------------------------------------

start four 600 0.5
finish three TERM
expect 'handed on' "$(wait_for 'four 4' holders)" 'four 4'
works four
finish four TERM
expect 'nobody holds a key' "$(holders)" 'nobody 0'

# --- one whose poll is longer than its ttl ---------------------------------------------------------------------------

start slow 1 600
for key in a b c d; do wait_until grep -q "lost $key" "$CLAIMS_TMP/slow.out"; done
expect 'it did not renew: its steps were refused' "$(sql "SELECT count(*) FROM claims.expiring_claims WHERE claimant = 'slow' AND renewed_at = acquired_at")" 4
finish slow TERM

expect 'no step is missing, and none was done with an older token than the one before' "$(sql "SELECT count(*) FROM (SELECT position, token,
  row_number() OVER w AS number, lag(token, 1, 0::bigint) OVER w AS before FROM example_steps WINDOW w AS (PARTITION BY key ORDER BY position)) s
  WHERE position <> number OR token < before")" 0
sql postgres 'DROP DATABASE script_held_keys WITH (FORCE)'
