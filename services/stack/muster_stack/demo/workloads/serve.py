"""A small inference service: it squares numbers, and says which replica did.

    GET /health        200 once the model is loaded
    GET /square?n=12   {"n": 12, "square": 144, "replica": ".."}

A user's program: standard library only; it listens on the port that its environment names, and on the address HOST of
it or the loopback.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

LOADING = 1.0  # seconds that the model takes to load
READY_AT = time.monotonic() + LOADING


class Handler(BaseHTTPRequestHandler):
    """One request."""

    def do_GET(self) -> None:
        """Health and squares."""
        asked = urlsplit(self.path)
        if time.monotonic() < READY_AT:
            self.answer(503, {"error": "the model is still loading"})
        elif asked.path == "/health":
            self.answer(200, {"ready": True})
        elif asked.path == "/square":
            number = int(parse_qs(asked.query).get("n", ["0"])[0])
            replica = os.environ.get("MUSTER_REPLICA", "")
            self.answer(200, {"n": number, "square": number * number, "replica": replica})
        else:
            self.answer(404, {"error": f"{asked.path}: there are /health and /square?n=12"})

    def answer(self, code: int, value: dict[str, object]) -> None:
        """Sends JSON."""
        body = json.dumps(value).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    # The first process of a container gets no signal that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    port = int(os.environ["PORT"])
    print(f"serving on port {port}")
    ThreadingHTTPServer((os.environ.get("HOST", "127.0.0.1"), port), Handler).serve_forever()
