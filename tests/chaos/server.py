"""The smallest server that a chaos run serves: it answers every connection with 200 and closes it."""

import os
import socket

with socket.create_server(("127.0.0.1", int(os.environ["PORT"]))) as listener:
    while True:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nok\n")
