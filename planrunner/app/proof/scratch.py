"""Scratch copies of a project, in which plans run for real and leave the project and its journal alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import planrunner
from planrunner.app.history.replay import History, history_of
from planrunner.app.plans.path import read_regular
from planrunner.caller import workspace
from planrunner.errors import NextStep, NotFound, StorageFailed, UsageError
from planrunner.frozen import EMPTY
from planrunner.journal.chain import forget_place
from planrunner.plan.canonical import canonical
from planrunner.plan.load import named
from planrunner.plan.lower.declarations import budgets
from planrunner.plan.lower.values import Lowering
from planrunner.plan.model import Budgets
from planrunner.records import Struct
from planrunner.safety.content import read_regular as read_settings_file
from planrunner.safety.project import FILE, read_data
from planrunner.safety.settings import Part, with_included
from planrunner.source import Source
from planrunner.syntax.notations import parse
from planrunner.syntax.tree import Mapping as MappingNode
from planrunner.syntax.tree import to_json

Json = Any
Amounts = Mapping[str, float]

LARGEST = 512_000_000
"""Bytes of a project that is still copied."""
_LEFT_OUT = ("planrunner-chaos-*", "planrunner-eval-*", ".planrunner", ".venv", "venv", "node_modules", "__pycache__")


def check_size(project: str) -> None:
    """Raises UsageError for a project that is too large to be copied."""
    size = 0
    for here, folders, files in os.walk(project):
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        for name in files:
            try:
                size += os.lstat(os.path.join(here, name)).st_size
            except OSError:
                continue
        if size > LARGEST:
            raise UsageError(f"the project `{project}` is larger than {LARGEST // 1_000_000} MB: it is not copied")


@contextmanager
def scratch_copy(project: str, copy: str) -> Iterator[str]:
    """A copy of a project at ``copy`` with a state directory of its own; gone at the end."""
    shutil.copytree(project, copy, symlinks=True, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    os.mkdir(os.path.join(copy, ".planrunner"), 0o700)
    try:
        yield copy
    finally:
        forget_place(os.path.join(copy, ".planrunner"))
        shutil.rmtree(copy, ignore_errors=True)


def environment() -> dict[str, str]:
    """The environment of a planrunner that works in a copy: that of this process, without what steers this one."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PLANRUNNER_")}
    package = os.path.dirname(os.path.dirname(os.path.abspath(planrunner.__file__)))
    env["PYTHONPATH"] = os.pathsep.join(part for part in (package, env.get("PYTHONPATH", "")) if part)
    return env


