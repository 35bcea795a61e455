"""Two runs and two revisions side by side: the page without script, the forms, and the same through the API."""

from __future__ import annotations

import re
from typing import cast
from urllib.parse import urlencode

import commands
import pytest
from fastapi.responses import HTMLResponse
from serving import Served, awaited

from planrunner.app.follow.follower import Follower
from planrunner.caller import Principal
from planrunner.errors import NotFound
from planrunner.service.context import Project, Visitor
from planrunner.service.following import Followers, Reader
from planrunner.service.pages.run import begun_or_queued
from tests.service.test_pages import form, page, words


@pytest.fixture(scope="module")
def pair(served: Served) -> tuple[str, str]:
    """Two runs of a plan with another parameter."""
    one, other = (served.start("plans/takes.yaml", params={"word": word}) for word in ("none", "some"))
    for run in (one, other):
        served.settled(run)
    return one, other


@pytest.fixture(scope="module")
def revised(served: Served) -> str:
    """A run whose plan was mended after it had failed."""
    run = served.start("plans/fails.yaml")
    served.settled(run)
    path = served.folder / "plans/fails.yaml"
    before = path.read_text()
    path.write_text(before.replace("exit 3", "echo mended"))
    done = commands.run("revise", run, "plans/fails.yaml", folder=served.folder, env=served.environment)
    path.write_text(before)
    assert done.code == 0, done.err
    return run


def _compare(served: Served, **query: str):
    return page(served, f"compare?{urlencode(query)}")


def test_the_page_of_two_runs_names_what_went_in_and_the_first_difference(served: Served, pair) -> None:
    answer = _compare(served, one=pair[0], other=pair[1])
    assert answer.status == 200
    said = words(answer)
    assert "What went in" in said
    assert "word : none some" in said
    assert "style=" not in answer.text
    assert len(re.findall("<h1[ >]", answer.text)) == 1


def test_the_page_and_the_api_name_the_sections_of_the_settings_that_differ(served: Served, pair) -> None:
    settings = served.folder / "planrunner.yaml"
    before = settings.read_text()
    settings.write_text(f"{before}git: {{name: Ana}}\n")
    other = served.start("plans/takes.yaml", params={"word": "none"})
    served.settled(other)
    settings.write_text(before)
    data = served.get(f"{served.api}/runs/{pair[0]}/diff/{other}").data
    assert [each["name"] for each in data["versions"]] == ["settings git"]
    assert "settings git" in words(_compare(served, one=pair[0], other=other))


def test_the_first_difference_of_runs_that_ended_otherwise_stands_in_the_verdict(served: Served, pair) -> None:
    failed = served.start("plans/fails.yaml")
    served.settled(failed)
    said = words(_compare(served, one=pair[0], other=failed))
    assert "First difference:" in said
    assert "exists only in the" in said


def test_a_run_that_begins_between_two_looks_is_shown(served: Served, pair) -> None:
    """The journal is looked into, then the queue: a run may begin after the first look and before the second."""
    project = Project(served.project, str(served.folder), str(served.folder / ".planrunner"))
    visitor = Visitor(Principal("tester", frozenset(), "token"), frozenset())
    looks = iter([NotFound("there is no run yet", ""), HTMLResponse("begun")])

    def look() -> HTMLResponse:
        if isinstance(found := next(looks), NotFound):
            raise found
        return found

    assert (
        begun_or_queued(Reader(project, visitor, cast("Follower", None), cast("Followers", None)), pair, look).body
        == b"begun"
    )


def test_without_runs_the_page_asks_for_them_and_offers_the_last_two(served: Served, pair) -> None:
    def offered() -> list[str]:
        answer = _compare(served)
        assert answer.status == 200
        return re.findall(r'<option value="([^"]+)" selected', answer.text)

    options = awaited(lambda: found if len(found := offered()) == 2 else None)  # the list follows the journal
    assert options[0] != options[1]


