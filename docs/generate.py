"""Writes what is made from the code: the reference pages of plan keys, settings, lint rules, events, joins,
capabilities, refusals, facts, functions, the HTTP API and coverage, the five diagrams, and ``schemas/capabilities``.

python docs/generate.py            write the files
python docs/generate.py --check    say which files differ from the code, and end with 1 if any does
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

import coverage_page  # noqa: E402

from planrunner.app.plans.reference import catalogue  # noqa: E402
from planrunner.capabilities.builtin import TARGETS, family_of, load, published  # noqa: E402  # noqa: E402
from planrunner.capabilities.preconditions import described  # noqa: E402
from planrunner.capabilities.refusals import REFUSALS  # noqa: E402
from planrunner.capabilities.signature import describe  # noqa: E402
from planrunner.diagnostics import RULES  # noqa: E402
from planrunner.machine import events  # noqa: E402
from planrunner.machine.joins import needs_verdict  # noqa: E402
from planrunner.machine.state import State  # noqa: E402
from planrunner.machine.statuses import set_dependency_outcome  # noqa: E402
from planrunner.plan.expressions.check import declared  # noqa: E402
from planrunner.plan.expressions.functions import ALIASES, FUNCTIONS, METHODS, Function  # noqa: E402
from planrunner.plan.expressions.grammar import COMPARED, TESTS  # noqa: E402
from planrunner.plan.expressions.values import (  # noqa: E402
    FACTS,
    NAMES,
)
from planrunner.plan.joins import WORDS  # noqa: E402
from planrunner.plan.model import Join, Plan, Task  # noqa: E402
from planrunner.records import defaults, fields  # noqa: E402
from planrunner.safety.content import USER_SECTIONS  # noqa: E402
from planrunner.safety.settings import DEEPEST, MOST  # noqa: E402
from planrunner.service import reference as api  # noqa: E402

sys.path.insert(0, str(ROOT / "docs"))
import diagrams  # noqa: E402
import gallery_page  # noqa: E402
import schema_files  # noqa: E402

from planrunner.syntax.lalr import digest_of  # noqa: E402
from planrunner.syntax.tables import text_of  # noqa: E402

REFERENCE = ROOT / "docs" / "reference"
EXPLANATION = ROOT / "docs" / "explanation"
PUBLISHED = ROOT / "schemas" / "capabilities"
MADE = "<!-- Made by docs/generate.py: change the source named in the text, then run it again. -->\n\n"

Schema = dict[str, Any]


PLAN_HEAD = """# Plan files

{made}Every key of a plan, from `schemas/plan.schema.json`. `planrunner schema` prints the same; editors find it through
the first line of a plan:

```yaml
# yaml-language-server: $schema=../schemas/plan.schema.json
```

Where a key has other names, they mean the same and `planrunner fmt` writes the first one. The kinds of values are
explained at the end.

## The plan

"""

KINDS_TAIL = """\
- **criterion**: an expression that must hold, such as `exit_code == 0`; or plain words, which only a judge or a person
  can decide (`judge: backwards compatible` says so explicitly)
- **expression**: see [expressions](expressions.md)
"""

PROJECT_HEAD = """# The settings of a project

{made}Every key of `planrunner.yaml`, from `schemas/project.schema.json`; `planrunner schema project` prints the same.
[Configure a project](../how-to/configure-a-project.md) says how to use it.

What holds, from the bottom up; `planrunner config show --origin` shows where each value stands:

- `$XDG_CONFIG_HOME/planrunner/config.yaml` of the user, key by key of a section. It has {user} alone.
- `planrunner.yaml` and the files of `include` together: mappings key by key, lists one after the other,
  and a key in two files is an error.
- The profile that was chosen, at any depth: entries of lists go by their `id`, an empty value takes a key away.
- `policy` of each of the three holds at the same time: none widens another.

A path under `include` is meant from the root of the project and leads through no link and not out of it; there are at
most {most} files, {deepest} deep, and 8 MiB together. The profile is that of `--profile`, else of PLANRUNNER_PROFILE,
else of `profile`; `none` means no profile.

## Sections

"""

RULES_HEAD = """# Lint rules

{made}What `planrunner lint` can find. `planrunner rule CODE` prints one of these.
`# planrunner: ignore[CODE] reason` on a line, on the line above or at the head of a task keeps a finding quiet.

| code | name | severity | title |
|---|---|---|---|
"""

CAPABILITIES_HEAD = """# Capabilities

{made}What tasks can call without any plugin, from signatures and docstrings in `planrunner/capabilities`. `planrunner
capabilities` lists these and those of the plugins you have. A task with `run` and without `uses` calls `shell`. The
effect class says what a repetition does; a task may declare its own with `effect:`.

