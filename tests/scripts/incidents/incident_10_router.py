"""The router of incident_10_customer_moves.sh: looks up names of the customer, and then asks the returned cell for the rows.

Arguments: reads a second, names, the file that ends it, and socket directory and port of the service and of both cells. It fails where
a name has no owner, where the names of one answer are at two cells, and where the cell that it was told has no such row.
"""
import os
import random
import subprocess
import sys
import time

RATE, NAMES, STOP = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
SERVICE, ONE, TWO = [tuple(sys.argv[at:at + 2]) for at in (4, 6, 8)]
# One answer of each kind in a tick: single names, and all of them in one call.
TICK = 10


class Session:
    """A psql that answers one question after another."""

    def __init__(self, server, role):
        host, port = server
        self.process = subprocess.Popen(["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-h", host, "-p", port, "-U", role, "-d", "postgres"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def ask(self, sql):
        self.process.stdin.write(sql + ";\n\\echo <end>\n")
        self.process.stdin.flush()
        lines = []
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError("psql has ended: " + " ".join(lines))
            if line == "<end>\n":
                return lines
            lines.append(line.rstrip("\n"))


service = Session(SERVICE, "router")
cells = {1: Session(ONE, "postgres"), 2: Session(TWO, "postgres")}
reads, told, wrong, slowest, began = 0, [], [], 0.0, time.monotonic()
while not os.path.exists(STOP):
    names = ["customer/%d" % random.randint(1, NAMES) for _ in range(TICK)]
    started = time.monotonic()
    singly = [service.ask("SELECT cell_id FROM claims.get_record('ROUTES', '%s')" % name) for name in names]
    slowest = max(slowest, (time.monotonic() - started) / TICK)
    buckets = ", ".join('{"type": "ROUTES", "value": "%s"}' % name for name in names)
    together = service.ask("SELECT bucket_value || ' ' || cell_id FROM claims.get_records('[%s]')" % buckets)
    reads += 2 * TICK
    if [] in singly or len(together) != TICK:
        wrong.append("a gap: %s %s" % (singly, together))
        continue
    answers = [(name, int(answer[0])) for name, answer in zip(names, singly)]
    answers += [(line.split()[0], int(line.split()[1])) for line in together]
    if len({cell for _, cell in answers[TICK:]}) != 1:
        wrong.append("two cells at once: %s" % together)
    for cell in {cell for _, cell in answers}:
        asked = sorted({name for name, where in answers if where == cell})
        found = cells[cell].ask("SELECT count(*) FROM routes WHERE name IN (%s)" % ", ".join("'%s'" % name for name in asked))
        if found != [str(len(asked))]:
            wrong.append("cell %d has %s of %s" % (cell, found, asked))
        if not told or told[-1] != cell:
            told.append(cell)
    time.sleep(max(0.0, 2 * TICK / RATE - (time.monotonic() - started)))
seconds = time.monotonic() - began
print("%d reads in %.1f s, %.0f a second; the slowest ten took %.1f ms each; cells told, in order: %s" % (reads, seconds, reads / seconds, slowest * 1000, told))
print("\n".join(wrong[:10]))
sys.exit(1 if wrong or reads == 0 or told[-1] != 2 else 0)
