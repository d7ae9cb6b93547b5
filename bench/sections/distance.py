"""What a save costs its user where the service is far away."""

import contextlib
import os
import subprocess
import tempfile

from lib import QUICK, Section, in_turns, median, program, psql, say
from sections import cell_save
from sections.cell_save import CELL, SERVICE, at_cell, saves, settle

OWN_DATABASES = True
TITLE = "Latency of a save"
# Round trips between cell and service in ms, and how many seconds are measured: long ones need longer for as many saves.
LASTING = {0: 1, 1: 1} if QUICK else {0: 2, 1: 2, 10: 4, 80: 10}
CLIENTS = [1, 8]
SIDES = ["plain", "floor", "auto", "app"]
ROUNDS = 1 if QUICK else 3


@contextlib.contextmanager
def distant(milliseconds):
    """Runs the relay, and points the cell and the clients at it. With 0 there is none: the service is on this machine."""
    before, relay, folder = dict(os.environ), None, tempfile.TemporaryDirectory(prefix="claims-bench-")
    host, port = before["PGHOST"], before["PGPORT"]
    if milliseconds:
        os.chmod(folder.name, 0o777)
        socket = f"/.s.PGSQL.{port}"
        relay = subprocess.Popen([program("distant"), folder.name + socket, host + socket, str(milliseconds)], stdout=subprocess.PIPE, umask=0)
        relay.stdout.readline()
        host = folder.name
    at_cell(CELL, f"ALTER SERVER service OPTIONS (SET host '{host}')")
    os.environ["PGHOST"] = host
    try:
        yield
    finally:
        os.environ.update(before)
        at_cell(CELL, f"ALTER SERVER service OPTIONS (SET host '{before['PGHOST']}')")
        if relay:
            relay.terminate()
            relay.wait()
        folder.cleanup()


def measured(milliseconds, clients):
    """Returns the median and the 99th percentile of each side, in ms: medians of the rounds."""
    def took(side, turn):
        say(f"latency of a save: {milliseconds} ms away, {clients} clients, round {turn + 1}: {side}")
        times = saves(side, clients, LASTING[milliseconds])[1:]
        settle()
        return times
    return {side: [median(values) for values in zip(*rows)] for side, rows in in_turns(SIDES, ROUNDS, took).items()}


def run():
    cell_save.make()
    section = Section(
        TITLE,
        "The time from the first statement of a save to the answer of its last, as the application's client sees it, in ms: half of the saves take at "
        "most p50, 99 of 100 at most p99. One row with one claim; the cell preloads the library and has its worker. Between cell or application and "
        "service is a relay which holds every byte back for half of the round trip; 0 is without it, on one machine. plain: the row alone. floor: the "
        "row, and one durable transaction of one row at the service before its COMMIT: no save that asks another database first can take less. auto: "
        "automatic mode. app: begin, row, track, COMMIT, commit, called by the application. In changing order; medians of the rounds.")
    rows = []
    for milliseconds in LASTING:
        for clients in CLIENTS:
            with distant(milliseconds):
                found = measured(milliseconds, clients)
            rows.append([milliseconds, clients, *(f"{found[side][0]:.2f} / {found[side][1]:.2f}" for side in SIDES)])
            where = f"{milliseconds} ms away, {clients} client{'s' if clients > 1 else ''}: p50"
            section.at_most(f"auto / floor, {where}", found["auto"][0] / found["floor"][0], 1.05 if milliseconds >= 10 else 1.5)
            if milliseconds >= 10:
                section.at_most(f"app / floor, {where}", found["app"][0] / found["floor"][0], 2.05)
    section.tables.append(("p50 / p99 of a save, ms", ["round trip", "clients", *SIDES], rows))
    if psql(SERVICE, "SELECT count(*) FROM claims.check()") != "0":
        raise RuntimeError("claims.check() found violations")
    return section
