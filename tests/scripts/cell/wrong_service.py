"""A service that answers wrongly: speaks the protocol of PostgreSQL, and gives the right answer to every call but the one that a file names.

    wrong_service.py PORT_FILE FILE LOG

PORT_FILE gets the port. FILE holds `CALL MODE`, read at each call (`connect` at each connection); LOG gets a line for each connection and each call.
With a MODE `held_OTHER` the answer of OTHER (`held_right`: the right one) comes when the file FILE.go exists. LOG gets a line `released` then.
"""
import os
import re
import socket
import struct
import sys
import threading
import time

CALLS = {"begin_update_text": "begin", "commit_unflushed": "settle", "commit_update": "settle", "rollback_update": "settle", "settle_leases": "settle_list",
         "lease_outcome": "outcomes", "list_leases": "list", "present_epoch": "epoch", "set_config": "limit", "digest_records": "digest",
         "name_holders": "holder"}
MIB = 1024 * 1024
FLOOD = 64 * 1024


def message(kind, body=b"", length=None):
    return kind + struct.pack("!i", (len(body) if length is None else length) + 4) + body


def text(value):
    return value.encode() + b"\0"


def description(columns):
    column = text("c") + struct.pack("!ihihih", 0, 0, 25, -1, -1, 0)
    return message(b"T", struct.pack("!h", columns) + column * columns)


def row(values):
    body = struct.pack("!h", len(values))
    for value in values:
        value = value if value is None or isinstance(value, bytes) else value.encode()
        body += struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value
    return message(b"D", body)


def rows(columns, values):
    return description(columns) + b"".join(map(row, values)) + message(b"C", text("SELECT 1"))


def error(sqlstate, words="no", field=b"C"):
    return message(b"E", b"S" + text("ERROR") + field + text(sqlstate) + b"M" + text(words) + b"\0")


READY = message(b"Z", b"I")
FLOODS = {
    "notices": message(b"N", b"S" + text("NOTICE") + b"C" + text("00000") + b"M" + text("psst") + b"\0"),
    "parameters": message(b"S", text("DateStyle") + text("ISO, DMY")),
    "notifications": message(b"A", struct.pack("!i", 1) + text("channel") + text("x" * 1000)),
    "copy_flood": message(b"d", b"x" * 100),
}
COPY = struct.pack("!bh", 0, 0)