| name | effect | what it does |
|---|---|---|
"""

EVENTS_HEAD = """# Events

{made}What the journal keeps for ever, from `planrunner/machine/events.py`. `planrunner events RUN --json` prints them,
one object a line. Each bears the edition of the rules; until a first release there is one, and events of another are
refused. Events in the past tense are facts; `AttemptStarted` is an intent, durable before the act. `turn` in the body
of an event is the number of the first event of its turn: what arrived since the last decision, and all that was decided
on it.
"""


JOINS_HEAD = """# Joins

{made}When the needs of a task are met, by its `join`. The tables are made by asking the machine. A need counts by its
outcome:

| outcome | of a need that | flags in expressions, beside `done` |
|---|---|---|
| completed | completed, or that another task stands in for | `ok`, `completed` |
| tolerated | failed with `allow_failure: true` | `failed` |
| failed | failed, and nothing recovered it | `failed` |
| skipped | was not run, because its `when` is false | `skipped` |
| omitted | was not run: its edges led elsewhere, or a task before it was skipped | `omitted` |
| cut off | was not run, because a task before it failed | `omitted`, `cut_off` |
| cancelled | was cancelled, or was not run because a task before it was | `cancelled`; `omitted` where it was not run |

A task that `--only` or `--until` leave out counts as completed; its flag is `ok`. Why a task was not
run is the gravest cause among the tasks before it: a failure, then a cancellation, then a skip; where its join asks for
failures, it is omitted. `t.status` is `omitted` for all of them.

`{{at_least: n}}` is `any` with a count. [Wait for several tasks](../how-to/wait-for-several-tasks.md) shows their use.

"""

REFUSALS_HEAD = """# Refusals

{made}What is refused fails its task with the class `policy`, and the end of the attempt in the journal names the rule
(`planrunner events last --type attempt_ended --json`, under `outcome.rule`). The message says what was wanted and,
where something can be done about it, the line to write. This page is made of `planrunner/capabilities/refusals.py`;
plugins name rules of their own.

| rule | refuses | how to allow it, or what to do instead |
|---|---|---|
"""


FUNCTIONS_HEAD = """# Functions

{made}The functions of [expressions and templates](expressions.md), from
`planrunner/plan/expressions/functions.py`. Each is written as a call, `round(x, digits=2)`, or as a filter of its first
argument, `x | round(2)`, everywhere. Arguments in square brackets may be left out. A value of another kind than a
function takes is a finding where lint knows the kind, and else a failure.

| function | other names | gives |
|---|---|---|
| `default(value, other[, boolean])` | `d` | `other` where `value` is missing or null (with `boolean`: or empty) |
| `exists(value)` | | whether `value` is there and not null |
"""

FUNCTIONS_TAIL = """
## Over lists

A comprehension goes through a list: `[x.name for x in rows if x.ok]`, `[k ~ "=" ~ v for k, v in items(map)]`. These
filters are other ways to write one; names of members and tests stand in quotes.

| filter | the same as |
|---|---|
| `rows \\| map(attribute="a.b")` | `[x.a.b for x in rows]` |
| `rows \\| map("upper")` | `[upper(x) for x in rows]` |
| `rows \\| select("odd")`, `reject("odd")` | `[x for x in rows if x % 2 == 1]`, and the others |
| `rows \\| selectattr("ok")`, `rejectattr("ok")` | `[x for x in rows if x.ok]`, and the others |
| `rows \\| selectattr("n", "gt", 3)` | `[x for x in rows if x.n > 3]` |
| `sum`, `join` with `attribute="n"` | the same of `[x.n for x in rows]` |

Tests are {tests}; with a value behind them {compared}. `x is defined` asks as `exists(x)` does.

## Methods

These functions may also be called as a member of their first argument, as in `text.upper()`: {methods}.
`map.get(key, other)` is `default(map[key], other)`.
"""

FACTS_HEAD = """# Facts

{made}Facts of the world, which `when`, `preconditions` and the condition of `fresh` may read, from
`planrunner/plan/expressions/evaluate.py`. They are looked up before the task starts and kept in the journal, so that a
resumed or replayed run decides as before. A fact that cannot be found out is null.

