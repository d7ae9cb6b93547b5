"""A pooler in transaction mode, as small as it can be: transaction_pooler.py PORT_FILE SERVER_SOCKET SESSIONS [disguised]

Clients are let in without a password. A disguised one tells them the process of the session that serves them first. Each transaction goes to the next of SESSIONS server sessions of its user and database, so
that no two in a row meet the same one; nothing is reset in between. Prepared statements and settings of a session would get lost.
With 0 SESSIONS each transaction gets a new one, and the server may be another one by then, or may have become a standby.
"""
import asyncio
import struct
import sys

port_file, server_socket, sessions = sys.argv[1], sys.argv[2], int(sys.argv[3])
is_disguised = "disguised" in sys.argv[4:]
pools = {}


def message(kind, body=b""):
    return kind + struct.pack("!i", len(body) + 4) + body


async def read_message(reader):
    kind = await reader.readexactly(1)
    size = struct.unpack("!i", await reader.readexactly(4))[0]
    return kind, message(kind, await reader.readexactly(size - 4))


async def connect(parameters):
    reader, writer = await asyncio.open_unix_connection(server_socket)
    texts = b"".join(k + b"\0" + v + b"\0" for k, v in parameters.items()) + b"\0"
    writer.write(struct.pack("!ii", len(texts) + 8, 196608) + texts)
    kind, process = b"", b""
    while kind != b"Z":
        kind, text = await read_message(reader)
        if kind == b"K":
            process = text
    return reader, writer, process


async def pool_of(parameters):
    key = parameters[b"user"], parameters[b"database"]
    if key not in pools:
        pools[key] = queue = asyncio.Queue()
        for _ in range(sessions):
            queue.put_nowait(await connect(parameters))
    return pools[key]


async def startup(reader, writer):
    while True:
        size, code = struct.unpack("!ii", await reader.readexactly(8))
        body = await reader.readexactly(size - 8)
        if code in (80877103, 80877104):  # SSL, GSSAPI
            writer.write(b"N")
            continue
        texts = body.rstrip(b"\0").split(b"\0")
        writer.write(message(b"R", struct.pack("!i", 0)))
        for name, value in (b"server_version", b"15.0"), (b"client_encoding", b"UTF8"), (b"standard_conforming_strings", b"on"):
            writer.write(message(b"S", name + b"\0" + value + b"\0"))
        parameters = dict(zip(texts[::2], texts[1::2]))
        if is_disguised:
            pool = await pool_of(parameters)
            idle = [await pool.get() for _ in range(pool.qsize())]
            writer.write(idle[0][2])
            for session in idle:
                pool.put_nowait(session)
        writer.write(message(b"Z", b"I"))
        return parameters


async def serve(reader, writer):
    try:
        parameters = await startup(reader, writer)
        while True:
            kind, text = await read_message(reader)
            if kind == b"X":
                break
            pool = await pool_of(parameters)
            from_server, to_server, process = await (pool.get() if sessions else connect(parameters))
            if from_server.at_eof():  # the server was started again
                from_server, to_server, process = await connect(parameters)
            state = b""
            while state != b"I":
                to_server.write(text)
                while kind not in (b"Q", b"S"):
                    kind, text = await read_message(reader)
                    to_server.write(text)
                while True:
                    kind, text = await read_message(from_server)
                    writer.write(text)
                    if kind == b"Z":
                        state = text[-1:]
                        break
                if state != b"I":
                    kind, text = await read_message(reader)
            if sessions:
                pool.put_nowait((from_server, to_server, process))
            else:
                to_server.write(message(b"X"))
                to_server.close()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    with open(port_file, "w") as file:
        file.write(str(server.sockets[0].getsockname()[1]))
    await server.serve_forever()


asyncio.run(main())
