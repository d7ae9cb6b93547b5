"""The space that a name takes in everything that is written for it, and the memory of a session that saves many."""

from lib import CELL_ROLES, QUICK, Section, Session, WITHOUT_FLUSHES, on, psql, say, server_settings
from sections import cell_save
from sections.cell_save import CELL, SERVICE
from sections.rollout import own_memory

OWN_DATABASES = True
TITLE = "Space and memory"
DATABASE = "footprint"
NAMES = 5_000 if QUICK else 50_000
SAVES = 10_000 if QUICK else 100_000
# Until then a session makes plans, and touches memory for the first time.
FIRST_SAVES = 5_000

# What is written beside the claims, by the settings that turn it on.
SIDES = {
    "claims alone": {},
    "change feed": {"claims.change_feed": "on"},
    "audit of settlements": {"claims.audit": "settled"},
    "audit of all": {"claims.audit": "all"},
}
BATCHES = [1, 100]
PORTIONS = 10

SIZES = """
    SELECT c.relname, pg_table_size(c.oid), pg_indexes_size(c.oid) FROM pg_class c
     WHERE c.relnamespace = 'claims'::regnamespace AND c.relkind IN ('r', 'm') ORDER BY 1"""
# Each batch is begun and committed by transactions of its own.
CLAIM = """
    DO $$ DECLARE lease uuid; BEGIN
      FOR batch IN 0 .. {batches} - 1 LOOP
        SELECT claims.begin_update(1, jsonb_agg(jsonb_build_object(
            'bucket', jsonb_build_object('type', 1, 'value', 'name-{portion}-' || lpad((batch * {size} + i)::text, 23, '0')),
            'subject', jsonb_build_object('type', 2, 'id', batch * {size} + i),
            'source', jsonb_build_object('type', 3, 'rails_primary_key_id', batch * {size} + i)))) INTO lease FROM generate_series(1, {size}) i;
        COMMIT;
        PERFORM claims.commit_update(1, lease);
        COMMIT;
      END LOOP;
    END $$"""


def sizes():
    rows = (row.split("|") for row in psql(DATABASE, SIZES).splitlines())
    return {name: (int(table), int(indexes)) for name, table, indexes in rows}


def claimed(side, size):
    """Claims the names in batches of this size, and VACUUMs after each portion, as autovacuum would. Returns the bytes of WAL of a name, and by table
    those of the table and of its indexes. The first portion does not count: the others use the space again that its leases have left."""
    say(f"space and memory: {side}, {size} a batch")
    psql("postgres", f"DROP DATABASE IF EXISTS {DATABASE}")
    psql("postgres", f"CREATE DATABASE {DATABASE} TEMPLATE template0 ENCODING 'UTF8'")
    psql(DATABASE, "CREATE EXTENSION claims; SELECT claims.register_cell(1, 'cell_1')")
    settings = "".join(f"SET {name} = '{value}'; " for name, value in SIDES[side].items())
    wal = 0
    for portion in range(PORTIONS):
        place = psql(DATABASE, "SELECT pg_current_wal_lsn()")
        psql(DATABASE, "LOAD 'claims'; " + settings + CLAIM.format(portion=portion, batches=NAMES // PORTIONS // size, size=size))
        if portion > 0:
            wal += int(psql(DATABASE, f"SELECT pg_current_wal_lsn() - '{place}'"))
        psql(DATABASE, "VACUUM")
        if portion == 0:
            before = sizes()
    counted = NAMES // PORTIONS * (PORTIONS - 1)
    grown = {name: [(now - then) / counted for now, then in zip(after, before[name])] for name, after in sizes().items()}
    return wal / counted, {name: parts for name, parts in grown.items() if sum(parts) >= 1}


def space(section):
    rows = []
    with server_settings(WITHOUT_FLUSHES):
        for size in BATCHES:
            for side in SIDES:
                wal, grown = claimed(side, size)
                others = ", ".join(f"{name} {sum(parts):.0f}" for name, parts in grown.items() if name != "claims")
                rows.append([f"{side}, {size} a batch", *(f"{part:.0f}" for part in grown["claims"]), others or "-", f"{wal:.0f}"])
    section.tables.append((f"bytes a name of 30 characters, {NAMES} names",
                           ["", "claims", "its indexes", "other tables, with their indexes", "WAL"], rows))


def memory(section):
    cell_save.make()
    with on("cell"):
        session = Session(CELL, role="cell_1")
    with server_settings(WITHOUT_FLUSHES), session:
        pid, found = int(session.run("SELECT pg_backend_pid()")), {}
        for first in range(0, SAVES, 1000):
            session.run(";\n".join(f"INSERT INTO routes (name) VALUES ('memory-{first + nth}')" for nth in range(1000)))
            saved = first + 1000
            if saved % 10_000 == 0:
                say(f"space and memory: {saved} saves")
            if saved in (FIRST_SAVES, SAVES):
                found[saved] = own_memory(pid), own_memory(service_pid())
    mib = lambda size: f"{size / 2**20:.2f}"
    section.tables.append(("memory of one session's own, MiB",
                           ["after so many saves in automatic mode", "the cell's backend", "the service's backend"],
                           [[saved, *map(mib, used)] for saved, used in found.items()]))
    for nth, where in enumerate(("cell", "service")):
        section.at_most(f"memory of the {where}'s backend, after {SAVES} saves / after {FIRST_SAVES}",
                        found[SAVES][nth] / found[FIRST_SAVES][nth], 1.1)


def service_pid():
    """The backend of the session's connection, which is newer than that of the cell's worker."""
    return int(psql(SERVICE, "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND usename = 'cell_1' "
                             "ORDER BY backend_start DESC LIMIT 1"))


def run():
    section = Section(
        TITLE,
        "Space: names that one session begins and commits, each batch in two transactions, without flushes and with a VACUUM after each tenth of "
        "them. The first tenth does not count: what its leases took is used again. Memory: a session that saves in automatic mode, and the backend at "
        "the service that it calls: what they do not share with other processes (RssAnon).")
    psql("postgres", CELL_ROLES)
    space(section)
    memory(section)
    return section
