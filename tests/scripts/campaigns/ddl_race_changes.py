"""The changes of ddl_race.py. Each is undone by itself, or by restore() where it was ended in the middle."""
import time

TABLES = ("claims", "claim_leases", "lease_outcomes", "change_sets")
LIMITED = "SET lock_timeout = '2s'"
UNLIMITED = "SET lock_timeout = 0"


class Undone(Exception):
    """A change that got an allowed error."""


class Missed(Exception):
    """Something that check() should have found."""


def both(make, undo):
    """A change of one of the extension's tables, and after a moment its end. {t} is the table, {n} the session."""
    def change(ask, draw, number):
        names = {"t": draw.choice(TABLES), "n": number}
        try:
            ask(LIMITED)
            ask(make.format(**names))
            time.sleep(draw.random() * 0.2)
        finally:
            ask(UNLIMITED)
            until_done(ask, undo.format(**names))
    return change


def until_done(ask, statement):
    """Repeats what must not stay undone, for a deadlock for example."""
    for _ in range(100):
        try:
            return ask(statement)
        except Undone:
            continue


def once(*statements, limited=True):
    """Statements about one of the extension's tables or a partition. {t} is the table, {k} the partition."""
    def change(ask, draw, number):
        names = {"t": draw.choice(TABLES), "k": draw.randrange(6)}
        ask(LIMITED if limited else UNLIMITED)
        for statement in statements:
            ask(statement.format(**names))
    return change


def keys(ask, table):
    """The name of a table's primary key."""
    return ask(f"SELECT conname FROM pg_constraint WHERE conrelid = 'claims.{table}'::regclass AND contype = 'p'")[0]


def cluster(ask, draw, number):
    table = draw.choice(TABLES)
    ask(LIMITED)
    ask(f"CLUSTER claims.{table} USING {keys(ask, table)}")


def unlogged(ask, draw, number):
    """A superuser can do it with the event trigger disabled. The calls go on."""
    table = draw.choice(TABLES)
    ask(LIMITED)
    ask(f"BEGIN; ALTER EVENT TRIGGER claims_complete_triggers DISABLE; ALTER TABLE claims.{table} SET UNLOGGED; "
        "ALTER EVENT TRIGGER claims_complete_triggers ENABLE; COMMIT")
    time.sleep(draw.random() * 0.2)
    ask(UNLIMITED)
    found = until_done(ask, "SELECT count(*) FROM claims.check() WHERE problem = 'table of the extension is unlogged'")
    until_done(ask, f"ALTER TABLE claims.{table} SET LOGGED")
    if found == ["0"]:
        raise Missed("check() does not see an unlogged table")


def refused(statement, state):
    def change(ask, draw, number):
        ask(UNLIMITED)
        # A DO block, so that the error is an answer.
        ask(f"DO $$ BEGIN SET LOCAL lock_timeout = '2s'; EXECUTE '{statement}'; RAISE 'not refused' USING ERRCODE = 'ZZ001'; "
                     f"EXCEPTION WHEN SQLSTATE '{state}' OR lock_not_available THEN NULL; END $$")
    return change


