#!/usr/bin/env bash
# Recovery concurrent with the application and with itself: every order of their steps, with separate clusters.
. "$(dirname "$0")/../cells.bash"

start_cells
number=100

say 'a lease gone stale while its local transaction is open'
# Recovery's two passes, fence (f) and rollback (r), against the application's two steps, track (t) and its end, commit (c)
# or rollback (a). Two passes more (f, f) settle the remaining leases. If the transaction is named, age does not count.
one_order() {
  local order=$1 named=$2 step name xid='' tracking=no ended='' got='' wanted=''
  number=$((number + 1))
  name="o$number"
  xid=$(tell app 'BEGIN; SELECT pg_current_xact_id()')
  tell app "INSERT INTO routes (name) VALUES ('$name')" >/dev/null
  begin 1 $number $name "$([ "$named" = no ] || echo "$xid")"
  for step in $(sed 's/./& /g' <<<"$order"); do
    case $step in
      f | r) got+="$(reconcile 1 0) " ;;
      t) got+="$(tell app "$(track $number)") " ;;
      c) got+="$(tell app 'COMMIT')$(at cell1 "SELECT count(*) FROM routes WHERE name = '$name'") " ;;
      a) got+="$(tell app 'ROLLBACK')$(at cell1 "SELECT count(*) FROM routes WHERE name = '$name'") " ;;
    esac
  done
  # Expected outputs of the steps.
  local fenced=no settled=no saved=0
  for step in $(sed 's/./& /g' <<<"$order"); do
    case $step in
      f | r)
        if [ $settled = yes ]; then wanted+='0|0|0|0|0 '
        elif [ "$tracking$ended" = yesc ]; then wanted+='1|1|0|0|0 '; settled=yes
        elif [ $named = yes ] && [ -z "$ended" ]; then wanted+='1|0|0|1|0 '
        elif [ $named = yes ] || [ $fenced = yes ]; then wanted+='1|0|1|0|0 '; settled=yes
        elif [ $tracking = yes ] && [ -z "$ended" ]; then wanted+='1|0|0|1|0 '
        else wanted+='1|0|0|1|0 '; fenced=yes; fi ;;
      t) if [ $fenced = yes ]; then wanted+='ERROR:  55000 '; tracking=failed; else wanted+=' '; tracking=yes; fi ;;
      c) [ $tracking != yes ] || saved=1; wanted+="$saved "; ended=c ;;
      a) wanted+='0 '; ended=a ;;
    esac
  done
  expect "$order, transaction named: $named" "$got" "$wanted"
  # Two more passes settle leases that the first two did not.
  reconcile 1 0 >/dev/null; reconcile 1 0 >/dev/null
  [ $saved = 1 ] && wanted=committed || wanted=rolled_back
  expect "$order, transaction named: $named: in the end" "$(outcome 1 $number)" $wanted
}
open app cell1
for end in c a; do
  for order in "t${end}fr" "tf${end}r" "tfr${end}" "ft${end}r" "ftr${end}" "frt${end}"; do
    one_order $order no
    one_order $order yes
  done
done
agree 'every order'

say 'the application commits or rolls back while recovery does'
open service shared cell1
save 1 1 racing
tell service "BEGIN; SELECT claims.commit_update(1, '$(lease 1)')" >/dev/null
expect 'the commit is open: pending, not waited for' "$(reconcile 1) $(tracked 1)" '1|0|0|1|0 1'
tell service COMMIT >/dev/null
expect 'then it is only forgotten' "$(reconcile 1) $(tracked 1)" '0|0|0|0|0 -'
save 1 2 behind
expect 'recovery first' "$(reconcile 1) $(commit 1 2) $(as_app 1 "$(forget 2)")" '1|1|0|0|0 f 0'
begin 1 3 given-up
expect 'recovery rolls back first' "$(reconcile 1 0) $(reconcile 1 0) $(state_as_cell 1 "SELECT claims.commit_update(1, '$(lease 3)')") $(state_as_app 1 "$(track 3)")" '1|0|0|1|0 1|0|1|0|0 55000 55000'
begin 1 4 taken-back
tell service "BEGIN; SELECT claims.rollback_update(1, '$(lease 4)')" >/dev/null
expect 'the rollback is open: pending' "$(reconcile 1 0) $(reconcile 1 0)" '1|0|0|1|0 1|0|0|1|0'
tell service COMMIT >/dev/null
expect 'then there is nothing to do' "$(reconcile 1 0)" '0|0|0|0|0'
begin 1 5 fence-open
open recovery cell1
expect 'a pass in a transaction that stays open' "$(tell recovery "BEGIN; SELECT * FROM claims.reconcile(1, 'service', '0')") $(reconcile 1 0) $(state_as_app 1 "BEGIN; $(track 5)")" '1|0|0|1|0 1|0|0|1|0 55P03'
tell recovery ROLLBACK >/dev/null
expect 'and is rolled back: its fence was none' "$(as_app 1 "BEGIN; INSERT INTO routes (name) VALUES ('fence-open'); $(track 5) COMMIT" >/dev/null; reconcile 1 0)" '1|1|0|0|0'
agree 'races'

say 'several recoveries at once, and an application that goes on'
# 90 leases: tracked, ended without tracking, stale; each is settled by exactly one pass.
many() { # many FIRST STEP
  as_cell 1 "SELECT count(claims.begin_update(1, format('[{\"bucket\": {\"type\": 1, \"value\": \"m%s\"}, \"subject\": {\"type\": 2, \"id\": 1}, \"source\": {\"type\": 3, \"id\": 1}}]', n)::jsonb, lease_uuid => ('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid)) FROM generate_series($1, $1 + 89) n" >/dev/null
  as_app 1 "BEGIN; INSERT INTO routes (name) SELECT 'm' || n FROM generate_series($1, $1 + 89, 2) n;
    SELECT count(claims.track_lease(('00000000-0000-4000-8000-' || lpad(n::text, 12, '0'))::uuid)) FROM generate_series($1, $1 + 89, 2) n; COMMIT" >/dev/null
}
for first in 1000 2000; do
  many $first
  for pass in 1 2 3 4; do
    ( for _ in 1 2 3; do reconcile 1 0 7; done >"$CLAIMS_TMP/pass.$pass" ) &
    passes[pass]=$!
  done
  # meanwhile the application commits some of them itself
  for n in $(seq $((first + 60)) 4 $((first + 88))); do commit 1 "$n"; done >"$CLAIMS_TMP/pass.app"
  wait "${passes[@]}"
  expect 'nobody failed' "$(grep -hc . "$CLAIMS_TMP"/pass.[1-4] | tr '\n' ' ')" '3 3 3 3 '
  reconcile 1 0 >>"$CLAIMS_TMP/pass.1"; reconcile 1 0 >>"$CLAIMS_TMP/pass.1"
  committed=$(( $(cat "$CLAIMS_TMP"/pass.[1-4] | awk -F'|' '{ n += $2 } END { print n }') + $(grep -c t "$CLAIMS_TMP/pass.app" || true) ))
  expect 'each was settled once' "$committed $(cat "$CLAIMS_TMP"/pass.[1-4] | awk -F'|' '{ n += $3 } END { print n }') $(cat "$CLAIMS_TMP"/pass.[1-4] | awk -F'|' '{ n += $5 } END { print n }')" '45 45 0'
done
agree 'several recoveries'
expect 'nobody warned' "$(cat "$CLAIMS_TMP/warnings")" ''
