"""Joins over every outcome of the tasks before: what lets a task start, when, and why it is omitted otherwise."""

from __future__ import annotations

import itertools
import re
from functools import partial
from typing import Any

import pytest
from rows import rows
from simulator.rehearsal import Rehearsal, rehearse
from workbench import ROOT, working_plan

from planrunner.machine.events import Outcome, TaskSettled
from planrunner.machine.explain import why

BAD = Outcome("logic", "exit code 1", exit_code=1, duration=1.0)
SLOW = Outcome(exit_code=0, duration=60.0)


plan = partial(working_plan, on_failure="continue")


def run(*tasks: dict[str, Any], bad: tuple[str, ...] = (), slow: tuple[str, ...] = (), **started: Any) -> Rehearsal:
    outcomes = {**{task: [BAD] for task in bad}, **{task: [SLOW] for task in slow}}
    return rehearse(plan(*tasks), outcomes, started=started)


def reasons(ran: Rehearsal) -> dict[str, str]:
    settled = [entry.event for entry in ran.entries if isinstance(entry.event, TaskSettled)]
    return {event.task: event.reason for event in settled if event.status == "omitted"}


SUCCESS, FAILED, SKIPPED, UPSTREAM_FAILED = "success", "failed", "skipped", "upstream_failed"
STATES = (SUCCESS, FAILED, SKIPPED, UPSTREAM_FAILED)
ROWS = [row for size in (1, 2, 3) for row in itertools.product(STATES, repeat=size)]


def starts(rule: str, row: tuple[str, ...]) -> bool:
    """Whether Airflow runs a task with this trigger rule after upstream tasks that ended so; the first of them is the
    setup, where the rule asks for one."""
    success, failed = row.count(SUCCESS), row.count(FAILED)
    skipped, upstream_failed = row.count(SKIPPED), row.count(UPSTREAM_FAILED)
    return {
        "all_success": success == len(row),
        "all_failed": failed + upstream_failed == len(row),
        "all_done": True,
        "all_skipped": skipped == len(row),
        "one_failed": failed + upstream_failed > 0,
        "one_success": success > 0,
        "one_done": success + failed > 0,
        "none_failed": failed + upstream_failed == 0,
        "none_failed_min_one_success": failed + upstream_failed == 0 and success > 0,
        "none_skipped": skipped == 0,
        "always": True,
        "all_done_min_one_success": skipped == 0 and success > 0,
        "all_done_setup_success": row[0] == SUCCESS,
    }[rule]


def each(names: list[str], flag: str, joint: str) -> str:
    return f" {joint} ".join(f"{name}.{flag}" for name in names)


def written(rule: str, names: list[str]) -> dict[str, Any]:
    """The needs and the join that say the same here."""
    joins = {
        "all_success": "all",
        "one_success": "any",
        "always": "always",
        **dict.fromkeys(("all_failed", "all_done", "one_failed", "none_failed"), rule),
    }
    if rule in joins:
        return {"needs": names, "join": joins[rule]}
    bad = f"{each(names, 'failed', 'or')} or {each(names, 'cut_off', 'or')}"
    expressions = {
        "all_skipped": each(names, "skipped", "and"),
        "one_done": f"{each(names, 'completed', 'or')} or {each(names, 'failed', 'or')}",
        "none_failed_min_one_success": f"not ({bad}) and ({each(names, 'completed', 'or')})",
        "none_skipped": f"not ({each(names, 'skipped', 'or')})",
        "all_done_min_one_success": f"{each(names, 'done', 'and')} and ({each(names, 'completed', 'or')})"
        f" and not ({each(names, 'skipped', 'or')})",
        "all_done_setup_success": f"{each(names, 'done', 'and')} and {names[0]}.completed",
    }
    return {"needs": expressions[rule]}


RULES = (
    "all_success all_failed all_done all_skipped one_failed one_success one_done none_failed"
    " none_failed_min_one_success none_skipped always all_done_min_one_success all_done_setup_success"
).split()


