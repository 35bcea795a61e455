"""What calls come to: outcome, outputs, how soon they stop, whether they repeat and replay."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple
from unittest import SkipTest

from planrunner.app.history.replay import replay_run
from planrunner.app.history.show import look
from planrunner.app.plans.reference import input_schema
from planrunner.app.runs.execute import ExecRequest, Silent, execute
from planrunner.capabilities.annotations import fitted
from planrunner.capabilities.binding import bind
from planrunner.capabilities.contract import Failure
from planrunner.capabilities.jsonschema import faults
from planrunner.capabilities.soundness import no_preview, not_json
from planrunner.machine.events import Outcome
from planrunner.plan.load import load
from planrunner.plan.model import Capability
from planrunner.plan.templated import is_template
from planrunner.plugins.catalogue import faults_of, mutates, undocumented, unsound
from planrunner.source import Source
from planrunner.testing import bench as benches
from planrunner.testing.bench import Bench, write_settings
from planrunner.testing.conformance.cases import ASPECTS, Case, Trial, arranged
from planrunner.testing.conformance.tracing import children, observe, told

_SHORT = 0.3
_STRAY = "start programs with run_program, which ends them with the attempt, or wait for them"


def _check_outcome(trial: Trial) -> None:
    """The call ends as the case says, with the outputs that are declared, and leaves no process behind."""
    before = children()
    ended = trial.bench.call(trial.to_its_end()).outcome
    assert not (wrong := trial.as_said(ended)), wrong
    assert not (why := not_json(ended.outputs, "the outputs")), why
    if not ended.failure:
        wrong = _misfit(trial.bench.description, ended)
        assert not wrong, wrong
    assert not (left := children(before)), f"it left a process behind: {told(left)}; {_STRAY}"


def _misfit(capability: Capability, ended: Outcome) -> str:
    fields = {field.name: field for field in capability.outputs}
    undeclared = sorted(ended.outputs.keys() - fields.keys())
    if undeclared and not (capability.open_outputs or capability.takes_run):
        return f"the output `{undeclared[0]}` is not declared"
    if missing := sorted(fields.keys() - ended.outputs.keys()):
        return f"the declared output `{missing[0]}` is missing"
    for name, field in fields.items():
        value = json.loads(json.dumps(ended.outputs[name]))
        if problems := faults(field.schema or {}, value):
            return f"the output `{name}` does not fit its type {field.type}: {problems[0]}"
    return ""


def _check_cancel(trial: Trial) -> None:
    """Asked to stop, a call is over within two seconds, by itself."""
    ended = trial.bench.call(trial.to_its_end(), stop_after=_SHORT if trial.case.waits else 0.0)
    assert "abandoned" not in ended.outcome.message, "it did not stop and was left behind: look at context.cancelled()"
    assert ended.seconds < benches.SOON, f"it took {ended.seconds:.1f} s to stop"
    if trial.case.waits:
        failure = ended.outcome.failure
        assert failure == "interrupted", f"the case is to wait ten seconds and more, and it ended as `{failure}`"


def _check_timeout(trial: Trial) -> None:
    """A call that is given less time than it needs ends as ``timeout``, soon."""
    ended = trial.bench.call(trial.asked(_SHORT))
    failure = ended.outcome.failure
    assert failure == "timeout", f"with {_SHORT} s it ended as `{failure}`: {ended.outcome.message}"
    assert "abandoned" not in ended.outcome.message, "it did not stop and was left behind: look at context.cancelled()"
    assert ended.seconds < _SHORT + benches.SOON, f"it took {ended.seconds:.1f} s"


def _check_replay(trial: Trial) -> None:
    """A run that makes the call is replayed with nothing of its world left, to the same outputs."""
    path = os.path.join(trial.folder, "case.json")
    write_settings(trial.folder, trial.ready.settings)  # marks the project as well
    with open(path, "w", encoding="utf-8") as file:
        json.dump(plan_of(trial), file)
    ran = execute(
        ExecRequest(path, state=trial.bench.state, unattended=True, vouched=True), Silent(), trial.bench.registry
    )
    found = ran.state.tasks[ran.state.index["task"]]
    ended = found.outcome or Outcome(found.failure, found.detail)  # a failed `capture` prevents the call
    assert found.outcome or found.failure, f"the task was {found.status} and made no call"
    assert not (wrong := trial.as_said(ended)), wrong
    replayed = replay_run(ran.run_id, trial.bench.state).replayed
    assert replayed.difference is None, f"the replay differs: {replayed.difference}"
    again = look(ran.run_id, trial.bench.state).state.tasks[ran.state.index["task"]]
    assert again.outputs == found.outputs, f"{again.outputs!r} is not {found.outputs!r}"


def _check_twice(trial: Trial) -> None:
    """The same call with the same key once more changes nothing further and ends the same; a probe knows of it."""
    bench, effect = trial.bench, trial.bench.description.effect
    if effect == "unsafe":
        return
    first = bench.call(trial.to_its_end()).outcome
    assert not (wrong := trial.as_said(first)), wrong
    after = trial.world()
    if effect == "checkable":
        probe = bench.declaration.probe
        assert probe is not None, "it is `checkable` and has no probe"
        told = bench.ask(probe, trial.asked())
        assert told.outputs.get("value") is True, f"after the call its probe says {told.outputs or told.message}"
        return
    second = bench.call(trial.to_its_end()).outcome
    assert not (wrong := trial.as_said(second)), f"the second call: {wrong}"
    assert not (more := trial.changed(after)), f"the second call changed more: {more}"
    one, other = trial.lasting(first), trial.lasting(second)
    assert one == other, f"the second call gave {other!r}, the first {one!r}"


def _check_secrets(trial: Trial) -> None:
    """No secret of the case shows up in what is kept of the call."""
    ended = trial.bench.call(trial.to_its_end())
    kept = json.dumps([ended.outcome._asdict(), ended.log], default=str, ensure_ascii=False)
    shown = [secret for secret in trial.case.secrets if secret in kept]
    assert not shown, f"a secret of {len(shown[0])} characters shows in the log, the outputs or the message"


def _check_schema(trial: Trial) -> None:
    """The declaration is sound, the inputs of the case fit it, and a plan that makes the call lints clean."""
    found = trial.bench.description
    wrong = [fault for fault in unsound(found) if "preview" not in fault and "undo" not in fault]
    wrong += faults_of(trial.bench.function)
    assert not wrong, "; ".join(wrong)
    if found.takes_run:
        return
    mismatches = faults(input_schema(found), _arrived(trial))
    assert not mismatches, f"the inputs of the case do not fit the schema: {'; '.join(mismatches)}"
    loaded = load(Source(json.dumps(plan_of(trial)), "case.json", "json"), trial.bench.registry)
    errors = [f"{finding.code} {finding.message}" for finding in loaded.findings if finding.severity == "error"]
    assert not errors, f"a plan with this call does not lint clean: {'; '.join(errors)}"


def _arrived(trial: Trial) -> dict[str, Any]:
    """The inputs as the function gets them: a number is text where text is wanted, as in a run."""
    given: dict[str, Any] = _data(trial.ready.inputs)
    function = bind(trial.bench.name, trial.bench.function).typed
    try:
        return given if function is None else fitted(function, given)
    except Failure as failure:
        raise AssertionError(f"the inputs of the case do not fit the schema: {failure}") from None


def _check_docs(trial: Trial) -> None:
    """There are words for the capability, its inputs and its outputs."""
    missing = list(undocumented(trial.bench.description))
    assert not missing, "; ".join(missing)


def plan_of(trial: Trial) -> dict[str, Any]:
    """A plan whose only task makes the call of the case; what looks like a template is meant as it stands."""
    task: dict[str, Any] = {"id": "task", "uses": trial.bench.name, "timeout": "5m", "cwd": trial.bench.directory}
    ready = trial.ready
    if ready.run:
        task["run"] = ready.run if isinstance(ready.run, str) else list(ready.run)
    if ready.inputs:
        task["with"] = _escaped(_data(ready.inputs))
    if ready.env:
        task["env"] = _escaped(dict(ready.env))
    return {"plan": "case", "tasks": [task]}


def _data(inputs: Any) -> Any:
    return json.loads(json.dumps(dict(inputs)))


def _escaped(value: Any) -> Any:
    if is_template(value):
        return "{{ " + json.dumps(value) + " }}"
    if isinstance(value, dict):
        return {name: _escaped(item) for name, item in value.items()}
    return [_escaped(item) for item in value] if isinstance(value, list) else value


def _check_preview(trial: Trial) -> None:
    """What it would do is told, and nothing is done."""
    bench = trial.bench
    function = bench.declaration.preview
    if function is None and bench.description.takes_run:
        return  # the script itself is what it would do
    assert function is not None, "it changes something and has no `preview`"
    before = trial.world()
    told = bench.ask(function, trial.asked())
    assert not (changed := trial.changed(before)), f"the preview changed something: {changed}"
    if trial.case.fails and told.failure:
        return
    assert not told.failure, f"the preview failed: {told.message}\n{told.stderr}"
    assert not (wrong := no_preview(bench.name, told.outputs)), wrong
    assert any((told.outputs["summary"], told.outputs["diff"], *told.outputs["calls"])), "the preview says nothing"


def _check_undo(trial: Trial) -> None:
    """The world is byte for byte as before: after the call, after a call whose end was not seen, without any call, and
    when it is undone twice."""
    declaration = trial.bench.declaration
    if trial.bench.description.takes_run:
        return  # how a script is undone is the task's to say
    if declaration.irreversible:
        assert declaration.undo is None, "it has an `undo` and says that it is irreversible"
        return
    assert declaration.capture is not None and declaration.undo is not None, (
        "it changes something: give it `capture` and `undo`, or say `irreversible=True`"
    )
    before = trial.world()
    for called, seen in ((False, False), (True, True), (True, False)):
        _round(trial, called, seen)
        assert not (left := trial.changed(before)), f"{_words(called, seen)} undone, it is not as before: {left}"


def _round(trial: Trial, called: bool, seen: bool) -> None:
    """Note, call, undo, undo again."""
    bench, asked, before = trial.bench, trial.to_its_end(), trial.world()
    capture, inverse = bench.declaration.capture, bench.declaration.undo
    assert capture is not None and inverse is not None
    noted = bench.ask(capture, asked)
    assert not noted.failure, f"`capture` failed: {noted.message}\n{noted.stderr}"
    assert not (why := not_json(noted.outputs, "what `capture` noted")), why
    assert not (changed := trial.changed(before)), f"`capture` changed something: {changed}"
    outputs = bench.call(asked).outcome if called else None
    assert outputs is None or not (trial.as_said(outputs)), outputs
    given: dict[str, Any] = {"before": noted.outputs, "outputs": outputs.outputs if seen and outputs else None}
    for time in ("once", "twice"):
        undone = bench.ask(inverse, asked, given)
        assert not undone.failure, f"{_words(called, seen)} `undo` failed {time}: {undone.message}\n{undone.stderr}"


def _words(called: bool, seen: bool) -> str:
    if not called:
        return "without a call"
    return "after the call" if seen else "after a call whose end was not seen"


_NOWHERE = ("/dev/", "/proc/")


def _check_effects(trial: Trial) -> None:
    """What looks changes nothing; what changes does so in the directory, or a risk says ``files``; connections are
    made only where a risk says ``network``."""
    found, before = trial.bench.description, trial.world()
    scratch = os.path.join(os.path.dirname(trial.bench.state), "tmp")
    traces = os.path.join(os.path.dirname(trial.bench.state), "traces")
    os.mkdir(scratch)
    os.mkdir(traces)

    def work() -> Outcome:
        os.environ["TMPDIR"] = tempfile.tempdir = scratch
        return trial.bench.call(trial.to_its_end()).outcome

    seen = observe(work, traces)
    assert not (wrong := trial.as_said(seen.result)), wrong
    if not mutates(found):
        changed = trial.changed(before)
        assert not changed, f"it is `{found.effect}` and changed something: {changed}"
    if not _warns(found, "files"):
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        far = sorted(_outside(seen.writes, (trial.bench.directory, os.path.dirname(trial.bench.state), home)))
        assert not far, f"no risk speaks of `files`, and it wrote to {', '.join(far[:3])}"
    if not _warns(found, "network"):
        assert not seen.connections, f"no risk speaks of the `network`, and it connected to {seen.connections[0]}"


def _warns(capability: Capability, word: str) -> bool:
    return any(word in risk.lower() for risk in capability.risks)


def _outside(paths: Iterable[str], places: Iterable[str]) -> set[str]:
    homes = tuple(f"{os.path.realpath(place)}/" for place in places)
    return {path for path in paths if not f"{os.path.realpath(path)}/".startswith((*homes, *_NOWHERE))}


_CHECKS: dict[str, Callable[[Trial], None]] = {
    "schema": _check_schema,
    "docs": _check_docs,
    "outcome": _check_outcome,
    "cancel": _check_cancel,
    "timeout": _check_timeout,
    "effects": _check_effects,
    "replay": _check_replay,
    "twice": _check_twice,
    "preview": _check_preview,
    "undo": _check_undo,
    "secrets": _check_secrets,
}
_STOPPED = ("cancel", "timeout")
_OF_SUCCESS = ("twice", "undo")


class Check(NamedTuple):
    """One check of one case: call it with an empty folder. It raises AssertionError with what does not hold, and
    ``unittest.SkipTest``, which pytest knows, where the case cannot be tried here."""

    case: Case
    aspect: str

    def __str__(self) -> str:
        return f"{self.case.title}-{self.aspect}"

    def __call__(self, folder: Path) -> None:
        case = self.case
        if missing := case.lacks():
            raise SkipTest(f"{missing} is not there")
        directory = folder / "work"
        directory.mkdir()
        if self.aspect == "docs":
            case = case._replace(setup=None)
        with arranged(case, directory) as ready, Bench(case.capability, str(directory), ready.settings) as bench:
            if self._concerns(bench):
                _CHECKS[self.aspect](Trial(case, ready, bench, str(folder)))

    def _concerns(self, bench: Bench) -> bool:
        """Whether there is anything to find out: what looks is not undone, what is instant cannot be stopped."""
        if self.aspect in ("preview", "undo"):
            return mutates(bench.description)
        return not (self.aspect in _STOPPED and bench.declaration.instant)


def checks(cases: Iterable[Case]) -> list[Check]:
    """Every check that concerns a case, by case and then in the order of ``ASPECTS``."""
    checks: list[Check] = []
    documented: set[object] = set()
    for case in cases:
        if unknown := sorted(set(case.exempt) - set(ASPECTS)):
            raise ValueError(f"{case.title} is exempt from `{unknown[0]}`, which is not a check: {', '.join(ASPECTS)}")
        checks += [Check(case, aspect) for aspect in ASPECTS if _applies(case, aspect, documented)]
        documented.add(case.capability)
    return checks


def _applies(case: Case, aspect: str, documented: set[object]) -> bool:
    """Whether a check is one of a case; the words of a capability are read with its first case alone."""
    if aspect in case.exempt or (aspect == "docs" and case.capability in documented):
        return False
    if case.waits:
        return aspect in (*_STOPPED, "docs")
    if aspect == "timeout" or (aspect in _OF_SUCCESS and case.fails):
        return False
    return aspect != "secrets" or bool(case.secrets)


def load_cases(path: str) -> list[Case]:
    """The list ``CASES`` of a file of Python. Raises AttributeError where it has none."""
    name = f"planrunner_cases_{os.path.basename(path).removesuffix('.py')}"
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, f"{path} is not a Python file"
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    cases: list[Case] = module.CASES
    return cases
