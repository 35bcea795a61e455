"""A shop for the plans of this folder: a server on this machine with the habits of servers elsewhere.

    python plans/capabilities/peers/http_shop.py [PORT]

It redirects, is busy at times and says for how long, and answers in chunks and in pages. It takes its time over
jobs, breaks off in the middle of a file, and knows an order that comes twice by its `Idempotency-Key`.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

PORT = 8765
CATALOGUE = b"".join(b"%06d;article;%d.50\n" % (number, number % 90) for number in range(20_000))
ETAG = f'"{hashlib.sha256(CATALOGUE).hexdigest()[:16]}"'
ARTICLES = [{"id": number, "name": f"article {number}"} for number in range(1, 8)]


class Shop(BaseHTTPRequestHandler):
    """Each address is a method below; what the shop remembers belongs to the server."""

    protocol_version = "HTTP/1.1"
    orders: dict[str, int] = {}
    asked: dict[str, itertools.count[int]] = {}

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        self.query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        known = {"": self.entrance, "prices": self.prices, "stock": self.stock, "articles": self.articles}
        known |= {"catalogue": self.catalogue, "orders": self.order_state}
        known.get(url.path.split("/")[1], self.nothing)()

    def do_POST(self) -> None:
        order = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        key = self.headers.get("idempotency-key", "")
        number = self.orders.get(key) or len(self.orders) + 1
        self.orders[key or f"without a key {number}"] = number
        self.say(201, {"number": number, "article": order["article"], "orders": len(self.orders)})

    def entrance(self) -> None:
        self.say(302, {}, location="/prices")

    def prices(self) -> None:
        """In chunks."""
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for part in (b'{"tea": 2.5, ', b'"coffee": 3.0, ', b'"currency": "EUR"}', b""):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))

    def stock(self) -> None:
        """Busy the first time."""
        if self.time("stock") == 1:
            self.say(429, {"error": "one moment"}, retry_after="1")
        else:
            self.say(200, {"tea": 12, "coffee": 0})

    def articles(self) -> None:
        """Three on a page."""
        page = int(self.query.get("page", "1"))
        more = {"link": f'</articles?page={page + 1}>; rel="next"'} if page * 3 < len(ARTICLES) else {}
        self.say(200, ARTICLES[page * 3 - 3 : page * 3], **more)

    def order_state(self) -> None:
        """An order is packed when it is asked for the third time."""
        ready = self.time(self.path) >= 3
        self.say(200, {"state": "packed" if ready else "waiting", "boxes": 2 if ready else None})

    def catalogue(self) -> None:
        """Breaks off in the middle of the first answer; the rest is to be had by a range."""
        wanted = self.headers.get("range", "") if self.headers.get("if-range", ETAG) == ETAG else ""
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        self.send_response(206 if wanted else 200)
        if wanted:
            self.send_header("content-range", f"bytes {start}-{len(CATALOGUE) - 1}/{len(CATALOGUE)}")
        self.send_header("etag", ETAG)
        self.send_header("content-length", str(len(CATALOGUE) - start))
        self.end_headers()
        breaks = self.time("catalogue") == 1
        self.wfile.write(CATALOGUE[start : 200_000 if breaks else None])
        self.close_connection = breaks

    def nothing(self) -> None:
        self.say(404, {"error": f"nothing at {self.path}"})

    def time(self, what: str) -> int:
        """How often it was asked for, this time included."""
        return next(self.asked.setdefault(what, itertools.count(1)))

    def say(self, status: int, data: object, **headers: str) -> None:
        body = json.dumps(data).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """The plan's log tells enough."""


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1]) if len(sys.argv) > 1 else PORT), Shop)
    print(f"the shop is open at http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