# Names, whether only the first session does it, and the change.
CHANGES = (
    ("column", False, both("ALTER TABLE claims.{t} ADD COLUMN extra{n} int DEFAULT 1", "ALTER TABLE claims.{t} DROP COLUMN IF EXISTS extra{n}")),
    ("check", False, both("ALTER TABLE claims.{t} ADD CONSTRAINT extra{n} CHECK (true)", "ALTER TABLE claims.{t} DROP CONSTRAINT IF EXISTS extra{n}")),
    ("index", False, both("CREATE INDEX extra{n} ON claims.{t} ((1))", "DROP INDEX IF EXISTS claims.extra{n}")),
    ("index concurrently", False, both("SET lock_timeout = 0; CREATE INDEX CONCURRENTLY extra{n} ON claims.{t} ((1))", "DROP INDEX CONCURRENTLY IF EXISTS claims.extra{n}")),
    ("trigger", False, both("CREATE TRIGGER extra{n} BEFORE UPDATE ON claims.{t} FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()",
                            "DROP TRIGGER IF EXISTS extra{n} ON claims.{t}")),
    ("storage", False, both("ALTER TABLE claims.{t} SET (fillfactor = 70)", "ALTER TABLE claims.{t} RESET (fillfactor)")),
    ("vacuum full", False, once("VACUUM FULL claims.{t}")),
    ("vacuum", False, once("VACUUM ANALYZE claims.{t}")),
    ("cluster", False, cluster),
    ("reindex", False, once("REINDEX TABLE claims.{t}")),
    ("reindex concurrently", True, once("REINDEX TABLE CONCURRENTLY claims.{t}", limited=False)),
    ("unlogged", True, unlogged),
    ("unlogged refused", True, refused("ALTER TABLE claims.claims SET UNLOGGED", "55000")),
    ("child refused", True, refused("CREATE TABLE heir () INHERITS (plain)", "42809")),
    ("truncate refused", True, refused("TRUNCATE parts", "55000")),
    ("disabled and rolled back", True, once("BEGIN; ALTER TABLE plain DISABLE TRIGGER USER; SELECT pg_sleep(0.05); ROLLBACK")),
    ("claimed again", True, once("SELECT claims.claim_attribute('parts', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id')")),
    ("claimed anew", True, once("BEGIN; SELECT claims.unclaim_attribute('plain', 'name'); "
                                "SELECT claims.claim_attribute('plain', 'name', 'ROUTES', 'GROUP', 'id', 'RAILS_TABLE_ROUTES', 'id'); COMMIT")),
    ("partition dropped", True, once("BEGIN; DROP TABLE part{k}; CREATE TABLE part{k} PARTITION OF parts FOR VALUES IN ({k}); COMMIT")),
    ("partition detached", True, once("BEGIN; ALTER TABLE parts DETACH PARTITION part{k}; ALTER TABLE parts ATTACH PARTITION part{k} FOR VALUES IN ({k}); COMMIT")),
    ("partition away", True, once("ALTER TABLE parts DETACH PARTITION part{k}", "SET lock_timeout = 0; SELECT pg_sleep(0.1)",
                                  "ALTER TABLE parts ATTACH PARTITION part{k} FOR VALUES IN ({k})")),
    ("partition rewritten", False, once("VACUUM FULL part{k}", "REINDEX TABLE part{k}")),
    ("application's column", True, once("ALTER TABLE parts ADD COLUMN extra int DEFAULT 1", "SET lock_timeout = 0; ALTER TABLE parts DROP COLUMN extra")),
)


def restore(psql):
    """Undoes what changes have left that got an error in the middle."""
    for statement in psql("""
        SELECT format('ALTER TABLE claims.%I DROP COLUMN %I', c.relname, a.attname) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
         WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind = 'r' AND a.attname LIKE 'extra_' AND NOT a.attisdropped
        UNION ALL SELECT format('ALTER TABLE claims.%I DROP CONSTRAINT %I', c.relname, k.conname) FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid
         WHERE c.relnamespace = 'claims'::regnamespace AND k.conname LIKE 'extra_'
        UNION ALL SELECT format('DROP INDEX claims.%I', c.relname) FROM pg_class c
         WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind = 'i' AND (c.relname LIKE 'extra_' OR c.relname ~ '_cc(new|old)\\d*$')
        UNION ALL SELECT format('DROP TRIGGER %I ON %s', t.tgname, t.tgrelid::regclass) FROM pg_trigger t WHERE t.tgname LIKE 'extra_'
        UNION ALL SELECT format('ALTER TABLE claims.%I SET LOGGED', c.relname) FROM pg_class c
         WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind = 'r' AND c.relpersistence = 'u' AND c.relname <> 'automatic_queue'
        UNION ALL SELECT format('ALTER TABLE parts ATTACH PARTITION %I FOR VALUES IN (%s)', c.relname, right(c.relname, 1)) FROM pg_class c
         WHERE c.relname ~ '^part\\d$' AND c.relkind = 'r' AND NOT c.relispartition""").split("\n"):
        if statement:
            psql(statement)
