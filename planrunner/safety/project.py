"""The project's file, ``planrunner.yaml`` beside the plans: who has which role, and the operator's settings.

Section by section it is held against ``schemas/project.schema.json``; nothing starts where it has errors. It may
include other files and hold profiles, and a user has a file for every project: a user without one does not pay for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from planrunner import caller
from planrunner.errors import PlanInvalid, SettingsInvalid, UsageError
from planrunner.jsontext import stable_json
from planrunner.later import Later, load
from planrunner.records import Struct
from planrunner.safety.content import USER_SECTIONS, Said, Settings, read_regular, user_content, user_file

if TYPE_CHECKING:
    from planrunner.diagnostics import Diagnostic
    from planrunner.plan.rights import Level
    from planrunner.safety.assignments import assignments
    from planrunner.safety.settings import Part, effective, faults, included_names, limits, located, with_included
    from planrunner.source import Source
    from planrunner.syntax.tree import Node, to_json
else:
    Level = Later("planrunner.plan.rights:Level")
    assignments = Later("planrunner.safety.assignments:assignments")
    Part = Later("planrunner.safety.settings:Part")
    effective = Later("planrunner.safety.settings:effective")
    faults = Later("planrunner.safety.settings:faults")
    included_names = Later("planrunner.safety.settings:included_names")
    limits = Later("planrunner.safety.settings:limits")
    located = Later("planrunner.safety.settings:located")
    with_included = Later("planrunner.safety.settings:with_included")
    to_json = Later("planrunner.syntax.tree:to_json")


Json = Any

FILE = "planrunner.yaml"
CREDENTIALS = "provider_credentials"
"""The section for secrets."""

_LINKED = frozenset(
    {"include", "profile", "profiles", "cli_profiles", "agents", "tools", "memory", "workflow", "scheduler", "models"}
    | {"forge", "contexts", "triggers", "reflect"}
)
"""Sections that name what stands elsewhere, or that say more than this version does."""


class Checked(Struct):
    """One file of the settings as text, as a tree (None where it is empty or does not parse), and what is wrong with
    it."""

    source: Source
    tree: Node | None
    findings: tuple[Diagnostic, ...]


def check_project(directory: str) -> Checked | None:
    """What is wrong with the project's file; None without findings. Raises as ``check_files``."""
    checked = check_files(directory)
    return checked[0] if checked and os.path.basename(checked[0].source.name) == FILE else None


def check_files(directory: str) -> tuple[Checked, ...]:
    """What is wrong with each file of the settings: the project's own, those it includes, the user's. Raises UsageError
    where one cannot be read, or a profile is asked for that there is not."""
    parts, user = _parts(directory)
    every = [*parts, user] if user is not None else parts
    return tuple(Checked(part.source, part.tree, part.told()) for part in every)


def read_data(directory: str) -> dict[str, Json]:
    """What holds, section by section; empty where nothing is said. Raises as ``read_settings``."""
    return read_settings(directory).data


def read_settings(directory: str) -> Settings:
    """The settings that hold in a project. Raises UsageError for a file that cannot be read or a profile that is not
    there, and PlanInvalid with every finding of the first file with errors."""
    parts, user = _sound(directory)
    if user is None and not parts:
        return Settings()
    if user is None and len(parts) == 1 and not {"profile", "profiles", "include"} & _keys(parts[0]):
        data = _data(parts[0].tree)
        policy: Any = next((value for key, value in parts[0].sections() if key.value == "policy"), None)
        said = Said(FILE, FILE, data.get("policy"), policy, ((parts[0], policy),))
        return Settings(data, data, "", (said,) if said.data else (), (parts[0],))
    return effective(parts, user)


def settings_files(directory: str) -> tuple[str, ...]:
    """The files of the settings by their paths from the root: the project's own and all that it includes, in turn too,
    sound or not, there or not. This alone says what is a file of the settings: the editor of plans, capabilities that
    write and the sandbox ask it. Raises UsageError where the project's own cannot be read."""
    content = _content(directory)
    if content is None or b"include" not in content:
        return (FILE,)
    return (FILE, *included_names(Part(content, FILE, os.path.join(directory, FILE)), directory))


def read_located(directory: str) -> dict[str, Json]:
    """The sections that hold, each value with its place, as ``effective.located`` gives them. Raises as
    ``read_settings``."""
    return located(*_sound(directory))


def _sound(directory: str) -> tuple[list[Part], Part | None]:
    parts, user = _parts(directory)
    for part in [*parts, user] if user is not None else parts:
        if any(finding.severity == "error" for finding in part.findings):
            raise SettingsInvalid(f"`{part.source.name}` is not sound", part.source, part.told())
    return parts, user