def commit_of(project: str, revision: str) -> str:
    """The commit that a name means in the git repository of a project. Raises NotFound."""
    commit = _git(project, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if not commit:
        raise NotFound(f"`{revision}` is not a plan file, a recorded run or a git revision", NextStep("runs"))
    return commit


def checked_out(project: str, revision: str, folder: str) -> str:
    """The project as a revision of its git repository has it, below ``folder``; the repository is only read. Raises
    NotFound for what is not a revision, UsageError where git does not give it out."""
    commit, top = commit_of(project, revision), _git(project, "rev-parse", "--show-toplevel")
    quiet = ("-c", "core.hooksPath=/dev/null")
    made = ("clone", "--quiet", "--shared", "--no-checkout", "--template=", top, folder)
    for words in (
        made,
        ("-C", folder, "checkout", "--quiet", "--detach", commit),
        ("-C", folder, "remote", "remove", "origin"),
    ):
        done = subprocess.run(["git", *quiet, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise UsageError(f"git does not give out `{revision}`: {done.stderr.strip()[-300:]}")
    inside = os.path.relpath(os.path.realpath(project), os.path.realpath(top))
    if not os.path.isdir(os.path.join(folder, inside)):
        raise UsageError(f"`{revision}` does not have the folder `{inside}` of the project")
    base = os.path.normpath(os.path.join(folder, inside))
    files = read_data(project).get("env_file") or ()
    for name in (files,) if isinstance(files, str) else files:
        here, there = os.path.join(project, name), os.path.join(base, name)
        if os.path.isfile(here) and os.path.isdir(os.path.dirname(there)) and not os.path.lexists(there):
            shutil.copyfile(here, there)  # what git is told to ignore, such as .env
    return base


def _git(project: str, *words: str) -> str:
    """What git answers in a project, empty where it has no answer."""
    try:
        done = subprocess.run(["git", "-C", project, *words], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


class Ran(Struct):
    """How the command ended: exit code, the run where there is one, the end of what it said."""

    code: int
    run: History | None
    said: str


class Runner:
    """Runs plans in processes of their own, from any number of threads, until it is stopped."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._stopped = False

    def run(self, folder: str, state: str, plan: str, params: Json, text: str = "") -> Ran:
        """Run a plan in a folder, with its journal in ``state``; ``text`` is the plan where ``plan`` is ``-``."""
        given = os.path.join(state, "params.json")
        with open(given, "w", encoding="utf-8") as file:
            json.dump(params, file)
        profile = workspace().profile
        chosen = ("--profile", profile or "none") if profile is not None else ()
        words = [sys.executable, "-m", "planrunner", "--state", state, *chosen, "exec", plan, "--params-file", given]
        code, said = self._process([*words, "--unattended", "--json", "--progress", "quiet"], folder, text)
        try:
            return Ran(code, history_of("last", state), said)
        except (NotFound, StorageFailed):
            return Ran(code, None, said)

    def _process(self, words: Sequence[str], folder: str, text: str) -> tuple[int, str]:
        with self._lock:
            if self._stopped:
                return -1, "stopped"
            process = subprocess.Popen(
                words, cwd=folder, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE, text=True, errors="replace",
            )  # fmt: skip
            self._running.add(process)
        try:
            said = process.communicate(text)[1]
        finally:
            with self._lock:
                self._running.discard(process)
        return process.returncode, said.strip()[-1000:]

    def stop(self) -> None:
        """Stop what runs, as Ctrl-C does, and start nothing more."""
        with self._lock:
            self._stopped = True
            for process in self._running:
                process.terminate()


class Adjustment(Struct):
    """What differs in a copy: ``model`` stands in the place of the model ``replaces`` (empty: of the default one), and
    a run may use at most ``share``."""

    model: str = ""
    replaces: str = ""
    share: Amounts = EMPTY


def adjust(copy: str, adjustment: Adjustment) -> None:
    """Write the settings of a copy so that the adjustment holds."""
    parts = _settings(copy)
    if adjustment.model:
        _place_model(copy, parts, adjustment)
    if adjustment.share:
        holder = next((data for data in parts.values() if "budgets" in (data.get("policy") or {})), None)
        policy = (holder if holder is not None else next(iter(parts.values()))).setdefault("policy", {})
        policy["budgets"] = _lower(policy.get("budgets"), adjustment.share)
    for path, data in parts.items():
        with open(path, "w", encoding="utf-8") as file:
            json.dump(data, file, ensure_ascii=False)


def _settings(directory: str) -> dict[str, dict[str, Json]]:
    """The sections of each file of the settings, by its path, the root first."""
    path = os.path.join(directory, FILE)
    try:
        root = Part(read_settings_file(path), FILE, path)
    except FileNotFoundError:
        return {path: {}}
    return {part.source.name: _sections(part) for part in with_included(root, directory)}


def _sections(part: Part) -> dict[str, Json]:
    return to_json(part.tree) if isinstance(part.tree, MappingNode) else {}  # type: ignore[return-value]


def _place_model(copy: str, parts: dict[str, dict[str, Json]], adjustment: Adjustment) -> None:
    known = read_data(copy).get("models") or {}
    if adjustment.model not in known:
        raise UsageError(f"planrunner.yaml has no model `{adjustment.model}` there")
    key = adjustment.replaces or "default"
    value = known[adjustment.model] if adjustment.replaces else adjustment.model
    holders = [data for data in parts.values() if isinstance(data.get("models"), dict)]
    holders += [
        over for data in parts.values() for over in (data.get("profiles") or {}).values()
        if isinstance(over, dict) and isinstance(over.get("models"), dict)
    ]  # fmt: skip
    named_in = [holder["models"] for holder in holders if key in holder["models"]]
    for models in named_in or [(holders[0] if holders else next(iter(parts.values()))).setdefault("models", {})]:
        models[key] = value


def _lower(written: Json, share: Amounts) -> dict[str, Json]:
    """Budgets of a policy that let a run use no more than its share."""
    merged = dict(written or {})
    for what, amount in share.items():
        text = json.dumps({what: merged.get(what)})
        node = parse(Source(text, "budgets.json", "json")).tree
        said = getattr(budgets(Lowering([]), node, Budgets()), what) if what in merged and node is not None else None
        merged[what] = written_amount(what, amount if said is None else min(said, amount))
    return merged


def written_amount(what: str, amount: float) -> str | int:
    """An amount as plans write it; of money a billionth at least."""
    return f"${amount:.9f}" if what == "cost" else int(amount)


def with_share(plan: str, share: Amounts) -> str:
    """The path of a plan like the one at ``plan`` in which each task that spends, and says nothing of budgets itself,
    may use the share of the run: without a budget of its own it would not start under one of the plan."""
    source = read_regular(plan).source
    tree = parse(source).tree
    assert tree is not None
    whole = named(tree, source)
    data: Json = to_json(canonical(whole) if isinstance(whole, MappingNode) else whole)
    defaults = data.get("defaults") or {}
    usual = {what: written_amount(what, amount) for what, amount in share.items()}
    data["defaults"] = {**defaults, "budgets": {**usual, **(defaults.get("budgets") or {})}}
    path = f"{os.path.splitext(plan)[0]}.share.json"
    with open(path, "w", encoding="utf-8") as file:
        json.dump(data, file, ensure_ascii=False)
    return path
