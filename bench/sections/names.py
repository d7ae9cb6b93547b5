"""The cost of names: types that compare bytes, canonical forms, and the first name that is free."""

from lib import CELL_ROLES, QUICK, Section, median, psql, say

OWN_DATABASES = True
# `plain` has the types that come with the extension. `profiled` has types with profiles beside them.
PLAIN, PROFILED = "names_plain", "names_profiled"
# Differences of a hundredth need many short rounds in changing order.
ROUNDS, LEASES = (11, 200) if QUICK else (101, 400)
CALLS = 20_000 if QUICK else 200_000
FIRST_ROUNDS = 5 if QUICK else 25

ASCII, CAPITALS = "ada.lovelace-1815_example-name", "Ada.Lovelace-1815_Example-Name"
MIXED = "Ädaе́Жукλόγος한국어カタカナ漢字देवनागरीxy"

FUNCTIONS = """
CREATE SCHEMA bench;
GRANT USAGE ON SCHEMA bench TO PUBLIC;
CREATE FUNCTION bench.record(type text, name text) RETURNS jsonb LANGUAGE sql AS $$
  SELECT jsonb_build_object('bucket', jsonb_build_object('type', type, 'value', name),
           'subject', jsonb_build_object('type', 2, 'id', 9970), 'source', jsonb_build_object('type', 3, 'id', 1)) $$;
-- µs of a begin and a commit of one new name.
CREATE FUNCTION bench.saves(type text, count int) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
  batch jsonb; spent interval := '0'; started timestamptz; prefix text := 'Name-' || txid_current() || '-';
BEGIN
  FOR i IN 1..count LOOP
    batch := jsonb_build_array(bench.record(type, prefix || i));
    started := clock_timestamp();
    PERFORM claims.commit_update(1, claims.begin_update(1, batch));
    spent := spent + (clock_timestamp() - started);
  END LOOP;
  RETURN extract(epoch FROM spent) * 1e6 / count;
END $$;
-- µs of a try_begin_update of a name that is taken; of a begin_first of ten names, the last of them free; of ten try_begin_update for these.
CREATE FUNCTION bench.firsts(type text, count int) RETURNS float8[] LANGUAGE plpgsql AS $$
DECLARE
  prefix text := 'Free-' || txid_current() || '-';
  taken jsonb := jsonb_build_array(bench.record(type, 'Taken-1'));
  alternatives jsonb; one jsonb; given uuid; spent interval[] := ARRAY['0', '0', '0']; started timestamptz;
BEGIN
  FOR i IN 1..count LOOP
    started := clock_timestamp();
    PERFORM * FROM claims.try_begin_update(1, taken);
    spent[1] := spent[1] + (clock_timestamp() - started);
    alternatives := (SELECT jsonb_agg(jsonb_build_object('create_records',
        jsonb_build_array(bench.record(type, CASE n WHEN 10 THEN prefix || i ELSE 'Taken-' || n END))) ORDER BY n) FROM generate_series(1, 10) n);
    started := clock_timestamp();
    SELECT f.lease_uuid INTO STRICT given FROM claims.begin_first(1, alternatives) f WHERE f.chosen = 10;
    spent[2] := spent[2] + (clock_timestamp() - started);
    PERFORM claims.rollback_update(1, given);
    started := clock_timestamp();
    FOR one IN SELECT a -> 'create_records' FROM jsonb_array_elements(alternatives) a LOOP
      SELECT t.lease_uuid INTO given FROM claims.try_begin_update(1, one) t;
    END LOOP;
    spent[3] := spent[3] + (clock_timestamp() - started);
    PERFORM claims.rollback_update(1, given);
  END LOOP;
  RETURN ARRAY(SELECT extract(epoch FROM s) * 1e6 / count FROM unnest(spent) s);
END $$;
"""


