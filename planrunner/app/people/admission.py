"""Whether an untrusted plan may run: one from outside the project, or one that acts outside it.

Permission comes from a person at the terminal, from the digest on the command line, from the store of trust
(``safety/trust.py``), or from the policy of the operator. It covers the plan with all files it links to, and the
settings that come with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from shlex import quote
from typing import Any, Literal

from planrunner.app.people.persons import require_person
from planrunner.app.proof.envelope import KnownPlan
from planrunner.app.proof.powers import FORMAT, outside, powers, settings_powers
from planrunner.app.runs.setup import ReadyPlan, environment_of, linked_files, prepare_plan
from planrunner.errors import Denied, Hint, NextStep, NotFound, PlanrunnerError, UsageError
from planrunner.escapes import escaped
from planrunner.files.match import path_matches
from planrunner.journal.workspace import find_project
from planrunner.jsontext import stable_json
from planrunner.plan.model import Plan
from planrunner.plan.params import bind_params
from planrunner.plan.rights import texts
from planrunner.plugins.registry import Registry
from planrunner.records import Struct
from planrunner.safety import trust
from planrunner.safety.project import FILE, read_settings, said_of_plans
from planrunner.safety.trust import settings_text, trusted_home, why_marked, why_outside

Json = Any


Answer = Literal["once", "always", "no", "unasked"]
Ask = Callable[[dict[str, Json]], Answer]
"""Shows what a plan may do and asks whether it may; ``unasked`` without a terminal to ask at."""

DENYING = "policy: {plans: {outside: deny}}"


class AdmissionRequest(Struct):
    """A plan that is to run: its path, the parameters as they were given, the digest that was typed, the
    places outside the project that were named, and how to ask."""

    path: str
    params: tuple[tuple[str, Json], ...] = ()
    digest: str = ""
    beyond: tuple[str, ...] = ()
    ask: Ask | None = None


class Review(Struct):
    """A plan as it is reviewed before it is trusted. ``summary`` is what it may do (see ``proof/powers.py``) with
    its ``digest`` and ``origin``; ``text`` is what the digest is made of; ``file`` is the one that waits for a person:
    the plan, or a marked one that it links to."""

    ready: ReadyPlan
    summary: dict[str, Json]
    text: bytes
    file: str


Origin = Literal["inside", "outside", "drafted"]


def rule_for(origin: Origin) -> str:
    """What the policies of the user and of the working directory say of plans from there: allow, ask or deny. That of a
    plan's own project does not count, and a drafted plan is always asked about. Raises as ``read_data``."""
    if origin == "drafted":
        return "ask"
    return said_of_plans(find_project(None), origin) or ("ask" if origin == "outside" else "allow")


def review(
    path: str,
    registry: Registry | None = None,
    params: Iterable[tuple[str, Json]] = (),
    ready: ReadyPlan | None = None,
) -> Review:
    """A plan file with what it may do. Raises NotFound, UsageError, and PlanInvalid, for settings with errors too."""
    directory = find_project(path)
    ready = ready or read_uncached(path, registry or Registry(project=directory))
    look = KnownPlan(ready.plan, _values(ready.plan, params), ready.traits, environment_of(ready.env, directory))
    why = why_foreign(path, ready)
    drafted, marked = ("", path) if why else marked_file(path, ready)
    settings = _settings_beside(directory) if why else b""
    text = _trusted_text(ready, settings)
    summary = {
        "format": FORMAT,
        "file": path,
        "origin": "outside" if why else "drafted" if drafted else "inside",
        "why": why or drafted,
        "directory": directory,
        "revision": ready.digest,
        "digest": f"sha256:{trust.digest(text)}",
        "trusted": trust.trust_state(path, text, "plan"),
        **powers(look, ready.plan.max_parallel, directory),
        "env": list(ready.env),
        "settings": settings_powers(read_settings(directory).own) if settings else None,
    }
    return Review(ready, summary, text, marked)


