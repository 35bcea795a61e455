"""Before and after a change: the preview changes nothing, undo brings everything back."""

from __future__ import annotations

from typing import Any

from planrunner.capabilities.soundness import no_preview, not_json
from planrunner.testing.conformance.trial import Trial


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
    """The world is byte for byte as before: after the call, after a call that nobody saw end, without any call, and
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
    return "after the call" if seen else "after a call that nobody saw end"
