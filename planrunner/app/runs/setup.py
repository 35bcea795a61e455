"""A plan file as the engine needs it, read once: what the text came to is kept by content, so that a plan seen before
opens no YAML, no grammar and no schema."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from planrunner import __version__, caller
from planrunner.app.plans.path import read_regular
from planrunner.app.runs.secrets import hidden_variables, without_hidden
from planrunner.engine.processes import GRACE
from planrunner.errors import Denied, NextStep, PlanInvalid, UsageError
from planrunner.fileio import read_regular as regular_bytes
from planrunner.frozen import EMPTY
from planrunner.journal.stores import open_journal
from planrunner.journal.workspace import find_project, find_state
from planrunner.jsontext import read_json, write_json
from planrunner.later import Later
from planrunner.machine.events import RunRevised, RunStarted
from planrunner.plan import compiled
from planrunner.plan.agents import Roster
from planrunner.plan.model import ANY, Capability, Plan, Task
from planrunner.plan.tasks import every
from planrunner.plan.templated import is_template
from planrunner.plugins.registry import Registry
from planrunner.records import Struct
from planrunner.safety.project import (
    asks_inside,
    levels,
    policy_records,
    read_data,
    read_project,
    read_settings,
    records_of,
)
from planrunner.safety.trust import why_marked, why_outside
from planrunner.source import MAX_TEXT, Source, notation_of

if TYPE_CHECKING:
    from planrunner.app.plans.deadlines import passed_deadlines
    from planrunner.journal.ports import JournalPort
    from planrunner.plan.access import Ground, refused_tasks
    from planrunner.plan.expressions.quantities import parse_count, parse_duration, parse_money
    from planrunner.plan.files import decode
    from planrunner.plan.identity import digest, paths_read
    from planrunner.plan.load import load
    from planrunner.plan.policy_checks import refusal
    from planrunner.plan.rights import Level, visible
    from planrunner.plan.rules.view import Project, meets_foreign
    from planrunner.plan.taint.findings import watched
    from planrunner.safety.credentials import read_credentials
    from planrunner.safety.digests import digests
    from planrunner.safety.roster import read_roster
else:
    passed_deadlines = Later("planrunner.app.plans.deadlines:passed_deadlines")
    Ground = Later("planrunner.plan.access:Ground")
    refused_tasks = Later("planrunner.plan.access:refused_tasks")
    parse_count = Later("planrunner.plan.expressions.quantities:parse_count")
    parse_duration = Later("planrunner.plan.expressions.quantities:parse_duration")
    parse_money = Later("planrunner.plan.expressions.quantities:parse_money")
    decode = Later("planrunner.plan.files:decode")
    digest = Later("planrunner.plan.identity:digest")
    paths_read = Later("planrunner.plan.identity:paths_read")
    load = Later("planrunner.plan.load:load")
    refusal = Later("planrunner.plan.policy_checks:refusal")
    Level = Later("planrunner.plan.rights:Level")
    visible = Later("planrunner.plan.rights:visible")
    meets_foreign = Later("planrunner.plan.rules.view:meets_foreign")
    Project = Later("planrunner.plan.rules.view:Project")
    watched = Later("planrunner.plan.taint.findings:watched")
    read_credentials = Later("planrunner.safety.credentials:read_credentials")
    digests = Later("planrunner.safety.digests:digests")
    read_roster = Later("planrunner.safety.roster:read_roster")


Json = Any


FORMAT = "9"


class ReadyPlan(Struct):
    """A plan ready to run. ``traits`` and ``env`` (names of environment variables it reads) go into the run's record;
    ``notices`` counts warnings and notes. ``files`` are the linked ones (paths from the folder of the plan, hashes);
    ``leaves_directory`` says that a task names a place which may lie outside the working directory."""

    plan: Plan
    digest: str
    text: str
    compiled: bytes
    traits: dict[str, Json]
    env: tuple[str, ...]
    notices: int
    files: tuple[tuple[str, str], ...] = ()
    leaves_directory: bool = False
    needs: dict[str, list[str]] = EMPTY
    """The preconditions of the capabilities that have any."""


_ready: OrderedDict[str, ReadyPlan] = OrderedDict()
_turn = threading.Lock()
KEPT = 2_000_000
"""Characters of the plans that a process keeps compiled."""


def prepare_plan(path: str, journal: JournalPort | None, registry: Registry, text: bytes | None = None) -> ReadyPlan:
    """Read, check and compile a plan file, or take what was compiled before: kept by the journal, or without one by
    this process. ``text`` is the plan where it has no file.

    Raises NotFound without such a file and PlanInvalid with every finding when the plan may not run.
    """
    data = text
    if data is None:
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError:
            data = read_regular(path).source.text.encode()
    held = _held(find_project(path))
    key = cache_key(path, data, registry, held)
    folder = os.path.dirname(path)
    if journal is None:
        known = _ready.get(key)
        if known is not None and are_unchanged(folder, known.files):
            return known
        return _keep(key, _load(path, text, registry, held))
    kept = journal.compiled_get(key)
    restored = None if kept is None else _restore(kept, data, folder)
    if restored is not None:
        return restored
    ready = _load(path, text, registry, held)
    head = write_json(
        [ready.digest, ready.traits, ready.env, ready.notices, ready.files, ready.leaves_directory, ready.needs]
    )
    journal.compiled_put(key, b"\n".join((head.encode(), ready.compiled)))
    return ready


def _keep(key: str, ready: ReadyPlan) -> ReadyPlan:
    with _turn:
        _ready[key] = ready
        _ready.move_to_end(key)
        while len(_ready) > 1 and sum(len(each.text) for each in _ready.values()) > KEPT:
            _ready.popitem(last=False)
    return ready


class Held(Struct):
    """What of the settings of a project a plan is held to: the credentials, each with its variable, and the agents with
    their tools. None where the settings are not sound, which the use of them reports."""

    credentials: dict[str, str] | None = None
    roster: Roster | None = None
    hidden: tuple[str, ...] = ()
    """Variables that the settings name for a secret."""


def cache_key(path: str, data: bytes, registry: Registry, held: Held) -> str:
    """What a compiled plan is kept under: it differs with all that the compiled form follows from."""
    parts = (FORMAT, __version__, notation_of(path), *registry.fingerprint())
    if held.credentials:
        parts = (*parts, write_json(sorted(held.credentials.items())))
    if held.hidden:
        parts = (*parts, write_json(held.hidden))
    roster = held.roster
    if roster is None:
        parts = (*parts, "settings with errors")
    elif roster.agents or roster.tools or roster.contexts or roster.models or roster.reflect is not None:
        parts = (*parts, write_json([roster.agents, roster.tools, roster.reflect, roster.contexts, roster.models]))
    hashed = sha256("\0".join(parts).encode())
    hashed.update(data)
    return hashed.hexdigest()


def _held(directory: str) -> Held:
    if not has_settings(directory):
        return Held({}, Roster(), hidden_variables(directory))
    try:
        credentials = {name: each.env_var for name, each in read_credentials(directory).items()}
        return Held(credentials, read_roster(directory), hidden_variables(directory))
    except (UsageError, PlanInvalid):
        return Held()


def _restore(kept: bytes, data: bytes, folder: str) -> ReadyPlan | None:
    """What was compiled before; None where a linked file has changed, or where it is damaged or of another layout,
    which costs only time."""
    try:
        head, _, body = kept.partition(b"\n")
        digest, traits, env, notices, files, leaves_directory, needs = read_json(head.decode())
        if not are_unchanged(folder, files):
            return None
        plan = compiled.load(body.decode())
    except ValueError:
        return None
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    return ReadyPlan(plan, digest, text, body, traits, tuple(env), notices, tuple(files), leaves_directory, needs)


def are_unchanged(folder: str, files: Iterable[tuple[str, str]]) -> bool:
    """Whether all files that a plan links to are what they were, by their digests."""
    try:
        return all(
            sha256(regular_bytes(os.path.join(folder, name), MAX_TEXT + 1)).hexdigest() == known
            for name, known in files
        )
    except OSError:
        return False


def _load(path: str, text: bytes | None, registry: Registry, held: Held) -> ReadyPlan:
    file = read_regular(path) if text is None else decode(text, path)
    if file.findings:
        raise PlanInvalid(f"`{path}` cannot run", file.source, file.findings)
    loaded = load(file.source, registry, Project(credentials=held.credentials, roster=held.roster, hidden=held.hidden))
    plan, findings, files = loaded.plan, loaded.findings, loaded.files
    if plan is None or any(finding.code == "PLAN801" for finding in findings):
        raise PlanInvalid(f"`{path}` cannot run", file.source, findings)
    capabilities = {name: registry.find(name) for name in sorted(capabilities_of(plan.tasks))}
    traits = {name: _trait(capability) for name, capability in capabilities.items()}
    if rows := _watched(plan, capabilities):
        traits = {name: [*trait, *_UNSAID[len(trait) - 3 :], rows[name]] for name, trait in traits.items()}
    env = _env_names(plan, file.source) if not files else _env_read(plan)
    written = compiled.dump(plan).encode()
    leaves_directory = any(map(_may_leave, _places(plan.tasks)))
    needs = preconditions_of(capabilities)
    return ReadyPlan(
        plan, digest(plan), file.source.text, written, traits, env, len(findings), files, leaves_directory, needs
    )


def preconditions_of(capabilities: Mapping[str, Capability | None]) -> dict[str, list[str]]:
    """The preconditions of those that have any."""
    conditions = {name: [*each.preconditions] for name, each in capabilities.items() if each is not None}
    return {name: each for name, each in conditions.items() if each}


def capabilities_of(tasks: tuple[Task, ...]) -> set[str]:
    """The capabilities that tasks name, those inside them and what undoes them included."""
    names: set[str] = set()
    for task in every(tasks):
        names.add(task.uses)
        if task.rollback is not None:
            names.add(task.rollback.uses)
    return names - {""}


def _places(tasks: tuple[Task, ...]) -> Iterator[str]:
    """The places that tasks say they work in, or take outputs from."""
    for task in every(tasks):
        yield task.cwd
        yield from (each.path for each in task.outputs if each.path)


def _may_leave(path: str) -> bool:
    return path.startswith("/") or is_template(path) or ".." in path.split("/")


def _trait(capability: Capability | None) -> list[Json]:
    assert capability is not None, "lint has refused unknown capabilities"
    trait: list[Json] = [capability.effect, capability.instant, capability.probe]
    spends = [*capability.spends, *((ANY,) if capability.plugin != "planrunner" else ())]
    if capability.undo:
        return [*trait, spends, True]
    return [*trait, spends] if spends else trait


_UNSAID: list[Json] = [[], False]
"""What a trait leaves out where it has nothing to say: what is spent, and whether it can be undone."""


def _watched(plan: Plan, capabilities: dict[str, Capability | None]) -> dict[str, Json]:
    """What the run has to know of its capabilities where text from outside comes near to what acts; empty for most."""
    if not meets_foreign(plan, capabilities):
        return {}
    return watched(plan, capabilities)


def _env_names(plan: Plan, source: Source) -> tuple[str, ...]:
    """Environment variables that expressions and templates read, so that their values can be recorded with the run."""
    if "env." not in source.text and "env[" not in source.text:
        return ()
    return _env_read(plan)


def _env_read(plan: Plan) -> tuple[str, ...]:
    names = sorted({path[1] for path in paths_read(plan) if path[0] == "env" and len(path) > 1})
    return tuple(visible((Level("the plan", plan.policy),), dict.fromkeys(names, "")))


def check_project(directory: str) -> None:
    """Let nothing start in a project whose settings have errors: raises PlanInvalid, and UsageError where they cannot
    be read."""
    if has_settings(directory):
        read_project(directory)


def linked_files(path: str, ready: ReadyPlan) -> Iterator[tuple[str, str]]:
    """The files that a plan links to, at whatever depth, each with its SHA-256."""
    folder = os.path.dirname(path)
    yield from ((os.path.join(folder, name), sha256) for name, sha256 in ready.files)


def may_need_permission(path: str, ready: ReadyPlan) -> bool:
    """Whether a plan of the project may need permission: it may act outside, it or a file that it links to holds text
    from outside or lies elsewhere, or the policy asks for one. Raises as ``read_data``."""
    project = find_project(None)
    if ready.leaves_directory or why_marked(path):
        return True
    if any(why_marked(file, sha256) or why_outside(file, project) for file, sha256 in linked_files(path, ready)):
        return True
    return has_settings(project) and asks_inside(project)


def has_settings(directory: str) -> bool:
    """Whether there may be any: a file of the project, a profile that was asked for, a file of the user."""
    if os.path.lexists(os.path.join(directory, "planrunner.yaml")) or caller.workspace().profile is not None:
        return True
    homes = (os.environ.get("XDG_CONFIG_HOME", ""), os.path.expanduser("~/.config"))
    return any(os.path.lexists(f"{home}/planrunner/config.yaml") for home in homes)


def governing_policy(
    directory: str, ready: ReadyPlan, path: str, capabilities: Registry, foreign: bool = False
) -> dict[str, Json]:
    """The operator's levels of policy for the record of a run: those of the project, and of the one of the working
    directory, which is the operator's alone where the plan is ``foreign``. Raises Denied where they refuse what the
    plan wants."""
    home = find_project(None)
    elsewhere = home if home != directory and os.path.lexists(os.path.join(home, "planrunner.yaml")) else ""
    own = directory if has_settings(directory) else ""
    if not (own or elsewhere):
        return {}
    records = records_of(own, elsewhere, foreign)
    if not records:
        return {}
    _refuse_denied(ready, levels(records), path, capabilities, directory)
    return {"policy": records}


def run_settings(directory: str) -> tuple[dict[str, Json], int | None]:
    """What the settings of a project mean for a run that begins: what goes into its record (the profile; the digests of
    its sections and files; the model that judges criteria in plain words and what it may use) and how many tasks may
    run at once, None for any number. Raises as ``check_project``."""
    if not has_settings(directory):
        return {}, None
    found = read_settings(directory)
    record: dict[str, Json] = {"profile": found.profile} if found.profile else {}
    record["settings"] = digests(found, directory)
    if _is_traced(found.data.get("telemetry")):
        record["traced"] = True
    models = found.data.get("models") or {}
    if named := models.get("judge"):
        record |= {"judge": named, "judging": _amounts(models.get("judging") or {})}
    return record, (found.data.get("scheduler") or {}).get("max_parallel")


def _is_traced(section: Json) -> bool:
    """Whether runs are sent as traces, so that what their tasks start belongs into those."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    return bool(section is not None and section.get("traces", True))


