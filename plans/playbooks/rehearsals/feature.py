"""The playbook `feature` on one machine: "Add partial retries to the HTTP client".

Real: the repository; its tests; the search server and the pages, on loopback; the flaky shop, a server that answers 503
to one request of five unless it is asked again; the two versions of the client that ask it side by side.

Scripted: the replies of the model. It proposes three options, and implements the one it is told: `retry` first with a
mistake that its own test finds, then with a fixed number of retries, which its judge objects to, and configurable once
a person asks for that; `breaker` so that the tests pass and more requests fail than before.
"""

from __future__ import annotations

import difflib
import json
import re
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from planrunner.testing.rehearsal import Scene, rehearse
from planrunner.testing.scripted_model import Heard, Reply

CLIENT = '''\
"""A client of the shop."""

import urllib.request


class Client:
    def __init__(self, url):
        self.url = url

    def get(self, path):
        return self._send("GET", path)

    def post(self, path, data):
        return self._send("POST", path, data)

    def _send(self, method, path, data=None):
        return self._once(method, path, data)

    def _once(self, method, path, data):
        request = urllib.request.Request(self.url + path, data, method=method)
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.read()
'''
TESTS = '''\
from shop import Client


class Scripted(Client):
    """A client whose server answers what the test says."""

    def __init__(self, answers, **more):
        super().__init__("http://shop.example", **more)
        self.answers = answers

    def _once(self, method, path, data):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_an_answer_is_handed_on():
    assert Scripted([b"tea"]).get("/items/1") == b"tea"
'''
CANARY = '''\
"""Asks for a hundred items, and says how many could not be had."""

import json
import os
import sys

from shop import Client

client, failed = Client(sys.argv[1]), 0
for number in range(100):
    try:
        client.get(f"/items/{number}?by={os.getpid()}")
    except OSError:
        failed += 1
print(json.dumps({"requests": 100, "failed": failed}))
'''
IGNORED = "__pycache__/\n.planrunner/\nbuild/\nplanrunner.yaml\n"
SEND = "        return self._once(method, path, data)\n"
RETRY = """\
        for left in reversed(range(1 if method == "POST" else {times})):
            try:
                return self._once(method, path, data)
            except HTTPError as error:
                if error.code != 503 or not left:
                    raise
"""
BREAKER = """\
        if self.closed:
            self.closed -= 1
            raise OSError("the shop failed a moment ago")
        try:
            return self._once(method, path, data)
        except HTTPError:
            self.closed = 3
            raise
"""
RETRY_TESTS = """

def busy():
    return HTTPError("http://shop.example", 503, "busy", {}, None)


def test_what_failed_for_a_moment_is_asked_again():
    assert Scripted([busy(), busy(), b"tea"]).get("/items/1") == b"tea"


def test_an_order_is_never_sent_twice():
    with pytest.raises(HTTPError):
        Scripted([busy(), b"ordered"]).post("/orders", b"tea")


def test_a_real_server_that_is_busy_is_asked_again():
    answers = [503, 200]

    class Shop(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(answers.pop(0))
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Shop)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    assert Client(f"http://127.0.0.1:{server.server_port}").get("/items/1") == b""
    server.shutdown()
    server.server_close()
"""
BREAKER_TESTS = """

def test_a_shop_that_failed_is_left_alone():
    client = Scripted([HTTPError("http://shop.example", 503, "busy", {}, None), b"tea"])
    for _ in range(4):
        with pytest.raises(OSError):
            client.get("/items/1")
    assert client.get("/items/1") == b"tea"
"""
IMPORTS = """\
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.error import HTTPError

import pytest
"""


def client(send: str, init: str = "", parameters: str = "") -> str:
    text = CLIENT.replace("import urllib.request\n", "import urllib.request\nfrom urllib.error import HTTPError\n")
    text = text.replace("self, url)", f"self, url{parameters})").replace("self.url = url\n", f"self.url = url\n{init}")
    return text.replace(SEND, send)


MISTAKEN = client(RETRY.format(times=2))
FIXED = client(RETRY.format(times=3))
CONFIGURABLE = client(RETRY.format(times="self.tries"), "        self.tries = tries\n", ", tries=3")
BREAKING = client(BREAKER, "        self.closed = 0\n")
WITH_RETRIES = IMPORTS + TESTS + RETRY_TESTS
WITH_BREAKER = IMPORTS + TESTS + BREAKER_TESTS
WITH_POLICY = (
    WITH_RETRIES
    + """

def test_how_often_is_up_to_the_caller():
    with pytest.raises(HTTPError):
        Scripted([busy(), b"tea"], tries=1).get("/items/1")
"""
)

OPTIONS: dict[str, Any] = {
    "recommended": "retry",
    "options": [
        {
            "id": "retry",
            "title": "Ask again where that does no harm",
            "description": "GET is sent again on 503, POST never.",
            "pros": ["what failed for a moment succeeds"],
            "cons": ["a failing shop gets more requests"],
            "cost": "half a day",
        },
        {
            "id": "breaker",
            "title": "Leave a failing shop alone for a while",
            "description": "After a failure the next requests fail at once.",
            "pros": ["a failing shop can recover"],
            "cons": ["more requests fail"],
            "cost": "half a day",
        },
        {
            "id": "queue",
            "title": "Queue requests and send them later",
            "description": "A worker sends what could not be sent.",
            "pros": ["no request is lost"],
            "cons": ["callers have to wait for answers in another way"],
            "cost": "two weeks",
        },
    ],
}
PAGES = {
    "/idempotent": (
        "Idempotent methods",
        """A client may retry a request automatically when its method is idempotent, as GET, HEAD, PUT and DELETE are.
        A POST request must not be retried automatically unless the client knows that nothing was done.""",
    ),
    "/busy": (
        "503 Service Unavailable",
        """The status 503 says that a server is overloaded for the moment, and a client may retry the request later.
        Retries without a limit make an overload worse, so a client should bound the number of retries of a request.""",
    ),
}


