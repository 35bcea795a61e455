"""``planrunner preview`` and ``exec --preview``: the envelope, and a run that is held to it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Write = Callable[[str, str], str]
Call = Callable[..., tuple[int, str, str]]
Data = Callable[..., tuple[int, Any]]

PLAN = """
plan: p
title: A release
params:
  stage: {type: string, default: test}
  parts: {type: list, default: [a, b, c]}
budgets: {time: 10m, attempts: 20}
max_parallel: 2
tasks:
  - id: build
    run: make {{ params.stage }} {{ env.SECRET }} {{ run.id }}
    timeout: 1m
    retry: {attempts: 3, backoff: fixed, delay: 10s, jitter: 0}
    artifacts: [{name: out, path: "build/{{ params.stage }}.txt"}]
    on_failure: explain
  - id: explain
    run: echo why
    timeout: 10s
  - id: parts
    needs: [build]
    foreach: params.parts
    run: part {{ item }}
    timeout: 30s
    effect: idempotent
  - id: sign-off
    needs: [parts]
    gate: approval
    approvers: {roles: [release], count: 2}
    expires: 4h
  - id: publish
    needs: [sign-off]
    when: params.stage == "prod"
    run: push
    timeout: 20s
    rollback: {uses: noop}
  - id: announce
    needs: [publish]
    run: say
    timeout: 1s
  - id: note
    needs: [build]
    when: tasks.build.attempts > 1
    uses: files.write
    with: {path: "build/note-{{ params.stage }}", content: x}
    timeout: 5s
finally:
  - {id: clean, run: rm, timeout: 3s}