def grace(directory: str) -> float:
    """The seconds from TERM to KILL of what is stopped, by the settings of a project. Settings with faults, which only
    what starts nothing (a cancellation) gets to, say nothing."""
    if not has_settings(directory):
        return GRACE
    try:
        said = (read_data(directory).get("scheduler") or {}).get("grace")
    except PlanInvalid:
        return GRACE
    seconds = parse_duration(said) if isinstance(said, str) else said
    return GRACE if seconds is None else float(seconds)


def parallel_limit(asked: int | None, planned: int, most: int | None) -> int | None:
    """How many tasks a run may have at once; None is what its plan says."""
    return asked if most is None else min(planned if asked is None else asked, most)


def keep_profile(directory: str, recorded: str, run: str | None = None) -> None:
    """Let the profile that a run began with hold from now on, empty for none. Raises UsageError where a command that
    continues ``run`` chose another one; a command that only votes may not choose."""
    if recorded or has_settings(directory):
        if run is not None:
            caller.check_profile_kept(recorded, run)
        caller.keep_profile(recorded)


def _amounts(given: dict[str, Json]) -> dict[str, Json]:
    """Amounts as numbers: dollars, tokens, calls."""
    amounts: dict[str, Json] = {}
    for what, value in given.items():
        parse = parse_money if what == "cost" else parse_count
        plain = value if not isinstance(value, str) else parse(value)
        amounts[what] = float(value) if plain is None else plain
    return amounts


