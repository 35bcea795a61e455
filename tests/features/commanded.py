"""Marriages with real tasks: scripts in place of imagined replies, the command line in place of an imagined world."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from workbench import planrunner

from features.accepted import KNOWN, unexpected
from features.examine import examine
from features.marriages import Marriage, pairs
from features.pieces import Piece
from features.played import Ran, clean, document_of, read, wrong_of_any_run, wrong_of_claims
from planrunner.app.history.compare import recorded
from planrunner.app.proof.lives import Lived
from planrunner.app.proof.world import Reply
from planrunner.plugins.registry import Registry

Json = Any
IMAGINED = frozenset(
    (
        "timeout",
        "timebox",
        "watchdog",
        "sleep",
        "delay",
        "expiry",
        "escalate",
        "breaker",
        "http",
        "agent",
        "retry-on",
        "fresh",
        "preconditions",
    )
)
"""Features that need a clock that jumps, a host, a model or files that are there before."""
WAITS = 8
PEOPLE = ("ana", "bo", "cy")


def real_pairs(count: int) -> list[Marriage]:
    """Pairs that can be run with real tasks."""
    found = (each for each in pairs() if not IMAGINED & {*each.names} and each.id not in KNOWN)
    return [marriage for marriage, _ in zip(found, range(count), strict=False)]


def faults(marriage: Marriage, folder: Path, registry: Registry) -> list[str]:
    """What is wrong with a real run of a marriage in an empty folder."""
    piece = marriage.piece()
    document = _real(document_of(marriage.id, piece), piece)
    piece = piece._replace(files={path: _real(content, piece) for path, content in piece.files.items()})
    loaded = read(document, piece, folder, registry)
    refused = clean(loaded)
    if refused or loaded.plan is None:
        return unexpected(marriage, refused)
    (folder / "pair.json").write_text(json.dumps(document))
    for name in ("data", "out"):
        (folder / name).mkdir(exist_ok=True)
    done = planrunner(folder, "--no-input", "exec", "pair.json", "--json")
    lines = done.stdout.strip().splitlines()
    if not lines or "internal error" in done.stderr:
        return [f"real: exec ended with {done.returncode}: {done.stderr[-400:]}"]
    run = json.loads(lines[-1])["run_id"]
    found = list(_people(folder, run, piece)) if done.returncode == WAITS else []
    state = recorded(run, str(folder / ".planrunner"))
    lived = Lived(state.state, list(state.entries), [], 0, 1, [])
    ran = Ran(document, piece, loaded.plan, lived)
    found += [*wrong_of_any_run(ran), *wrong_of_claims(ran)]
    return [*found, *(f"surface: {each}" for each in examine(folder, run))]


def _people(folder: Path, run: str, piece: Piece) -> Iterator[str]:
    """Have people answer what the run asks, with the commands that it names, until it asks nothing more."""
    visits: dict[str, int] = {}
    for _ in range(12):
        told = planrunner(folder, "gates", run, "--json")
        gates = json.loads(told.stdout)["gates"]
        if not gates:
            return
        for gate in gates:
            visits[gate["gate"]] = visits.get(gate["gate"], 0) + 1
            for person in PEOPLE[: gate["need"]]:
                words = _answer(gate, piece, visits[gate["gate"]], person)
                done = planrunner(folder, "--no-input", *words)
                if done.returncode not in (0, 8) and "decided" not in done.stderr:
                    yield f"real: `{shlex.join(words)}` ended with {done.returncode}: {done.stderr[-300:]}"
        done = planrunner(folder, "--no-input", "resume", run, "--json")
        if "internal error" in done.stderr:
            yield f"real: resume ended with {done.returncode}: {done.stderr[-400:]}"
    yield "real: the run asks and asks"


def _answer(gate: Mapping[str, Json], piece: Piece, visit: int, person: str) -> list[str]:
    """The words of the command that a person is told, filled in."""
    name = re.sub(r"\[[^\]]*\]|#\d+|@\d+", "", gate["gate"]).rpartition("/")[2]
    said = piece.gates.get(name, "approve")
    said = said[min(visit, len(said)) - 1] if isinstance(said, list) else said
    said = {"decision": said} if isinstance(said, str) else said
    commands: list[str] = gate["commands"]
    rejects = said["decision"] == "reject"
    fitting = [shlex.split(each)[1:] for each in commands if each.startswith("planrunner reject") == rejects]
    words = next((each for each in fitting if said.get("option") in each), fitting[0])
    values = {field["name"]: field.get("default") or "x" for field in gate["form"]} | dict(said.get("values", {}))
    filled = []
    for word in words:
        field, equals, _ = word.partition("=")
        if equals and word.endswith(("…", "...")):
            filled.append(f"{field}={values.get(field, 'x')}")
        else:
            filled.append(said.get("comment", "no") if word == "TEXT" else word)
    given = (
        []
        if "-f" in words or rejects
        else [part for name, value in said.get("values", {}).items() for part in ("-f", f"{name}={value}")]
    )
    roles = [part for role in gate["roles"] for part in ("--role", role)]
    return [*filled, *given, "--as", person, *roles]


def _real(document: Json, piece: Piece) -> Json:
    """The plan with a script in place of each imagined reply."""
    if isinstance(document, list):
        return [_real(each, piece) for each in document]
    if not isinstance(document, dict):
        return document
    found = {name: _real(value, piece) for name, value in document.items()}
    if isinstance(found.get("retry"), dict) and "delay" in found["retry"]:
        found["retry"] = {**found["retry"], "delay": "10ms"}
    if found.get("run") == "serve":
        found["run"] = "echo up; exec sleep 600"
    elif isinstance(found.get("run"), str) and found["run"].startswith("undo "):
        found["run"] = "true"
    elif isinstance(found.get("run"), list) and found.get("artifacts"):  # a program and its arguments make none
        found["run"] = ["sh", "-c", f"{_script(found | {'run': '$@'}, ())}", "sh", *found["run"]]
    elif isinstance(found.get("id"), str) and found.get("run") and isinstance(found["run"], str):
        found["run"] = _script(found, piece.replies.get(found["id"], ()))
    return found


def _script(task: Mapping[str, Json], replies: tuple[Reply, ...]) -> str:
    kept = [f"mkdir -p out && echo kept > {each['path']}" for each in task.get("artifacts", ())]
    if not replies:
        return "\n".join([*kept, task["run"]])
    cases = [f"{number}) {_acts(reply)} ;;" for number, reply in enumerate(replies[:-1], 1)]
    return "\n".join([*kept, 'case "$PLANRUNNER_ATTEMPT" in', *cases, f"*) {_acts(replies[-1])} ;;", "esac"])


def _acts(reply: Reply) -> str:
    acts = [f'echo {name}={value} >> "$PLANRUNNER_OUTPUT"' for name, value in (reply.outputs or {}).items()]
    acts += [f'echo {what}={value} >> "$PLANRUNNER_USAGE"' for what, value in reply.usage.items()]
    acts += [f"echo {shlex.quote(reply.stdout)}"] if reply.stdout else []
    code = reply.exit_code if reply.exit_code is not None else int(bool(reply.failure))
    return "; ".join([*acts, f"exit {code}"])
