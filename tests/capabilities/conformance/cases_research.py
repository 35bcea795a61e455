"""research.*: against a small web on loopback."""

from __future__ import annotations

import hashlib
import importlib.util
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from planrunner.testing.conformance import Case, Ready

_PEER = Path(__file__).resolve().parents[3] / "plans" / "capabilities" / "peers" / "research_web.py"
_TEXT = "RFC 9438 specifies CUBIC. The quick brown fox jumps over the lazy dog."
_DIGEST = hashlib.sha256(_TEXT.encode()).hexdigest()
_DOC = {"url": "http://a.example/", "title": "A", "text": _TEXT, "truncated": False, "sha256": _DIGEST}
_NETWORK = {"private": ["127.0.0.1", "::1"]}


def _module() -> Any:
    if "research_web" not in sys.modules:
        spec = importlib.util.spec_from_file_location("research_web", _PEER)
        assert spec is not None and spec.loader is not None
        sys.modules["research_web"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["research_web"])
    return sys.modules["research_web"]


def _search(directory: Path) -> Iterator[Ready]:
    with _module().Web() as web:
        yield Ready({"query": "http/3"}, settings={"network": _NETWORK, "research": {"url": web.url}})


def _fetch(directory: Path) -> Iterator[Ready]:
    with _module().Web() as web:
        yield Ready({"sources": [f"{web.url}/quic"], "delay": 0, "query": "quic"}, settings={"network": _NETWORK})


def _silent(directory: Path) -> Iterator[str]:
    """The address of a server that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def _silent_search(directory: Path) -> Iterator[Ready]:
    for url in _silent(directory):
        yield Ready({"query": "x", "url": url}, settings={"network": _NETWORK})


def _silent_fetch(directory: Path) -> Iterator[Ready]:
    for url in _silent(directory):
        yield Ready({"sources": [url]}, settings={"network": _NETWORK})


CASES = [
    Case("research.search", _search, volatile=("searched_at",)),
    Case("research.search", _silent_search, name="silent", waits=True),
    Case("research.search", lambda directory: {"query": "x"}, name="nowhere", fails="logic"),
    Case("research.fetch", _fetch, volatile=("docs",), requires=("module:trafilatura", "module:protego")),
    Case("research.fetch", _silent_fetch, name="silent", waits=True),
    Case("research.fetch", lambda directory: {"sources": "http://10.0.0.1/"}, name="private", fails="policy"),
    Case("research.dedupe", lambda directory: {"docs": [_DOC, _DOC]}),
    Case("research.rank", lambda directory: {"docs": [_DOC], "query": "cubic"}),
    Case("research.rank", lambda directory: {"docs": [_DOC]}, name="unasked", fails="logic"),
    Case("research.facts", lambda directory: {"docs": [_DOC], "patterns": ["RFC"]}, requires=("module:tld",)),
    Case("research.cite", lambda directory: {"facts": [_DOC]}, requires=("module:tld",)),
]
