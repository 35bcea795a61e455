"""What a plan may do if it is run, as the basis of a decision whether it may: capabilities, programs, hosts, paths,
secrets, variables, people, and the worst case of what it uses. All of it is read from the plan and from the settings
that come with it; nothing is run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from planrunner.app.proof.envelope import KnownPlan, effect_of, envelope
from planrunner.app.proof.names import walk
from planrunner.capabilities.core import POSIX_SHELLS
from planrunner.escapes import masked
from planrunner.plan.expressions.values import text_of
from planrunner.plan.model import Action, Plan, Task
from planrunner.plan.shell.parse import parse
from planrunner.plan.shell.quoting import simple_command
from planrunner.plan.shell.tree import started
from planrunner.plan.tasks import inner

Json = Any


FORMAT = 1

_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://(?:[^\s/@'\"]*@)?((?:\{\{.*?\}\}|[^\s/'\"`<>|)\\])+)", re.IGNORECASE)
_LOGIN = re.compile(r"(?:^|\s)[\w.-]+@([\w.-]+\.[\w-]+):(?!\d)")
_NAMES_VARIABLE = re.compile(r"(?:^|_)env(?:_var)?$")


def powers(look: KnownPlan, parallel: int, directory: str) -> dict[str, Json]:
    """What the plan may do, as plain data that is equal for equal plans; ``directory`` is where its tasks work."""
    tasks = list(walk(look.plan.tasks))
    whole = envelope(look, parallel)
    return {
        "plan": look.plan.id,
        "title": look.plan.title,
        "tasks": sum(1 for _, task in tasks if not inner(task)),
        "capabilities": _capabilities(look, tasks),
        "programs": sorted(
            {name for _, task in tasks for each in _acting(task) for name in programs(each, task.shell)}
        ),
        "hosts": sorted({host for text in _texts(look) for host in hosts(look.filled(text))}),
        "writes": sorted({row["path"] for row in whole["writes"]}),
        "outside": outside(look, directory),
        "subplans": _subplans(look.plan),
        "secrets": sorted({each for _, task in tasks for each in _secrets(task.secrets)}),
        "env": [],
        "params": {name: _shown(value) for name, value in look.state.params.items()},
        "asks": whole["asks"],
        "irreversible": whole["irreversible"],
        "worst": {**whole["worst"], "time": whole["time"]["at_most"], "limit": whole["time"]["limit"]},
    }


def _acting(task: Task) -> list[Any]:
    """The task and what undoes it: whatever has inputs or a script."""
    return [each for each in (task, task.rollback) if each is not None]


def _capabilities(look: KnownPlan, tasks: Iterable[tuple[str, Task]]) -> list[dict[str, Json]]:
    """Each capability with its effect class and how many tasks name it."""
    rows: dict[str, dict[str, Json]] = {}
    for _, task in tasks:
        for each in _acting(task):
            if each.uses:
                effect = effect_of(look, task) if each is task else effect_of(look, Task(task.id, uses=each.uses))
                row = rows.setdefault(each.uses, {"name": each.uses, "effects": [], "tasks": 0})
                row["tasks"] += 1
                row["effects"] = sorted({*row["effects"], effect} - {""})
    return [rows[name] for name in sorted(rows)]


def _texts(look: KnownPlan) -> Iterator[str]:
    """Every text by which tasks can name a host: inputs, scripts, variables."""
    yield from (value for _, value in look.plan.env)
    for _, task in walk(look.plan.tasks):
        yield from (value for _, value in task.env)
        yield task.stdin
        yield from strings(task.params)
        for each in _acting(task):
            yield from strings(each.inputs)
            yield from strings(each.run)


def strings(value: Json) -> Iterator[str]:
    """Every text in data, keys of maps included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield from strings(name)
            yield from strings(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from strings(each)


def hosts(text: str) -> list[str]:
    """The hosts of the addresses in a text, with their ports; a template that stands for one stays as it is."""
    if "://" not in text and "@" not in text:
        return []
    addresses = [match[1].rstrip(".,;:") for match in _ADDRESS.finditer(text)]
    return [each for each in (*addresses, *(match[1] for match in _LOGIN.finditer(text))) if each]


def outside(look: KnownPlan, directory: str) -> list[dict[str, str]]:
    """Where tasks work outside ``directory``, or take outputs from, as far as parameters alone tell."""
    root = os.path.realpath(directory)
    rows = []
    for path, task in walk(look.plan.tasks):
        cwd = look.filled(task.cwd)
        named = [("cwd", cwd), *(("output", _below(cwd, look.filled(each.path))) for each in task.outputs if each.path)]
        rows += [{"task": path, "path": each, "as": kind} for kind, each in named if is_beyond(root, each)]
    return rows


def _below(cwd: str, path: str) -> str:
    return os.path.join(cwd, path) if cwd else path


def is_beyond(root: str, path: str) -> bool:
    """Whether a path, counted from ``root`` (a real path), surely leads out of it; what begins with a template only the
    run can tell."""
    if not path or "{{" in path.split("/", maxsplit=1)[0] or "\0" in path:
        return False
    real = os.path.realpath(os.path.join(root, path))
    return real != root and not real.startswith(f"{root.rstrip('/')}/")


def _subplans(plan: Plan) -> list[str]:
    """The files of the linked plans, from the folder of the plan."""
    return sorted({task.sub.file for _, task in walk(plan.tasks) if task.sub is not None and task.sub.file})


def _secrets(given: Json) -> Iterator[str]:
    """The ids of the credentials that a task is given: a list of them, or a mapping from variables to them."""
    for each in given.values() if isinstance(given, Mapping) else given or ():
        yield str(each.get("id", "")) if isinstance(each, Mapping) else str(each)


def _shown(value: Json) -> str:
    return masked(text_of(value))


def settings_powers(data: Mapping[str, Json]) -> dict[str, Json]:
    """What the settings that come with a plan add to it: the sections, the hosts they name, the private addresses they
    open, and the variables of the environment, files and commands they take secrets from."""
    return {
        "sections": sorted(map(str, data)),
        "hosts": sorted({host for text in strings(dict(data)) for host in hosts(text)}),
        "env": sorted(set(_variables(data))),
        "private": sorted(strings((data.get("network") or {}).get("private"))),
        "files": sorted(_sources(data, "file_path")),
        "commands": sorted(_sources(data, "command")),
    }


def _sources(data: Mapping[str, Json], key: str) -> set[str]:
    """What credentials are read from: files, or the words of commands."""
    rows = [each.get("auth") for each in data.get("provider_credentials") or () if isinstance(each, Mapping)]
    values = [row.get(key) for row in rows if isinstance(row, Mapping)]
    return {each if isinstance(each, str) else " ".join(map(str, each)) for each in values if each}


def _variables(value: Json) -> Iterator[str]:
    """Names of variables of the environment in settings: what stands under a key such as ``url_env``."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            if _NAMES_VARIABLE.search(str(name)) and not isinstance(each, Mapping):
                yield from strings(each)
            else:
                yield from _variables(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _variables(each)


_BUILT_IN = frozenset(
    ": [ alias break cd continue declare echo exit export false getopts hash let local popd printf pushd pwd read"
    " readonly return set shift shopt test times trap true type typeset ulimit umask unalias unset wait".split()
)
"""What a shell does by itself, without a program."""
_GRAMMAR = frozenset("[[ } done fi for select".split())
"""Words around commands that are not commands themselves; the parser of scripts knows the others."""
_STATEMENT = re.compile(r"\{%.*?%\}", re.DOTALL)


def programs(each: Task | Action, shell: str = "") -> list[str]:
    """The programs that a task or an action names, each once; a script for another interpreter is that interpreter
    alone."""
    run = each.run
    if not run:
        return []
    if isinstance(run, tuple):
        return [str(run[0])]
    interpreter = shell.split(maxsplit=1)[0] if shell.split() else "sh"
    if interpreter.rpartition("/")[2] not in POSIX_SHELLS:
        return [interpreter]
    if simple := simple_command(run):
        return [simple[0]]
    return list(dict.fromkeys((interpreter, *_named(_STATEMENT.sub("", run)))))


def _named(script: str) -> Iterator[str]:
    """The first word of each command, also of those inside others, as it is written."""
    for command in parse(script).commands:
        for word in started(command.words)[:1]:
            name = "".join("VALUE" if part.kind == "hole" else part.source or part.text for part in word.parts)
            is_grammar = word is command.words[0] and word.bare and word.text in _GRAMMAR
            if name and name not in _BUILT_IN and not is_grammar:
                yield name