def _trusted_text(ready: ReadyPlan, settings: bytes = b"") -> bytes:
    """What the digest is made of by which a plan is trusted."""
    return stable_json({"plan": ready.digest, "settings": trust.digest(settings) if settings else ""}).encode()


def read_uncached(path: str, registry: Registry) -> ReadyPlan:
    """A plan file as it is, whatever a state directory that came with it keeps of it. Raises NotFound, PlanInvalid."""
    return prepare_plan(path, None, registry)


def why_foreign(path: str, ready: ReadyPlan) -> str:
    """Why a plan is from outside, by its own file or by one that it links to; empty where it is not. A project that
    its user trusts as a whole counts like that of the working directory."""
    why = _stray_file(path, ready)
    home = trusted_home(path) if why else ""
    return "" if home and not _stray_file(path, ready, home) else why


def _stray_file(path: str, ready: ReadyPlan, home: str = "") -> str:
    for each in (path, *(file for file, _ in linked_files(path, ready))):
        if why := why_outside(each, find_project(None), home):
            return why if each == path else f"`{each}`, which it links to: {why}"
    return ""


def marked_file(path: str, ready: ReadyPlan) -> tuple[str, str]:
    """Why a plan waits for a person though it lies inside the project, and which file that is about: its own, or one
    that it links to, with text from outside and not trusted by itself. Empty, and its own, for any other."""
    if why := why_marked(path):
        return why, path
    for each, sha256 in linked_files(path, ready):
        if (why := why_marked(each, sha256)) and not is_trusted(each):
            return f"`{each}`, which it links to: {why}", each
    return "", path


def require_trusted_links(path: str, ready: ReadyPlan) -> None:
    """Raises Denied for a plan that links to a file with text from outside that is not trusted by itself."""
    for each, sha256 in linked_files(path, ready):
        if (why := why_marked(each, sha256)) and not is_trusted(each):
            hint = Hint("read it, then: ", NextStep("trust", each))
            raise _no(f"`{path}` links to `{each}`, which is not trusted: {why}", hint, path)


def is_trusted(path: str) -> bool:
    """Whether a person trusts a plan file of the project as it is, with all that it links to."""
    try:
        ready = read_uncached(path, Registry(project=find_project(path)))
    except PlanrunnerError:
        return False  # with errors it runs nowhere
    return trust.trust_state(path, _trusted_text(ready), "plan") == "trusted"


def runs_unasked(path: str, links: Iterable[tuple[str, str]] = ()) -> bool:
    """Whether a plan of the project runs without a question, with the files that it links to and the SHA-256 of each:
    no text from outside is in them, or a person trusts it."""
    marked = why_marked(path) or any(why_marked(each, sha256) and not is_trusted(each) for each, sha256 in links)
    return not marked or is_trusted(path)


def admit(
    request: AdmissionRequest, registry: Registry, ready: ReadyPlan | None = None
) -> tuple[ReadyPlan, dict[str, Json]]:
    """The plan, and what the record of its run says of why it is trusted: ``trust``, and ``outside`` with
    patterns of the places outside the project that it may act in. Raises Denied if it may not run."""
    if request.beyond:
        require_person("trust")
    ready = ready or read_uncached(request.path, registry)
    strange = why_foreign(request.path, ready) or marked_file(request.path, ready)[0]
    if not request.digest and not strange and rule_for("inside") == "allow":
        allowed = _allowed(request)
        look = KnownPlan(ready.plan, _values(ready.plan, request.params), ready.traits, {})
        if not _missing(outside(look, find_project(request.path)), request, allowed):
            return ready, {"outside": allowed} if allowed else {}
    examination = review(request.path, registry, request.params, ready)
    found, allowed = examination.summary, _allowed(request)
    origin: Origin = found["origin"]
    missing = _missing(found["outside"], request, allowed)
    try:
        by = _by(request, examination, rule_for(origin), missing)
    except Denied as denied:
        denied.digest = examination.ready.digest
        raise
    if by != "policy":  # they were shown before consent
        allowed += [_real(request, row) for row in missing]
    noted: dict[str, Json] = {"trust": {"origin": origin, "digest": found["digest"], "by": by}}
    return examination.ready, {**noted, "outside": sorted(set(allowed))} if allowed else noted


