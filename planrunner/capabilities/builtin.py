"""The capabilities that planrunner comes with: by name, and as published in ``schemas/capabilities``.

Finding or describing one imports nothing, running one imports its module alone. The files are made from the signatures
by ``docs/generate.py``; a test holds each against its function.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from planrunner.capabilities.contract import Failure
from planrunner.fileio import read_data
from planrunner.jsontext import read_json
from planrunner.plan.model import Capability, Field
from planrunner.process import plugin_code

TARGETS: dict[str, str] = {
    "docker.build": "planrunner.capabilities.docker.images:build",
    "docker.image_remove": "planrunner.capabilities.docker.images:image_remove",
    "docker.push": "planrunner.capabilities.docker.images:push",
    "docker.run": "planrunner.capabilities.docker.run:run",
    "docker.tag": "planrunner.capabilities.docker.images:tag",
    "fail": "planrunner.capabilities.core:fail",
    "files.append": "planrunner.capabilities.files.text:append",
    "files.copy": "planrunner.capabilities.files.tree:copy",
    "files.delete": "planrunner.capabilities.files.tree:delete",
    "files.edit": "planrunner.capabilities.files.edit:edit",
    "files.glob": "planrunner.capabilities.files.tree:glob",
    "files.mkdir": "planrunner.capabilities.files.tree:mkdir",
    "files.move": "planrunner.capabilities.files.tree:move",
    "files.read": "planrunner.capabilities.files.text:read",
    "files.restore": "planrunner.capabilities.files.snapshot:restore",
    "files.snapshot": "planrunner.capabilities.files.snapshot:snapshot",
    "files.template": "planrunner.capabilities.files.text:template",
    "files.write": "planrunner.capabilities.files.text:write",
    "git.add": "planrunner.capabilities.git.index:add",
    "git.bisect": "planrunner.capabilities.git.history:bisect",
    "git.branch": "planrunner.capabilities.git.refs:branch",
    "git.clone": "planrunner.capabilities.git.fetch:clone",
    "git.commit": "planrunner.capabilities.git.commit:commit",
    "git.diff": "planrunner.capabilities.git.history:diff",
    "git.fetch": "planrunner.capabilities.git.fetch:fetch",
    "git.log": "planrunner.capabilities.git.history:log",
    "git.merge": "planrunner.capabilities.git.commit:merge",
    "git.pull_request": "planrunner.capabilities.git.forge:pull_request",
    "git.push": "planrunner.capabilities.git.push:push",
    "git.show": "planrunner.capabilities.git.history:show",
    "git.status": "planrunner.capabilities.git.worktree:status",
    "git.switch": "planrunner.capabilities.git.refs:switch",
    "git.tag": "planrunner.capabilities.git.refs:tag",
    "git.tag_delete": "planrunner.capabilities.git.refs:tag_delete",
    "git.worktree_add": "planrunner.capabilities.git.worktree:worktree_add",
    "git.worktree_remove": "planrunner.capabilities.git.worktree:worktree_remove",
    "http.delete": "planrunner.capabilities.http.verbs:delete",
    "http.download": "planrunner.capabilities.http.download:download",
    "http.get": "planrunner.capabilities.http.verbs:get",
    "http.head": "planrunner.capabilities.http.verbs:head",
    "http.pages": "planrunner.capabilities.http.pages:pages",
    "http.patch": "planrunner.capabilities.http.verbs:patch",
    "http.poll": "planrunner.capabilities.http.poll:poll",
    "http.post": "planrunner.capabilities.http.verbs:post",
    "http.put": "planrunner.capabilities.http.verbs:put",
    "http.request": "planrunner.capabilities.http.verbs:request",
    "kubectl.apply": "planrunner.capabilities.kubectl.objects:apply",
    "kubectl.delete": "planrunner.capabilities.kubectl.objects:delete",
    "kubectl.get": "planrunner.capabilities.kubectl.objects:get",
    "kubectl.rollout_status": "planrunner.capabilities.kubectl.rollout:rollout_status",
    "kubectl.rollout_undo": "planrunner.capabilities.kubectl.rollout:rollout_undo",
    "llm.complete": "planrunner.capabilities.llm.complete:complete",
    "llm.embed": "planrunner.capabilities.llm.embed:embed",
    "llm.judge": "planrunner.capabilities.llm.judge:decide",
    "llm.vote": "planrunner.capabilities.llm.vote:vote",
    "noop": "planrunner.capabilities.core:noop",
    "python.run": "planrunner.capabilities.python.run:run",
    "python.scan": "planrunner.capabilities.python.scan:scan",
    "research.cite": "planrunner.capabilities.research.facts:cite",
    "research.dedupe": "planrunner.capabilities.research.relevance:dedupe",
    "research.facts": "planrunner.capabilities.research.facts:facts",
    "research.fetch": "planrunner.capabilities.research.fetch:fetch",
    "research.rank": "planrunner.capabilities.research.relevance:rank",
    "research.search": "planrunner.capabilities.research.search:search",
    "shell": "planrunner.capabilities.core:shell",
    "sleep": "planrunner.capabilities.core:sleep",
    "sql.execute": "planrunner.capabilities.sql.execution:execute",
    "sql.query": "planrunner.capabilities.sql.execution:query",
    "sql.script": "planrunner.capabilities.sql.execution:script",
    "validate.bandit": "planrunner.capabilities.validate.code:bandit",
    "validate.json_schema": "planrunner.capabilities.validate.data:json_schema",
    "validate.junit": "planrunner.capabilities.validate.tests:junit",
    "validate.mypy": "planrunner.capabilities.validate.code:mypy",
    "validate.pytest": "planrunner.capabilities.validate.tests:pytest",
    "validate.ruff": "planrunner.capabilities.validate.code:ruff",
}
"""Name of a capability to ``module:function``."""

SEAMS: dict[str, tuple[str, str]] = {
    "research.search": ("planrunner_register_search_providers", "planrunner.capabilities.research.providers:register"),
}
"""Capabilities to which plugins add something: the hook that is called before the first use, and what it is given."""


EXTRAS = {"llm": "llm", "research": "web", "sql": "sql"}
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
        raise _lacking(module, error) from None
    return function


def _lacking(module: str, error: ImportError) -> Exception:
    """The failure of a family whose extra is not installed; any other error as it is."""
    family = module.removeprefix("planrunner.capabilities.").partition(".")[0]
    library = (error.name or "").partition(".")[0]
    if family not in EXTRAS or not module.startswith("planrunner.capabilities.") or library == "planrunner":
        return error
    extra = EXTRAS[family]
    return Failure(f"{family} needs the extra `{extra}`: pip install 'planrunner[{extra}]' ({error})")


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
        _read[family] = {each["name"]: _parsed(each) for each in read_json(text)["capabilities"]}
    return _read[family][name]


def _parsed(data: dict[str, Json]) -> Capability:
    fields: dict[str, Json] = {**data}
    for key in _TUPLES:
        fields[key] = tuple(data.get(key, ()))
    for key in ("inputs", "outputs"):
        fields[key] = tuple(Field(**field) for field in data.get(key, ()))
    return Capability(**fields)


def published(family: str, capabilities: list[Capability]) -> str:
    """The text of the file of a family; what is as by default is left out."""
    rows = [_sparse(each, Capability._field_defaults) for each in sorted(capabilities)]
    title = "What `planrunner` can call"
    whole = {"title": title, "family": family, "format": 1, "capabilities": rows}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _sparse(record: Capability | Field, defaults: dict[str, Json]) -> dict[str, Json]:
    data = {key: value for key, value in record._asdict().items() if key not in defaults or value != defaults[key]}
    for key in ("inputs", "outputs"):
        if key in data:
            data[key] = [_sparse(field, Field._field_defaults) for field in data[key]]
    return data
