"""What plans and tasks declare: parameters, outputs, artifacts, budgets, rollback, breakers, deadlines, gates."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from planrunner.diagnostics import Label
from planrunner.jsontext import write_json
from planrunner.plan.expressions.parse import parse
from planrunner.plan.expressions.quantities import meant_quantity, parse_duration
from planrunner.plan.lower import values as values
from planrunner.plan.lower.hypotheses import divided
from planrunner.plan.lower.values import CHECKS, Lowering, condition, criteria
from planrunner.plan.model import (
    Approvers,
    Artifact,
    Breaker,
    Budgets,
    Edge,
    Gate,
    Option,
    Output,
    Param,
    Reject,
    RollbackPolicy,
)
from planrunner.plan.nearest import meant, nearest
from planrunner.plan.params import misfit
from planrunner.plan.shapes import keys_of
from planrunner.plan.wording import meant_word
from planrunner.source import Span
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

TYPES = frozenset({"string", "int", "number", "bool", "duration", "size", "money", "percent", "list", "map", "any"})
_TYPES_ELSEWHERE = {
    "integer": "int",
    "str": "string",
    "float": "number",
    "boolean": "bool",
    "array": "list",
    "object": "map",
}
"""Names of types in other languages, and ours."""
_OF_A_PARAMETER = keys_of("parameter")
_REFERENCE = r"(?:artifacts|tasks|params|env|outputs)(?:\.[A-Za-z0-9_-]+)+|stdout|stderr|exit_code"


def params(low: Lowering, node: Node) -> tuple[Param, ...]:
    """The parameters of a plan; a default that a run cannot use is reported at its place."""
    for _, value in node.entries if isinstance(node, Mapping) else ():
        choices = value.get("choices") if isinstance(value, Mapping) else None
        for each in choices.items if isinstance(choices, Sequence) else [choices] if choices is not None else []:
            if "{{" in values.text(each):
                low.report("PLAN006", "choices of a parameter cannot hold templates", each.span, "write them out")
    return fields(low, node)


def fields(low: Lowering, node: Node) -> tuple[Param, ...]:
    """The fields of a form, declared as parameters are; their choices may hold templates."""
    if not isinstance(node, Mapping):
        return ()
    result = []
    for key, value in node.entries:
        param = _param(low, key, value)
        computed = any(isinstance(choice, str) and "{{" in choice for choice in param.choices)
        kind, problem = misfit(param._replace(choices=()) if computed else param)
        default = value.get("default") if isinstance(value, Mapping) else value
        if isinstance(value, Mapping):
            _check_choices(low, param, value.get("choices"))
        elif default is not None and (meant := _TYPES_ELSEWHERE.get(values.text(default))):
            help_ = f"a type is `{meant}`; a default that is this text is `{{default: {values.text(default)}}}`"
            low.report(
                "PLAN006",
                f"`{key.value}` is declared `{values.text(default)}`, which is not a type",
                default.span,
                help_,
            )
        if kind and default is not None:
            low.report("PLAN005" if kind == "type" else "PLAN006", f"the default does not fit: {problem}", default.span)
        result.append(param)
    return tuple(result)


def _check_choices(low: Lowering, param: Param, node: Node | None) -> None:
    """Report each choice that a value of the parameter's type can never be."""
    for item in node.items if isinstance(node, Sequence) else ():
        if "{{" in values.text(item):
            continue
        _, problem = misfit(param._replace(default=values.declared(low, item, param.type), choices=()))
        if problem:
            low.report("PLAN005", f"the choice does not fit: {problem}", item.span)


def _param(low: Lowering, key: Scalar, node: Node) -> Param:
    """A declaration, or (for anything but a mapping) the type alone, where it is the name of one, else the default."""
    if not isinstance(node, Mapping):
        default = values.data(node)
        if isinstance(default, str) and default.partition("[")[0].strip() in TYPES:
            return Param(str(key.value), _type_word(default), None, True, span=key.span)
        return Param(str(key.value), _type_of(default), default, default is None, span=key.span)
    parts = {str(name.value): value for name, value in node.entries if name.value in _OF_A_PARAMETER}
    kind = _type_word(values.text(parts["type"])) if "type" in parts else ""
    default = values.declared(low, parts["default"], kind) if "default" in parts else None
    required = values.truth(parts["required"]) if "required" in parts else None
    choices = values.declared(low, parts["choices"], kind) if "choices" in parts else None
    return Param(
        str(key.value),
        kind or _type_of(default),
        default,
        "default" not in parts if required is None else required,
        values.text(parts["description"]) if "description" in parts else "",
        tuple(choices) if isinstance(choices, list) else (choices,) if isinstance(choices, str) else (),
        key.span,
    )