def diff(*changes: tuple[str, str, str]) -> str:
    lines: list[str] = []
    for path, old, new in changes:
        lines += difflib.unified_diff(
            old.splitlines(keepends=True), new.splitlines(keepends=True), f"a/{path}", f"b/{path}"
        )
    return "".join(lines)


def prepare(scene: Scene) -> None:
    scene.settings["research"] = {"url": scene.serve(Web)}
    shop = scene.serve(flaky())
    scene.model(answer)
    if scene.new:
        scene.write({"src/shop.py": CLIENT, "tests/test_shop.py": TESTS, "canary.py": CANARY})
        scene.write({".gitignore": IGNORED, "pytest.ini": "[pytest]\npythonpath = src\n"})
        scene.git("init", "-q", "-b", "main")
        scene.git("add", "-A")
        scene.git("commit", "-qm", "Begin")
    scene.arguments += ["-p", "feature=Add partial retries to the HTTP client", "-p", "branch=feature/retries"]
    scene.arguments += ["-p", "question=idempotent HTTP methods retries", "-p", f"target={shop}"]
    scene.arguments += ["-p", 'criteria=["backwards compatible", "configurable retry policy"]']


def answer(heard: Heard) -> Reply:
    """The next turn of the model, by what it has been told."""
    system = heard.turns[0][1]
    if "You compare ways" in system:
        return (
            [("answer", options(heard))]
            if "class Client" in heard.said()
            else [("files_read", {"path": "src/shop.py"})]
        )
    if "You change the code" in system:
        return implement(heard)
    return {"text": json.dumps(judged(heard.last()))}


def options(heard: Heard) -> dict[str, object]:
    """The options, without what a person does not want."""
    unwanted = "queue" if "no queue" in heard.said() else ""
    return {**OPTIONS, "options": [each for each in OPTIONS["options"] if each["id"] != unwanted]}


def implement(heard: Heard) -> Reply:
    """Read the code, then make one edit for each thing that was said."""
    calls = [call["function"]["name"] for turn in heard.body["messages"] for call in turn.get("tool_calls") or ()]
    told = [text for role, text in heard.turns if role == "user"]
    if not calls:
        return [("files_read", {"path": "src/shop.py"}), ("files_read", {"path": "tests/test_shop.py"})]
    if calls.count("files_edit") == len(told):
        return "It is done."
    return [("files_edit", {"diff": edit(told)})]


def edit(told: list[str]) -> str:
    if "Leave a failing shop alone" in told[0]:
        return diff(("src/shop.py", CLIENT, BREAKING), ("tests/test_shop.py", TESTS, WITH_BREAKER))
    if "the number of tries" in told[-1]:
        return diff(("src/shop.py", FIXED, CONFIGURABLE), ("tests/test_shop.py", WITH_RETRIES, WITH_POLICY))
    if "test_what_failed_for_a_moment_is_asked_again" in told[-1]:
        return diff(("src/shop.py", MISTAKEN, FIXED))
    return diff(("src/shop.py", CLIENT, MISTAKEN), ("tests/test_shop.py", TESTS, WITH_RETRIES))


def judged(material: str) -> dict[str, list[dict[str, object]]]:
    """Verdicts about a diff, each with a line of it."""
    tries = re.search(r"__init__\(self, url, tries=\d\)", material)
    quote = tries[0] if tries else 'for left in reversed(range(1 if method == "POST" else 3)):'
    kept = "def _send(self, method, path, data=None):"
    return {
        "verdicts": [
            {"criterion": 1, "met": "yes", "reason": "the calls that there are mean the same", "quotes": [kept]},
            {"criterion": 2, "met": "yes" if tries else "no", "reason": "the number of tries", "quotes": [quote]},
        ]
    }


class Web(BaseHTTPRequestHandler):
    """A search server that knows two pages, and the pages."""

    def do_GET(self) -> None:
        place = urlsplit(self.path)
        home = f"http://{self.headers['Host']}"
        if place.path == "/search":
            results = [{"url": home + path, "title": title, "content": title} for path, (title, _) in PAGES.items()]
            self._send(200, json.dumps({"results": results}), "application/json")
        elif place.path in PAGES:
            title, text = PAGES[place.path]
            page = f"<html><title>{title}</title><article><h1>{title}</h1><p>{text}</p></article></html>"
            self._send(200, page, "text/html")
        else:
            self._send(404, "not found", "text/plain")

    def _send(self, status: int, text: str, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        return


def flaky() -> type[BaseHTTPRequestHandler]:
    """A shop that is busy for the first of two requests for every fifth item."""
    seen: set[str] = set()

    class Shop(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            number = int(urlsplit(self.path).path.rpartition("/")[2])
            busy = number % 5 == 0 and self.path not in seen
            seen.add(self.path)
            self.send_response(503 if busy else 200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    return Shop


if __name__ == "__main__":
    rehearse(prepare, __file__, needs=("pytest",))
