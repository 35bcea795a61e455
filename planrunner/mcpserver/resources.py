"""What a client can read by address: plans, runs, the schemas and the documentation of rules and capabilities."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from planrunner.app.follow.summaries import recent
from planrunner.app.history.show import look, shown_document
from planrunner.app.plans.files import project_plans
from planrunner.app.plans.path import read_regular
from planrunner.app.plans.reference import (
    capability,
    capability_object,
    explain_rule,
    plan_schema,
    project_schema,
    rule_objects,
    run_schema,
)
from planrunner.errors import NotFound, PlanInvalid
from planrunner.mcpserver.inspection import plan_path
from planrunner.mcpserver.tool import Site
from planrunner.plan.nearest import nearest
from planrunner.records import Struct
from planrunner.views.documents import document_text
from planrunner.views.runs import listed_object

SCHEME = "planrunner://"
JSON, MARKDOWN, YAML, PLAIN = "application/json", "text/markdown", "application/yaml", "text/plain"
LISTED = 50
"""Runs that are listed; any other is read by its address."""


class Entry(NamedTuple):
    """A resource of the list: its address, name, title and type of content."""

    uri: str
    name: str
    title: str
    mime: str


class Pattern(Struct):
    """A family of addresses with one part that varies."""

    template: str
    name: str
    title: str
    mime: str


class Content(Struct):
    """What stands at an address."""

    text: str
    mime: str


PATTERNS = (
    Pattern(f"{SCHEME}plans/{{path}}", "plan", "The text of a plan of the project", YAML),
    Pattern(f"{SCHEME}runs/{{run}}", "run", "How a run stands, with its tasks, gates and outputs", JSON),
    Pattern(f"{SCHEME}rules/{{code}}", "rule", "What a lint rule finds and how to fix it", MARKDOWN),
    Pattern(f"{SCHEME}capabilities/{{name}}", "capability", "The inputs and outputs of a capability", JSON),
)

_SCHEMAS: dict[str, tuple[str, Callable[[], dict[str, Any]]]] = {
    "plan": ("JSON Schema of plans", plan_schema),
    "project": ("JSON Schema of planrunner.yaml", project_schema),
    "run": ("JSON Schema of runs", run_schema),
}


def entries(site: Site) -> Iterator[Entry]:
    """Every resource that is listed: schemas, the table of rules, plans, and the newest runs."""
    for name, (title, _) in _SCHEMAS.items():
        yield Entry(f"{SCHEME}schema/{name}", f"schema {name}", title, JSON)
    yield Entry(f"{SCHEME}rules", "rules", "Every lint rule, in one table", MARKDOWN)
    for path, title in project_plans():
        yield Entry(f"{SCHEME}plans/{quote(path)}", path, title or path, _type(path))
    for run in map(listed_object, recent(site.state, limit=LISTED)):
        yield Entry(f"{SCHEME}runs/{run['run_id']}", run["run_id"], f"{run['plan']}: {run['status']}", JSON)


def content(site: Site, uri: str) -> Content:
    """What stands at an address. Raises NotFound for one without anything, and what reading it raises."""
    kind, _, rest = uri.removeprefix(SCHEME).partition("/")
    name = unquote(rest)
    if not uri.startswith(SCHEME) or kind not in _READ or bool(name) is (kind == "rules" and not rest):
        raise NotFound(f"there is no resource `{uri}`", f"addresses begin with {', '.join(SCHEME + k for k in _READ)}")
    return _READ[kind](site, name)


def _type(path: str) -> str:
    ending = os.path.splitext(path)[1]
    return {".yaml": YAML, ".yml": YAML, ".json": JSON}.get(ending, PLAIN)


def _plan(site: Site, name: str) -> Content:
    """The text of a file that is a plan; other files of the project are not given."""
    path = plan_path(site, name)
    if path not in (known := [each for each, _ in project_plans()]):
        near = nearest(path, known)
        raise NotFound(f"`{name}` is not a plan of the project", f"did you mean `{near}`?" if near else "")
    file = read_regular(path)
    if file.findings:
        raise PlanInvalid(f"`{name}` cannot be read", file.source, file.findings)
    return Content(file.source.text, _type(path))


def _run(site: Site, name: str) -> Content:
    return Content(document_text(shown_document(look(name, site.state))), JSON)


def _schema(site: Site, name: str) -> Content:
    if name not in _SCHEMAS:
        raise NotFound(f"there is no schema `{name}`", f"there are {', '.join(_SCHEMAS)}")
    return Content(document_text(_SCHEMAS[name][1]()), JSON)


def _rules(site: Site, name: str) -> Content:
    if name:
        return Content(explain_rule(rule_objects(name)[0]["code"]), MARKDOWN)
    rows = [f"| {each['code']} | {each['name']} | {each['severity']} | {each['title']} |" for each in rule_objects()]
    return Content("\n".join(["| code | name | severity | what it finds |", "|---|---|---|---|", *rows, ""]), MARKDOWN)


def _capability(site: Site, name: str) -> Content:
    return Content(document_text(capability_object(capability(name))), JSON)


_READ: dict[str, Callable[[Site, str], Content]] = {
    "plans": _plan,
    "runs": _run,
    "schema": _schema,
    "rules": _rules,
    "capabilities": _capability,
}