def _type_word(word: str) -> str:
    """``list[url]`` is a list; a word that is not a type is any."""
    name = word.partition("[")[0].strip()
    return name if name in TYPES else "any"


def _type_of(value: Any) -> str:
    """The type that a default implies: text without a declared type may be anything."""
    return {bool: "bool", int: "int", float: "number", list: "list", dict: "map"}.get(type(value), "any")


def outputs(low: Lowering, node: Node) -> tuple[Output, ...]:
    """A mapping from name to declaration, or a list of files (each named as its path)."""
    if isinstance(node, Mapping):
        return tuple(_output(low, str(key.value), value, key.span) for key, value in node.entries)
    if isinstance(node, Sequence):
        return tuple(output for item in node.items if (output := _listed_output(low, item)))
    return ()


def _listed_output(low: Lowering, node: Node) -> Output | None:
    if isinstance(node, Mapping):
        name = node.get("name")
        return _output(low, values.text(name), node, name.span) if name is not None else None
    path = values.text(node)
    return Output(path, "any", None, path, span=node.span) if path else None


def _output(low: Lowering, name: str, node: Node, span: Span) -> Output:
    if isinstance(node, Mapping):
        parts = {str(key.value): value for key, value in node.entries}
        kind = _type_word(values.text(parts["type"])) if "type" in parts else "any"
        return Output(
            name,
            kind,
            _template(values.declared(low, parts["value"], kind)) if "value" in parts else None,
            values.text(parts["path"]) if "path" in parts else "",
            values.text(parts["description"]) if "description" in parts else "",
            span,
        )
    value = values.data(node)
    if isinstance(value, str) and _type_word(value) == value.partition("[")[0] and "{{" not in value:
        return Output(name, _type_word(value), span=span)
    return Output(name, "any", _template(value), span=span)


def check_types(low: Lowering, node: Node) -> None:
    """Report words of outputs that are all but the name of a type, or the name of the output again: as a value,
    ``intt`` would be given as text."""
    for key, value in node.entries if isinstance(node, Mapping) else ():
        said = value.get("type") if isinstance(value, Mapping) else value
        if not isinstance(said, Scalar) or not isinstance(said.value, str):
            continue
        word = said.value.strip()
        if said is value and word == key.value and word not in TYPES:
            message = f"the output `{word}` is declared `{word}`, which is not a type"
            help_ = f"write its type, such as `{word}: string`; the text itself is written `{word}: {{value: {word}}}`"
            low.report("PLAN006", message, said.span, help_)
            continue
        name = word.partition("[")[0]
        meant = None if name in TYPES else meant_word(name, sorted(TYPES), 1 if len(name) <= 5 else 2)
        if meant is None:
            continue
        text = f" The text itself is written `{key.value}: {{value: {word}}}`" if said is value else ""
        message = f"the output `{key.value}` is declared `{word}`, which is not a type"
        low.report("PLAN006", message, said.span, f"did you mean `{meant}`?{text}")


def _template(value: Any) -> Any:
    """A bare reference such as ``artifacts.sources`` means the value, so it becomes the template that gives it."""
    if isinstance(value, str) and re.fullmatch(_REFERENCE, value.strip()):
        return "{{ " + value.strip() + " }}"
    return value


def artifacts(node: Node) -> tuple[Artifact, ...]:
    if not isinstance(node, Sequence):
        return ()
    return tuple(artifact for item in node.items if (artifact := _artifact(item)))


RETENTIONS = ("forever", "keep", "plan", "run")
"""Words that say how long an artifact is kept; else it is a duration or a number of versions."""
_VERSIONS = r"([1-9][0-9]{0,5})\s*versions?"


def versions_kept(word: str) -> int:
    """The number of ``3 versions``, 0 for anything else."""
    match = re.fullmatch(_VERSIONS, word.strip())
    return int(match[1]) if match else 0


def check_retention(low: Lowering, node: Node) -> None:
    """Report a retention that says nothing."""
    for item in node.items if isinstance(node, Sequence) else ():
        said = item.get("retention") if isinstance(item, Mapping) else None
        word = values.text(said) if said is not None else ""
        if said is None or not word or word in RETENTIONS or versions_kept(word):
            continue
        if parse_duration(word) is None:
            guess = meant(nearest(word, RETENTIONS))
            message = f"`{word}` does not say how long an artifact is kept{guess}"
            low.report("PLAN006", message, said.span, "write `forever`, `run`, `7d` or `3 versions`")


