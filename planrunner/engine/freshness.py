"""Looks whether a task is done already: the digests of its input files, and the record of the time when it was done.

The record of a task is a small file in ``cache/fresh`` of the state directory. Losing it costs only time; it stands for
what a task would have done, so one that the user's key does not vouch for counts for nothing.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from planrunner.engine.calls import NO_VALUE, Place, call_of, digest, rendered_text
from planrunner.engine.effects import CheckFreshness, DropFreshness, RecordFreshness
from planrunner.failures import Failure
from planrunner.fileio import replace_file
from planrunner.files.listing import below, fits, git_ignored, inside, matching
from planrunner.journal.chain import known_chain
from planrunner.journal.workspace import private
from planrunner.jsontext import read_json, stable_json, write_json
from planrunner.machine.commands import Start
from planrunner.machine.events import FreshnessAsked, FreshnessSeen
from planrunner.machine.scope import TaskScope
from planrunner.machine.state import State

if TYPE_CHECKING:
    from planrunner.engine.effects import CheckFreshness

Json = Any


def look(state_dir: str, effect: CheckFreshness) -> FreshnessSeen:
    """What is to be said about the freshness of a task. Where its files cannot be looked at, ``fault`` says why."""
    answer = FreshnessSeen(effect.task, fault=effect.fault)
    if effect.fault:
        return answer
    try:
        now = digests(effect, state_dir)
        missing = [
            pattern
            for pattern in effect.outputs
            if not any(matching(effect.root, inside(effect.root, effect.directory, pattern), through=True))
        ]
    except Failure as error:
        return answer._replace(fault=str(error))
    answer = answer._replace(
        inputs=hashlib.sha256(stable_json([effect.call, now]).encode("utf-8", "surrogatepass")).hexdigest()
    )
    kept = _read(state_dir, effect.name)
    if kept is None:
        return answer._replace(why="it was not done before")
    answer = answer._replace(since=str(kept["run"]), outputs=kept["outputs"], artifacts=tuple(kept["artifacts"]))
    if missing:
        return answer._replace(why=f"nothing fits its output {missing[0]}")
    if kept["inputs"] != answer.inputs:
        return answer._replace(why=f"its inputs have changed since run {answer.since}")
    return answer._replace(same=effect.by_files)


def remember(state_dir: str, effect: RecordFreshness) -> None:
    """Keep that a task is done. The file is whole or not there; it is a cache, so nothing waits for the disk."""
    path = _path(state_dir, effect.name)
    record: dict[str, Json] = {
        "task": effect.name,
        "run": effect.run_id,
        "inputs": effect.inputs,
        "outputs": effect.outputs,
        "artifacts": effect.artifacts,
    }
    try:
        record["mac"] = _mac(state_dir, record)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        replace_file(path, write_json(record).encode("utf-8", "surrogatepass"))
    except OSError:
        return  # the task is done again the next time


def forget(state_dir: str, effect: DropFreshness) -> None:
    """What was undone is not done any more."""
    try:
        os.unlink(_path(state_dir, effect.name))
    except OSError:
        return


def _path(state_dir: str, name: str) -> str:
    return os.path.join(
        state_dir, "cache", "fresh", hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:40]
    )


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
    """What vouches for a record; empty where the user has no key, and a record cannot be verified."""
    return known_chain(state_dir).mac_of_text(f"fresh {stable_json(record)}")


def asks_fresh(state: State, number: int, place: Place) -> tuple[FreshnessAsked, CheckFreshness]:
    """The question whether a task is done already. A call that cannot be rendered is one that was never made; a pattern
    that cannot be rendered is a fault."""
    task, scope = state.specs[number], TaskScope(state, number)
    fresh = task.fresh
    assert fresh is not None
    by_files = bool(fresh.inputs or fresh.outputs)
    directory, call = place.directory, ""
    inputs, outputs, fault = fresh.inputs, fresh.outputs, ""
    try:
        if number not in state.containers:
            made = call_of(state, task, Start(number, 1), place, "")
            directory, call = made.directory, digest(made)
    except NO_VALUE:
        by_files = False
    try:
        inputs = tuple([rendered_text(pattern, scope) for pattern in inputs])
        outputs = tuple([rendered_text(pattern, scope) for pattern in outputs])
    except NO_VALUE as error:
        fault = f"a pattern has no value: {error}"
    root, name = os.path.normpath(place.directory), _name(state, task.id)
    look = CheckFreshness(task.id, name, call, root, directory, inputs, outputs, by_files, fresh.gitignore, fault)
    return FreshnessAsked(task.id, call), look


def remembered(state: State, name: str) -> RecordFreshness | None:
    """What is kept of a task that has just been done; None where it is not asked for."""
    number = state.index[name]
    seen, task_state = state.freshness.get(number), state.tasks[number]
    if seen is None or not seen.inputs or task_state.outcome is None:
        return None
    outcome = task_state.outcome
    return RecordFreshness(_name(state, name), state.run_id, seen.inputs, outcome.outputs, outcome.artifacts)


def forgotten(state: State, name: str) -> DropFreshness | None:
    """A task that was undone is not done any more; None for one that never said when it is."""
    return DropFreshness(_name(state, name)) if state.specs[state.index[name]].fresh is not None else None


def _name(state: State, task: str) -> str:
    return f"{state.plan.id}\n{task}"


def digests(look: CheckFreshness, state_dir: str) -> dict[str, str]:
    """The digest of every input file by its path. A link counts with the file, or the folder, that it leads to.

    Raises Failure for a pattern that nothing fits or that leads out of the directory of the run, for a link to a folder
    around it, and for a file that cannot be read.
    """
    reader, result = _Reader(look, state_dir), dict[str, str]()
    for pattern in look.inputs:
        if pattern.startswith("!"):
            continue
        fitting = False
        for path in matching(look.root, inside(look.root, look.directory, pattern), through=True):
            if not reader.leaves_out(path):
                fitting = True
                if path not in result:
                    result.update(reader.of(path))
        if not fitting:
            raise Failure(f"no file fits the input `{pattern}` in {look.directory}")
    return result


class _Reader:
    """Reads files below a root, but for those that fit a pattern with ``!``, those that git ignores where that is
    asked for, and the state of planrunner."""

    def __init__(self, look: CheckFreshness, state_dir: str) -> None:
        self._root = look.root
        self._entered: set[str] = set()
        """Folders that were entered by a link: each counts once, so that circles end."""
        excluding = [pattern[1:] for pattern in look.inputs if pattern.startswith("!")]
        self._patterns = [inside(look.root, look.directory, pattern) for pattern in excluding]
        self._names = {os.path.relpath(os.path.realpath(state_dir), os.path.realpath(look.root))}
        if look.gitignore:
            ignored = git_ignored(look.root)
            if ignored is None:
                raise Failure(f"`gitignore: true` needs a git repository, and {look.root} is not in one")
            self._names |= {*ignored, ".git"}

    def leaves_out(self, path: str) -> bool:
        parts = path.split("/")
        named = any("/".join(parts[:at]) in self._names for at in range(1, len(parts) + 1))
        return named or any(fits(path, pattern) for pattern in self._patterns)

    def of(self, path: str) -> Iterator[tuple[str, str]]:
        """The digest of a file; of a link, where it leads and the digests of what is there; nothing of a folder."""
        whole = os.path.join(self._root, path)
        try:
            mode = os.lstat(whole).st_mode
            if stat.S_ISREG(mode):
                yield path, _of_file(whole)
            elif stat.S_ISLNK(mode):
                yield path, f"link {os.readlink(whole)}"
                yield from self._behind(path, os.path.realpath(whole))
        except FileNotFoundError:
            yield path, "missing"  # removed while it was being looked at
        except OSError as error:
            raise Failure(f"the input {path} cannot be read: {error.strerror}") from None

    def _behind(self, link: str, target: str) -> Iterator[tuple[str, str]]:
        if os.path.isfile(target):
            yield f"{link}/", _of_file(target)
        elif os.path.isdir(target) and target not in self._entered:
            if f"{os.path.realpath(self._root)}/".startswith(f"{target.rstrip('/')}/"):
                raise Failure(
                    f"the input {link} is a link to {target}, which holds this directory; leave out `!{link}`"
                )
            self._entered.add(target)
            for path in below(self._root, link):
                if not self.leaves_out(path):
                    yield from self.of(path)


def _of_file(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