def environment_of(names: tuple[str, ...], directory: str) -> dict[str, str]:
    """The values of environment variables that are set, without those that are a secret of the project or that its
    policy hides."""
    result = {name: os.environ[name] for name in names if name in os.environ}
    if result and has_settings(directory):
        shown = without_hidden(tuple(result), directory)
        return dict(visible(levels(policy_records(directory)), {name: result[name] for name in shown}))
    return result


def _refuse_denied(
    ready: ReadyPlan, levels: tuple[Level, ...], path: str, capabilities: Registry, directory: str
) -> None:
    """Raise Denied, with every refusal, for a plan of which some task can never run under these levels; the rule is
    that of the first."""
    refused = list(refused_tasks(ready.plan, levels, Ground(capabilities, directory)))
    if refused:
        listed = "\n".join(f"  `{name}`: {refusal(wanted, right)}" for name, _, wanted, right in refused)
        message = f"policy does not let `{path}` start\n{listed}"
        raise Denied(message, NextStep("policy explain", path), refused[0][-1].rule, path, ready.digest)


def require_time(plan: Plan, text: str, path: str, now: float) -> None:
    """Raises PlanInvalid where the deadline of the plan or of a task has passed already."""
    source = Source(text, path, notation_of(path))
    if findings := passed_deadlines(plan, source, now):
        raise PlanInvalid(f"`{path}` cannot run", source, findings)


class Edited(Struct):
    """The run, and the path of the plan file that differs now, as the caller would type it."""

    run_id: str
    path: str


def edited_plan(run: str, state_dir: str | None) -> Edited | None:
    """The edit that a run does not have; None where the file is as it was, or is gone. Raises NotFound."""
    with closing(open_journal(find_state(None, state_dir), readonly=True)) as journal:
        run_id = journal.find_run(run)
        last = None
        for entry in journal.entries(run_id):
            if isinstance(entry.event, (RunStarted, RunRevised)):
                last = entry.event
        if last is None or last.environment.get("proposed"):
            return None  # the command that continues with it says so, or the plan never was in the file
        before = journal.plan(str(last.environment.get("text") or last.plan_digest)).text
    path = str(last.environment.get("plan", ""))
    try:
        with open(path, "rb") as file:
            now = file.read().removeprefix(b"\xef\xbb\xbf")
    except OSError:
        return None
    if now == before.encode("utf-8", "surrogatepass"):
        return None
    near = os.path.relpath(path)
    return Edited(run_id, path if near.startswith(os.pardir) else near)