def check_places(low: Lowering, node: Node) -> None:
    """Report constant paths of artifacts that lead out of the working directory."""
    for item in node.items if isinstance(node, Sequence) else ():
        said = item.get("path") if isinstance(item, Mapping) else item
        path = values.text(said) if said is not None else ""
        if said is None or "{{" in path or not path:
            continue
        whole = os.path.normpath(path)
        if whole.startswith("/") or whole.split("/")[0] == "..":
            message = f"an artifact cannot be `{path}`: it lies outside the working directory"
            low.report("PLAN006", message, said.span, "copy the file to the working directory first")


def _artifact(node: Node) -> Artifact | None:
    if isinstance(node, Scalar):
        path = values.text(node)
        return Artifact(path, path, span=node.span) if path else None
    if not isinstance(node, Mapping):
        return None
    parts = {str(key.value): values.text(value) for key, value in node.entries}
    name, path = parts.get("name", ""), parts.get("path", "")
    kind, retention, source = parts.get("type", ""), parts.get("retention", ""), parts.get("from", "")
    return Artifact(name or path or source, path, kind, retention, source, node.span)


_EXHAUSTED = frozenset(["stop", "gate"])
_AMOUNTS = ("tokens", "calls", "attempts", "iterations", "depth")


def budgets(low: Lowering, node: Node, default: Budgets) -> Budgets:
    """Limits; those not named are the default's."""
    fields: dict[str, Any] = {}
    for key, value in node.entries if isinstance(node, Mapping) else ():
        name = str(key.value)
        if name == "time":
            fields[name] = values.duration(low, value)
        elif name == "cost":
            fields[name] = values.money(low, value)
        elif name in _AMOUNTS:
            fields[name] = values.count(low, value)
        elif name == "warn":
            fields[name] = values.fraction(low, value)
            if (fields[name] or 0) > 1:
                message = f"`{values.text(value)}` is more than the whole limit"
                low.report("PLAN006", message, value.span, "a share is at most `100%`")
        elif name == "on_exhausted" and (word := values.text(value)) in _EXHAUSTED:
            fields[name] = word
    return default._replace(**fields)


def rollback(low: Lowering, node: Node) -> RollbackPolicy | None:
    if not isinstance(node, Mapping):
        return None
    parts = {str(key.value): value for key, value in node.entries}
    return RollbackPolicy(
        "strict" if "mode" in parts and values.text(parts["mode"]) == "strict" else "best_effort",
        values.texts(parts["only"]) if "only" in parts else (),
        budgets(low, parts["budgets"], Budgets()) if "budgets" in parts else Budgets(),
    )


def breakers(low: Lowering, node: Node) -> tuple[Breaker, ...]:
    items = node.items if isinstance(node, Sequence) else ()
    return tuple(breaker for item in items if (breaker := _breaker(low, item)) is not None)


def _breaker(low: Lowering, node: Node) -> Breaker | None:
    uses = node.get("uses") if isinstance(node, Mapping) else None
    if not isinstance(node, Mapping) or uses is None:
        return None
    failures, cooldown = node.get("failures"), node.get("cooldown")
    seconds = values.duration(low, cooldown) if cooldown is not None else None
    default = Breaker("")
    return Breaker(
        values.text(uses),
        (values.whole(failures) if failures is not None else 0) or default.failures,
        default.cooldown if seconds is None else seconds,
        uses.span,
    )


def gated(low: Lowering, node: Node) -> tuple[tuple[str, Gate], ...]:
    """The gates that a policy demands by label: under ``gates``, as ``labels``, or for ``prod`` alone."""
    if not isinstance(node, Mapping):
        return ()
    result: dict[str, Gate] = {}
    listed, prod, gates = node.get("labels"), node.get("requireGateForProd"), node.get("gates")
    if isinstance(listed, Mapping):
        result |= {str(key.value): _of_kind(low, kind) for key, kind in listed.entries}
    elif listed is not None:
        result |= {label: Gate() for label in values.texts(listed)}
    if prod is not None and values.truth(prod):
        result.setdefault("prod", Gate())
    for key, value in gates.entries if isinstance(gates, Mapping) else ():
        keys = {str(name.value): item for name, item in value.entries} if isinstance(value, Mapping) else {}
        if "evidence" in keys and (pieces := divided(low, keys["evidence"])[0]):
            message = f"the gate for the label `{key.value}` cannot weigh the hypothesis `{pieces[0].hypothesis}`"
            help_ = "what it decides is not a result: say it at a task"
            low.report("PLAN006", message, pieces[0].span, help_)
        result[str(key.value)] = gate(low, keys)
    return tuple(result.items())