"""


@pytest.fixture
def shown(write: Write, data: Data) -> Callable[..., dict[str, Any]]:
    write("p.yaml", PLAN)

    def run(*arguments: str) -> dict[str, Any]:
        code, found = data("preview", "p.yaml", *arguments)
        assert code == 0
        envelope: dict[str, Any] = found["envelope"]
        return envelope

    return run


def rows(envelope: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["task"]: row for row in envelope["tasks"]}


def test_it_tells_what_becomes_of_each_task_and_why(shown: Callable[..., dict[str, Any]]) -> None:
    found = rows(shown())
    assert {task: row["what"] for task, row in found.items()} == {
        "build": "runs", "explain": "on failure", "parts": "runs", "sign-off": "asks", "publish": "skipped",
        "announce": "omitted", "note": "decided", "clean": "runs",
    }  # fmt: skip
    assert found["publish"]["why"] == '`params.stage == "prod"` is false'
    assert found["announce"]["why"] == "needs `publish`"
    assert found["note"]["why"] == "when `tasks.build.attempts > 1`"
    assert found["sign-off"]["why"].startswith("approval by 2 of role `release`")
    assert found["explain"]["why"] == "only if `build` fails"


def test_a_parameter_changes_what_runs(shown: Callable[..., dict[str, Any]]) -> None:
    found = rows(shown("-p", "stage=prod"))
    assert (found["publish"]["what"], found["announce"]["what"]) == ("runs", "runs")


def test_tasks_stand_in_the_order_in_which_they_can_start(shown: Callable[..., dict[str, Any]]) -> None:
    waves = {task: row["wave"] for task, row in rows(shown("-p", "stage=prod")).items()}
    assert waves["build"] == 1
    assert waves["build"] < waves["parts"] < waves["sign-off"] < waves["publish"] < waves["announce"] < waves["clean"]


def test_commands_are_filled_in_as_far_as_values_are_known_and_no_secret_is(
    shown: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "hunter2")
    envelope = shown()
    assert rows(envelope)["build"]["command"] == "make test {{ env.SECRET }} {{ run.id }}"
    assert "hunter2" not in json.dumps(envelope)


def test_the_worst_case_of_time_follows_the_critical_path(shown: Callable[..., dict[str, Any]]) -> None:
    time = shown()["time"]
    build = 3 * 60 + 2 * 10
    parts = 2 * 30  # three items, two at once
    assert time["critical_path"] == build + parts + 3
    assert time["along"] == ["build", "parts", "sign-off", "clean"]
    work = build + 10 + 3 * 30 + 5 + 3
    assert time["at_most"] == pytest.approx(work / 2 + (build + parts + 3) / 2)
    assert time["limit"] == 600


def test_what_leaves_the_time_open_is_named(write: Write, data: Data) -> None:
    write("p.yaml", "plan: p\ntasks:\n  - {id: a, run: x}\n  - {id: b, needs: [a], run: y, timeout: 1s}\n")
    envelope = data("preview", "p.yaml")[1]["envelope"]
    assert envelope["time"]["critical_path"] is None
    assert envelope["time"]["unknown"] == ["a"]


def test_a_fan_out_over_what_is_not_known_is_open_unless_it_has_a_limit(write: Write, data: Data) -> None:
    text = ("plan: p\ntasks:\n  - {id: a, run: x, timeout: 1s, outputs: {l: list}}\n"
            "  - {id: b, needs: [a], foreach: tasks.a.outputs.l, run: y, timeout: 10s}\n")  # fmt: skip
    write("p.yaml", text)
    assert data("preview", "p.yaml")[1]["envelope"]["time"]["uncounted"] == ["b"]
    write("q.yaml", text.replace("run: y", "max_items: 7, run: y"))
    time = data("preview", "q.yaml")[1]["envelope"]["time"]
    assert time["critical_path"] == 1 + 20  # seven items, five at once


def test_loops_and_subplans_are_shown_and_counted(write: Write, data: Data) -> None:
    write("p.yaml", "plan: p\ntasks:\n  - id: l\n    loop: {max: 4, until: tasks.x.ok, tasks: [{id: x, run: a, timeout: 10s}]}\n"
          "  - id: s\n    needs: [l]\n    subplan: [{id: y, run: b, timeout: 5s}, {id: z, run: c, needs: [y], timeout: 6s}]\n")  # fmt: skip
    envelope = data("preview", "p.yaml")[1]["envelope"]
    assert envelope["time"]["critical_path"] == 40 + 11
    assert envelope["worst"]["attempts"] == 6
    assert [row["task"] for row in rows(envelope)["s"]["inner"]] == ["s/y", "s/z"]


def test_writes_people_and_what_cannot_be_undone_are_listed(shown: Callable[..., dict[str, Any]]) -> None:
    envelope = shown("-p", "stage=prod")
    assert {(write["task"], write["path"]) for write in envelope["writes"]} == {
        ("build", "build/prod.txt"), ("note", "build/note-prod"),
    }  # fmt: skip
    assert envelope["asks"] == ["sign-off"]
    assert "publish" not in envelope["irreversible"]
    assert {"build", "announce"} <= set(envelope["irreversible"])
    assert "parts" not in envelope["irreversible"]


def test_what_may_be_repeated_and_is_never_taken_back_is_listed_unless_its_task_says_so(
    write: Write, data: Data
) -> None:
    put = 'uses: http.put, with: {url: "https://example.org/a", body: x}, timeout: 1m'
    write("p.yaml", f"plan: p\ntasks:\n  - {{id: put, {put}}}\n  - {{id: own, effect: idempotent, {put}}}\n"
          f"  - {{id: back, rollback: {{run: x}}, {put}}}\n"
          "  - {id: note, uses: files.write, with: {path: n, content: x}, timeout: 1m}\n")  # fmt: skip
    assert data("preview", "p.yaml")[1]["envelope"]["irreversible"] == ["put"]


def test_budgets_are_compared_with_the_worst_case(shown: Callable[..., dict[str, Any]]) -> None:
    budgets = {row["budget"]: row["verdict"] for row in shown()["budgets"]}
    assert budgets == {"time": "fits", "attempts": "fits"}


def test_the_worst_case_counts_what_tasks_set_aside_whatever_they_call(write: Write, data: Data) -> None:
    write("p.yaml", "plan: p\nbudgets: {cost: $1}\ntasks: [{id: a, run: claude, budgets: {cost: $0.2}, timeout: 1m}]\n")
    assert data("preview", "p.yaml")[1]["envelope"]["worst"]["cost"] == 0.2


def test_the_text_says_the_same(write: Write, call: Call) -> None:
    code, out, _ = call("preview", write("p.yaml", PLAN))
    assert code == 0
    for part in ("wave 1", "3 to run", "1 to ask", "critical path", "people    sign-off", "budget    time 10m00s"):
        assert part in out, out


def saved(write: Write, call: Call) -> None:
    write("p.yaml", PLAN.replace("gate: approval", "uses: noop").replace("    approvers: {roles: [release], count: 2}\n", "")
          .replace("    expires: 4h\n", "").replace("run: make {{ params.stage }} {{ env.SECRET }} {{ run.id }}", "run: echo made > build.txt")
          .replace('    artifacts: [{name: out, path: "build/{{ params.stage }}.txt"}]\n', "").replace("run: part {{ item }}", "run: echo {{ item }}")
          .replace("run: rm", "run: echo clean"))  # fmt: skip
    code, _, told = call("preview", "p.yaml", "--save", "p.json")
    assert code == 0
    assert "planrunner exec p.yaml --preview p.json" in told


def test_a_run_that_is_as_previewed_goes_on(write: Write, call: Call, tmp_path: Path) -> None:
    saved(write, call)
    code, _, told = call("exec", "p.yaml", "--preview", "p.json", "--progress", "quiet")
    assert code == 0, told
    assert (tmp_path / "build.txt").exists()


def test_a_preview_never_overwrites_a_file(write: Write, call: Call) -> None:
    saved(write, call)
    assert call("preview", "p.yaml", "--save", "p.json")[0] == 2


@pytest.mark.parametrize(
    ("change", "arguments", "said"),
    [
        (("echo made", "echo other"), [], "another plan (`build`: command)"),
        (("title: A release", "title: A change"), [], "another plan"),
        (("", ""), ["-p", "stage=prod"], "other parameters (`stage`)"),
        (("", ""), ["--max-parallel", "1"], "another envelope"),
        (("", ""), ["--only", "build"], "another envelope"),
    ],
)
def test_a_run_that_differs_is_refused_before_anything_starts(
    change: tuple[str, str], arguments: list[str], said: str, write: Write, call: Call, tmp_path: Path
) -> None:
    saved(write, call)
    plan = tmp_path / "p.yaml"
    plan.write_text(plan.read_text().replace(*change))
    code, _, told = call("exec", "p.yaml", "--preview", "p.json", *arguments)
    assert code == 10
    assert said in told
    assert not (tmp_path / "build.txt").exists()


def test_a_preview_that_was_edited_or_is_of_another_version_is_refused(
    write: Write, call: Call, tmp_path: Path
) -> None:
    saved(write, call)
    path = tmp_path / "p.json"
    good = json.loads(path.read_text())
    edited = json.loads(path.read_text())
    edited["envelope"]["irreversible"] = []
    path.write_text(json.dumps(edited))
    code, _, told = call("exec", "p.yaml", "--preview", "p.json")
    assert (code, "edited" in told) == (10, True)
    path.write_text(json.dumps({**good, "planrunner": "0.0.0"}))
    code, _, told = call("exec", "p.yaml", "--preview", "p.json")
    assert (code, "made by planrunner 0.0.0" in told) == (10, True)


@pytest.mark.parametrize(("text", "code"), [("{}", 2), ("nothing", 2), ("[]", 2)])
def test_a_file_that_is_no_preview_is_refused(text: str, code: int, write: Write, call: Call) -> None:
    saved(write, call)
    write("bad.json", text)
    assert call("exec", "p.yaml", "--preview", "bad.json")[0] == code
    assert call("exec", "p.yaml", "--preview", "gone.json")[0] == 3


def test_a_dry_run_is_held_to_the_preview_as_well(write: Write, call: Call) -> None:
    saved(write, call)
    assert call("exec", "p.yaml", "--preview", "p.json", "--dry-run", "--progress", "quiet")[0] == 0
    assert call("exec", "p.yaml", "--preview", "p.json", "--dry-run", "-p", "stage=x")[0] == 10


LABELLED = """
plan: p
defaults: {timeout: 10s}
policy: {gates: {prod: {ask: "prod?", approvers: {roles: [release]}}}}
tasks:
  - {id: a, run: "true", labels: [prod]}
  - {id: s, subplan: [{id: b, run: "true", labels: [prod]}, {id: c, run: "true"}]}