_latest: list[tuple[tuple[object, ...], list[Part], Part | None]] = []
"""What was read last, by all of its bytes: a run asks for its settings many times, and they rarely change."""


def _parts(directory: str) -> tuple[list[Part], Part | None]:
    """The files of the project, the root first, and the user's, each checked. Raises as ``check_files``."""
    key = (directory, caller.workspace().profile, _content(directory), user_file(), user_content())
    latest = _latest[0] if _latest else None  # one look: another thread may read another project meanwhile
    if latest is not None and latest[0] == key:
        return latest[1:]
    _, wanted, content, path, users = key
    parts, user = _read(directory, content, wanted), None
    if users is not None:
        user = Part(users, path, path)
        user.findings += faults(user.tree, USER_SECTIONS, "a user's file")
    linked = {key for part in parts for key in _keys(part)} & _LINKED
    if parts and (linked or wanted):
        from planrunner.safety.consistency import check

        check(directory, parts, user, wanted)
    if "include" not in linked and b"workflow" not in (content or b""):  # with those other files matter
        _latest[:] = [(key, parts, user)]
    return parts, user


def _content(directory: str) -> bytes | None:
    path = os.path.join(directory, FILE)
    try:
        return read_regular(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"`{path}` cannot be read: {error.strerror or error}") from None


def _read(directory: str, content: bytes | None, wanted: str | None) -> list[Part]:
    """The project's file and what it includes, each held to the schema."""
    if content is None and wanted:
        raise UsageError(f"there is no {FILE} in {directory}, so there is no profile `{wanted}`")
    if content is None:
        return []
    root = Part(content, FILE, os.path.join(directory, FILE))
    parts = with_included(root, directory) if "include" in _keys(root) else [root]
    for part in parts:
        part.findings += faults(part.tree)
    return parts


def _keys(part: Part) -> set[str]:
    return {str(key.value) for key, _ in part.sections()}


def unsound(error: PlanInvalid) -> str:
    """The first error of the project's file in one line, with its place."""
    finding = next(each for each in error.findings if each.severity == "error")
    line, column = error.source.place(finding.span.start)
    return f"`{error.source.name}` is not sound: line {line}, column {column}: {finding.message}"


def _data(tree: Node | None) -> dict[str, Json]:
    if tree is None:
        return {}
    sections = to_json(tree)
    return sections if isinstance(sections, dict) else {}


_ASIDE = ("scheduler", "triggers", "telemetry", "notify", "artifacts", "profiles", "cli_profiles", "include")
"""Sections that bind no run: when and how many run, who is told, what is kept. Of profiles only the one that holds
counts; what an included file says stands under its sections."""


class Project(Struct):
    """``people`` gives the roles of each person, None where the project lists no people; ``digest`` stands for
    everything in its files and its profile that binds its runs, empty where they say nothing of it. The user's own file
    is not part of it: two people who decide the same gate must see the same."""

    people: dict[str, tuple[str, ...]] | None = None
    digest: str = ""


class Roles(Struct):
    """The roles of a person: those that the project lists (``listed``), or, only where it lists no people, those that
    the person comes with (``claimed``)."""

    listed: tuple[str, ...] = ()
    claimed: tuple[str, ...] = ()


def roles_in(directory: str, name: str, claimed: Iterable[str]) -> Roles:
    """Which roles count for a person in a project: for a vote as for the lists of what waits. Raises as
    ``read_project``."""
    people = read_project(directory).people
    return Roles(claimed=tuple(claimed)) if people is None else Roles(tuple(people.get(name, ())))


def read_project(directory: str) -> Project:
    """What the project's file says. Raises UsageError for one that cannot be read, and PlanInvalid with every finding
    for one with errors: a typing error must not change who may decide."""
    settings = read_settings(directory)
    data = dict(settings.own)
    people = data.pop("people", None)
    for name in _ASIDE:
        data.pop(name, None)
    if settings.profile:
        over = [level.data for level in settings.levels if level.name == f"profile {settings.profile}"]
        data["profile"] = [settings.profile, *over]
    digest = sha256(stable_json(data).encode("utf-8", "surrogatepass")).hexdigest()[:32] if data else ""
    return Project(None if people is None else _people(people), digest)


def _people(value: dict[str, Json]) -> dict[str, tuple[str, ...]]:
    return {name: (roles,) if isinstance(roles, str) else tuple(roles or ()) for name, roles in value.items()}


_STRICTER = ("allow", "ask", "deny")


