"""The cost of reading while a transfer holds the names: before, in it, and after the switch, in turns."""

import json
import random
import tempfile
from pathlib import Path

from lib import QUICK, Section, Session, median, pgbench, psql, say
from workload import make_database

OWN_DATABASES = True
TITLE = "Reading during a transfer"
DATABASE = "moving"
NAMES = 5_000 if QUICK else 50_000
ROUNDS = 5 if QUICK else 31
CALLS = 5_000
TRANSFER = "00000000-0000-4000-8000-000000000001"
# Names of both kinds were claimed alternately, so that they are stored side by side.
KINDS = ["rest", "move"]

ROUTER = f"\\set i random(1, {NAMES})\nSELECT * FROM claims.get_record('ROUTES', '{{kind}}/' || :i);\n"


def fill():
    make_database(DATABASE, 1000)
    record = lambda kind, subject: {"bucket": {"type": 1, "value": f"{kind}/@"}, "subject": {"type": 2, "id": subject},
                                    "source": {"type": 3, "rails_primary_key_id": "@"}}
    pair = json.dumps([record("rest", 1), record("move", 2)])
    psql(DATABASE, f"""
        SET synchronous_commit = off;
        DO $$ BEGIN FOR g IN 0..{NAMES // 500 - 1} LOOP
          PERFORM claims.commit_update(1, claims.begin_update(1, (SELECT jsonb_agg(r) FROM generate_series(g * 500 + 1, g * 500 + 500) n,
                                       jsonb_array_elements(replace('{pair}', '@', n::text)::jsonb) r)));
          COMMIT;
        END LOOP; END $$;""", role="cell_1")
    psql(DATABASE, f"""
        CREATE FUNCTION bench.one_by_one(kind text, calls int) RETURNS bigint LANGUAGE sql AS
          $$ SELECT sum(r.cell_id)::bigint FROM generate_series(1, calls) i, LATERAL claims.get_record('ROUTES', kind || '/' || (i * 7919) % {NAMES} + 1) r $$;
        CREATE FUNCTION bench.together(kind text, calls int) RETURNS bigint LANGUAGE sql AS
          $$ SELECT sum(r.cell_id)::bigint FROM claims.get_records((SELECT jsonb_agg(jsonb_build_object('type', 1, 'value', kind || '/' || (i * 7919) % {NAMES} + 1)) FROM generate_series(1, calls) i)) r $$;
        VACUUM ANALYZE""")


def kinds_of(turn):
    return KINDS if turn % 2 else KINDS[::-1]


def by_router(turn):
    """µs that a router waits for an answer."""
    return {kind: 1e6 / pgbench(DATABASE, ROUTER.format(kind=kind), role="postgres", transactions=CALLS) for kind in kinds_of(turn)}


class Processor:
    """A session, and the µs of processor time that the server takes for its statements, without other load of the machine."""

    def __init__(self):
        self.session = Session(DATABASE)
        self.usage = Path(f"/proc/{self.session.run('SELECT pg_backend_pid()').strip()}/schedstat")
        self.session.run("PREPARE reads(text) AS SELECT * FROM claims.get_record('ROUTES', $1)")
        self.folder = tempfile.TemporaryDirectory(prefix="claims-bench-")
        for kind in KINDS:
            names = (f"{kind}/{random.randint(1, NAMES)}" for _ in range(CALLS))
            Path(f"{self.folder.name}/{kind}").write_text("".join(f"EXECUTE reads('{name}');\n" for name in names))

    def by_router(self, turn):
        """A statement a name."""
        return {kind: self.taken_by(f"\\o /dev/null\n\\i {self.folder.name}/{kind}\n\\o\nSELECT") / CALLS for kind in kinds_of(turn)}

    def in_one_query(self, what):
        """Many names in one query."""
        return lambda turn: {kind: self.taken_by(f"SELECT bench.{what}('{kind}', {CALLS})") / CALLS for kind in kinds_of(turn)}

    def taken_by(self, statements):
        before = self.used()
        self.session.run(statements)
        return self.used() - before

    def used(self):
        return int(self.usage.read_text().split()[0]) / 1000

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.session.__exit__()
        self.folder.cleanup()


def in_turns(measure):
    """The medians of both, and of their ratios. The first round only warms up."""
    rounds = [measure(turn) for turn in range(ROUNDS + 1)][1:]
    rest, move = ([found[kind] for found in rounds] for kind in KINDS)
    return median(rest), median(move), median(m / r for r, m in zip(rest, move))


def run():
    psql("postgres", "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'cell_1') THEN CREATE ROLE cell_1 LOGIN; CREATE ROLE cell_2 LOGIN; END IF; END $$")
    fill()
    section = Section(TITLE,
                      f"µs to read an ACTIVE name and one that a transfer holds, among {NAMES} of each, claimed alternately; one connection, one kind right "
                      "after the other; medians, and medians of the ratios of the pairs. A router sends one statement for each name: its waiting time "
                      "(pgbench -M prepared), and the processor time of the server. The other rows are processor times, too.")
    rows = []
    states = {"at rest, both": None,
              "prepared": f"SELECT * FROM claims.prepare_transfer('{TRANSFER}', 1, 2, '[{{\"type\": 2, \"ids\": [2]}}]', 'bench')",
              "switched": f"SELECT claims.switch_transfer('{TRANSFER}', 'bench')"}
    for state, act in states.items():
        if act:
            psql(DATABASE, act)
            psql(DATABASE, "VACUUM ANALYZE")
        with Processor() as processor:
            ways = {"get_record, how long a router waits": by_router, "get_record by a router": processor.by_router,
                    "get_record, many in one query": processor.in_one_query("one_by_one"), "get_records of 5000": processor.in_one_query("together")}
            for way, measure in ways.items():
                say(f"transfer, {state}: {way}")
                rest, move, ratio = in_turns(measure)
                rows.append([f"{way}, {state}", f"{rest:.2f}", f"{move:.2f}", f"{ratio:.3f}"])
                if act:
                    section.at_most(f"{way}, {state}: in a transfer / at rest", ratio, 1.1)
    section.tables.append(("a name, µs", ["", "stays", "moves", "ratio"], rows))
    wrong = psql(DATABASE, "SELECT count(*) FROM claims.check()")
    moved = psql(DATABASE, "SELECT count(*) FROM claims.records WHERE cell_id = 2")
    if wrong != "0" or moved != str(NAMES):
        raise RuntimeError(f"{moved} names have moved, claims.check() finds {wrong} violations")
    psql("postgres", f"DROP DATABASE {DATABASE}")
    return section