| fact | is | says |
|---|---|---|
"""


def plan_page() -> str:
    """Every key of the language, from the table of keys."""
    schema = schema_files.of_plans()
    definitions = schema["definitions"]
    parts = [
        PLAN_HEAD.format(made=MADE),
        _keys(schema["properties"], definitions),
        "\n## A task\n\n",
        _keys(definitions["task"]["properties"], definitions),
    ]
    shown = [name for name, body in definitions.items() if body.get("properties") and name not in {"task", "step"}]
    for name in shown:
        parts += [
            f"\n## {name.replace('_', ' ').capitalize()}\n\n",
            _keys(definitions[name]["properties"], definitions),
        ]
    parts += ["\n## Kinds of values\n\n", *_kinds(definitions)]
    return "".join(parts)


def _kinds(definitions: Schema) -> Iterator[str]:
    for name in ("id", "task_id", "duration", "money", "count"):
        examples = ", ".join(f"`{value}`" for value in definitions[name].get("examples", []))
        rule = definitions[name].get("patternErrorMessage", "")
        yield f"- **{name.replace('_', ' ')}**: {rule}{f'; for example {examples}' if examples else ''}\n"
    yield KINDS_TAIL


def _keys(properties: Schema, definitions: Schema) -> str:
    others: dict[str, list[str]] = {}
    for name, body in properties.items():
        if body.get("description", "").startswith("Another name of ") and "allOf" in body:
            others.setdefault(body["allOf"][0]["$ref"].rpartition("/")[2], []).append(name)
    hidden = {name for names in others.values() for name in names}
    rows = ["| key | value | meaning |\n|---|---|---|\n"]
    for name, body in properties.items():
        if name not in hidden:
            rows.append(f"| {_names(name, others)} | {_value(body, definitions)} | {_meaning(body, definitions)} |\n")
    return "".join(rows)


def _names(name: str, others: dict[str, list[str]]) -> str:
    return f"`{name}`" + "".join(f", `{other}`" for other in others.get(name, []))


def _value(body: Schema, definitions: Schema) -> str:
    if "enum" in body:
        return ", ".join(f"`{choice}`" for choice in body["enum"])
    if reference := _target(body):
        name = reference.rpartition("/")[2]
        kind = definitions.get(name, {})
        return f"[{_words(name)}](#{name.replace('_', '-')})" if kind.get("properties") else _words(name)
    kinds = body.get("type", "any")
    return (
        " or ".join([kinds] if isinstance(kinds, str) else kinds).replace("object", "mapping").replace("array", "list")
    )


def _target(body: Schema) -> str:
    """What a schema refers to; empty where it says everything itself."""
    return next((each["$ref"] for each in (body, *body.get("allOf", ())) if "$ref" in each), "")


def _words(name: str) -> str:
    return name.replace("_", " ")


def _meaning(body: Schema, definitions: Schema) -> str:
    if "$ref" in body:
        found: Any = {"definitions": definitions}
        for part in body["$ref"].removeprefix("#/").split("/"):
            found = found.get(part, {})
        body = found
    text = body.get("markdownDescription") or body.get("description", "")
    if "default" in body and body["default"] not in ("", False):
        text += f" Default: `{_shown(body['default'])}`."
    if body.get("examples"):
        text += f" Example: `{_shown(body['examples'][0])}`."
    return str(text).replace("|", "\\|").replace("\n", " ")


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def project_page() -> str:
    """Every key of a project's settings, from its table of keys."""
    schema = schema_files.of_settings()
    sections = {name: _resolved(body, schema) for name, body in schema["properties"].items()}
    user = ", ".join(f"`{name}`" for name in USER_SECTIONS if name in sections)
    head = PROJECT_HEAD.format(made=MADE, user=user, most=MOST, deepest=DEEPEST)
    tables = [_tables(name, body, schema) for name, body in sections.items() if name != "policy"]
    policy = "\n## policy\n\nWhat plans may do: the keys of a [plan's policy](plan.md#policy).\n"
    return "".join([head, _keys(sections, {}), policy, *tables])


def _tables(path: str, body: Schema, schema: Schema) -> str:
    """A part of the settings with its keys, and then the parts inside it."""
    known = {name: _resolved(each, schema) for name, each in body.get("properties", {}).items()}
    says = body.get("markdownDescription", body.get("description", ""))
    parts_ = [f"\n## {path}\n\n{says}\n\n{_keys(known, {})}"] if known else []
    parts_ += [_tables(f"{path}.{name}", each, schema) for name, each in known.items()]
    entry = body.get("additionalProperties")
    if isinstance(entry, dict):
        parts_.append(_tables(f"{path}.NAME", _resolved(entry, schema), schema))
    return "".join(parts_)


def _resolved(body: Schema, schema: Schema) -> Schema:
    """A schema with what it refers to in it; the own words go before those of the other."""
    target = _target(body)
    if not target.startswith("#"):
        return body
    found: Any = schema
    for name in target.removeprefix("#/").split("/"):
        found = found[name]
    return {**_resolved(found, schema), **{key: value for key, value in body.items() if key not in ("$ref", "allOf")}}


