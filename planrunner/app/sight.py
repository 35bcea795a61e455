"""A plan file as the engine needs it, read once: what the text came to is kept by content, so that a plan seen before
opens no YAML, no grammar and no schema."""

from __future__ import annotations

import os

from planrunner import __version__
from planrunner.errors import PlanInvalid
from planrunner.jsontext import read_json, write_json
from planrunner.lean import sha256
from planrunner.plan import compiled
from planrunner.plan.model import Capability, Expression, Plan
from planrunner.plugins import Registry
from planrunner.record import TYPE_CHECKING, NamedTuple
from planrunner.source import Source, notation_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from planrunner.journal.port import JournalPort

    Json = Any

FORMAT = "1"


class Seen(NamedTuple):
    """A plan ready to run. ``traits`` and ``env`` (names of environment variables it reads) go into the run's record;
    ``notices`` counts warnings and notes."""

    plan: Plan
    digest: str
    text: str
    compiled: bytes
    traits: dict[str, Json]
    env: tuple[str, ...]
    notices: int


def sight(path: str, journal: JournalPort, registry: Registry) -> Seen:
    """Read, check and compile a plan file, or take what was compiled before.

    Raises NotFound without such a file and PlanInvalid with every finding when the plan may not run.
    """
    data = _read(path)
    key = _key(path, data, registry)
    kept = journal.compiled_get(key)
    restored = None if kept is None else _restore(kept, data)
    if restored is not None:
        return restored
    seen = _first_sight(path, registry)
    head = write_json([seen.digest, seen.traits, seen.env, seen.notices])
    journal.compiled_put(key, b"\n".join((head.encode(), seen.compiled)))
    return seen


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        from planrunner.app.planfile import read_regular  # only for its error, which knows the files of similar names

        return read_regular(path).source.text.encode()


def _key(path: str, data: bytes, registry: Registry) -> str:
    parts = (FORMAT, __version__, notation_of(path), *map(str, registry.installed()))
    digest = sha256("\0".join(parts).encode())
    digest.update(data)
    return digest.hexdigest()


def _restore(kept: bytes, data: bytes) -> Seen | None:
    """What was compiled before; None where it is damaged or of another layout, which costs only time."""
    try:
        head, _, body = kept.partition(b"\n")
        digest, traits, env, notices = read_json(head.decode())
        plan = compiled.load(body.decode())
    except ValueError:
        return None
    return Seen(
        plan, digest, data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace"), body, traits, tuple(env), notices
    )


def _first_sight(path: str, registry: Registry) -> Seen:
    from planrunner.app.planfile import read_regular
    from planrunner.plan.digest import digest
    from planrunner.plan.load import load

    file = read_regular(path)
    if file.findings:
        raise PlanInvalid(f"`{path}` cannot run", file.source, file.findings)
    plan, findings = load(file.source, registry)[:2]  # what follows can have the memory of the tree
    if plan is None or any(finding.code == "PLAN020" for finding in findings):
        raise PlanInvalid(f"`{path}` cannot run", file.source, findings)
    traits = {name: _trait(registry.find(name)) for name in sorted({task.uses for task in plan.tasks if task.uses})}
    written = compiled.dump(plan).encode()
    return Seen(plan, digest(plan), file.source.text, written, traits, _env_names(plan, file.source), len(findings))


def _trait(capability: Capability | None) -> list[Json]:
    assert capability is not None, "lint has refused unknown capabilities"
    trait: list[Json] = [capability.effect, capability.instant, capability.probe]
    return [*trait, list(capability.spends)] if capability.spends else trait


def _env_names(plan: Plan, source: Source) -> tuple[str, ...]:
    """Environment variables that expressions and templates read, so that their values can be recorded with the run."""
    if "env." not in source.text and "env[" not in source.text:
        return ()
    return tuple(sorted({path[1] for path in _paths(plan) if path[0] == "env" and len(path) > 1}))


def _paths(value: Json) -> Iterator[tuple[str, ...]]:
    from planrunner.plan.template import references

    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, Expression):
            yield from item.paths
        elif isinstance(item, str):
            if "{{" in item:
                yield from (found[0] for found in references(item))
        elif isinstance(item, dict):
            todo.extend(item.values())
        elif isinstance(item, (tuple, list)):
            todo.extend(item)


def environment_of(names: tuple[str, ...]) -> dict[str, str]:
    """The values of environment variables that are set."""
    return {name: os.environ[name] for name in names if name in os.environ}