"""


def test_who_is_asked_because_of_a_label_is_listed(write: Write, data: Data, call: Call) -> None:
    path = write("p.yaml", LABELLED)
    _, found = data("preview", path)
    assert found["envelope"]["asks"] == ["a", "s/b"]
    assert found["envelope"]["tasks"][0]["first"] == [
        "approval by role `release`, except the person who started the run (label prod)"
    ]
    _, out, _ = call("preview", path)
    assert "asks first: approval by role `release`, except the person who started the run (label prod)" in out
    assert "people    a, s/b" in out


@pytest.mark.parametrize("more", ["", "max_items: 10", "max_items: 10, exclude: true"])
def test_a_matrix_of_millions_is_refused_before_any_combination_is_made(
    write: Write, call: Call, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    made: list[object] = []
    monkeypatch.setattr("planrunner.engine.containers.itertools.product", lambda *axes: made.append(axes) or iter(()))
    axes = ", ".join(f"a{number}: params.digits" for number in range(7))
    axes += ", exclude: [{a0: 1}]" if "exclude" in more else ""
    limit = more.partition(",")[0]
    given = "params: {digits: {type: list, default: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]}}"  # lint counts what is written out
    task = f"{{id: m, run: 'true', timeout: 1s, matrix: {{{axes}}}{', ' * bool(limit)}{limit}}}"
    plan = f"plan: p\n{given}\ntasks:\n  - {task}\n"
    code, _, err = call("preview", write("p.yaml", plan))
    assert code == 0, err
    code, _, err = call("exec", "p.yaml", "--progress", "quiet")
    assert code == 1
    assert "there are 10000000 items" in err
    assert not made


def test_a_number_of_items_that_only_the_run_can_tell_is_no_missing_timeout(write: Write, call: Call) -> None:
    plan = """
