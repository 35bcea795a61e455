"""The capabilities that planrunner comes with: by name, and as published in ``schemas/capabilities``.

Finding or describing one imports nothing, running one imports its module alone. The files are made from the signatures
by ``docs/generate.py``; a test holds each against its function.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from planrunner.capabilities.contract import Failure
from planrunner.fileio import read_data
from planrunner.jsontext import read_json
from planrunner.later import Later
from planrunner.plan.model import Capability, Field
from planrunner.process import plugin_code
from planrunner.records import defaults

if TYPE_CHECKING:
    from planrunner.extras import needed
else:
    needed = Later("planrunner.extras:needed")


_MODULES = {
    "agent.ask": "ask",
    "agent.critique": "critique",
    "agent.plan": "plan",
    "branch.change": "apply change",
    "branch.pick": "pick",
    "branch.trees": "base drop fork",
    "core": "fail noop shell sleep",
    "dask.run": "run",
    "docker.images": "build image_remove push tag",
    "docker.run": "run",
    "files.artifact": "artifact",
    "files.edit": "edit",
    "files.snapshot": "restore snapshot",
    "files.text": "append read template write",
    "files.tree": "copy delete glob mkdir move",
    "git.commit": "commit merge",
    "git.clone": "clone",
    "git.forge": "pull_request",
    "git.history": "bisect diff log show",
    "git.index": "add",
    "git.remote": "fetch push",
    "git.refs": "branch switch tag tag_delete",
    "git.worktree": "status worktree_add worktree_remove",
    "http.download": "download",
    "http.pages": "pages",
    "http.poll": "poll",
    "http.verbs": "delete get head patch post put request",
    "kb.notes": "claim note",
    "kb.views": "export search",
    "kubectl.objects": "apply delete get",
    "kubectl.rollout": "rollout_status rollout_undo",
    "llm.complete": "complete",
    "llm.embed": "embed",
    "llm.judge": "judge",
    "llm.vote": "vote",
    "memory.entries": "forget get put search",
    "memory.lessons": "advise learn",
    "mcp.call": "call",
    "mcp.tools": "tools",
    "python.run": "run",
    "python.scan": "scan",
    "python.tests": "write_tests",
    "research.facts": "cite facts",
    "research.fetch": "fetch",
    "research.relevance": "dedupe rank",
    "research.search": "search",
    "sql.execution": "execute query script",
    "validate.code": "bandit mypy ruff",
    "validate.data": "json_schema",
    "validate.tests": "junit pytest",
}
"""Module to the capabilities whose functions it holds; those of `core` have no family."""

TARGETS: dict[str, str] = dict(sorted(
    (verb if module == "core" else f"{module.partition('.')[0]}.{verb}", f"planrunner.capabilities.{module}:{verb}")
    for module, verbs in _MODULES.items()
    for verb in verbs.split()
))  # fmt: skip
"""Name of a capability to ``module:function``."""

SEAMS: dict[str, tuple[str, str]] = {
    "research.search": ("planrunner_register_search_providers", "planrunner.capabilities.research.providers:register")
}
"""Capabilities to which plugins add something: the hook that is called before the first use, and what it is given."""


EXTRAS = {"agent": "llm", "dask": "dask", "llm": "llm", "mcp": "mcp", "research": "web", "sql": "sql"}
"""Families whose libraries an extra of planrunner brings, with its name."""


@plugin_code()
def load(target: str) -> Callable[..., Any]:
    """The function that ``module:function`` names.

    Raises Failure where a built-in needs a library that an extra brings, else ImportError or AttributeError.
    """
    module, _, name = target.partition(":")
    try:
        function: Callable[..., Any] = getattr(__import__(module, fromlist=[name]), name)
    except ImportError as error:
        own, _, rest = module.partition("planrunner.capabilities.")
        family = rest.partition(".")[0]
        if own or family not in EXTRAS or (error.name or "").partition(".")[0] == "planrunner":
            raise error from None
        extra = EXTRAS[family]
        raise Failure(needed(f"{family} needs", extra, error)) from None
    return function


def planrunner_register_capabilities(register: Callable[..., None]) -> None:
    """Register the built-ins like any plugin does; ``register`` is described at the hook of this name."""
    for name, target in TARGETS.items():
        register(name, target, description_of(name))


Json = Any

_TUPLES = ("risks", "spends", "foreign", "own", "preconditions", "writes")
_read: dict[str, dict[str, Capability]] = {}


def family_of(name: str) -> str:
    """The family in whose file a capability stands; those without a family are together in ``core``."""
    family, dot, _ = name.partition(".")
    return family if dot else "core"


def description_of(name: str) -> Capability:
    """The description of a built-in capability. Raises FileNotFoundError or KeyError for one that is not published."""
    family = family_of(name)
    if family not in _read:
        text = read_data(os.path.join("schemas", "capabilities"), f"{family}.json")
        _read[family] = {}
        for data in read_json(text)["capabilities"]:
            tuples = {key: tuple(data.get(key, ())) for key in _TUPLES}
            fields = {key: tuple(Field(**field) for field in data.get(key, ())) for key in ("inputs", "outputs")}
            _read[family][data["name"]] = Capability(**{**data, **tuples, **fields})
    if name not in _read[family]:
        raise KeyError(f"{name} is not in schemas/capabilities/{family}.json, which `python docs/generate.py` writes")
    return _read[family][name]


def published(family: str, capabilities: list[Capability]) -> str:
    """The text of the file of a family; what is as by default is left out."""
    rows = [_sparse(capability) for capability in sorted(capabilities, key=lambda one: one.name)]
    title = "What `planrunner` can call"
    whole = {"title": title, "family": family, "format": 1, "capabilities": rows}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _sparse(record: Capability | Field) -> dict[str, Json]:
    usual = defaults(record)
    data = {key: value for key, value in record._asdict().items() if key not in usual or value != usual[key]}
    for key in ("inputs", "outputs"):
        if key in data:
            data[key] = [_sparse(field) for field in data[key]]
    return data
