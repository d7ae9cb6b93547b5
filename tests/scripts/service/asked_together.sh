#!/usr/bin/env bash
# Sessions that ask for the same names at the same time get the answer that each of them would get alone, and never one about the attempts of the
# others: a name that is taken is `taken`, not `in_flight`.
. "$(dirname "$0")/../common.bash"

fresh_database script_asked_together
# VACUUM locks a table as a whole for a moment when it truncates it, and the calls answer that instead.
for table in claims claim_leases lease_outcomes; do sql "ALTER TABLE claims.$table SET (autovacuum_enabled = off)"; done
have 1 ada bob
sql "SELECT claims.begin_update(1, '[$(claim carl)]', lease_uuid => '$(lease 1)')" >/dev/null
sql "SELECT claims.begin_update(2, '[$(claim dora)]', lease_uuid => '$(lease 2)')" >/dev/null

# The answers to a statement that is repeated: SQLSTATE and the reasons of the conflicts, or that it was done. Each is counted once.
sql "CREATE FUNCTION public.answers(statement text) RETURNS SETOF text LANGUAGE plpgsql AS \$\$
DECLARE detail text; all_answers text[] := '{}';
BEGIN
  FOR i IN 1..500 LOOP
    BEGIN
      EXECUTE statement;
      all_answers := all_answers || 'done'::text;
    EXCEPTION WHEN OTHERS THEN
      GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
      all_answers := all_answers || (SELECT concat_ws(' ', SQLSTATE, string_agg(c ->> 'reason', ' ' ORDER BY n))
                                       FROM jsonb_array_elements(detail::jsonb) WITH ORDINALITY AS e (c, n));
    END;
  END LOOP;
  RETURN QUERY SELECT DISTINCT unnest(all_answers);
END \$\$"

# together STATEMENT: the different answers that six sessions get.
together() {
  local n sessions=()
  for n in 1 2 3 4 5 6; do
    sql "SELECT public.answers(\$call\$$1\$call\$)" >"$CLAIMS_TMP/answers.$n" &
    sessions+=($!)
  done
  for n in "${sessions[@]}"; do wait "$n"; done
  sort -u "$CLAIMS_TMP"/answers.[1-6] | paste -sd,
}

expect 'a name that is taken' "$(together "SELECT claims.begin_update(2, '[$(claim ada)]')")" '23505 taken'
expect 'several names' "$(together "SELECT claims.begin_update(2, '[$(claim bob), $(claim ada)]')")" '23505 taken taken'
expect 'a name that is leased' "$(together "SELECT claims.begin_update(2, '[$(claim carl)]')")" '55P03 leased'
expect 'a claim of another cell' "$(together "SELECT claims.begin_update(2, '[]', '[$(bucket ada)]')")" '42501 not_owner'
expect 'a claim that is not there' "$(together "SELECT claims.begin_update(2, '[]', '[$(bucket nobody)]')")" 'P0002 missing'
expect 'a begin that is repeated' "$(together "SELECT claims.begin_update(2, '[$(claim dora)]', lease_uuid => '$(lease 2)')")" done
