"""Looks whether a task is done already: the digests of its input files, and the record of the time when it was done.

The record of a task is a small file in ``cache/fresh`` of the state directory. Losing it costs only time; it stands for
what a task would have done, so one that the user's key does not vouch for counts for nothing.
"""

from __future__ import annotations

import os
from hashlib import sha256
from typing import Any

from planrunner.engine.effects import Forget, Look, Remember
from planrunner.engine.inputfiles import digests
from planrunner.engine.patterns import Refused, inside, matching
from planrunner.journal.verifying import known_chain
from planrunner.journal.workspace import private
from planrunner.jsontext import read_json, stable_json, write_json
from planrunner.machine.events import FreshnessSeen

Json = Any


def look(state_dir: str, effect: Look) -> FreshnessSeen:
    """What is to be said about the freshness of a task. Where its files cannot be looked at, ``fault`` says why."""
    answer = FreshnessSeen(effect.task, fault=effect.fault)
    if effect.fault:
        return answer
    try:
        now = digests(effect, state_dir)
        made = [pattern for pattern in effect.outputs if not _any(effect, pattern)]
    except Refused as error:
        return answer._replace(fault=str(error))
    answer = answer._replace(inputs=_digest(effect.call, now))
    kept = _read(state_dir, effect.name)
    if kept is None:
        return answer._replace(why="it was not done before")
    answer = answer._replace(since=str(kept["run"]), outputs=kept["outputs"], artifacts=tuple(kept["artifacts"]))
    if made:
        return answer._replace(why=f"nothing fits its output {made[0]}")
    if kept["inputs"] != answer.inputs:
        return answer._replace(why=f"its inputs have changed since run {answer.since}")
    return answer._replace(same=effect.by_files)


def _any(effect: Look, pattern: str) -> bool:
    relative = inside(effect.root, effect.directory, pattern)
    return next(matching(effect.root, relative, through=True), None) is not None


def _digest(call: str, inputs: dict[str, str]) -> str:
    return sha256(stable_json([call, inputs]).encode("utf-8", "surrogatepass")).hexdigest()


def remember(state_dir: str, effect: Remember) -> None:
    """Keep that a task is done. The file is whole or not there; it is a cache, so nothing waits for the disk."""
    path = _path(state_dir, effect.name)
    record: dict[str, Json] = {
        "task": effect.name,
        "run": effect.run_id,
        "inputs": effect.inputs,
        "outputs": effect.outputs,
        "artifacts": effect.artifacts,
    }
    staged = f"{path}.{os.getpid()}-{os.urandom(4).hex()}"
    try:
        record["mac"] = _mac(state_dir, record)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(staged, "w", encoding="utf-8", errors="surrogatepass", opener=private) as file:
            file.write(write_json(record))
        os.replace(staged, path)
    except OSError:
        return  # the task is done again the next time


def forget(state_dir: str, effect: Forget) -> None:
    """What was undone is not done any more."""
    try:
        os.unlink(_path(state_dir, effect.name))
    except OSError:
        return


def _path(state_dir: str, name: str) -> str:
    return os.path.join(state_dir, "cache", "fresh", sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:40])


def _read(state_dir: str, name: str) -> dict[str, Json] | None:
    try:
        with open(_path(state_dir, name), encoding="utf-8", errors="surrogatepass", opener=private) as file:
            record: dict[str, Json] = read_json(file.read())
        mac = record.pop("mac", "")
        ours = record.get("task") == name and mac == _mac(state_dir, record)
        return record if ours and record.keys() >= {"run", "inputs", "outputs", "artifacts"} else None
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def _mac(state_dir: str, record: dict[str, Json]) -> str:
    """What vouches for a record; empty where the user has no key, and nobody can tell who wrote one."""
    return known_chain(state_dir).mac_of_text(f"fresh {stable_json(record)}")
