"""Run a plan, and continue a run: the composition root for everything that acts."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol

from planrunner import __version__, errors
from planrunner.ancestry import mark_for_good
from planrunner.app.runs.deployment import deployment
from planrunner.app.runs.occupancy import refuse_restoring
from planrunner.app.runs.preflight import Needs, require_ready
from planrunner.app.runs.secrets import require_none_in, vault_of
from planrunner.app.runs.setup import (
    ReadyPlan,
    environment_of,
    governing_policy,
    grace,
    has_settings,
    may_need_permission,
    parallel_limit,
    prepare_plan,
    require_time,
    run_settings,
)
from planrunner.caller import principal, workspace
from planrunner.engine.calls import Place, tidy
from planrunner.engine.effects import Effects
from planrunner.engine.executors import LiveSettings
from planrunner.engine.live import LiveEffects
from planrunner.engine.loop import Driver, Inbox, Observer
from planrunner.engine.poller import Clock, StopSwitch, boot
from planrunner.errors import Hint, NextStep, NotFound, UsageError
from planrunner.journal.records import Lease, NewRun, StoredPlan, new_run_id
from planrunner.journal.stores import open_journal
from planrunner.journal.workspace import find_project, find_state
from planrunner.later import Later
from planrunner.machine.events import Entry, Event, RunStarted
from planrunner.machine.evolve import evolve
from planrunner.machine.state import State
from planrunner.plan.agents import PLANNING
from planrunner.plugins.registry import Registry
from planrunner.process import collect_rarely, is_own_process
from planrunner.records import Struct
from planrunner.safety.trust import why_outside
from planrunner.source import notation_of
from planrunner.views.status import exit_code

if TYPE_CHECKING:
    from planrunner.app.people.admission import AdmissionRequest, Ask, admit
    from planrunner.app.people.persons import require_person
    from planrunner.app.plans.preview import hold_to
    from planrunner.app.plans.tasks import gates_left_out, select
    from planrunner.app.proof.lives import assumed
    from planrunner.app.runs.doubts import left_alone
    from planrunner.capabilities.contract import Planning
    from planrunner.engine.background import users_of
    from planrunner.engine.identities import SpanIdentity, read_traceparent, run_identity
    from planrunner.engine.planning import Planner
    from planrunner.engine.secrets import Vault
    from planrunner.journal.memory import MemoryJournal
    from planrunner.journal.ports import JournalPort
    from planrunner.plan.model import Plan
    from planrunner.plan.params import bind_params
    from planrunner.source import Source
else:
    AdmissionRequest = Later("planrunner.app.people.admission:AdmissionRequest")
    admit = Later("planrunner.app.people.admission:admit")
    require_person = Later("planrunner.app.people.persons:require_person")
    hold_to = Later("planrunner.app.plans.preview:hold_to")
    gates_left_out = Later("planrunner.app.plans.tasks:gates_left_out")
    select = Later("planrunner.app.plans.tasks:select")
    assumed = Later("planrunner.app.proof.lives:assumed")
    left_alone = Later("planrunner.app.runs.doubts:left_alone")
    users_of = Later("planrunner.engine.background:users_of")
    read_traceparent = Later("planrunner.engine.identities:read_traceparent")
    run_identity = Later("planrunner.engine.identities:run_identity")
    Planner = Later("planrunner.engine.planning:Planner")
    MemoryJournal = Later("planrunner.journal.memory:MemoryJournal")
    bind_params = Later("planrunner.plan.params:bind_params")


Json = Any


_Group = Later("planrunner.app.runs.groups:Group")
_in_turn_of = Later("planrunner.app.runs.groups:in_turn")


class ExecRequest(Struct):
    """What ``planrunner exec`` was asked for. ``only`` and ``until`` are task ids; ``state`` is the state directory;
    ``trust`` the digest of a trusted plan from outside the project, ``beyond`` places there to act in,
    ``ask`` asks about both (None: it is not asked). With ``vouched`` the caller made the plan, wherever it lies."""

    plan: str
    params: tuple[tuple[str, Json], ...] = ()
    only: tuple[str, ...] = ()
    until: tuple[str, ...] = ()
    max_parallel: int | None = None
    state: str | None = None
    dry_run: bool = False
    seed: int | None = None
    preview: str | None = None
    """A saved preview that the run must be held to."""
    unattended: bool = False
    """Never ask: tasks in doubt that can be undone are undone, and fail."""
    unconfined: bool = False
    """A person has taken the sandbox away: nothing is shut in, whatever policies say."""
    trust: str = ""
    beyond: tuple[str, ...] = ()
    ask: Ask | None = None
    vouched: bool = False
    forced: bool = False
    """Every task runs, whatever its ``fresh`` says."""
    text: bytes | None = None
    """The plan itself where it has no file; ``plan`` is what it is called then."""
    run_id: str = ""
    """The id that the run was promised; one that a run has already is a UsageError."""
    traceparent: str = ""
    """The span in which the run is started, as W3C Trace Context writes it; anything else is ignored."""
    group: str = ""
    """Of the runs of one group one goes on at a time; ``overlap`` is as in ``groups.Group``."""
    overlap: str = "queue"
    decides: bool = True
    """Whether the one who asks may decide gates: only they leave one out that a task of ``only`` waits for."""


class RunResult(Struct):
    """How a run stands when its runner lets go of it."""

    run_id: str
    plan: str
    revision: str
    status: str
    exit_code: int
    state: State
    entries_seen: int
    state_dir: str
    notices: int = 0
    """Warnings and notes that lint has about the plan."""
    source: Source | None = None
    """The text of the plan, where something failed and its place is to be shown."""
    warnings: tuple[str, ...] = ()
    """What people should know of the state directory."""


class Watch(Protocol):
    """An observer of a run: it receives the run, each durable entry, output, and now and then the time."""

    def started(self, run_id: str, plan: Plan, state: State) -> None: ...

    def event(self, entry: Entry) -> None: ...

    def output(self, task: str, attempt: int, stream: str, data: bytes) -> None: ...

    def tick(self, now: float) -> None:
        """Called at least every half second while the run goes on."""
        ...

    def ended(self, result: RunResult) -> None: ...


class Silent:
    """A watch that shows nothing."""

    def started(self, run_id: str, plan: Plan, state: State) -> None: ...

    def event(self, entry: Entry) -> None: ...

    def output(self, task: str, attempt: int, stream: str, data: bytes) -> None: ...

    def tick(self, now: float) -> None: ...

    def ended(self, result: RunResult) -> None: ...


def warn(watch: Watch, texts: Sequence[str]) -> None:
    """Pass warnings to a watch that accepts them."""
    telling = getattr(watch, "warn", None)
    if texts and telling is not None:
        telling(texts)


def is_attended(watch: Watch) -> bool:
    """Whether the one who looks on answers gates as well: such a run waits for them instead of parking."""
    return bool(getattr(watch, "attended", False))


def execute(
    request: ExecRequest, watch: Watch, registry: Registry | None = None, switch: StopSwitch | None = None
) -> RunResult:
    """Run a plan until it ends or parks, with the capabilities of ``registry`` where one is given; ``switch`` stops it
    from another thread.

    Raises NotFound, PlanInvalid, UsageError (parameters, task names), Denied for a plan that may not run,
    StorageFailed and Fenced; whatever the tasks of the plan do ends in the result.
    """
    registry = registry or Registry(project=find_project(request.plan))
    state_dir = find_state(request.plan, request.state)
    free = request.dry_run or request.vouched
    if request.unconfined:
        require_person("sandbox", state_dir)
    ready, noted = None, None
    if not free and why_outside(request.plan, find_project(None)):  # before anything that came with it is read
        ready, noted = _admitted(request, registry, None)
    with closing(journal_at(state_dir, request.dry_run)) as journal:
        if ready is None or noted is None:
            ready, noted = _seen_and_admitted(request, journal, registry, free)
        site = Site(journal, registry, state_dir, watch, request.unconfined, switch)
        seen, allowed = ready, noted
        group = "" if request.dry_run else request.group
        return in_turn(site, group, request.overlap, "", lambda there: _begin(request, there, seen, allowed))


def in_turn(site: Site, group: str, overlap: str, run: str, act: Callable[[Site], RunResult]) -> RunResult:
    """Do ``act`` while it is the turn of a run in its group, if it has one. As ``groups.in_turn``."""
    if not group:
        return act(site)
    result: RunResult = _in_turn_of(site, _Group(group, overlap), run, act)
    return result


def _seen_and_admitted(
    request: ExecRequest, journal: JournalPort, registry: Registry, free: bool
) -> tuple[ReadyPlan, dict[str, Json]]:
    ready = prepare_plan(request.plan, journal, registry, request.text)
    asked = not free and (request.trust or request.beyond or may_need_permission(request.plan, ready))
    return ready, _admitted(request, registry, ready)[1] if asked else {}


def admitted_plan(request: ExecRequest, journal: JournalPort, registry: Registry) -> tuple[ReadyPlan, dict[str, Json]]:
    """A plan that is to run, as ``execute`` takes it, and what the record says of why it is trusted. Raises
    NotFound, PlanInvalid, and Denied for a plan that may not run."""
    if why_outside(request.plan, find_project(None)):
        return _admitted(request, registry, None)
    return _seen_and_admitted(request, journal, registry, False)


def _admitted(request: ExecRequest, registry: Registry, ready: ReadyPlan | None) -> tuple[ReadyPlan, dict[str, Json]]:
    admission = AdmissionRequest(request.plan, request.params, request.trust, request.beyond, request.ask)
    return admit(admission, registry, ready)


class Site(Struct):
    """Where a run takes place: its journal and state directory, the plugins, and who watches it; ``unconfined`` where a
    person has taken the sandbox away. ``switch`` stops the run from another thread."""

    journal: JournalPort
    registry: Registry
    state_dir: str
    watch: Watch
    unconfined: bool = False
    switch: StopSwitch | None = None
    named: Callable[[str], None] | None = None
    """Is told the id of a run that begins."""


def journal_at(state_dir: str, in_memory: bool) -> JournalPort:
    """The journal of a state directory, or one that is gone with the process. Raises StorageFailed."""
    if in_memory:
        return MemoryJournal()
    return open_journal(state_dir)


class Promised(Struct):
    """A run that could start: its plan, the text of that with its SHA-256, and the request with what a person has
    allowed, so that it is not asked for a second time."""

    plan: Plan
    text: bytes
    digest: str
    request: ExecRequest


def promise(request: ExecRequest) -> Promised:
    """Look at all that ``execute`` looks at before a run begins, and begin none. Raises as ``execute`` does."""
    registry = Registry(project=find_project(request.plan))
    state_dir = find_state(request.plan, request.state)
    with closing(journal_at(state_dir, False)) as journal:
        ready, noted = admitted_plan(request, journal, registry)
        _prospect(request, Site(journal, registry, state_dir, Silent(), request.unconfined), ready, noted)
    trust = noted.get("trust", {})
    if trust.get("by") == "asked":
        request = request._replace(trust=trust["digest"])
    text = ready.text.encode("utf-8", "surrogatepass")
    return Promised(ready.plan, text, sha256(text).hexdigest(), request._replace(ask=None))


class _Prospect(Struct):
    """A run that may begin: its state with the first entry folded, and the text that it is pinned to; ``imagined`` are
    the effects of a dry run."""

    state: State
    first: Entry
    stored: StoredPlan
    clock: Clock
    vault: Vault | None
    imagined: Effects | None


def _begin(request: ExecRequest, site: Site, ready: ReadyPlan, noted: dict[str, Json]) -> RunResult:
    begun = _prospect(request, site, ready, noted)
    state, first = begun.state, begun.first
    run_id, plan = state.run_id, state.plan
    handle = site.journal.create_run(NewRun(run_id, plan.id, ready.digest, first.at, begun.stored), [first])
    with Held(site, state, handle) as held:
        if site.named is not None:
            site.named(run_id)
        site.watch.started(run_id, plan, state)
        site.watch.event(first)
        if (observers := site.registry.observer()) is not None:
            observers(run_id, first)
        effects = begun.imagined or live(site, state, begun.clock, handle.epoch, begun.vault)
        return held.drive(left_alone() if request.unattended else (), effects)._replace(notices=ready.notices)


def _prospect(request: ExecRequest, site: Site, ready: ReadyPlan, noted: dict[str, Json]) -> _Prospect:
    """Raises what keeps a run from beginning."""
    directory = find_project(request.plan)
    settings, most = run_settings(directory)
    request = request._replace(max_parallel=parallel_limit(request.max_parallel, ready.plan.max_parallel, most))
    outside = noted.get("trust", {}).get("origin") == "outside"
    policy = governing_policy(directory, ready, request.plan, site.registry, outside)
    params, selected = _asked(request, ready)
    plan, traits = ready.plan, ready.traits
    imagined: Effects | None = None
    here = boot()
    now = time.time()
    if plan.due is not None or any(task.due is not None for task in plan.tasks):
        require_time(plan, ready.text, request.plan, now)
    if request.dry_run:
        plan, traits, imagined = assumed(plan, now)
    clock = Clock(now, here["uptime"])
    run_id = request.run_id or new_run_id(now, os.urandom(8))
    stored = kept_text(
        site.journal, StoredPlan(ready.digest, ready.text, request.plan, notation_of(request.plan), ready.compiled)
    )
    environment = {
        **_environment(request.plan, directory, ready.env),
        **settings,
        **noted,
        **policy,
        **_particulars(request, site, ready, stored),
    }
    started = RunStarted(
        plan_digest=ready.digest,
        params=params,
        seed=next(
            (seed for seed in (request.seed, plan.seed) if seed is not None), int.from_bytes(os.urandom(4), "big")
        ),
        selected=selected,
        max_parallel=request.max_parallel,
        traits=traits,
        environment=environment,
        boot=here,
        attended=is_attended(site.watch),
    )
    state = State(plan, run_id)
    evolve(state, started, now)
    vault = None if request.dry_run else _ready(request, site, ready, state, directory, policy)
    return _Prospect(state, Entry(1, now, started), stored, clock, vault, imagined)


def _ready(
    request: ExecRequest, site: Site, ready: ReadyPlan, state: State, directory: str, policy: dict[str, Json]
) -> Vault | None:
    """The secrets of a run that may start. Raises Unready where something that it needs is missing here."""
    vault = looked_up(state, directory)
    needs = Needs(
        *(state.plan, state.params, state.environment["env"], ready.traits, ready.needs),
        *(directory, state.selected, vault),
        policies=policy.get("policy"),
    )
    warn(site.watch, require_ready(needs, f"`{request.plan}` cannot start", "nothing was started"))
    if vault is not None and state.params:
        require_none_in(state.params, vault)
    return vault


def _particulars(request: ExecRequest, site: Site, ready: ReadyPlan, stored: StoredPlan) -> dict[str, Json]:
    """What the environment of few runs has."""
    return {
        **({"text": stored.digest} if stored.digest != ready.digest else {}),
        **({"deployment": facts} if (facts := deployment()) else {}),
        **({"files": dict(ready.files)} if ready.files else {}),
        **{name: True for name, is_so in (("dry_run", request.dry_run), ("forced", request.forced)) if is_so},
        **({"group": request.group} if request.group else {}),
        **(
            {"traceparent": request.traceparent}
            if request.traceparent and read_traceparent(request.traceparent)
            else {}
        ),
        **({"unchained": site.journal.unchained} if site.journal.unchained else {}),
        **({"sandbox": {"off": True, "by": principal().name}} if request.unconfined else {}),
    }


def kept_text(journal: JournalPort, plan: StoredPlan) -> StoredPlan:
    """A plan as the journal keeps it: under its digest, and under a key of its own where the journal has another text
    or another name of the same plan, so that places are those of this very text."""
    try:
        known = journal.plan(plan.digest)
    except NotFound:
        return plan
    if (known.text, known.name) == (plan.text, plan.name):
        return plan
    text = sha256(f"{plan.name}\0{plan.text}".encode("utf-8", "surrogatepass")).hexdigest()
    return plan._replace(digest=f"{plan.digest}+{text[:16]}")


def text_key(state: State) -> str:
    """Under which digest the journal has the text of the plan of a run."""
    return str(state.environment.get("text") or state.plan_digest)


def _asked(request: ExecRequest, ready: ReadyPlan) -> tuple[dict[str, Json], tuple[str, ...] | None]:
    """Parameters and selected tasks, None for all. Raises UsageError, and as ``hold_to`` where a preview is given."""
    params: dict[str, Json] = {}
    if ready.plan.params or request.params:
        bound = bind_params(ready.plan, dict(request.params))
        if bound.problems:
            raise UsageError("; ".join(bound.problems))
        params = bound.values
    selected = None
    if request.only or request.until:
        selected = select(ready.plan, request.only, request.until)
        _require_gates(request, ready.plan, selected or ())
    if request.max_parallel is not None and request.max_parallel < 1:
        raise UsageError(f"--max-parallel takes a number from 1, not {request.max_parallel}")
    if request.preview is not None:
        hold_to(request.preview, ready, params, request.max_parallel, selected)
    return params, selected


def _require_gates(request: ExecRequest, plan: Plan, selected: tuple[str, ...]) -> None:
    """Raises Denied for a selection that leaves out a gate which its tasks wait for, where the one who asks may not
    decide gates. A run that was promised was held to this before."""
    if request.run_id or request.dry_run or not (left := gates_left_out(plan, selected)):
        return
    if not request.decides:
        listed = ", ".join(f"`{name}`" for name in left[:5])
        hint = "name them too, or name the tasks with `until`: then what they need runs as well"
        message = f"the tasks that are to run wait for {listed}, and to leave out a gate takes the right to decide it"
        raise errors.Denied(message, hint)
    require_person("only", find_state(request.plan, request.state))


SCHEMA = 1
"""Version of what a run records about its surroundings."""


def _environment(path: str, directory: str, names: tuple[str, ...]) -> dict[str, Json]:
    system = os.uname()
    return {
        "planrunner": __version__,
        "schema": SCHEMA,
        "python": sys.version.split()[0],
        "system": f"{system.sysname} {system.release} {system.machine}",
        "host": system.nodename,
        "user": principal().name,
        "uid": os.getuid(),
        "plan": os.path.abspath(path),
        "directory": directory,
        "env": environment_of(names, directory),
    }


def directory_of(state: State) -> str:
    """Where the tasks of a run work."""
    return str(state.environment.get("directory") or workspace().root)


class Held:
    """A run this process acts on: it can be driven, and is let go of whatever happens."""

    __slots__ = ("_handle", "_site", "_state")

    def __init__(self, site: Site, state: State, handle: Lease) -> None:
        self._site = site
        self._state = state
        self._handle = handle

    def __enter__(self) -> Held:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._site.journal.release(self._handle)
        if isinstance(error, errors.StorageFailed):
            self._site.journal.require_there(self._handle.run)  # that it is gone says more than what failed for it
            error.way_out = error.way_out.replaced(
                errors.AGAIN, Hint("continue with ", NextStep("resume", self._handle.run))
            )

    def drive(self, first: Sequence[Event], effects: Effects) -> RunResult:
        """Drive the run until it ends or parks; ``effects`` are closed then."""
        state, site = self._state, self._site
        place = Place(directory_of(state), os.path.join(site.state_dir, "tmp", state.run_id))
        observers = site.registry.observer()
        onlooker: Observer = site.watch
        if observers is not None:
            onlooker = Observed(site.watch, state.run_id, observers)
        append = partial(site.journal.append, self._handle)
        driver = Driver(state, append, effects, place, onlooker, self._handle.last_seq)
        driver.inbox = Inbox(site.journal, self._handle)
        if is_own_process():
            collect_rarely()
        ours = True
        try:
            driver.record(*first)
            driver.run()
        except errors.Fenced:
            ours = False  # what lies there belongs to the runner that has the run now
            raise
        finally:
            effects.close()
            if ours:
                tidy(place)
            if observers is not None:
                observers.flush()
        failed = any(state.counts.get(status) for status in ("failed", "in_doubt", "rolled_back"))
        result = RunResult(
            *(state.run_id, state.plan.id, state.plan_digest, state.status, exit_code(state)),
            *(state, self._handle.last_seq, site.state_dir),
            source=site.journal.plan(text_key(state)).source() if failed else None,
            warnings=site.journal.notices,
        )
        site.watch.ended(result)
        return result


def trace_of(state: State) -> SpanIdentity | None:
    """The span of a run that is traced: it was started in a trace, or its project has telemetry; None for any other."""
    outside = str(state.environment.get("traceparent", ""))
    return run_identity(state.run_id, outside) if outside or state.environment.get("traced") else None


def live(site: Site, state: State, clock: Clock, epoch: int, vault: Vault | None) -> Effects:
    """Effects on the real world; ``vault`` has the secrets of the run. Raises RunHeld while
    files are put back where the run works."""
    directory = directory_of(state)
    refuse_restoring(site.state_dir, state.run_id, directory)
    if is_own_process():
        mark_for_good()
    settings = LiveSettings(
        state_dir=site.state_dir,
        run_id=state.run_id,
        resolve=site.registry.resolve,
        on_output=site.watch.output,
        clock=clock,
        epoch=epoch,
        environment=None if vault is None else vault.environment,
        directory=directory,
        outside=tuple(state.environment.get("outside", ())),
        vault=vault,
        untrusted=state.environment.get("trust", {}).get("origin") == "outside",
        unconfined=site.unconfined,
        own_process=is_own_process(),
        grace=grace(directory),
        users=users_of(state.plan) if any(task.ready for task in state.plan.tasks) else {},
        trace=trace_of(state),
        switch=site.switch,
        planner=planner(site, state) if PLANNING in state.traits else None,
    )
    return LiveEffects(settings)


def planner(site: Site, state: State) -> Callable[[], Planning]:
    """For what writes plans: the language as the project may use it, and the run as it stands."""
    text, path = site.journal.plan(text_key(state)).text, str(state.environment.get("plan", ""))
    return partial(Planner, site.registry, directory_of(state), text, path, state)


def looked_up(state: State, directory: str) -> Vault | None:
    """The secrets of a run; None where its project has none."""
    if not has_settings(directory):
        return None
    return vault_of(state, directory)


class Observed:
    """The watch, and the plugins that observe; they are told last and cannot change anything."""

    __slots__ = ("_observe", "_run_id", "_watch")

    def __init__(self, watch: Observer, run_id: str, observe: Callable[[str, Entry], None]) -> None:
        self._watch = watch
        self._run_id = run_id
        self._observe = observe

    def event(self, entry: Entry) -> None:
        self._watch.event(entry)
        self._observe(self._run_id, entry)

    def tick(self, now: float) -> None:
        self._watch.tick(now)