@rows("rule", RULES)
def test_each_trigger_rule_of_airflow_can_be_said(rule: str) -> None:
    """Over every row of one to three tasks before: a row is a name of its own in one plan, so that a rule is one run."""
    tasks: list[dict[str, Any]] = []
    bad: list[str] = []
    expected: dict[str, bool] = {}
    for number, row in enumerate(ROWS):
        names = [f"r{number}_{letter}" for letter in "abc"[: len(row)]]
        for name, state in zip(names, row, strict=True):
            task: dict[str, Any] = {"id": name}
            if state == SKIPPED:
                task["when"] = "params.never"
            elif state == UPSTREAM_FAILED:
                tasks.append({"id": f"{name}_first"})
                bad.append(f"{name}_first")
                task["needs"] = [f"{name}_first"]
            elif state == FAILED:
                bad.append(name)
            tasks.append(task)
        tasks.append({"id": f"r{number}", **written(rule, names)})
        expected[f"r{number}"] = starts(rule, row)
    whole = plan(*tasks, params={"never": {"type": "bool", "default": False}})
    ran = rehearse(whole, {name: [BAD] for name in bad}, params={"never": False})
    statuses = ran.statuses()
    assert {name: statuses[name] == "completed" for name in expected} == expected


def test_the_page_says_the_same() -> None:
    page = (ROOT / "docs" / "how-to" / "wait-for-several-tasks.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| `needs: ([^`]+)`(?:, `join: (\w+)`)?", page, re.MULTILINE)
    said = {rule: written(rule, ["a", "b"]) for rule in RULES}
    assert {rule: (needs, join or "all") for rule, needs, join in rows} == {
        rule: (str(task["needs"]).replace("'", ""), task.get("join", "all")) for rule, task in said.items()
    }


def test_a_failure_further_up_counts_as_one_for_joins() -> None:
    chain = ({"id": "a"}, {"id": "b", "needs": ["a"]}, {"id": "c", "needs": ["b"]})
    asked = {"good": "none_failed", "bad": "one_failed", "all_bad": "all_failed"}
    ran = run(*chain, *({"id": name, "needs": ["c"], "join": join} for name, join in asked.items()), bad=("a",))
    found = ran.statuses()
    assert (found["good"], found["bad"], found["all_bad"]) == ("omitted", "completed", "completed")
    assert "`c` was cut off by a failure" in "\n".join(why(ran.state, "good"))


@pytest.mark.parametrize(
    ("task", "bad", "reason"),
    [
        pytest.param({"needs": ["a"]}, ("a",), "cut_off", id="a need failed"),
        pytest.param({"needs": ["a", "off"]}, ("a",), "cut_off", id="a failure counts more than a skip"),
        pytest.param({"needs": ["off"]}, (), "skipped", id="a need was skipped"),
        pytest.param({"needs": ["a", "b"], "join": "all_failed"}, ("a",), "join", id="the join asks for failures"),
        pytest.param({"needs": ["a", "off"], "join": "any"}, ("a",), "cut_off", id="none of any"),
        pytest.param(
            {"needs": "a.ok and (b.ok or b.skipped)"}, ("a",), "cut_off", id="an expression but for a failure"
        ),
        pytest.param({"needs": "off.ok and b.ok"}, (), "skipped", id="an expression but for a skip"),
        pytest.param({"needs": "off.ok and a.ok"}, ("a",), "cut_off", id="an expression but for both"),
        pytest.param({"needs": "a.failed and b.failed"}, ("a",), "join", id="an expression that asks for failures"),
    ],
)
@pytest.mark.parametrize("after", [[], ["a"]], ids=["first", "last"])
def test_why_a_task_is_omitted_is_a_code_whatever_ends_first(
    task: dict[str, Any], bad: tuple[str, ...], reason: str, after: list[str]
) -> None:
    off = {"id": "off", "needs": after, "join": "all_done", "when": "plan.id == 'x'"}
    ran = run({"id": "a"}, {"id": "b"}, off, {"id": "t", **task}, bad=bad)
    assert reasons(ran)["t"] == reason


