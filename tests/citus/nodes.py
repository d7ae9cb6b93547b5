#!/usr/bin/env python3
"""A socket whose connections lead to the nodes of a cluster: nodes.py SOCKET PLACES SOCKET... The file PLACES has the number of a node for each
connection, in the order in which they are opened: the first number for the first of those that are open at a time, and so on. So the sessions of an
isolation spec are on different nodes."""

import os
import socket
import sys
import threading

listening, plan, nodes = sys.argv[1], sys.argv[2], sys.argv[3:]
lock = threading.Lock()
places = set()


def copy(source, target):
    """Until either side is closed."""
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(client):
    with lock:
        place = next(n for n in range(len(places) + 1) if n not in places)
        places.add(place)
    try:
        with client, socket.socket(socket.AF_UNIX) as server:
            with open(plan) as numbers:
                planned = [int(number) for number in numbers.read().split()]
            server.connect(nodes[planned[place] if place < len(planned) else 0])
            answers = threading.Thread(target=copy, args=(server, client), daemon=True)
            answers.start()
            copy(client, server)
            answers.join()
    finally:
        with lock:
            places.discard(place)


server = socket.socket(socket.AF_UNIX)
server.bind(listening)
os.chmod(listening, 0o777)
server.listen(64)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
