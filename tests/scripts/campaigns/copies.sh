#!/usr/bin/env bash
# test: long
# A campaign: copies of a cell's database beside their original, on one machine, while the cell saves. Crashes, restarts, promotions, takeovers after
# silence and adoptions come in random order. Of all databases only one acts at any time: its saves never fail with 55000, those of the
# others always do. At the end no name has two owners, and recovery leaves nothing. CAMPAIGN_SECONDS is how long it takes, CAMPAIGN_SEED repeats an order.
. "$(dirname "$0")/../cells.bash"

seed=${CAMPAIGN_SEED:-$RANDOM}
RANDOM=$seed
printf 'seed %s\n' "$seed"
start_cells
at cell1 "SELECT claims.claim_attribute('routes', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'); GRANT SELECT ON routes TO PUBLIC;
  SELECT claims.automatic(1, 'service')" >/dev/null
state_in() { ( use_cluster "$1"; export PGUSER=app; sqlstate "$2" ) }
pass() { state_in "$1" "SELECT * FROM claims.reconcile(1, 'service')"; }
number=0
# save DATABASE: each save has a name of its own.
save_in() { state_in "$1" "INSERT INTO routes (name) VALUES ('name-$number-$1')"; }
actor=cell1
others=()
steps=0
# The cell saves, and no other database does, whether it begins with a save or a pass.
look() {
  local other
  number=$((number + 1))
  expect "$1: the cell saves ($actor)" "$(save_in "$actor")" 00000
  [ $((RANDOM % 3)) -gt 0 ] || expect "$1: and recovers" "$(pass "$actor")" 00000
  for other in "${others[@]}"; do
    expect "$1: $other does not save beside it" "$(save_in "$other")" 55000
    expect "$1: nor recover" "$(pass "$other")" 55000
  done
  number=$((number + 1))
  expect "$1: the cell saves beside them" "$(save_in "$actor")" 00000
}
another() { name=copy$((++steps)); }
becomes_actor() {
  local other left=("$actor")
  for other in "${others[@]}"; do [ "$other" = "$1" ] || left+=("$other"); done
  others=("${left[@]}")
  actor=$1
}
# At most two databases beside the cell: the machine is small.
make_room() { while [ ${#others[@]} -gt 1 ]; do halt "${others[0]}" immediate; others=("${others[@]:1}"); done; }

copies() { another; make_room; copy_of "$actor" "$name"; start_copy "$name"; others+=("$name"); look 'a copy beside it'; }
crashes() { crash "$actor"; resume "$actor"; look 'a crash and a restart'; }
promotes() {
  another; make_room
  use_cluster "$actor"; make_standby "$name"; caught_up "$name"
  control "$name" promote
  [ $((RANDOM % 2)) -eq 0 ] || expect 'a promoted standby recovers at once' "$(pass "$name")" 00000
  number=$((number + 1))
  expect 'a promoted standby saves at once' "$(save_in "$name")" 00000
  becomes_actor "$name"
  look 'a promotion'
}
takes_over() {
  local before=$actor
  another; make_room
  copy_of "$actor" "$name"; start_copy "$name"; others+=("$name")
  [ $((RANDOM % 2)) -eq 0 ] || look 'before a silence'
  # A pass of the cell since the copy is what the copy does not know: then it never takes over.
  [ "$(at "$actor" 'SELECT max(epoch) FROM claims.own_epochs')" = "$(at "$name" 'SELECT max(epoch) FROM claims.own_epochs')" ] || return 0
  halt "$actor" immediate; silent 1
  expect 'a copy takes over after silence' "$(pass "$name")" 00000
  resume "$before"
  becomes_actor "$name"
  look 'a takeover'
}
adopts() {
  [ ${#others[@]} -gt 0 ] || return 0
  local chosen=${others[$((RANDOM % ${#others[@]}))]}
  expect 'an administrator adopts one' "$(at "$chosen" "SELECT claims.adopt_cell(1, 'service', 'a campaign') > 0")" t
  becomes_actor "$chosen"
  look 'an adoption'
}

look 'before the first pass'
expect 'the first pass' "$(pass cell1)" 00000
adoptions=0
end=$((SECONDS + ${CAMPAIGN_SECONDS:-15}))
for action in copies crashes promotes; do "$action"; done
while [ $SECONDS -lt $end ]; do
  case $((RANDOM % 8)) in
    0 | 1) copies ;;
    2 | 3) crashes ;;
    4) promotes ;;
    5 | 6) takes_over ;;
    # Ten adoptions an hour are allowed.
    7) [ $((++adoptions)) -gt 8 ] || adopts ;;
  esac
done

# --- the end --------------------------------------------------------------------------------------------------------------

for other in "${others[@]}"; do halt "$other" immediate; done
expect 'recovery settles what is left' "$(( use_cluster "$actor"; PGUSER=app sql "SELECT pending, orphaned FROM claims.reconcile(1, 'service', '0 s')" ) 2>/dev/null)" '0|0'
( use_cluster "$actor"; PGUSER=app sql "SELECT claims.verify(1, 'service', 'RAILS_TABLE_ROUTES', recent => '0', correct => true)" ) >/dev/null
expect 'the cell owns what it has saved' "$(at "$actor" "SELECT string_agg(name, ' ' ORDER BY name COLLATE \"C\") FROM routes")" "$(at shared "SELECT string_agg(bucket_value, ' ' ORDER BY bucket_value COLLATE \"C\") FROM claims.claims WHERE creator_id = 1 AND status = 1")"
expect 'no lease is outstanding' "$(at shared 'SELECT count(*) FROM claims.claim_leases')" 0
expect 'check' "$(at shared 'SELECT count(*) FROM claims.check()')" 0