@pytest.mark.parametrize(
    ("edge", "bad", "reason"),
    [
        pytest.param({"on_success": "t"}, ("a",), "cut_off", id="it would have led there"),
        pytest.param({"on_failure": "t"}, (), "branch", id="nothing failed"),
        pytest.param({"on_success": "t", "when": "plan.id == 'x'"}, (), "skipped", id="its source was skipped"),
    ],
)
def test_an_edge_that_leads_nowhere_says_why(edge: dict[str, Any], bad: tuple[str, ...], reason: str) -> None:
    assert reasons(run({"id": "a", **edge}, {"id": "t"}, bad=bad))["t"] == reason


def test_a_cancellation_is_no_failure_and_is_passed_on() -> None:
    off = Outcome("cancelled", "called off", duration=1.0)
    tasks = ({"id": "a"}, {"id": "b", "needs": ["a"]}, {"id": "c", "needs": ["b"]})
    asked = {"good": "none_failed", "bad": "one_failed"}
    ran = rehearse(
        plan(*tasks, *({"id": name, "needs": ["c"], "join": join} for name, join in asked.items())), {"a": [off]}
    )
    found = ran.statuses()
    assert (found["a"], found["b"], found["good"], found["bad"]) == ("cancelled", "omitted", "omitted", "omitted")
    assert "`c` was cut off by a cancellation" in "\n".join(why(ran.state, "good"))


def test_an_expression_over_results_decides_as_soon_as_it_is_decided() -> None:
    tasks = ({"id": "quick"}, {"id": "slow"})
    expressions = {
        "either": "quick.ok or slow.ok",
        "neither": "not (slow.ok or quick.ok)",
        "both": "slow.ok and quick.ok",
        "named": "tasks.slow.failed or tasks.quick.ok",
    }
    ran = run(*tasks, *({"id": name, "needs": text} for name, text in expressions.items()), slow=("slow",))
    at = {entry.event.task: entry.at for entry in ran.entries if isinstance(entry.event, TaskSettled)}
    assert at["neither"] == at["quick"]
    assert at["either"] < at["slow"]
    assert at["named"] < at["slow"]
    assert at["both"] > at["slow"]


def test_what_is_no_flag_is_waited_for() -> None:
    """Whether its value is read, and has one, must not depend on which of the tasks ends first."""
    said = {"id": "quick", "run": "work", "outputs": {"n": {"type": "int", "value": "1"}}}
    tasks = (said, {"id": "slow"})
    expressions = {
        "compared": "slow.status == 'failed' or quick.ok",
        "guarded": "slow.failed or tasks.quick.outputs.n == 1",
    }
    whole = plan(*tasks, *({"id": name, "needs": text} for name, text in expressions.items()))
    ran = rehearse(whole, {"slow": [SLOW]})
    at = {entry.event.task: entry.at for entry in ran.entries if isinstance(entry.event, TaskSettled)}
    assert at["compared"] > at["slow"] > at["guarded"]


def test_an_allowed_failure_is_done_and_not_ok() -> None:
    flags = ("ok", "completed", "failed", "done")
    ran = run(
        {"id": "a", "allow_failure": True},
        *({"id": flag, "needs": f"a.{flag}"} for flag in flags),
        {"id": "listed", "needs": ["a"]},
        bad=("a",),
    )
    found = ran.statuses()
    assert {flag: found[flag] for flag in flags} == {
        "ok": "omitted", "completed": "omitted", "failed": "completed", "done": "completed",
    }  # fmt: skip
    assert found["listed"] == "completed"


def test_a_task_that_was_not_selected_is_ok_for_those_that_were() -> None:
    whole = plan({"id": "a"}, {"id": "b", "needs": "a.ok"}, {"id": "c", "when": "tasks.a.ok", "needs": ["a"]})
    ran = rehearse(whole, started={"selected": ("b", "c")})
    assert ran.statuses() == {"a": "skipped", "b": "completed", "c": "completed"}


def test_all_done_any_waits_for_all_and_asks_for_one() -> None:
    for bad, expected in (((), "completed"), (("x",), "completed"), (("x", "y"), "omitted")):
        ran = run(
            {"id": "x"},
            {"id": "y"},
            {"id": "j", "needs": ["x", "y"], "join": "all_done_any"},
            bad=bad,
            slow=() if bad else ("y",),
        )
        assert ran.statuses()["j"] == expected
        assert ran.order[-1] == ("j" if expected == "completed" else "y")