def rules_page() -> str:
    """Every lint rule with its explanation, from ``planrunner/plan/rules/explanations``."""
    table = "".join(
        f"| [{rule.code}](#{rule.code.lower()}-{rule.name.replace('.', '')}) | {rule.name} | {rule.severity} "
        f"| {rule.title} |\n"
        for rule in RULES.values()
    )
    parts = [
        RULES_HEAD.format(made=MADE),
        table,
    ]
    for code in RULES:
        text = (ROOT / "planrunner" / "plan" / "rules" / "explanations" / f"{code}.md").read_text(encoding="utf-8")
        parts += ["\n", *_one_level_down(text)]
    return "".join(parts)


def _one_level_down(text: str) -> Iterator[str]:
    """The lines of a page with its headings one level lower; comments inside code blocks are no headings."""
    inside = False
    for line in text.strip().splitlines():
        if line.startswith("```"):
            inside = not inside
        yield f"{'#' if line.startswith('#') and not inside else ''}{line}\n"


def events_page() -> str:
    """Every event of the journal, from ``planrunner/machine/events.py``."""
    parts = [EVENTS_HEAD.format(made=MADE)]
    for kind in events.EVENTS:
        doc = inspect.cleandoc(kind.__doc__ or "")
        words = "" if doc.startswith(f"{kind.__name__}(") else " ".join(doc.split())
        parts.append(f"\n## {kind.__name__}\n\n{words}\n\n" if words else f"\n## {kind.__name__}\n\n")
        parts.append(_fields(kind))
    words = " ".join(inspect.cleandoc(events.Outcome.__doc__ or "").split())
    parts.append(f"\n## Outcome\n\n{words}\n\n{_fields(events.Outcome)}")
    return "".join(parts)


def _fields(kind: Any) -> str:
    rows = []
    usual = defaults(kind)
    for name in fields(kind):
        annotation = kind.__annotations__[name]
        typed = getattr(annotation, "__forward_arg__", str(annotation)).replace("|", "or")
        default = f"`{usual[name]!r}`" if name in usual else "required"
        rows.append(f"| `{name}` | {typed} | {default} |\n")
    return "| field | type | default |\n|---|---|---|\n" + "".join(rows) if rows else "No fields.\n"


def capabilities_page() -> str:
    """Every built-in capability, from its signature and docstring."""
    built_in = [found for found in catalogue() if found.plugin == "planrunner"]
    rows = [f"| [{one.name}](#{one.name.replace('.', '')}) | {one.effect} | {one.summary} |\n" for one in built_in]
    parts = [CAPABILITIES_HEAD.format(made=MADE), *rows]
    for one in built_in:
        parts.append(f"\n## {one.name}\n\n{one.summary}\n")
        parts += [f"\n{one.description}\n"] if one.description else []
        parts += [f"\nRisks: {'; '.join(one.risks)}.\n"] if one.risks else []
        parts += [f"\nNeeds: {'; '.join(map(described, one.preconditions))}.\n"] if one.preconditions else []
        parts += ["\n| input | type | default | |\n|---|---|---|---|\n"] if one.inputs else []
        for field in one.inputs:
            default = "required" if field.required else f"`{json.dumps(field.default, ensure_ascii=False)}`"
            parts.append(f"| `{field.name}` | {field.type} | {default} | {field.description} |\n")
        if one.outputs:
            parts.append(f"\nOutputs: {', '.join(f'`{field.name}` ({field.type})' for field in one.outputs)}.\n")
    return "".join(parts)


OUTCOMES = ("completed", "tolerated", "failed", "skipped", "omitted", "cut_off", "cancelled")
"""Outcomes of a need that has ended; see ``machine/state.py``."""


def joins_page() -> str:
    """What every join says to every outcome, asked of the machine."""
    names = " | ".join(outcome.replace("_", " ") for outcome in OUTCOMES)
    parts = [JOINS_HEAD.format(made=MADE)]
    for title, others in (
        ("If the only need is …", ()),
        ("If one need is …, and another one completed", ("completed",)),
        ("If one need is …, and another one failed", ("failed",)),
        ("If one need is …, and another one has not ended", ("",)),
    ):
        parts.append(f"## {title}\n\n| join | {names} |\n|---{'|---' * len(OUTCOMES)}|\n")
        for join in WORDS:
            cells = " | ".join(_verdict(join, (outcome, *others)) for outcome in OUTCOMES)
            parts.append(f"| `{join}` | {cells} |\n")
        parts.append("\n")
    return "".join(parts[:-1])