class Connection(threading.Thread):
    def __init__(self, connection):
        super().__init__(daemon=True)
        self.connection = connection
        self.buffer = b""

    def send(self, data):
        self.connection.sendall(data)

    def flood(self, data):
        data *= max(1, FLOOD // len(data))
        while True:
            self.send(data)

    def silence(self):
        while self.connection.recv(MIB):
            pass
        raise OSError

    def exactly(self, count):
        while len(self.buffer) < count:
            more = self.connection.recv(MIB)
            if not more:
                raise OSError
            self.buffer += more
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def run(self):
        try:
            self.serve()
        except OSError:
            pass
        finally:
            self.connection.close()

    def serve(self):
        log("connect")
        while True:
            size, = struct.unpack("!i", self.exactly(4))
            if size != 8:
                self.exactly(size - 4)
                break
            self.exactly(4)
            self.send(b"N")
        self.begin(mode_of("connect"))
        self.send(message(b"R", struct.pack("!i", 0)) + message(b"K", struct.pack("!ii", 7, 7)) + READY)
        while True:
            self.answer_one()

    def begin(self, mode):
        """Whatever goes before the connection is there."""
        if mode == "passwords":
            # The replies are never read.
            self.flood(message(b"R", struct.pack("!i", 3)))
        elif mode == "password":
            self.send(message(b"R", struct.pack("!i", 3)))
            self.exactly(1)
            told = self.exactly(struct.unpack("!i", self.exactly(4))[0] - 4)
            log("password " + told.rstrip(b"\0").decode())
        elif mode == "notices":
            self.send(message(b"R", struct.pack("!i", 0)))
            self.flood(FLOODS["notices"])
        elif mode == "half":
            self.send(message(b"R", b"\0", 8))
            self.silence()
        elif mode == "silence":
            self.silence()
        elif mode == "copy":
            self.send(message(b"H", COPY))
            self.silence()
        elif mode and mode.startswith("iterations_"):
            self.scram(mode.removeprefix("iterations_"))
            self.silence()
        elif mode == "in_transaction":
            self.send(message(b"R", struct.pack("!i", 0)) + message(b"K", struct.pack("!ii", 7, 7)) + message(b"Z", b"T"))

    def scram(self, iterations):
        """Asks for a proof of the password that takes so many iterations."""
        self.send(message(b"R", struct.pack("!i", 10) + text("SCRAM-SHA-256") + b"\0"))
        self.exactly(1)
        first = self.exactly(struct.unpack("!i", self.exactly(4))[0] - 4).decode()
        nonce = first[first.index("r=") + 2:]
        self.send(message(b"R", struct.pack("!i", 11) + f"r={nonce}more,s=c2FsdHNhbHRzYWx0c2E=,i={iterations}".encode()))

    def answer_one(self):
        statement, values, answers = "", [], []
        while True:
            kind = self.exactly(1)
            body = self.exactly(struct.unpack("!i", self.exactly(4))[0] - 4)
            if kind == b"P":
                statement = body.split(b"\0")[1].decode()
            elif kind == b"B":
                values = parameters(body)
            elif kind == b"E":
                name = next((CALLS[word] for word in re.findall(r"\w+", statement) if word in CALLS), "other")
                log(name)
                answers.append((name, values))
            elif kind == b"S":
                break
            elif kind == b"X":
                raise OSError
        for name, values in answers[:-1]:
            self.send(message(b"1") + message(b"2") + rows(*right(name, values)))
        name, values = answers[-1]
        self.answer(mode_of(name), *right(name, values))

    def answer(self, mode, columns, values):
        if mode and mode.startswith("held_"):
            while not os.path.exists(sys.argv[2] + ".go"):
                time.sleep(0.01)
            mode = mode.removeprefix("held_")
            mode = None if mode == "right" else mode
            log("released")
        head, right_one = message(b"1") + message(b"2"), message(b"1") + message(b"2") + rows(columns, values)
        first = list(values[0]) if values else [None] * columns
        # How an answer differs from the right one; the end of the call follows.
        simple = {
            None: lambda: right_one,
            "no_row": lambda: head + rows(columns, []),
            "no_description": lambda: head + row(first) + message(b"C", text("SELECT 1")),
            "one_more_row": lambda: head + rows(columns, [*values, first]),
            "wide": lambda: head + rows(columns + 1, [[*each, "x"] for each in values]),
            "narrow": lambda: head + rows(columns - 1, [each[1:] for each in values]),
            "null": lambda: head + rows(columns, [[None] * columns]),
            "words": lambda: head + rows(columns, [["words", *first[1:]]]),
            "zero_byte": lambda: head + rows(columns, [[first[0].encode() + b"\0", *first[1:]]]),
            "no_utf8": lambda: head + rows(columns, [[b"\xff\xfe", *first[1:]]]),
            "no_process": lambda: head + rows(columns, [[*first[:-1], "perhaps"]]),
            "other_lease": lambda: head + rows(columns, [["00000000-0000-4000-8000-000000000001", *first[1:]]]),
            "only_complete": lambda: head + message(b"n") + message(b"C", text("SELECT 1")),
            "empty_query": lambda: head + message(b"n") + message(b"I"),
            "nothing": lambda: b"",
            "early_end": lambda: READY + right_one,
            "twice": lambda: right_one + rows(columns, values),
            "complete_twice": lambda: right_one + message(b"C", text("SELECT 1")),
            "end_twice": lambda: right_one + READY,
            "row_behind": lambda: right_one + READY + rows(columns, values),
            "surplus": lambda: right_one + READY + message(b"C", text("SELECT 1")),
            "unknown_kind": lambda: head + message(b"?", b"x"),
            "bad_length": lambda: head + message(b"T", b"", -2),
            "short_description": lambda: head + message(b"T", struct.pack("!h", 5)),
            "copy_in": lambda: head + message(b"G", COPY),
            "copy_out": lambda: head + message(b"H", COPY),
            "copy_both": lambda: head + message(b"W", COPY),
            "no_sqlstate": lambda: error("no", field=b"D"),
            "no_real_sqlstate": lambda: error("zz!00"),
            "successful_error": lambda: error("00000"),
            "warning": lambda: error("01000"),
            "no_data": lambda: error("02000"),
            "odd_error": lambda: error("ZZ9ZZ"),
            "read_only": lambda: error("25006"),
            "two_errors": lambda: error("23505") + error("23505"),
            "error_of_90_mib": lambda: error("ZZ001", "x" * (90 * MIB)),
            "error_of_20_mib": lambda: error("ZZ001", "x" * (20 * MIB)),
        }
        if mode in simple:
            # Send all at once, so that the surplus arrives before the client reads the answer.
            self.send(simple[mode]() + READY)
        elif mode in ("in_transaction", "in_failed_transaction"):
            self.send(right_one + message(b"Z", b"T" if mode == "in_transaction" else b"E"))
        elif mode == "late_end":
            self.send(right_one + READY)
            time.sleep(0.3)
            self.send(READY)
        elif mode == "ended":
            # The end of the session follows an error.
            self.send(error("23505") + error("57P01", "terminating connection due to administrator command"))
            raise OSError
        elif mode == "close":
            self.send(head)
            raise OSError
        elif mode == "half":
            self.send((head + rows(columns, values))[:-3])
            self.silence()
        elif mode == "silence":
            self.silence()
        elif mode == "rows":
            self.send(head + description(columns))
            self.flood(row(first))
        elif mode == "large_rows":
            self.send(head + description(columns))
            self.flood(row([b"x" * MIB, *first[1:]]))
        elif mode in ("row_of_a_gibibyte", "error_of_a_gibibyte"):
            self.send(head + description(columns) + message(b"D" if mode.startswith("row") else b"E", b"", 1024 * MIB - 1024))
            self.flood(b"x" * MIB)
        elif mode in FLOODS:
            self.send(head + (message(b"H", COPY) if mode == "copy_flood" else b""))
            self.flood(FLOODS[mode])
        else:
            raise ValueError(mode)


def parameters(body):
    at = body.index(b"\0", body.index(b"\0") + 1) + 1
    formats, = struct.unpack_from("!h", body, at)
    at += 2 + 2 * formats
    count, = struct.unpack_from("!h", body, at)
    at, values = at + 2, []
    for _ in range(count):
        size, = struct.unpack_from("!i", body, at)
        at += 4
        values.append(None if size < 0 else body[at:at + size].decode())
        at += max(size, 0)
    return values


def right(name, values):
    """Columns and rows of the right answer."""
    uuids = [uuid for value in values if value for uuid in re.findall(r"[0-9a-f-]{36}", value)]
    if name == "begin":
        return 2, [[values[3], "1"]]
    if name == "settle_list":
        return 3, [[uuid, "committed", "t"] for uuid in uuids]
    if name == "outcomes":
        return 2, [[uuid, "committed"] for uuid in uuids]
    if name == "list":
        return 4, []
    if name == "holder":
        return 5, []
    if name == "digest":
        return 2, [["0", "00" * 40]]
    return 1, [["t"]]


def mode_of(name):
    with open(sys.argv[2], encoding="utf-8") as file:
        call, _, mode = file.read().strip().partition(" ")
    return mode if call == name else None


def log(line):
    with LOCK, open(sys.argv[3], "a", encoding="utf-8") as file:
        file.write(line + "\n")


LOCK = threading.Lock()
listening = socket.socket()
# Small, so that a reply that is never read soon waits.
listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
listening.bind(("127.0.0.1", 0))
listening.listen(100)
with open(sys.argv[1], "w", encoding="utf-8") as port_file:
    port_file.write(str(listening.getsockname()[1]))
while True:
    Connection(listening.accept()[0]).start()
