"""A small web for plans/capabilities/research.yaml: a search server that speaks SearXNG's API, and a site to read.

    python plans/capabilities/peers/research_web.py [PORT]

It listens on 127.0.0.1 (port 8462 unless told) and prints its address. The site misbehaves as real ones do: a redirect,
a page that is cut off in the middle, one that is busy at first, a copy of another page, a PDF, a page that robots.txt
keeps for people, and one that is gone. Everything is asked for as 127.0.0.1 and as localhost, as if by two owners.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

PAGE = """<!doctype html><html><head><title>{title}</title></head><body><nav>Home · About · Contact</nav>
<article><h1>{title}</h1>{paragraphs}</article><footer>All rights reserved.</footer></body></html>"""

CUBIC = [
    (
        "CUBIC is the congestion control algorithm that most operating systems use by default today. It grows the "
        "window as a cubic function of the time since the last loss, so that fast and long paths fill again quickly."
    ),
    "RFC 9438 specifies CUBIC for fast and long-distance networks. It replaces RFC 8312 and was published in 2023.",
    "A sender that runs CUBIC reduces its congestion window by a factor of 0.7 when it notices a loss.",
]
QUIC = [
    (
        "QUIC carries its own congestion control, since it runs over datagrams and cannot rely on that of the kernel. "
        "Every endpoint may choose an algorithm of its own as long as it is fair to others."
    ),
    "RFC 9002 describes loss detection and congestion control for QUIC. Its example algorithm resembles NewReno.",
    "The initial window of a QUIC connection is ten datagrams, and the minimum window is two datagrams.",
]
HTTP3 = [
    (
        "HTTP/3 maps the semantics of HTTP to QUIC and leaves congestion control to the transport below it. Streams "
        "are independent of each other, so a lost packet delays only the streams whose data it carried."
    ),
    "RFC 9438 specifies CUBIC for fast and long-distance networks, which most QUIC stacks use as well.",
    "RFC 9114 is the specification of HTTP/3, and it was published in June 2022 after years of drafts.",
]
GARDEN = [
    (
        "Tomatoes want six hours of sun and an even supply of water, or their skin will split in late summer. Feed "
        "them every second week once the first fruits have set, and take out the side shoots."
    ),
    "Basil planted beside tomatoes is said to improve their taste, although trials have found little of that.",
]

ARTICLES: dict[str, tuple[str, list[str]]] = {
    "/cubic": ("CUBIC congestion control", CUBIC),
    "/mirror/cubic": ("CUBIC congestion control (mirror)", [*CUBIC, "Mirrored with permission."]),
    "/quic": ("Congestion control in QUIC", QUIC),
    "/http3": ("What HTTP/3 leaves to QUIC", HTTP3),
    "/garden": ("Growing tomatoes", GARDEN),
    "/private/notes": ("Notes that are not for machines", CUBIC),
    "/long": ("A long history of congestion control", [f"{number}. {text}" for number in range(400) for text in HTTP3]),
}
RESULTS = ["/cubic", "/mirror/cubic", "/moved", "/http3", "/long", "/busy", "/garden", "/paper.pdf", "/private/notes"]
OTHER_OWNER = {"/http3", "/garden", "/mirror/cubic"}
ROBOTS = "User-agent: *\nDisallow: /private/\nAllow: /\n"


class Web(ThreadingHTTPServer):
    """The server; ``seen`` lists what was asked, with the Range or the validator of the request."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Site)
        self.seen: list[str] = []
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def __enter__(self) -> Web:
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class Site(BaseHTTPRequestHandler):
    """Answers one request."""

    protocol_version = "HTTP/1.1"
    server: Web

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        mark = self.headers.get("Range") or self.headers.get("If-None-Match") or ""
        with self.server.lock:
            before = sum(one.split()[0] == parts.path for one in self.server.seen)
            self.server.seen.append(f"{parts.path} {mark}".strip())
        special: dict[str, Callable[[], None]] = {
            "/search": lambda: self._search(parse_qs(parts.query)),
            "/robots.txt": lambda: self._send(200, ROBOTS.encode(), "text/plain"),
            "/moved": lambda: self._send(302, b"", "text/plain", Location="/quic"),
            "/busy": lambda: self._busy(before),
            "/paper.pdf": lambda: self._send(200, b"%PDF-1.7\n%...", "application/pdf"),
            "/long": lambda: self._article("/long", cut=before == 0),
        }
        if parts.path in special:
            special[parts.path]()
        elif parts.path in ARTICLES:
            self._article(parts.path)
        else:
            self._send(404, b"gone", "text/plain")

    def _search(self, query: dict[str, list[str]]) -> None:
        if query.get("format") != ["json"] or not query.get("q"):
            self._send(403 if query.get("q") else 400, b"", "text/plain")
            return
        words = query["q"][0].lower().split()
        page = int(query.get("pageno", ["1"])[0])
        found = [path for path in RESULTS if "nothing" not in words][4 * (page - 1) : 4 * page]
        answer = {
            "query": query["q"][0],
            "number_of_results": 0,
            "results": [self._result(path) for path in found],
            "suggestions": ["bbr congestion control"] if page == 1 else [],
            "unresponsive_engines": [["slowpoke", "timeout"]],
        }
        self._send(200, json.dumps(answer).encode(), "application/json")

    def _result(self, path: str) -> dict[str, object]:
        name = "localhost" if path in OTHER_OWNER else "127.0.0.1"
        title = ARTICLES[path][0] if path in ARTICLES else path[1:]
        return {
            "url": f"http://{name}:{self.server.server_port}{path}",
            "title": title,
            "content": f"About {title}.",
            "engine": "loopback",
            "engines": ["loopback"],
            "score": 1.0,
        }

    def _busy(self, before: int) -> None:
        if before == 0:
            self._send(429, b"", "text/plain", **{"Retry-After": "1"})
        else:
            self._send(200, b"Loss is not the only sign of congestion; delay is another one.\n", "text/plain")

    def _article(self, path: str, cut: bool = False) -> None:
        title, texts = ARTICLES[path]
        body = PAGE.format(title=title, paragraphs="".join(f"<p>{text}</p>" for text in texts)).encode()
        tag = f'"{path.strip("/").replace("/", "-")}-1"'
        if self.headers.get("If-None-Match") == tag:
            self._send(304, b"", "text/html", ETag=tag)
            return
        wanted = self.headers.get("Range", "")
        if wanted.startswith("bytes=") and self.headers.get("If-Range") == tag:
            start = int(wanted[6:].rstrip("-"))
            told = f"bytes {start}-{len(body) - 1}/{len(body)}"
            self._send(206, body[start:], "text/html; charset=utf-8", ETag=tag, **{"Content-Range": told})
            return
        self._send(200, body, "text/html; charset=utf-8", cut=cut, ETag=tag)

    def _send(self, status: int, body: bytes, kind: str, cut: bool = False, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Quiet."""


if __name__ == "__main__":
    web = Web(int(sys.argv[1]) if len(sys.argv) > 1 else 8462)
    print(web.url, flush=True)
    try:
        web.serve_forever()
    except KeyboardInterrupt:
        web.server_close()
