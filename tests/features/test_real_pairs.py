"""Pairs of features with real tasks: what they claim holds, every surface shows the run, a kill changes nothing, and a
rollback leaves the folder as it was."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from simulator.crashes import die_at, in_child

from features.doors import call
from features.examine import examine
from features.real_features import DRESSED, HELD, MADE, Ids, Real, beside

Json = Any

PAIRS = int(os.environ.get("PLANRUNNER_REAL_PAIRS", "100"))
PARTS = 20
WAITING = 8
APART = {
    ("linked", "believed", "inside"): "evidence is about a hypothesis of its own plan",
    ("linked", "linked", "inside"): "a plan knows the subplans that it names itself",
    **dict.fromkeys(
        [("later", one, "on") for one in ("approval", "decision", "form")], "people are not asked later by a key"
    ),
}
"""Pairs that lint refuses, with the reason."""
AGAIN = 20
"""Decisions that a run may need."""


class Pair(NamedTuple):
    """Two features, the way in which they meet, and the write at which the run is killed (0: it is not)."""

    one: str
    other: str
    way: str
    kill: int

    def piece(self) -> Real:
        other = (
            MADE[self.other](_ids("b")) if self.other in MADE else HELD[self.other](_ids("b"), MADE["shell"](_ids("c")))
        )
        if self.way == "inside":
            return HELD[self.one](_ids("a"), other)
        if self.way == "on":
            return DRESSED[self.one](_ids("a"), other)
        return beside(MADE[self.one](_ids("a")), other, self.way == "after")


def _ids(prefix: str) -> Ids:
    return lambda name: f"{prefix}-{name}"


def _pairs() -> list[Pair]:
    inner = [*MADE, *HELD]
    found = [(one, other, "inside") for one in HELD for other in inner]
    found += [(one, other, "on") for one in DRESSED for other in inner]
    found += [(one, other, way) for one in MADE for other in inner for way in ("beside", "after")]
    rng = random.Random("real pairs")
    rng.shuffle(found)
    found = [each for each in found if each not in APART]
    return [Pair(*names, rng.randint(2, 9) if number % 10 == 0 else 0) for number, names in enumerate(found[:PAIRS])]


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/plain")
        self.end_headers()
        self.wfile.write(b"hello\n")

    def log_message(self, *args: Any) -> None:
        """Nothing is printed."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where a server answers."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.slow
@pytest.mark.limit(900)
@pytest.mark.parametrize("part", range(PARTS))
def test_pairs_of_features_hold_what_they_claim_with_real_tasks(part: int, tmp_path: Path, address: str) -> None:
    found = []
    for number, pair in enumerate(_pairs()[part::PARTS]):
        folder = tmp_path / f"p{number}"
        found += [f"{pair}: {text}" for text in played(pair, folder, address)]
    assert not found, "\n".join(found)


def played(pair: Pair, folder: Path, address: str) -> Iterator[str]:
    """What is not as it must be with a pair."""
    piece = pair.piece()
    (folder / "kept").mkdir(parents=True)
    (folder / "kept" / "old.txt").write_text("old\n")
    (folder / "planrunner.yaml").write_text("network: {private: [127.0.0.1]}\n")
    keys = json.loads(json.dumps(dict(piece.keys)))
    if "address" in keys.get("params", {}):
        keys["params"]["address"]["default"] = address
    plan = {"plan": "pair", **keys, "defaults": {"timeout": "1m"}, "tasks": list(piece.tasks)}
    (folder / "plan.json").write_text(json.dumps(plan, indent=1))
    before = _tree(folder)
    linted = call(folder, "lint", "plan.json")
    if linted.code:
        yield f"lint: {linted.out}{linted.err}"
        return
    if pair.kill:
        in_child(lambda: _dying(folder, pair.kill))
    else:
        done = call(folder, "exec", "plan.json", "--progress", "quiet")
        if done.code not in (0, WAITING):
            yield f"exec exits with {done.code}: {done.err[-800:]}"
    yield from _driven(folder)
    shown = json.loads(call(folder, "show", "last", "--json").out or "{}")
    if "tasks" not in shown:
        yield f"there is no run: {shown}"
        return
    yield from _claims(piece, shown)
    yield from examine(folder, shown["run_id"], acts=False)
    if not call(folder, "rollback", "last", "--preview").code:
        yield from _undone(folder, shown, before)


def _dying(folder: Path, write: int) -> int:
    die_at(write, stored=write % 2 == 0, told=lambda count, entries: None)
    return call(folder, "exec", "plan.json", "--progress", "quiet").code


def _driven(folder: Path) -> Iterator[str]:
    """Decide what people are asked as they are told to, and go on until the run has ended."""
    for _ in range(AGAIN):
        told = call(folder, "show", "last", "--json")
        if told.code == 3:  # killed before there was a run
            call(folder, "exec", "plan.json", "--progress", "quiet")
            continue
        shown = json.loads(told.out)
        if shown["status"] in ("completed", "failed", "cancelled"):
            return
        for gate in json.loads(call(folder, "gates", "last", "--json").out)["gates"]:
            command = _answer(gate)
            took = call(folder, *shlex.split(command)[1:])
            if took.code not in (0, WAITING):
                yield f"`{command}` exits with {took.code}: {took.err}"
        went = call(folder, "resume", "last", "--settle", "all=retry", "--progress", "quiet")
        if went.code not in (0, 1, 2, WAITING):
            yield f"resume exits with {went.code}: {went.err}"
    yield f"the run does not come to an end: {shown['status']} {shown['waiting']}"


def _answer(gate: Json) -> str:
    """The first command that a gate tells, filled in."""
    command = str(gate["commands"][0])
    return re.sub(r"(\w+)\|\S+", r"\1", command)


def _claims(piece: Real, shown: Json) -> Iterator[str]:
    if shown["status"] != "completed":
        yield f"the run is {shown['status']} ({shown['reason']} {shown['detail']})"
    for path, task in shown["tasks"].items():
        name = re.split(r"[/#\[@]", path)[-1] if not path.endswith("]") else path.rpartition("/")[2].partition("[")[0]
        wanted = piece.status.get(name, "completed")
        if task["status"] != wanted:
            yield f"`{path}` is {task['status']} ({task['detail']}) and should be {wanted}"


def _undone(folder: Path, shown: Json, before: Json) -> Iterator[str]:
    done = call(folder, "rollback", "last", "--progress", "quiet")
    if done.code:
        yield f"rollback exits with {done.code}: {done.err[-800:]}"
    after = _tree(folder)
    if after != before:
        yield f"rollback leaves {sorted(after.items() ^ before.items())}"
    if shown["run_id"][-1].isdigit():  # a third of them; each takes as long as the run
        yield from (f"rolled back: {text}" for text in examine(folder, shown["run_id"], acts=False))


def _tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b""
        for path in folder.rglob("*")
        if ".planrunner" not in path.parts
    }
