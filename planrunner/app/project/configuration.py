"""The settings of a project as people look at them: findings, effective values with their places, credentials."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from planrunner.app.plans.lint import Checked, Choice, check_settings, load_plan
from planrunner.caller import NO_PROFILE
from planrunner.errors import NotFound, PlanrunnerError
from planrunner.escapes import HIDDEN, masked
from planrunner.fileio import read_data
from planrunner.journal.workspace import find_project
from planrunner.plan.nearest import nearest
from planrunner.plan.tasks import every_secret
from planrunner.records import Struct
from planrunner.safety.content import SECTIONS
from planrunner.safety.credentials import (
    Credential,
    Unresolved,
    line_of,
    read_credentials,
    readable_by_others,
    unknown,
    value_of,
)
from planrunner.safety.project import check_files, read_located, read_settings
from planrunner.safety.settings import EmptyList, Located
from planrunner.syntax.notations import write
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence, entries
from planrunner.views.documents import document
from planrunner.views.rights import Credited

Json = Any


_HOW = "write one: docs/how-to/configure-a-project.md"
_SECRET = re.compile(r"(^|_)(password|passwd|secret|token|api_?key)$", re.IGNORECASE)
"""Names of keys whose values are not shown."""


class Shown(NamedTuple):
    """One value that holds: its path such as ``models.fast.timeout``, the value with secrets masked, and where it
    stands; ``default`` if it is not set."""

    path: str
    value: Json
    place: str


class Configuration(Struct):
    """What holds: the profile (empty for none), the sections as data, and each value with its place."""

    profile: str
    data: dict[str, Json]
    rows: list[Shown]


def configuration_document(found: Configuration) -> dict[str, Json]:
    """The effective settings with the place that each comes from."""
    origins = {row.path: row.place for row in found.rows}
    return document(profile=found.profile, settings=found.data, origins=origins)


def check() -> list[Checked]:
    """Every file of the settings of the project here, with what is wrong with it. Raises NotFound where there is none,
    and as ``check_settings``."""
    result = list(check_settings("", Choice()))
    if not result:
        raise NotFound(f"there is no planrunner.yaml in {find_project(None)}", _HOW)
    return result


def configuration(section: str | None = None) -> Configuration:
    """What holds in the project here, of one section or all, with the defaults that its schema documents. Raises
    NotFound for a section that there is not, and as ``read_settings``."""
    if section is not None and section not in SECTIONS:
        near = nearest(section, SECTIONS)
        raise NotFound(f"there is no section `{section}`", f"did you mean `{near}`?" if near else ", ".join(SECTIONS))
    project = find_project(None)
    sections = {name: value for name, value in read_located(project).items() if section is None or name == section}
    rows = [Shown(path, _shown(path, leaf.value), leaf.place) for path, leaf in _leaves(sections)]
    rows += _defaults({row.path for row in rows}, sections)
    return Configuration(read_settings(project).profile, _plain(sections), rows)


def _leaves(value: Json, path: str = "") -> Iterator[tuple[str, Located]]:
    if isinstance(value, Located):
        yield path, value
    elif isinstance(value, EmptyList):
        yield path, Located([], value.place)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _leaves(each, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from _leaves(each, f"{path}[{at}]")


def _plain(value: Json, key: str = "") -> Json:
    if isinstance(value, Located):
        return _shown(key, value.value)
    if isinstance(value, dict):
        return {name: _plain(each, name) for name, each in value.items()}
    return [_plain(each, key) for each in value]


def _shown(path: str, value: Json) -> Json:
    if value is not None and _SECRET.search(path.rpartition(".")[2].partition("[")[0]):
        return HIDDEN
    return masked(value) if isinstance(value, str) else value


def _defaults(known: set[str], sections: dict[str, Json]) -> Iterator[Shown]:
    """The documented defaults of sections that are there and do not say otherwise."""
    schema = json.loads(read_data("schemas", "project.schema.json"))
    for section, body in sections.items():
        properties = schema["properties"].get(section, {}).get("properties", {}) if isinstance(body, dict) else {}
        for key, value in properties.items():
            if "default" in value and f"{section}.{key}" not in known:
                yield Shown(f"{section}.{key}", value["default"], "default")


def yaml_text(data: dict[str, Json]) -> str:
    """Settings as YAML; empty where there are none."""
    return write(_tree(data), "yaml") if data else ""


def _tree(value: Json) -> Node:
    if isinstance(value, dict):
        return Mapping([(Scalar(key, 0, 0), _tree(each)) for key, each in value.items()], 0, 0)
    if isinstance(value, list):
        return Sequence([_tree(each) for each in value], 0, 0)
    return Scalar(value, 0, 0)


def profiles() -> list[str]:
    """The profiles of the project here, and the word for none of them; nothing where they cannot be read."""
    try:
        files = check_files(find_project(None))
    except PlanrunnerError:
        return []
    trees = [file.tree.get("profiles") for file in files if isinstance(file.tree, Mapping)]
    return [*(name for tree in trees for name, _ in entries(tree)), NO_PROFILE]


def listed(plan: str | None) -> list[Credited]:
    """The credentials of the project that a plan or the current folder belongs to, in the order of its file. Raises
    UsageError and PlanInvalid."""
    directory = find_project(plan)
    return [_credited(each, directory) for each in read_credentials(directory).values()]


def looked_up(plan: str | None) -> list[Credited]:
    """Like ``listed``, each looked up; with a plan only those that its tasks declare, unknown ones among them."""
    directory = find_project(plan)
    known = read_credentials(directory)
    names = list(known) if plan is None else sorted(every_secret(load_plan(plan).tasks))
    return [_looked_up(known[name], directory) if name in known else _unknown(name, list(known)) for name in names]


def _credited(credential: Credential, directory: str) -> Credited:
    return Credited(
        credential.id, credential.provider, credential.place, credential.variable, line_of(directory, credential.id)
    )


def _looked_up(credential: Credential, directory: str) -> Credited:
    credited = _credited(credential, directory)._replace(there=True, warning=readable_by_others(credential))
    try:
        value_of(credential, os.environ)
    except Unresolved as unresolved:
        return credited._replace(there=False, problem=unresolved.why)
    return credited


def _unknown(name: str, known: list[str]) -> Credited:
    return Credited(name, "", "", "", "", False, f"planrunner.yaml lists no such credential: {unknown(name, known)}")