def make():
    psql("postgres", CELL_ROLES)
    for name in (PLAIN, PROFILED):
        say(f"database {name}")
        psql("postgres", f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
        psql(name, f"CREATE EXTENSION claims; SELECT claims.register_cell(1, 'cell_1'); {FUNCTIONS}")
        psql(name, "SELECT claims.add_bucket_type(100, 'BYTES')")
    psql(PROFILED, """
        SELECT claims.add_bucket_type(110, 'HANDLES', 'username'), claims.add_bucket_type(111, 'UNLIKE', 'username', 'reject'),
               claims.add_bucket_type(112, 'PATHS', 'path'), claims.add_bucket_type(113, 'HOSTS', 'domain')""")
    for name, types in ((PLAIN, ["ROUTES", "BYTES"]), (PROFILED, ["ROUTES", "HANDLES", "UNLIKE"])):
        for type_name in types:
            psql(name, f"""SELECT claims.commit_update(1, claims.begin_update(1, jsonb_agg(bench.record('{type_name}', 'Taken-' || n))))
                             FROM generate_series(1, 1000) n""")
        psql(name, "VACUUM ANALYZE")


def saves(section):
    """Each way against ROUTES in a database whose types all compare bytes, round by round."""
    ways = [("ROUTES, no type has a profile", PLAIN, "ROUTES"), ("a type of one's own, exact", PLAIN, "BYTES"),
            ("ROUTES, other types have profiles", PROFILED, "ROUTES"), ("username", PROFILED, "HANDLES"),
            ("username, look-alikes refused", PROFILED, "UNLIKE")]
    found = {what: [] for what, *_ in ways}
    say("begin and commit by profile")
    for turn in range(ROUNDS):
        for what, database, type_name in ways if turn % 2 else ways[::-1]:
            found[what].append(float(psql(database, f"SELECT bench.saves('{type_name}', 20); SELECT bench.saves('{type_name}', {LEASES})", "cell_1")
                                     .splitlines()[1]))
        if turn % 20 == 19:
            for database in (PLAIN, PROFILED):
                psql(database, "VACUUM claims.claims; VACUUM claims.claim_leases; VACUUM claims.skeletons")
    base = found[ways[0][0]]
    ratios = {what: median([one / other for one, other in zip(values, base)]) for what, values in found.items()}
    section.tables.append(("begin + commit of one new name, µs", ["type", "µs", "ratio"],
                           [[what, f"{median(values):.1f}", f"{ratios[what]:.3f}"] for what, values in found.items()]))
    section.at_most("begin + commit, exact: other types have profiles / none has", ratios["ROUTES, other types have profiles"], 1.01)


def canonical(section):
    rows = []
    for what, name, limit in (("30 ASCII characters, lower case", ASCII, 5), ("30 ASCII characters, with capitals", CAPITALS, 5),
                              ("30 characters of mixed scripts", MIXED, 20)):
        say(f"canonical, {what}")
        # A million different names would measure memory; the function knows no name from the last one.
        psql(PROFILED, f"DROP TABLE IF EXISTS given; CREATE TABLE given AS SELECT '{name}'::text AS name FROM generate_series(1, {CALLS}); ANALYZE given; GRANT SELECT ON given TO cell_1")
        def per_call(expression):
            out = psql(PROFILED, f"""
                SET max_parallel_workers_per_gather = 0;
                CREATE TEMP TABLE took (us float8);
                DO $$ DECLARE started timestamptz; BEGIN FOR i IN 1..7 LOOP
                    started := clock_timestamp();
                    PERFORM count({expression}) FROM given;
                    INSERT INTO took VALUES (extract(epoch FROM clock_timestamp() - started) * 1e6 / {CALLS});
                END LOOP; END $$;
                SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY us) FROM took""", "cell_1")
            return float(out)
        call, form, scan = per_call("claims.canonical('HANDLES', name)"), per_call("claims.canonical_form('username', name)"), per_call("name")
        rows.append([what, f"{call:.2f}", f"{form:.2f}", f"{scan:.2f}"])
        section.at_most(f"claims.canonical of a username, {what}", call, limit, " µs")
    section.tables.append(("a call in SQL, µs", ["username", "canonical", "canonical_form", "reading the row alone"], rows))


def firsts(section):
    say("the tenth of ten names")
    rows = []
    for what, database, type_name in (("exact", PLAIN, "ROUTES"), ("username", PROFILED, "HANDLES"), ("username, look-alikes refused", PROFILED, "UNLIKE")):
        rounds = []
        for _ in range(FIRST_ROUNDS):
            out = psql(database, f"SELECT bench.firsts('{type_name}', 10); SELECT array_to_string(bench.firsts('{type_name}', 100), ' ')", "cell_1")
            rounds.append([float(number) for number in out.splitlines()[1].split()])
        conflict, first, ten = (median(column) for column in zip(*rounds))
        ratio = median([first / conflict for conflict, first, _ in rounds])
        rows.append([what, f"{conflict:.0f}", f"{first:.0f}", f"{ratio:.2f}", f"{ten:.0f}"])
        section.at_most(f"begin_first, the tenth of ten is free, {what} / a begin that conflicts", ratio, 1.5)
        section.at_most(f"begin_first, the tenth of ten is free, {what} / ten begins instead", median([first / ten for _, first, ten in rounds]), 0.25)
    section.tables.append(("a call, µs", ["type", "a begin that conflicts", "begin_first, tenth of ten free", "ratio", "ten begins instead"], rows))


def run():
    section = Section("Names", "One connection, in the server. Begin and commit: many leases of one new name in one transaction, each way against the first "
                      "in the same round, medians. If no type has a profile, a begin does not check the type's profile: the ratio of `exact` "
                      "shows the cost of that check. A conflict is that of `try_begin_update` for one taken name; `begin_first` gets ten "
                      "batches of one name, nine of them taken.")
    make()
    saves(section)
    canonical(section)
    firsts(section)
    for database in (PLAIN, PROFILED):
        if psql(database, "SELECT count(*) FROM claims.check()") != "0":
            raise RuntimeError(f"claims.check() found violations in {database}")
    return section
