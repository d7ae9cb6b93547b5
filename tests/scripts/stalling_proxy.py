"""A way to the service with as little room on it as TCP gives, which stops while a file is there: stalling_proxy.py PORT_FILE SOCKET STALL_FILE

Listens on 127.0.0.1, writes its port into PORT_FILE, and leads each connection to the unix socket. While STALL_FILE is there nothing is read from
the clients, so that some fifteen thousand bytes fill the buffers between."""

import os
import socket
import sys
import threading
import time


def copy(source, target, stall):
    try:
        while True:
            while stall and os.path.exists(stall):
                time.sleep(0.01)
            data = source.recv(4096)
            if not data:
                break
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def main(port_file, path, stall):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 88)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    with open(port_file, "w") as file:
        file.write(str(listener.getsockname()[1]))
    while True:
        client, _ = listener.accept()
        server = socket.socket(socket.AF_UNIX)
        server.connect(path)
        threading.Thread(target=copy, args=(client, server, stall), daemon=True).start()
        threading.Thread(target=copy, args=(server, client, None), daemon=True).start()


main(*sys.argv[1:])