def _of_kind(low: Lowering, node: Node) -> Gate:
    """A gate of which only the kind is given; one that checks has nothing to check then."""
    return Gate("decision") if values.text(node) == "decision" else gate(low, {"gate": node})


def deadline(low: Lowering, node: Node) -> float | None:
    """Seconds where a deadline is a duration; None for a date or words, which people read."""
    word = values.text(node)
    seconds = parse_duration(word)
    if seconds is None and re.fullmatch(_TIMELIKE, word):
        message = f"`{word[:40]}` looks like a duration but is not one{meant(meant_quantity(word))}"
        low.report("PLAN006", message, node.span, "write `30m`, `2h` or `1d12h`, or a date")
    return seconds


def due(node: Node) -> float | None:
    """Seconds since 1970 where a deadline is a date or a time in ISO 8601; UTC where it names no zone, and a date means
    the end of that day. None for words, which people read."""
    word = values.text(node)
    if not re.match(r"\d{4}-\d\d-\d\d", word):
        return None
    try:
        moment = datetime.fromisoformat(word)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment + timedelta(days=1) if len(word) == len("2026-12-31") else moment).timestamp()


_TIMELIKE = r"(?i)(?:\d+(?:\.\d+)?\s*(?!jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]+\s*)+"


def gate(low: Lowering, nodes: dict[str, Node]) -> Gate:
    """A gate from the keys of its task; without a kind, checks make it a gate of checks and people one of approval."""
    kind = values.text(nodes["gate"]) if "gate" in nodes else ""
    fields: dict[str, Any] = {name: read(low, nodes[name]) for name, read in _READERS.items() if name in nodes}
    fields |= fields.pop("approvers", {})
    kind = kind or ("checks" if "checks" in nodes else "")
    _report_missing(low, kind, nodes)
    _report_alike(low, fields.get("options", ()))
    if "choose" in nodes:
        _report_choice(low, nodes)
    if "window" in nodes:
        _report_window(low, nodes)
    return Gate(kind or "approval", **fields)


_NEEDED = {
    "checks": (("checks",), "what has to hold: `checks: [tasks.test.exit_code == 0]`"),
    "invariants": (("checks",), "what has to hold: `checks: [tasks.test.exit_code == 0]`"),
    "decision": (("options", "form"), "what there is to choose from: `options: [now, later]`"),
    "schema": (("evidence",), "the data and its schema: `evidence: [{schema: FILE, file: FILE}]`"),
    "tests": (("evidence",), "the reports in JUnit format: `evidence: [report.xml]`"),
}
"""What a kind of gate cannot decide without, and how it is said."""


def _report_missing(low: Lowering, kind: str, nodes: dict[str, Node]) -> None:
    """A gate that would open without having looked at anything, or wait for people who are not named."""
    keys, help_ = _NEEDED.get(kind, ((), ""))
    if keys and not any(_says(kind, key, nodes[key]) for key in keys if key in nodes):
        there = next(nodes[key].span for key in (*keys, "gate") if key in nodes)
        low.report(
            "PLAN004", f"a gate of the kind `{kind}` needs {_WANTED.get(kind, f'`{keys[0]}`')}", there, f"say {help_}"
        )
    expiry = nodes.get("on_expiry")
    if expiry is not None and values.text(expiry) == "escalate" and "escalate" not in nodes:
        message = "`on_expiry: escalate` needs `escalate`"
        low.report("PLAN004", message, expiry.span, "say who decides then: `escalate: {roles: [lead]}`")


_WANTED = {"schema": "a schema under `evidence`", "tests": "a report under `evidence`"}


def _says(kind: str, key: str, node: Node) -> bool:
    """Whether a value gives the gate something to go by; a template may give anything."""
    items = node.items if isinstance(node, Sequence) else [node]
    if key != "evidence":
        return bool(items)
    return any(_is_looked_at(kind, item) for item in items)


def _is_looked_at(kind: str, item: Node) -> bool:
    if isinstance(item, Mapping):
        names = {"schema"} if kind == "schema" else {"junit", "tests"}
        return any(key.value in names for key, _ in item.entries)
    return bool(word := values.text(item)) and (kind == "tests" or "{{" in word)


def _report_alike(low: Lowering, options: tuple[Option, ...]) -> None:
    first: dict[str, Option] = {}
    for option in options:
        other = first.setdefault(option.name, option)
        if other is not option and option.name:
            label = Label(other.span, "the other one is here")
            low.report("PLAN006", f"two options are called `{option.name}`", option.span, "give each an id", label)