def _verdict(join: Any, outcomes: tuple[Any, ...]) -> str:
    needs = tuple(f"t{number}" for number in range(len(outcomes)))
    tasks = (*(Task(need) for need in needs), Task("t", needs=needs, join=Join(join)))
    state = State(Plan("p", tasks=tasks, on_failure="continue"), "run")
    for number, outcome in enumerate(outcomes):
        if outcome:
            set_dependency_outcome(state, number, outcome)
    return {"met": "starts", "unmet": "–", "waiting": "waits"}[needs_verdict(state, len(needs))[0]]


def refusals_page() -> str:
    """Every rule by which something is refused, from ``planrunner/capabilities/refusals.py``."""
    parts = [REFUSALS_HEAD.format(made=MADE)]
    parts += [f"| `{name}` | {each.what} | {each.way} |\n" for name, each in sorted(REFUSALS.items())]
    return "".join(parts)


def functions_page() -> str:
    """Every function, from ``planrunner/plan/expressions/functions.py``."""
    rows = []
    for name, function in FUNCTIONS.items():
        others = ", ".join(f"`{other}`" for other, meant in ALIASES.items() if meant == name)
        says = " ".join(inspect.cleandoc(function.call.__doc__ or "").split()).removesuffix(".").replace("``", "`")
        rows.append(f"| `{name}({_arguments(name, function)})` | {others} | {says[:1].lower()}{says[1:]} |\n")
    tail = FUNCTIONS_TAIL.replace("\\\\|", "\\|").format(
        tests=", ".join(f"`{name}`" for name in (*TESTS, "none")),
        compared=", ".join(f"`{name}`" for name in COMPARED),
        methods=", ".join(f"`{name}`" for name in sorted(METHODS)),
    )
    return "".join([FUNCTIONS_HEAD.format(made=MADE), *rows, tail])


def _arguments(name: str, function: Function) -> str:
    if function.most is None:
        return "list" if name in ("min", "max") else "first, …"
    needed, rest = function.words[: function.least], function.words[function.least :]
    attribute = ("attribute",) if name in ("sum", "join") else ()
    return ", ".join(needed) + "".join(f"[, {word}]" for word in (*rest, *attribute))


def facts_page() -> str:
    """Every fact of the world, from ``planrunner/plan/expressions/evaluate.py``."""
    rows = [f"| `{name}` | {NAMES[declared(kind).kind]} | {words} |\n" for name, (kind, words) in FACTS.items()]
    return "".join([FACTS_HEAD.format(made=MADE), *rows])


PAGES: dict[str, Callable[[], str]] = {
    "plan.md": plan_page,
    "project.md": project_page,
    "rules.md": rules_page,
    "events.md": events_page,
    "joins.md": joins_page,
    "capabilities.md": capabilities_page,
    "refusals.md": refusals_page,
    "facts.md": facts_page,
    "functions.md": functions_page,
    "api.md": partial(api.page, MADE),
    "coverage.md": partial(coverage_page.page, MADE),
}


def made() -> Iterator[tuple[Path, Callable[[], str]]]:
    """Every file and what makes its text; the capabilities first, since a page is made of what they publish."""
    for grammar in sorted((ROOT / "grammar").glob("*.lark")):
        rules = grammar.read_text(encoding="utf-8")
        yield grammar.with_suffix(".json"), partial(text_of, rules, digest_of(rules))
    yield PUBLISHED.parent / "plan.schema.json", partial(schema_files.text, schema_files.of_plans())
    yield PUBLISHED.parent / "project.schema.json", partial(schema_files.text, schema_files.of_settings())
    families: dict[str, list[str]] = {}
    for capability, target in TARGETS.items():
        families.setdefault(family_of(capability), []).append(target)
    for family, targets in sorted(families.items()):
        yield PUBLISHED / f"{family}.json", partial(_family, family, targets)
    for name, make in PAGES.items():
        yield REFERENCE / name, make
    yield EXPLANATION / "diagrams.md", partial(diagrams.page, MADE)
    for path, text in gallery_page.pages(MADE):
        yield path, partial(str, text)


def _family(family: str, targets: list[str]) -> str:
    return published(family, [describe(load(target)) for target in targets])


def main(arguments: list[str]) -> int:
    """Write what differs, or say what does."""
    stale = []
    for path, make in made():
        text = make()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(os.path.relpath(path, ROOT))
            if "--check" not in arguments:
                path.parent.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")
    if "--check" in arguments and stale:
        print(f"these files differ from the code: {', '.join(stale)}; run python docs/generate.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
