"""What calls come to: outcome, outputs, how soon they stop, whether they repeat and replay."""

from __future__ import annotations

import json
import os

from planrunner.app.execute import ExecRequest, execute
from planrunner.app.inspect import look
from planrunner.app.replay import replay_run
from planrunner.capabilities.jsonschema import faults
from planrunner.capabilities.soundness import not_json
from planrunner.machine.events import Outcome
from planrunner.plan.model import Capability
from planrunner.testing import bench as benches
from planrunner.testing.bench import write_settings
from planrunner.testing.conformance.declared import plan_of
from planrunner.testing.conformance.family import children, told
from planrunner.testing.conformance.trial import Trial
from planrunner.testing.silent import Silent

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


def _misfit(found: Capability, ended: Outcome) -> str:
    fields = {field.name: field for field in found.outputs}
    undeclared = sorted(ended.outputs.keys() - fields.keys())
    if undeclared and not (found.open_outputs or found.takes_run):
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
    ended = found.outcome or Outcome(found.failure, found.detail)  # where `capture` fails there is no call
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