def test_two_revisions_show_changes_by_meaning_and_what_they_meant_for_tasks(served: Served, revised) -> None:
    said = words(_compare(served, run=revised))
    assert "Revision 1 and revision 2" in said
    assert "Task changed" in said
    assert "exit 3" in said
    assert "echo mended" in said
    assert "Runs again: 1 task" in said


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ({"one": "nothing", "other": "last"}, 404),
        ({"run": "last", "one": "1", "other": "7"}, 404),
        ({"run": "last", "one": "x", "other": "2"}, 400),
        ({"one": "/etc/hostname.jsonl", "other": "last"}, 404),
        ({"one": "../run.jsonl", "other": "last"}, 404),
    ],
)
def test_what_names_no_run_of_the_project_is_refused_as_a_page(served: Served, pair, query, status) -> None:
    answer = _compare(served, **query)
    assert answer.status == status
    assert answer.headers["content-type"].startswith("text/html")


def test_a_file_beside_the_project_is_not_read_as_a_run(served: Served, pair) -> None:
    commands.run("events", pair[0], "--export", "run.jsonl", folder=served.folder, env=served.environment)
    assert (served.folder / "run.jsonl").exists()
    assert _compare(served, one="run.jsonl", other=pair[1]).status == 404
    assert served.get(f"{served.api}/runs/run.jsonl/diff/{pair[1]}").status == 404


def test_a_run_again_with_other_parameters_stands_beside_the_one_before(served: Served, pair) -> None:
    at = f"compare?{urlencode({'one': pair[0], 'other': pair[1]})}"
    answer = form(served, "compare", at=at, other=pair[1], p__word="third")
    assert answer.status == 303, words(answer)
    to = re.fullmatch(rf"/{served.project}/compare\?one=(\S+)&other=(\S+)", answer.headers["location"])
    assert to
    assert to[1] == pair[1]
    assert served.settled(to[2])["params"] == {"word": "third"}
    awaited(lambda: "some third" in words(_compare(served, one=to[1], other=to[2])))


def test_the_api_tells_the_same_as_the_command(served: Served, pair) -> None:
    answer = served.get(f"{served.api}/runs/{pair[0]}/diff/{pair[1]}")
    told = commands.run("diff", *pair, "--json", folder=served.folder, env=served.environment)
    assert answer.status == 200
    assert answer.data == told.data
    assert answer.data["params"] == [{"name": "word", "before": "none", "after": "some"}]


def test_the_api_tells_what_a_revision_meant_for_each_task(served: Served, revised) -> None:
    answer = served.get(f"{served.api}/runs/{revised}/revisions?one=1&other=2")
    assert answer.status == 200
    assert answer.data["effects"] == {"breaks": "again"}
    assert [each["what"] for each in answer.data["differences"]] == ["task breaks"]
    assert served.get(f"{served.api}/runs/{revised}/revisions?one=1&other=9").status == 404
    assert served.get(f"{served.api}/runs/{revised}/revisions?one=0&other=2").status == 422


def test_a_comparison_with_a_run_that_waits_for_its_turn_comes_by_itself(served: Served) -> None:
    commands.run("queue", "pause", folder=served.folder, env=served.environment)
    try:
        run = served.start("plans/quick.yaml")
        answer = _compare(served, one=run, other=run)
        assert answer.status == 200
        assert "In the queue" in words(answer)
        assert 'http-equiv="refresh"' in answer.text
    finally:
        commands.run("queue", "resume", folder=served.folder, env=served.environment)
    served.settled(run)
    assert "Two runs" in words(_compare(served, one=run, other=run))


def test_the_page_of_a_run_leads_to_comparisons(served: Served, pair, revised) -> None:
    plain, mended = page(served, f"runs/{pair[0]}").text, page(served, f"runs/{revised}").text
    assert f"/compare?other={pair[0]}" in plain
    assert "Compare revisions" not in plain
    assert f"/compare?run={revised}" in mended