def _report_choice(low: Lowering, nodes: dict[str, Node]) -> None:
    """An expression that gives the name of an option, where there is none or where people have to fill in more."""
    place = nodes["choose"].span
    if "options" not in nodes:
        help_ = "say what there is to choose from: `options: [now, later]`"
        low.report("PLAN004", "`choose` of a gate needs `options`", place, help_)
    elif "form" in nodes:
        message = "a gate with `choose` cannot have a `form`: without people it is not filled in"
        low.report("PLAN009", message, place, "ask for the values at another gate")


def _report_window(low: Lowering, nodes: dict[str, Node]) -> None:
    """A gate that asks for more than an approval cannot be approved together with others."""
    key = next((key for key in ("options", "form") if key in nodes), "")
    if key:
        help_ = "take `window` out: the gate is answered by its own name"
        low.report("PLAN009", f"a gate with `{key}` cannot be in a review window", nodes["window"].span, help_)


def approvers(node: Node) -> Approvers:
    """Who decides: a mapping, or the names of people alone. Once people are named, the person who started the run may
    not decide unless ``starter: true`` allows it."""
    if not isinstance(node, Mapping):
        return Approvers(people=values.texts(node), not_starter=True)
    parts = {str(key.value): value for key, value in node.entries}
    starter = values.truth(parts["starter"]) if "starter" in parts else None
    return Approvers(
        values.texts(parts["roles"]) if "roles" in parts else (),
        values.texts(parts["users"]) if "users" in parts else (),
        (values.whole(parts["count"]) if "count" in parts else None) or 1,
        not starter,
    )


def _options(low: Lowering, node: Node) -> tuple[Option, ...]:
    """A list of options, or an expression that gives one."""
    if isinstance(node, Scalar):
        each = condition(low, node)
        return (Option("", span=node.span, each=each),) if each is not None else ()
    items = node.items if isinstance(node, Sequence) else ()
    return tuple(option for item in items if (option := _option(item)) is not None)


def _option(node: Node) -> Option | None:
    if isinstance(node, Scalar):
        name = values.text(node)
        return Option(name, span=node.span) if name else None
    if not isinstance(node, Mapping):
        return None
    parts = {str(key.value): value for key, value in node.entries}
    keys = ("id", "title", "description", "cost", "to", "rework")
    words = {name: values.text(parts[name]) for name in keys if name in parts}
    name = words.get("id", "") or words.get("title", "")
    return Option(
        name,
        words.get("title", ""),
        words.get("description", ""),
        values.texts(parts["pros"]) if "pros" in parts else (),
        values.texts(parts["cons"]) if "cons" in parts else (),
        words.get("cost", ""),
        words.get("to", "") or words.get("rework", ""),
        node.span,
        "rework" in words,
        (values.whole(parts["max"]) if "max" in parts else 0) or 0,
    )


def _reject(node: Node) -> Reject:
    """``fail``, a task, ``{to: task}`` or ``{rework: task, max: n}``."""
    if not isinstance(node, Mapping):
        word = values.text(node)
        return Reject(span=node.span) if word in ("", "fail") else Reject("task", word, span=node.span)
    rework, to, most = node.get("rework"), node.get("to"), node.get("max")
    if rework is not None:
        return Reject("rework", values.text(rework), (values.whole(most) if most is not None else 0) or 0, rework.span)
    return Reject("task", values.text(to), span=to.span) if to is not None else Reject(span=node.span)


def routes(low: Lowering, found: Gate) -> list[Edge]:
    """The edges of a gate: to the task that runs after a rejection, and to those that its options lead to."""
    edges = []
    reject = found.on_reject
    if reject.action == "task":
        edges.append(Edge(reject.target, "failure", None, "rejected", span=reject.span))
    for option in found.options:
        if option.target:
            chosen = parse(f"outputs.choice == {write_json(option.name)}")._replace(span=option.span)
            edge = Edge(option.target, "condition", chosen, span=option.span)
            edges.append(edge._replace(on="success", rework=True, max=option.max) if option.rework else edge)
    return edges


_READERS: dict[str, Callable[[Lowering, Node], Any]] = {
    "ask": lambda _low, node: values.text(node),
    "checks": lambda low, node: criteria(low, node, CHECKS | low.ids | low.names),
    "approvers": lambda _low, node: approvers(node)._asdict(),
    "expires": values.duration,
    "on_expiry": lambda _low, node: values.text(node),
    "escalate": lambda _low, node: approvers(node),
    "on_reject": lambda _low, node: _reject(node),
    "options": _options,
    "choose": condition,
    "window": lambda _low, node: values.text(node),
    "form": fields,
    "evidence": lambda _low, node: values.data(node),
}