def policy_records(directory: str) -> list[dict[str, Json]]:
    """The levels that hold in a directory: ``name``, ``file``, ``policy`` as data, and under ``limits`` the budgets and
    the gates for labels as a compiled plan. Raises as ``read_data`` does."""
    records = []
    for said in read_settings(directory).levels:
        caps = limits(said.tree)
        record: dict[str, Json] = {"name": said.name, "file": said.file, "policy": said.data}
        records.append(record if caps is None else {**record, "limits": caps})
    return records


def records_of(directory: str, elsewhere: str, foreign: bool) -> list[dict[str, Json]]:
    """The levels of a run's directory and of the one that it was started from. Where the plan is ``foreign`` its own
    settings are not the operator's: by their name they narrow and never let in more. What holds everywhere, such as the
    user's file, counts once. Empty texts stand for places without settings."""
    records: list[dict[str, Json]] = []
    for place in filter(None, (directory, elsewhere)):
        for record in policy_records(place):
            if not os.path.isabs(record["name"]):
                record |= _renamed(record["name"], place, place == directory and foreign, place != directory)
            if record not in records:
                records.append(record)
    return records


def _renamed(name: str, place: str, foreign: bool, elsewhere: bool) -> dict[str, Json]:
    path = os.path.join(place, FILE)
    if foreign:
        return {"name": f"the plan's {name}", "file": path}
    return {"name": path, "file": path} if elsewhere else {}


def asks_inside(directory: str) -> bool:
    """Whether plans of the project itself need a confirmation."""
    return said_of_plans(directory, "inside") == "ask"


def said_of_plans(directory: str, origin: str) -> str:
    """What ``plans`` of the policies says of those from ``inside`` or ``outside``: allow, ask or deny, the strictest of
    all levels, empty where none says anything. Raises as ``read_data``."""
    given = [level.data.get("plans") for level in read_settings(directory).levels if isinstance(level.data, dict)]
    said = [plans[origin] for plans in given if isinstance(plans, dict) and plans.get(origin) in _STRICTER]
    return max(said, key=_STRICTER.index, default="")


def levels(records: list[dict[str, Json]]) -> tuple[Level, ...]:
    """Levels from their records."""
    return tuple(Level(record["name"], record["policy"], record.get("file", "")) for record in records)


LARGEST = 1 << 20
_KEPT = frozenset({"HOME", "USER", "LOGNAME"})
_STEERING = "planrunner.plan.taint.traits:STEERING"
_FAMILIES = ("PLANRUNNER_", "XDG_")


def env_variables(directory: str) -> dict[str, str]:
    """The variables of a project's environment files, a later file over an earlier one. Raises UsageError for a file
    that cannot be read, a line that sets nothing, and a variable that no file may set; PlanInvalid for settings with
    errors."""
    given = read_data(directory).get("env_file") or ()
    variables: dict[str, str] = {}
    for name in (given,) if isinstance(given, str) else given:
        variables |= variables_of(directory, name)
    return variables


def variables_of(directory: str, name: str) -> dict[str, str]:
    """The variables of one environment file of a project. Raises UsageError as ``env_variables``."""
    variables: dict[str, str] = {}
    for variable, value, line, text in assignments(_text(directory, name)):
        if not variable.isidentifier() or not variable.isascii() or value is None:
            open_ = "" if variable or "=" not in text else ": a quote is not closed, or text follows it"
            raise UsageError(f"{name}, line {line}: expected NAME=value{open_}")
        if load(_STEERING).fullmatch(variable) or variable in _KEPT or variable.startswith(_FAMILIES):
            message = f"{name}, line {line}: no environment file sets `{variable}`, by which programs are found or run"
            raise UsageError(message, f"set it where planrunner is started: `export {variable}=…`")
        variables[variable] = value
    return variables


def _text(directory: str, name: str) -> str:
    root = os.path.realpath(directory)
    path = os.path.realpath(os.path.join(root, name))
    said = f"`env_file: {name}` of {FILE}"
    if not path.startswith(f"{root.rstrip('/')}/"):
        raise UsageError(f"{said} lies outside the project")
    try:
        if not os.path.isfile(path):
            raise UsageError(f"{said} is not a file: {path}", f"make it, or take `env_file` out of {FILE}")
        with open(path, "rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise UsageError(f"{said} cannot be read: {error.strerror}") from None
    if len(data) > LARGEST:
        raise UsageError(f"{said} is larger than 1 MiB")
    try:
        return data.decode("utf-8-sig").replace("\0", "\\0")
    except UnicodeDecodeError:
        raise UsageError(f"{said} is not UTF-8 text") from None
