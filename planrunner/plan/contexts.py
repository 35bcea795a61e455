"""Context profiles: what an agent is given beside its prompt, in which order and within how many tokens."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from planrunner.failures import Failure
from planrunner.files.match import files
from planrunner.later import Later
from planrunner.plan.expressions.quantities import parse_count
from planrunner.plan.nearest import meant, nearest
from planrunner.records import Struct

if TYPE_CHECKING:
    from planrunner.files.walk import Patterns
else:
    Patterns = Later("planrunner.files.walk:Patterns")

Json = Any

FRESH = "fresh"
"""The context of a task whose agent begins a new conversation."""
PARTS = ("skills", "plan", "task", "results", "memory", "files")
"""What a profile can include, in the order in which it does where it does not say."""
TOKENS = 32_000
MOST_TOKENS = 10_000_000
"""Tokens of a context that no model takes."""
ENTRIES = 5
"""Entries of memory."""
_NEED_MORE = {"skills": "skills: [skills/*.md]", "files": "files: [README.md]", "memory": "memory: {layers: [project]}"}
"""Parts that are empty without a key of their own, and how it is written."""


class Profile(Struct):
    """``include`` are parts, the most important one first; ``skills`` and ``files`` are patterns from the directory of
    the project, ``layers`` those of memory, of which ``limit`` entries are recalled at most."""

    tokens: int = TOKENS
    include: tuple[str, ...] = PARTS
    skills: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()
    limit: int = ENTRIES

    def as_json(self) -> dict[str, Json]:
        """The fields as data."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in self._asdict().items()}


def read_profile(given: Mapping[str, Json]) -> Profile:
    """A profile as the project or a task has it; what has another shape than the schema asks for is left at its
    default."""
    memory = given.get("memory")
    memory = memory if isinstance(memory, dict) else {}
    limit = memory.get("limit")
    skills, files_, layers = _texts(given.get("skills")), _texts(given.get("files")), _texts(memory.get("layers"))
    own = {"skills": skills, "files": files_, "memory": layers}
    include = _texts(given.get("include")) or tuple(part for part in PARTS if own.get(part, True))
    most = limit if isinstance(limit, int) else ENTRIES
    return Profile(tokens_of(given.get("tokens")), include, skills, files_, layers, most)


def tokens_of(given: Json) -> int:
    """The number of ``12000`` or ``12k``."""
    return (parse_count(given) if isinstance(given, str) else given if isinstance(given, int) else None) or TOKENS


def _texts(given: Json) -> tuple[str, ...]:
    if isinstance(given, str):
        return (given,)
    return tuple(each for each in given if isinstance(each, str)) if isinstance(given, (list, tuple)) else ()


def faults(given: Mapping[str, Json], whole: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    """What is wrong with a profile: the key, and a sentence. ``whole`` is it with all that it is laid over."""
    tokens = tokens_of(given.get("tokens"))
    if tokens > MOST_TOKENS:
        yield "tokens", f"a context of {tokens:,} tokens is too large for any model: write {MOST_TOKENS:,} or fewer"
    include = _texts(given.get("include"))
    for part in include:
        if part in _NEED_MORE and not whole.get(part):
            yield "include", f"`{part}` of `include` has no effect: add the key, such as `{_NEED_MORE[part]}`"
    for part in _NEED_MORE if include else ():
        if given.get(part) and part not in include:
            yield part, f"`{part}` has no effect: `include` does not list it"
    for key in ("skills", "files"):
        for pattern in _texts(given.get(key)):
            if wrong := _wrong(pattern):
                yield key, wrong


def _wrong(pattern: str) -> str:
    try:
        Patterns([pattern], hidden=False)
    except Failure as failure:
        return str(failure)
    return ""


def unmatched(given: Mapping[str, Json], directory: str) -> Iterator[tuple[str, str]]:
    """The patterns that fit no file of the project, each with its key."""
    for key in ("skills", "files"):
        for pattern in _texts(given.get(key)):
            paths = () if _wrong(pattern) else files(directory, pattern)
            if not any(os.path.isfile(os.path.join(directory, path)) for path in paths):
                yield key, pattern


def unknown(name: str, contexts: Mapping[str, Json]) -> tuple[str, str]:
    """The message and the help about the name of a profile that the project does not have."""
    way = meant(nearest(name, [*contexts, FRESH]))
    known = ", ".join(f"`{each}`" for each in list(contexts)[:8])
    help_ = f"`contexts` of planrunner.yaml has {known}" if known else "planrunner.yaml has no section `contexts`"
    return f"there is no context profile `{name}`{way}", help_