plan: p
defaults: {timeout: 10s}
tasks:
  - {id: list, run: ls, outputs: {names: list}}
  - {id: each, needs: [list], foreach: tasks.list.outputs.names, run: one}
"""
    _, out, _ = call("preview", write("p.yaml", plan))
    assert "unknown: only the run can tell how many items or attempts each has" in out
    assert "no timeout" not in out


INSIDE = """\
plan: inside
defaults: {timeout: 5s}
params: {deep: {type: bool, default: false}}
tasks:
  - {id: a, run: echo a}
  - id: b
    needs: [a]
    subplan: [{id: b1, run: echo b1}, {id: b2, subplan: [{id: b3, run: echo b3}]}]
  - id: c
    when: params.deep
    loop: {max: 2, until: tasks.c1.ok, tasks: [{id: c1, run: echo c1}]}
  - id: d
    needs: [a]
    when: tasks.a.stdout == 'x'
    subplan: [{id: d1, run: echo d1}]
"""


def test_what_a_left_out_or_skipped_task_holds_does_not_run_and_is_not_counted(
    write: Write, data: Data, call: Call
) -> None:
    _, found = data("preview", write("p.yaml", INSIDE), "--until", "a")
    rows = {row["task"]: row for row in every(found["envelope"]["tasks"])}
    assert {task for task, row in rows.items() if row["what"] == "runs"} == {"a"}
    assert rows["b/b2/b3"]["what"] == "left out"
    assert "\n1 to run · 8 not selected\n" in call("preview", "p.yaml", "--until", "a")[1]
    text = call("preview", "p.yaml")[1]
    assert "\n5 to run · 2 decided while it runs · 2 skipped\n" in text
    assert "· c/c1     skipped" in text


def every(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [found for row in rows for found in (row, *every(row.get("inner", [])))]


PASSWORDS = """
plan: p
params: {source: {type: string, default: "https://me:hunter2@example.com/x"}}
tasks:
  - id: fetch
    run: curl {{ params.source }} postgresql://me:hunter2@db/x
    timeout: 5s
  - id: note
    uses: files.write
    with: {path: note.txt, content: "from {{ params.source }}\\n"}
    timeout: 5s
"""


def test_no_password_of_an_address_is_shown_or_saved(write: Write, call: Call, tmp_path: Path) -> None:
    name = write("p.yaml", PASSWORDS)
    for options in ([], ["--json"], ["--changes"], ["--changes", "--json"], ["--save", "look.json"]):
        _, out, err = call("preview", name, *options)
        assert "hunter2" not in out + err, options
        assert "https://me:***@example.com/x" in out
    assert "hunter2" not in (tmp_path / "look.json").read_text()


def test_a_saved_preview_binds_a_run_to_the_password_that_it_does_not_show(write: Write, call: Call) -> None:
    name = write("p.yaml", PASSWORDS.replace("curl", "echo"))
    assert call("preview", name, "--save", "look.json")[0] == 0
    code, _, err = call("exec", name, "--preview", "look.json", "-p", "source=https://me:other@example.com/x")
    assert code == 10
    assert "other parameters (in what is masked)" in err
    assert call("exec", name, "--preview", "look.json", "--progress", "quiet")[0] == 0


COMPUTED = """
plan: p
params: {tries: 3, limit: {type: duration, default: 2m}}
tasks:
  - {id: a, run: x, timeout: "{{ params.limit }}", retry: {attempts: "{{ params.tries }}", backoff: fixed, delay: 10s, jitter: 0}}
  - {id: b, needs: [a], run: x, timeout: 1m, retry: "{{ tasks.a.exit_code + 1 }}"}
"""


def test_settings_that_follow_from_parameters_are_known_and_others_are_not(write: Write, data: Data) -> None:
    write("p.yaml", COMPUTED)
    found = rows(data("preview", "p.yaml", "-p", "tries=2")[1]["envelope"])
    assert (found["a"]["attempts"], found["a"]["worst"]) == (2, 250.0)
    assert (found["b"]["attempts"], found["b"]["worst"]) == (None, None)
