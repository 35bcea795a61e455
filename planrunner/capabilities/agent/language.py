"""The plan language in words for a model: made from the published schema, without the names that mean the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from planrunner.plan.model import Capability
from planrunner.plan.schema import published

Json = Any

RULES = """\
A plan is one YAML document. Tasks run as soon as what they need has completed, several at once.
- Expressions (when, expect, until): comparisons, and/or/not/in, arithmetic, quantities (10m, 50MB, $2, 80%). They read
  tasks.ID.outputs.NAME, tasks.ID.status, params.NAME, env.NAME; in `expect` outputs, exit_code, stdout and stderr too.
- Templates {{ … }} in texts read the same names. A value that is one whole template keeps its type. Quote it in YAML.
- In `run`, a template arrives as data: the shell never parses it. A script gives outputs by appending NAME=VALUE lines
  to the file "$PLANRUNNER_OUTPUT"; each output is declared under `outputs` with its type.
- A task that reads outputs of another one needs it, directly or through others.
- Whatever changes something says how it is undone (`rollback`, `backup`) unless its capability undoes it, and the plan
  has `on_failure: rollback`. What cannot be undone, or reaches other people, comes after a task with `gate: approval`
  and `ask`.
- Every task has a `timeout`, its own or by `defaults`; loops have `max`; the plan has `budgets`.
- `effect` of a `run` task says what a repetition does: read, idempotent, or unsafe (the default)."""

_SECTIONS = (
    ("the plan", ""),
    ("a task", "task"),
    ("budgets", "budgets"),
    ("policy (it can only take rights away)", "policy"),
    ("a parameter", "parameter"),
    ("an output", "output"),
    ("retry", "retry"),
    ("loop", "loop"),
    ("approvers", "approvers"),
)
_UNUSED = frozenset({"status", "state", "created_at", "stakeholders", "memory", "hypotheses", "role", "autonomous"})


def language() -> str:
    """The keys of plans, a line each."""
    schema = published()
    parts = [RULES]
    for title, name in _SECTIONS:
        properties = (schema["definitions"][name] if name else schema)["properties"]
        parts.append(f"Keys of {title}:\n" + "\n".join(_keys(properties)))
    return "\n\n".join(parts)


def _keys(properties: dict[str, Json]) -> Iterator[str]:
    for name, said in properties.items():
        about = str(said.get("description", ""))
        if not about or about.startswith("Another name of") or name in _UNUSED:
            continue
        values = said.get("enum") or said.get("type") or ""
        kind = "|".join(map(str, values)) if isinstance(values, list) else str(values)
        yield f"- {name}{f' ({kind})' if kind else ''}: {about}"


def signatures(capabilities: Iterable[Capability]) -> str:
    """What tasks may call, a line each: inputs with their types (``?`` where one may be left out) and outputs."""
    return "\n".join(f"- {_signature(each)}" for each in capabilities if not each.name.startswith("agent."))


def _signature(capability: Capability) -> str:
    inputs = ", ".join(
        f"{field.name}{'' if field.required else '?'}: {field.type or 'any'}" for field in capability.inputs
    )
    outputs = ", ".join(field.name for field in capability.outputs)
    undone = ", undone by itself" if capability.undo else ""
    call = f"{capability.name}({inputs}){f' -> {outputs}' if outputs else ''}"
    return f"{call}: {capability.summary} [{capability.effect}{undone}]"