def check_again(environment: Mapping[str, Json]) -> None:
    """Whether a run may go on: what was said for it holds, but for what was taken back since, by the policy or by
    `planrunner trust forget`. ``environment`` is what its record says. Raises Denied."""
    noted, path = environment["trust"], str(environment.get("plan", ""))
    rule = rule_for("outside" if noted.get("origin") == "outside" else "inside")
    kept = trust.trusted(path, "plan") is not None
    if rule == "deny":
        raise _denied(path, "the policy refuses plans from outside the project")
    if noted.get("by") == "store" and not kept:
        raise _taken_back(path, "it is no longer trusted")
    if noted.get("by") == "policy" and rule == "ask" and not kept:
        raise _taken_back(path, "the policy no longer lets plans from outside run without a word")


def _denied(path: str, why: str) -> Denied:
    hint = f"the line that says so: {DENYING} in {FILE} or your own settings"
    return _no(f"`{path}` may not run: {why}", hint, path, "policy.plans")


def _taken_back(path: str, why: str) -> Denied:
    return _no(f"the run of `{path}` may not go on: {why}", Hint("read it, then: ", NextStep("trust", path)), path)


def _no(message: str, hint: str | Hint, path: str, rule: str = "trust") -> Denied:
    """The refusal; names that a plan chose show nothing but what they are."""
    parts = hint.parts if isinstance(hint, Hint) else (hint,)
    shown = [
        escaped(part) if isinstance(part, str) else NextStep(part.command, *map(escaped, part.arguments))
        for part in parts
    ]
    return Denied(escaped(message), Hint(*shown), rule, path)


def _by(request: AdmissionRequest, review: Review, rule: str, missing: list[dict[str, str]]) -> str:
    """What permits the plan to run: its digest on the command line, the policy, the store of trust, or the answer to a
    prompt. Raises Denied."""
    found = review.summary
    if rule == "deny":
        raise _denied(request.path, f"the policy refuses plans from outside the project: {found['why']}")
    if request.digest:
        if request.digest.removeprefix("sha256:") != found["digest"].removeprefix("sha256:"):
            message = f"`{request.path}` is not what was trusted: its digest is {found['digest']}, not {request.digest}"
            raise _no(message, Hint("look at what it may do now: ", NextStep("trust", request.path)), request.path)
        require_person("trust")
        return "digest"
    if rule == "allow" and not missing:
        return "policy"
    if found["trusted"] == "trusted":
        return "store"
    answer = request.ask(found) if request.ask is not None else "unasked"
    if answer in ("once", "always"):
        require_person("trust")
    if answer == "always":
        trust.trust(request.path, review.text, "plan")
    if answer not in ("once", "always"):
        raise _refused(request, review, answer, missing)
    return "asked"


def _refused(request: AdmissionRequest, review: Review, answer: Answer, missing: list[dict[str, str]]) -> Denied:
    found, show = review.summary, NextStep("trust", review.file)
    if answer == "no":
        return _no(f"`{request.path}` was not run: you did not allow it", Hint(show, " shows it again"), request.path)
    reasons = (
        [found["why"]] if found["why"] else [f"{row['as']} of `{row['task']}`: {row['path']}" for row in missing[:1]]
    )
    reasons += ["it has changed since it was trusted"] * (found["trusted"] == "changed")
    if missing and found["origin"] == "inside":
        real = _real(request, missing[0])
        entry = f"policy: {{files: {{write: ['**', {real}]}}}}"
        hint = f"allow it with --allow-outside {quote(real)}, or in {FILE}: {entry}"
        message = f"`{request.path}` acts outside the project ({'; '.join(reasons)})"
        return _no(message, hint, request.path, "trust.outside")
    told = "; ".join(reasons) or "the policy asks for it"
    ways = Hint("read it, then: ", show, ", or ", NextStep("exec", request.path, "--trust", found["digest"]))
    return _no(f"`{request.path}` is not trusted: {told}", ways, request.path)


