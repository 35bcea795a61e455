"""The suite finds each kind of fault, and finds none in a capability that is sound."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from unittest import SkipTest

import pytest

from planrunner.api import Context, Doc, Failure, Preview, capability
from planrunner.capabilities import faults
from planrunner.testing import bench
from planrunner.testing.conformance import ASPECTS, Case, Ready, checks
from planrunner.testing.conformance.tracing import _audited, can_trace

Text = Annotated[str, Doc("what to write")]


class Written(NamedTuple):
    size: Annotated[int, Doc("bytes of the file")]


def _fails(case: Case, aspect: str, folder: Path) -> str:
    """What the check says; empty where it holds."""
    (check,) = (each for each in checks([case]) if each.aspect == aspect)
    try:
        check(folder)
    except AssertionError as error:
        return str(error)
    return ""


def _path(context: Context) -> str:
    return os.path.join(context.call.directory, "note.txt")


def _preview(context: Context, text: str) -> Preview:
    return Preview("write note.txt", f"+{text}\n")


def _capture(context: Context, text: str) -> dict[str, Any]:
    try:
        with open(_path(context)) as file:
            return {"text": file.read()}
    except FileNotFoundError:
        return {"text": None}


def _undo(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> None:
    if before["text"] is not None:
        Path(_path(context)).write_text(before["text"])
    elif os.path.exists(_path(context)):
        os.unlink(_path(context))


def _write(context: Context, text: str) -> Written:
    return Written(Path(_path(context)).write_text(text))


def _made(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """A sound capability, with some of it put another way."""
    whole = {"effect": "idempotent", "preview": _preview, "capture": _capture, "undo": _undo, **options}

    @capability("notes.write", **whole)
    def write(context: Context, text: Text) -> Written:
        """Write a note."""
        return function(context, text)

    return write


def _case(function: Callable[..., Any] = _write, **options: Any) -> Case:
    return Case(_made(function, **options), lambda directory: {"text": "hello"})


@pytest.mark.parametrize("aspect", [name for name in ASPECTS if name not in ("timeout", "secrets")])
def test_a_sound_capability_passes(aspect: str, tmp_path: Path) -> None:
    assert _fails(_case(), aspect, tmp_path) == ""


def test_inputs_that_do_not_fit_the_schema_are_found(tmp_path: Path) -> None:
    assert "do not fit the schema" in _fails(_case()._replace(setup=lambda _: {"text": [3]}), "schema", tmp_path)
    (tmp_path / "b").mkdir()
    assert "text" in _fails(_case()._replace(setup=lambda _: {}), "schema", tmp_path / "b")


def test_words_that_are_missing_are_found(tmp_path: Path) -> None:
    @capability("notes.mute", effect="read")
    def mute(text: str) -> int:
        return 1

    said = _fails(Case(mute, lambda _: {"text": "x"}), "docs", tmp_path)
    for part in ("no docstring", "the input `text` has no text", "the output `value` has no text"):
        assert part in said


def test_another_end_than_the_case_names_is_found(tmp_path: Path) -> None:
    def broken(context: Context, text: str) -> Written:
        raise Failure("no", "flaky")

    assert "failed as `flaky`: no" in _fails(_case(broken), "outcome", tmp_path)


@pytest.mark.parametrize("aspect", ["outcome", "replay", "preview"])
def test_a_call_may_fail_as_the_case_says_before_it_begins(aspect: str, tmp_path: Path) -> None:
    def refuse(context: Context, text: str) -> Any:
        raise Failure("there is nothing to note", "missing")

    case = _case(refuse, capture=refuse)._replace(fails="missing")
    assert _fails(case, aspect, tmp_path) == ""
    (tmp_path / "b").mkdir()
    if aspect == "replay":
        said = _fails(case._replace(fails="absent"), aspect, tmp_path / "b")
        assert "to fail as `absent` and failed as `missing`" in said


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ({"size": "large"}, "does not fit its type"),
        ({"size": 1, "more": 2}, "`more` is not declared"),
        ({}, "`size` is missing"),
    ],
)
def test_outputs_that_are_not_as_declared_are_found(returned: dict[str, Any], said: str, tmp_path: Path) -> None:
    assert said in _fails(_case(lambda context, text: returned), "outcome", tmp_path)


def test_whoever_does_not_stop_is_found(tmp_path: Path) -> None:
    def deaf(context: Context, text: str) -> Written:
        time.sleep(600)
        return Written(1)

    case = _case(deaf)._replace(waits=True)
    assert "was left behind" in _fails(case, "cancel", tmp_path)
    (tmp_path / "b").mkdir()
    assert "was left behind" in _fails(case, "timeout", tmp_path / "b")


def test_a_case_that_does_not_wait_is_found(tmp_path: Path) -> None:
    assert "ended as ``" in _fails(_case()._replace(waits=True), "timeout", tmp_path)


@pytest.mark.parametrize(("aspect", "part"), [("preview", "preview"), ("undo", "capture"), ("undo", "undo")])
def test_what_never_comes_back_is_found_and_named(
    aspect: str, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "LOOK", 0.2)
    monkeypatch.setattr(faults, "GRACE", 0.2)

    def hang(context: Context, **_: Any) -> Any:
        time.sleep(600)

    said = _fails(_case(**{part: hang}), aspect, tmp_path)
    assert said == f"`{part}` of `notes.write` ran longer than 200ms; it did not stop and was abandoned"


def test_a_probe_that_never_comes_back_is_found_and_asked_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "LOOK", 0.2)

    def wait(context: Context, text: str) -> bool:
        while not context.cancelled():
            time.sleep(0.01)
        return True

    said = _fails(_case(effect="checkable", probe=wait), "twice", tmp_path)
    assert said == "`probe` of `notes.write` ran longer than 200ms"


@pytest.mark.parametrize("given", ["it would write", 5, Preview("x", calls=(5,)), {"summary": "x"}])  # type: ignore[arg-type]
def test_a_preview_that_is_none_is_found(given: Any, tmp_path: Path) -> None:
    said = _fails(_case(preview=lambda context, text: given), "preview", tmp_path)
    assert said.startswith("the preview of `notes.write` is not a Preview of texts")


def test_what_others_start_meanwhile_is_not_taken_for_a_process_of_the_call(tmp_path: Path) -> None:
    def act(context: Context, text: str) -> Written:
        (tmp_path / "now").touch()
        while not (tmp_path / "pid").exists():
            time.sleep(0.01)
        return _write(context, text)

    (tmp_path / "case").mkdir()
    script = "until test -e now; do :; done; sleep 600 & echo $! >new; mv new pid; wait"
    with subprocess.Popen(["sh", "-c", script], cwd=tmp_path) as other:
        try:
            assert _fails(_case(act), "outcome", tmp_path / "case") == ""
        finally:
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
            other.kill()


def test_a_process_that_is_left_behind_is_found(tmp_path: Path) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def leave(context: Context, text: str) -> Written:
        started.append(subprocess.Popen(["sleep", "77"]))
        return _write(context, text)

    try:
        said = _fails(_case(leave), "outcome", tmp_path)
    finally:
        started[0].kill()
        started[0].wait()
    assert said.startswith(f"it left a process behind: `sleep 77` ({started[0].pid}); start programs with run_program")


class TestEffects:
    def test_one_that_looks_and_writes_is_found(self, tmp_path: Path) -> None:
        case = _case(effect="read", preview=None, capture=None, undo=None)
        assert "it is `read` and changed something: note.txt was added" in _fails(case, "effects", tmp_path)

    @pytest.mark.skipif(not can_trace(), reason="strace cannot watch here")
    def test_what_a_program_writes_elsewhere_is_found(self, tmp_path: Path) -> None:
        far = tmp_path / "elsewhere" / "ä file"
        far.parent.mkdir()

        def write(context: Context, text: str) -> Written:
            subprocess.run(["sh", "-c", 'cd "$(dirname "$0")" && : > "ä file"', str(far)], check=True)
            return Written(0)

        assert f"it wrote to {far}" in _fails(_case(write), "effects", tmp_path)
        (tmp_path / "b").mkdir()
        warned = _case(write, risks=("changes files of the user",))
        assert _fails(warned, "effects", tmp_path / "b") == ""

    def test_a_connection_that_no_risk_speaks_of_is_found(self, tmp_path: Path) -> None:
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen()
            port = server.getsockname()[1]

            def call(context: Context, text: str) -> Written:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return Written(0)

            assert f"it connected to 127.0.0.1:{port}" in _fails(_case(call), "effects", tmp_path)
            (tmp_path / "b").mkdir()
            assert _fails(_case(call, risks=("reaches the network",)), "effects", tmp_path / "b") == ""

    def test_without_strace_what_python_does_is_still_seen(self, tmp_path: Path) -> None:
        seen = _audited(lambda: (tmp_path / "x").write_text("y"))
        assert (seen.result, seen.complete) == (1, False)
        assert str(tmp_path / "x") in seen.writes


def test_a_second_call_that_does_more_is_found(tmp_path: Path) -> None:
    def append(context: Context, text: str) -> Written:
        with open(_path(context), "a") as file:
            return Written(file.write(text))

    assert "the second call changed more: note.txt has another content" in _fails(_case(append), "twice", tmp_path)


def test_a_probe_that_does_not_know_is_found(tmp_path: Path) -> None:
    case = _case(effect="checkable", probe=lambda context, text: None)
    assert "its probe says" in _fails(case, "twice", tmp_path)


def test_a_preview_that_is_missing_empty_or_acts_is_found(tmp_path: Path) -> None:
    def acts(context: Context, text: str) -> Preview:
        _write(context, text)
        return Preview("x")

    for number, (preview, said) in enumerate(
        [(None, "has no `preview`"), (lambda context, text: Preview(""), "says nothing"), (acts, "changed something")]
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert said in _fails(_case(preview=preview), "preview", folder)


class TestUndo:
    def test_no_undo_and_no_word_that_it_is_irreversible_is_found(self, tmp_path: Path) -> None:
        assert "irreversible=True" in _fails(_case(capture=None, undo=None), "undo", tmp_path)
        (tmp_path / "b").mkdir()
        assert _fails(_case(capture=None, undo=None, irreversible=True), "undo", tmp_path / "b") == ""

    def test_an_undo_that_leaves_something_is_found(self, tmp_path: Path) -> None:
        def empty(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> None:
            Path(_path(context)).write_text("")

        assert "it is not as before" in _fails(_case(undo=empty), "undo", tmp_path)

    def test_an_undo_that_cannot_be_repeated_or_needs_the_outputs_is_found(self, tmp_path: Path) -> None:
        def once(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> None:
            os.unlink(_path(context))

        assert "`undo` failed once" in _fails(_case(undo=once), "undo", tmp_path)

        def needs(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> None:
            if outputs is not None:
                _undo(context, before, outputs)

        (tmp_path / "b").mkdir()
        assert "after a call whose end was not seen" in _fails(_case(undo=needs), "undo", tmp_path / "b")

    def test_what_lies_outside_is_brought_back_as_well(self, tmp_path: Path) -> None:
        rows: list[str] = []

        def insert(context: Context, text: str) -> Written:
            rows.append(text)
            return Written(1)

        setup = lambda directory: Ready({"text": "x"}, look=lambda: list(rows))  # noqa: E731
        assert "outside, [] became ['x']" in _fails(_case(insert)._replace(setup=setup), "undo", tmp_path)


def test_a_secret_that_shows_is_found(tmp_path: Path) -> None:
    def tell(context: Context, text: str) -> Written:
        context.log.write(b"using hello")
        return Written(1)

    case = _case(tell)._replace(secrets=("hello",))
    assert "a secret of 5 characters" in _fails(case, "secrets", tmp_path)


def test_peers_are_put_away_whatever_happens_and_what_is_missing_skips(tmp_path: Path) -> None:
    gone: list[str] = []

    def peers(directory: Path) -> Any:
        yield {"text": "x"}
        gone.append("gone")

    def broken(context: Context, text: str) -> Written:
        raise ValueError

    assert _fails(_case(broken)._replace(setup=peers), "outcome", tmp_path)
    assert gone == ["gone"]
    with pytest.raises(SkipTest, match="no-such-program is not there"):
        next(iter(checks([_case()._replace(requires=("no-such-program",))])))(tmp_path / "b")


def test_an_exemption_of_a_check_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match="`nothing`, which is not a check"):
        checks([_case()._replace(exempt={"nothing": "because it is so"})])
