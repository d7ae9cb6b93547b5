"""The time until a call reports a conflict with another open transaction."""

from lib import QUICK, Section, Session, percentile, pgbench, psql, say

TIMES = 100 if QUICK else 500
ONE = '[{{"bucket": {{"type": 1, "value": "{0}"}}, "subject": {{"type": 2, "id": 1}}, "source": {{"type": 3, "id": 1}}}}]'

# begin_update raises: time it where the error is caught.
RAISED = """
CREATE TEMP TABLE took (ms float8);
DO $$
DECLARE t0 timestamptz;
BEGIN
  FOR i IN 1..{times} LOOP
    t0 := clock_timestamp();
    BEGIN
      PERFORM claims.begin_update(2, '{creates}');
      RAISE EXCEPTION 'there should have been a conflict';
    EXCEPTION WHEN lock_not_available THEN
      INSERT INTO took VALUES (extract(epoch FROM clock_timestamp() - t0) * 1000);
    END;
  END LOOP;
END $$;
SELECT string_agg(ms::text, ' ') FROM took;
"""


def run():
    section = Section("A conflict with an open transaction",
                      "Another session holds the bucket in a transaction that stays open. Milliseconds until the answer.")
    rows = []
    psql("empty", f"SELECT claims.commit_update(1, claims.begin_update(1, '{ONE.format('held-row')}'))")
    with Session("empty", "cell_1") as holder:
        holder.run("BEGIN")
        holder.run(f"SELECT claims.begin_update(1, '{ONE.format('held-create')}')")
        holder.run(f"SELECT claims.begin_update(1, '[]', '{ONE.format('held-row')}')")
        for value, what in (("held-create", "an uncommitted create"), ("held-row", "a row being destroyed")):
            say(f"conflict with {what}")
            call = f"SELECT conflicts FROM claims.try_begin_update(2, '{ONE.format(value)}')"
            answer = psql("empty", call, "cell_2")
            if "in_flight" not in answer:
                raise RuntimeError(f"wanted an in_flight conflict, got {answer}")
            _, tried = pgbench("empty", call + ";\n", role="cell_2", transactions=TIMES, log=True)
            raised = [float(x) for x in psql("empty", RAISED.format(times=TIMES, creates=ONE.format(value)), "cell_2").split()]
            for name, values in (("try_begin_update", tried), ("begin_update", raised)):
                rows.append([f"{name}, {what}", *(f"{percentile(values, p):.2f}" for p in (0.5, 0.99)), f"{max(values):.2f}"])
                wanted = 0.5 if value == "held-create" else 5
                section.at_most(f"{name}, {what}: 99 of 100 within", percentile(values, 0.99), wanted, " ms")
            if value == "held-create":
                _, eight = pgbench("empty", call + ";\n", 8, role="cell_2", transactions=TIMES, log=True)
                rows.append([f"try_begin_update, {what}, eight sessions at once",
                             *(f"{percentile(eight, p):.2f}" for p in (0.5, 0.99)), f"{max(eight):.2f}"])
                section.at_most(f"eight sessions at once, {what}: half of them within", percentile(eight, 0.5), 0.5, " ms")
        holder.run("ROLLBACK")
    section.tables.append(("milliseconds", ["call", "median", "99 %", "longest"], rows))
    return section