def _allowed(request: AdmissionRequest) -> list[str]:
    """Patterns of places outside the project that a run may act in: those named with the run, and absolute ones that
    the policy lets be written."""
    named = [os.path.realpath(each) for each in request.beyond]
    places = {find_project(None), *({find_project(request.path)} if trusted_home(request.path) else ())}
    return sorted({*named, *(pattern for place in places for pattern in _written(place))})


def _missing(rows: Iterable[dict[str, str]], request: AdmissionRequest, allowed: list[str]) -> list[dict[str, str]]:
    return [row for row in rows if not any(path_matches(pattern, _real(request, row)) for pattern in allowed)]


def _real(request: AdmissionRequest, row: Mapping[str, str]) -> str:
    return os.path.realpath(os.path.join(find_project(request.path), row["path"]))


def _values(plan: Plan, params: Iterable[tuple[str, Json]]) -> dict[str, Json]:
    return dict(bind_params(plan, dict(params)).values)


def _settings_beside(directory: str) -> bytes:
    """The settings that come with a plan: those of its project, where that is not the one of the working directory.
    Raises as ``read_data``."""
    elsewhere = os.path.realpath(directory) != os.path.realpath(find_project(None))
    return settings_text(directory) if elsewhere else b""


def _written(place: str) -> list[str]:
    """Absolute patterns of what the policies of a project let be written."""
    given = [level.data for level in read_settings(place).levels if isinstance(level.data, dict)]
    files = [policy["files"] for policy in given if isinstance(policy.get("files"), dict)]
    return [pattern for each in files for pattern in texts(each.get("write")) if pattern.startswith("/")]


def trust_plan(path: str, plan: Review) -> None:
    """Let exactly this plan run from now on. Raises Denied where a run asks, StorageFailed."""
    require_person("trust")
    trust.trust(path, plan.text, "plan")


def project_object(path: str) -> dict[str, Json]:
    """A project as it is reviewed before it is trusted as a whole: where it is, and what its settings name.
    Raises UsageError for a folder that holds more than one project or belongs to another user, PlanInvalid for settings
    with errors."""
    root = os.path.realpath(path)
    if root in ("/", os.path.realpath(os.path.expanduser("~"))):
        raise UsageError(f"`{root}` holds whatever one has ever fetched: name a project in it")
    if why := why_outside(os.path.join(root, "planrunner.yaml"), root, root):
        raise UsageError(f"`{root}` cannot be trusted as a whole: {why}")
    found = trust.trust_state(root, settings_text(root), "project")
    return {"project": root, "sections": sorted(read_settings(root).own), "trusted": found}


def trust_project(path: str) -> None:
    """Let the plans of a project run from anywhere, as long as its settings stay what they are. Raises Denied where a
    run asks, StorageFailed."""
    require_person("trust")
    trust.trust(path, settings_text(os.path.realpath(path)), "project")


def listed() -> list[dict[str, Json]]:
    """What was trusted, by path: ``kind`` is plan or project, ``at`` seconds since 1970."""
    rows = [
        {"kind": kind, "path": found.path, "digest": f"sha256:{found.sha256}", "at": found.at}
        for kind in ("plan", "project")
        for found in trust.records(kind)
    ]
    return sorted(rows, key=lambda row: str(row["path"]))


def forget(named: str) -> list[str]:
    """Take back what was trusted by a path, or by a digest; the paths. Raises NotFound where nothing was."""
    digest = named.removeprefix("sha256:")
    real = os.path.realpath(named)
    rows = [row for row in listed() if row["path"] == real or row["digest"] == f"sha256:{digest}"]
    if not rows:
        raise NotFound(f"nothing is trusted as `{named}`", Hint(NextStep("trust list"), " lists what is"))
    for row in rows:
        trust.untrust(row["path"], row["kind"])
    return [str(row["path"]) for row in rows]
