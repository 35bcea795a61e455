"""What there is to give an agent beside its prompt: skills, its plan and task, results, memory and files, piece by
piece."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.files.scope import scope_between
from planrunner.capabilities.files.tree import matching
from planrunner.capabilities.llm.usage import most_tokens
from planrunner.capabilities.memory.entries import opened
from planrunner.files.beneath import Beneath
from planrunner.files.listing import git_ignored
from planrunner.files.match import is_glob
from planrunner.files.walk import Patterns
from planrunner.knowledge.memory.layers import recall
from planrunner.plan.contexts import Profile
from planrunner.plan.rights import Level

Json = Any

MOST_FILES = 200
"""Files of one part that are looked at."""
LONGEST_SKILL = 1 << 18
LONGEST_RESULT = 16_000
"""Bytes of one result."""
_LONGEST_QUERY = 2_000
_FRONT = r"\A---\r?\n(.*?)\r?\n---\s*\n"
_ABOUT = r"(?m)^(name|description):[ \t]*(?:[\"'](.*)[\"']|(.*?))[ \t]*$"


class Piece(NamedTuple):
    """Something of a part: its ``name``, its size in tokens, and what gives at most so many of them; None where that is
    not text. ``brief`` stands for it where there is no room, so that it is never cut; ``why`` says that it cannot go in
    at all."""

    part: str
    name: str
    size: int
    read: Callable[[int], str | None] = lambda most: None
    brief: str = ""
    why: str = ""


class Ground(NamedTuple):
    """Where files are read: ``directory`` is that of the task, ``project`` that of the run, from which skills and the
    ``rights`` count."""

    directory: str
    project: str
    rights: tuple[Level, ...] = ()
    cancelled: Callable[[], bool] = lambda: False


def ground_of(context: Context) -> Ground:
    """The ground of a call."""
    here = context.call.directory
    project = context.services.directory() if context.services is not None else here
    return Ground(here, project, context.call.rights, context.cancelled)


def remembered(context: Context, profile: Profile, query: str) -> Iterator[Piece]:
    """What memory has about a query. Raises Failure for a layer that there is not."""
    with ExitStack() as stack:
        layers = [stack.enter_context(opened(context, name)) for name in profile.layers]
        hits = recall(layers, query[:_LONGEST_QUERY], profile.limit, profile.tokens)
    for hit in hits:
        value = hit.entry.value
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield _piece("memory", hit.entry.key, text)


def told(around: Mapping[str, Json]) -> dict[str, list[Piece]]:
    """The plan, the task and the results, as the run has them."""
    plan, task, results = (around.get(part) or {} for part in ("plan", "task", "results"))
    return {
        "plan": [_piece("plan", plan["id"], "\n".join(_plan(plan)))] if plan else [],
        "task": [_piece("task", task["id"], "\n".join(_task(task)))] if task else [],
        "results": [
            _piece("results", name, cut("\n".join(_result(record)), LONGEST_RESULT)) for name, record in results.items()
        ],
    }


def _piece(part: str, name: str, text: str) -> Piece:
    return Piece(part, name, most_tokens(text), partial(cut, text))


def cut(text: str, most: int) -> str:
    """The beginning of a text, at most so many tokens of it, whole lines where they are not long."""
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return text
    begun = data[:most].decode("utf-8", "ignore")
    lines = begun.rpartition("\n")[0]
    return lines if len(lines) > len(begun) // 2 else begun


def _plan(plan: Mapping[str, Json]) -> Iterator[str]:
    yield f"{plan['id']}: {plan['title']}" if plan["title"] else str(plan["id"])
    if plan["description"]:
        yield str(plan["description"])
    yield "Tasks:"
    for task in plan["tasks"]:
        title = f": {task['title']}" if task["title"] else ""
        facts = [f"after {', '.join(task['needs'])}"] if task["needs"] else []
        facts += [task["status"]] if task["status"] else []
        yield f"- {task['id']}{title}" + (f" ({'; '.join(facts)})" if facts else "")


def _task(task: Mapping[str, Json]) -> Iterator[str]:
    yield f"{task['id']}: {task['title']}" if task["title"] else str(task["id"])
    if task["description"]:
        yield str(task["description"])
    if task["criteria"]:
        yield "It is done when:"
        yield from (f"- {text}" for text in task["criteria"])


def _result(record: Mapping[str, Json]) -> Iterator[str]:
    ended = record["status"] == "completed"
    yield str(record["status"]) + (f": {record['reason']}" if record["reason"] and not ended else "")
    outputs = {name: value for name, value in record["outputs"].items() if value not in (None, "")}
    if set(outputs) == {"text"}:
        yield str(outputs["text"])
    elif outputs:
        yield json.dumps(outputs, ensure_ascii=False, default=str)
    else:
        yield from (str(record[name]).rstrip("\n") for name in ("stdout", "stderr") if record[name])


class Folder(NamedTuple):
    """A folder in which patterns choose files, for a part."""

    ground: Ground
    directory: str
    part: str

    def open(self) -> Beneath:
        """The folder as far as the policy lets it be read."""
        scope = scope_between(self.ground.rights, self.ground.project, self.directory)
        return Beneath(self.directory, cancelled=self.ground.cancelled, scope=scope)


def skills(ground: Ground, patterns: Iterable[str]) -> Iterator[Piece]:
    """Files of Markdown, each with the name and the description that stand in front of it."""
    for each in _chosen(Folder(ground, ground.project, "skills"), patterns):
        text = None if each.why or each.size > LONGEST_SKILL else each.read(LONGEST_SKILL)
        if text is None:
            yield each._replace(why=each.why or f"it is not text of at most {LONGEST_SKILL:,} bytes")
        else:
            yield _skill(each.name, text)


def _skill(path: str, text: str) -> Piece:
    front = re.match(_FRONT, text, re.DOTALL)
    about = {name: quoted or bare for name, quoted, bare in re.findall(_ABOUT, front[1] if front else "")}
    name = about.get("name") or os.path.splitext(os.path.basename(path))[0]
    brief = f"{name}: {about['description']}" if about.get("description") else name
    whole = f"{brief}\n{text[front.end() if front else 0 :].strip()}"
    return Piece("skills", path, most_tokens(whole), partial(cut, whole), f"{brief} (in {path})")


def files(ground: Ground, patterns: Iterable[str]) -> Iterator[Piece]:
    """Files of the working directory, in the order of the patterns. What git ignores fits no pattern with a star."""
    yield from _chosen(Folder(ground, ground.directory, "files"), patterns)


class _Ignored(Patterns):
    """What git ignores, in the place of patterns."""

    __slots__ = ("_paths",)

    def __init__(self, directory: str) -> None:
        super().__init__([], True)
        self._paths = git_ignored(directory) or frozenset()

    def fits(self, path: str) -> bool:
        return path in self._paths


def _chosen(folder: Folder, patterns: Iterable[str]) -> Iterator[Piece]:
    seen: set[str] = set()
    with folder.open() as tree:
        for path in _paths(tree, patterns):
            if path in seen:
                continue
            if len(seen) == MOST_FILES:
                yield Piece(folder.part, "more files", 0, why=f"at most {MOST_FILES} files are looked at")
                return
            seen.add(path)
            piece = _file(folder, tree, path)
            if piece is not None:
                yield piece


def _paths(tree: Beneath, patterns: Iterable[str]) -> Iterator[str]:
    ignored: _Ignored | None = None
    for pattern in patterns:
        if not is_glob(pattern):
            yield pattern
            continue
        ignored = ignored or _Ignored(tree.directory)
        yield from (entry.path for entry in matching(tree, [], (Patterns([pattern], hidden=False), ignored)))


def _file(folder: Folder, tree: Beneath, path: str) -> Piece | None:
    """A file by its size now; None for a folder and whatever else is not a file."""
    try:
        handle = tree.open_to_read(path)
    except (OSError, Failure) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        return Piece(folder.part, path, 0, why=f"it cannot be read: {why}")
    try:
        info = os.fstat(handle)
    finally:
        os.close(handle)
    return Piece(folder.part, path, info.st_size, partial(_read, folder, path)) if stat.S_ISREG(info.st_mode) else None


def _read(folder: Folder, path: str, most: int) -> str | None:
    """The beginning of a file; None where it is not text, or not there any more."""
    data = b""
    try:
        with folder.open() as tree:
            handle = tree.open_to_read(path)
            try:
                while len(data) < most and (more := os.read(handle, most - len(data))):
                    data += more
            finally:
                os.close(handle)
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(data) - 3:  # else a letter that was cut in two
            return None
        text = data[: error.start].decode("utf-8")
    except (OSError, Failure):
        return None
    return None if "\0" in text else text
