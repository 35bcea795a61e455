"""What the pages are made of: signs, figures, tracks, differences, filters and lines of the queue."""

from __future__ import annotations

from typing import NamedTuple, get_args

import pytest
from rows import rows

from planrunner.machine.events import RunStatus, TaskStatus
from planrunner.plan.model import Param
from planrunner.records import astuple
from planrunner.statuses import SHOWN
from planrunner.views.page.difference import counted, difference, patch_lines
from planrunner.views.page.fields import field_of, given_of
from planrunner.views.page.figures import ago, duration, largest_unit, plain
from planrunner.views.page.inbox import address_of
from planrunner.views.page.queue import queue_page
from planrunner.views.page.render import Frame, _plain, embedded, query_of, rendered
from planrunner.views.page.runs import read_filter, shapes
from planrunner.views.page.signs import REASONS, run_sign, task_sign


class Cell(NamedTuple):
    status: str
    tasks: int = 1
    name: str = ""


def test_every_status_that_the_terminal_shows_has_a_sign_with_a_word() -> None:
    assert set(get_args(TaskStatus)) | set(get_args(RunStatus)) <= SHOWN.keys()
    assert all(all(shown) for shown in SHOWN.values())
    assert task_sign("omitted") == ("off", "off", "Not run")
    assert all(sign.word and sign.icon and sign.state for sign in REASONS.values())
    assert run_sign("paused", "cut off").word == "Interrupted"
    assert task_sign("what nobody knows").word == "Unknown"


@rows(
    ("seconds", "text"),
    [(0.25, "250ms"), (13.44, "13.4s"), (72, "1m12s"), (120, "2m00s"), (7380, "2h03m"), (90_000, "1d01h")],
)
def test_a_duration_has_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_moments_are_told_from_here() -> None:
    assert (ago(1000, 1001), ago(1000, 1130), ago(8200, 1000)) == ("just now", "2m ago", "in 2h")
    assert ago(0, 30 * 86_400)[:4] in ("1969", "1970")
    assert largest_unit(3 * 86_400 + 5) == "3d"


def test_a_track_fills_its_width_whatever_is_in_it() -> None:
    for cells in ([Cell("completed")], [Cell("running")] * 42, [Cell("completed", 9_000), Cell("pending", 1_000)]):
        drawn = list(shapes(cells))
        assert len(drawn) == len(cells)
        assert float(drawn[-1].x) + float(drawn[-1].width) == pytest.approx(150, abs=1.5)
    assert list(shapes([])) == []


def test_a_gate_is_a_diamond_and_a_failure_bears_a_cross() -> None:
    gate, failure, open_ = shapes([Cell("gate"), Cell("failed"), Cell("pending")])
    assert gate.path and gate.state == "gate"
    assert failure.cross and failure.state == "bad"
    assert float(open_.height) < float(failure.height)


def test_a_filter_reads_keys_and_says_which_word_means_nothing() -> None:
    found = read_filter("status:failed plan:release by:ana smoke test")
    assert astuple(found) == (("failed",), "release", "ana", "smoke test", "", False)
    assert read_filter("status:faild").problem == "no run has the status `faild`; did you mean `failed`?"
    assert read_filter("http://x").text == "http://x"
    assert query_of(q="status:failed", after=0, page=None) == "?q=status%3Afailed&after=0"


def test_a_difference_marks_what_changed_in_a_line() -> None:
    lines = difference("one\ntwo words\nthree\n", "one\ntwo other words\nthree\n")
    added = next(line for line in lines if line.kind == "add")
    assert (added.text, added.marked, added.rest) == ("two ", "other ", "words")
    assert counted(lines) == "1 line changed"
    assert difference("same", "same\n") == ()


def test_a_difference_of_long_texts_shows_where_it_is() -> None:
    before = "\n".join(map(str, range(200)))
    lines = difference(before, before.replace("\n150\n", "\n"))
    assert [line.kind for line in lines] == ["cut", "", "", "", "del", "", "", "", "cut"]
    assert lines[4].number == 151


def test_a_patch_that_git_made_keeps_its_signs() -> None:
    assert [line.kind for line in patch_lines("@@ -1 +1 @@\n-a\n+b\n c")] == ["cut", "del", "add", ""]


def test_a_field_offers_what_its_parameter_takes() -> None:
    size = field_of(Param("size", "size", 10_000_000, description="the largest file"), "p.", {})
    assert (size.control, size.value, size.name) == ("input", "10MB", "p.size")
    assert size.hint == "The largest file: a size such as 50MB."
    assert field_of(Param("on", "bool", True), "p.", {}).choices == ("true", "false")
    assert field_of(Param("some", "map"), "p.", {"some": '{"a": 1}'}).value == '{"a": 1}'
    assert given_of({"p.a": "", "p.b": "x"}, "p.", [Param("a"), Param("b")]) == {"b": "x"}


def test_the_name_of_a_question_is_quoted_in_its_address() -> None:
    assert address_of("r", "each[1]/sign#2") == "/inbox/r/each%5B1%5D/sign%232"


def test_the_queue_groups_what_goes_on_waits_and_is_over() -> None:
    item = {
        "run": "r1", "plan": "/w/plans/a.yaml", "params": {"n": 1}, "by": {"name": "ana", "roles": []}, "source": "api",
        "priority": 5, "act": "start", "status": "waiting", "enqueued": 90.0, "begun": None, "ended": None,
        "wakes": None, "reason": "", "code": None, "ahead": 2,
    }  # fmt: skip
    over = {**item, "run": "r2", "status": "failed", "begun": 91.0, "ended": 95.0, "ahead": None, "reason": "exit 1"}
    limits = {"concurrency": 2, "size": None, "per_minute": None, "burst": None, "queued": True}
    overview = {
        "counts": {"running": 1},
        "paused": {"by": "bo", "at": 40.0, "reason": "night"},
        "worker": "w",
        "limits": limits,
    }
    page = queue_page([item, over], overview, "/w", 100.0)
    assert [line.run for line in page.waiting] == ["r1"]
    assert page.waiting[0].plan == "plans/a.yaml"
    assert page.waiting[0].said == "2 runs before it"
    assert not page.waiting[0].begun
    assert page.over[0].said == "exit 1"
    assert queue_page([{**over, "reason": "failed"}], overview, "/w", 100.0).over[0].said == ""
    parked = {**item, "status": "parked", "ahead": None, "reason": "waits for people: sign"}
    assert queue_page([parked], overview, "/w", 100.0).parked[0].said == "waits for people: sign"
    assert page.paused == "by bo, 1m ago: night"
    assert page.slots == "1 of 2 slots in use"


def test_text_of_several_lines_keeps_them() -> None:
    assert plain("one\n\ttwo\x1b[31m") == "one\n    two"


HOSTILE = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{ 7*7 }}\u202e\x1b[31m"


def test_nothing_that_a_page_shows_can_become_markup() -> None:
    problem = {"detail": HOSTILE, "hint": HOSTILE}
    page = rendered("error.html", Frame(project=HOSTILE, base="/x"), title=HOSTILE, status=404, problem=problem)
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "49" not in page.split("<main")[1]
    assert "</script" not in embedded({"x": HOSTILE})


def test_marks_that_turn_the_writing_are_shown_but_sent_back_as_they_are() -> None:
    page = _plain('<h1>T\u202et \u2066</h1><input value="/a\u202eb"><textarea name="x">\u202e</textarea>é')
    assert page == '<h1>T\\u202et \\u2066</h1><input value="/a\u202eb"><textarea name="x">\u202e</textarea>é'
