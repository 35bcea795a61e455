"""The page of a run from its journal: every moment it shows is the state that was, drawings do not overlap, and large
runs stay small."""

from __future__ import annotations

import json
import os
import random
import re
from contextlib import closing
from pathlib import Path

import commands
import pytest
from rows import rows
from workbench import ROOT, plan

from planrunner.app.history.state import begun
from planrunner.journal.stores import open_journal
from planrunner.machine.events import AttemptEnded, AttemptStarted, Entry, Event, Outcome, RunStarted
from planrunner.machine.state import State
from planrunner.plan.load import load
from planrunner.plan.model import Plan
from planrunner.plugins.registry import Registry
from planrunner.source import Source
from planrunner.views.page.figures import anchor_of
from planrunner.views.page.graph import SMALL, Coloured, Skeleton, picture
from planrunner.views.page.layout import GAP_Y, Level, Link, Node, laid_out
from planrunner.views.page.render import Frame, rendered
from planrunner.views.page.run import Given, Permit, embedded_data, run_page
from planrunner.views.page.scale import Scale
from planrunner.views.page.story import Story, owner_of, place_of
from planrunner.views.page.timeline import _density

PLANS = ("nested", "retries", "failure-handler", "rollback", "gate-rework", "foreach", "budgets", "rework")


def told(folder: Path, entries: int | None = None) -> tuple[Story, tuple[Entry, ...]]:
    """The story of the only run of a folder, or of its first entries."""
    with closing(open_journal(str(folder / ".planrunner"), readonly=True)) as journal:
        row = journal.runs(1)[0]
        every = tuple(journal.entries(row.run))[:entries]
        return Story(begun(journal, row.run)).take(every), every


def page_of(story: Story, **how: object) -> str:
    page = run_page(Given(story, story.last, permit=Permit(True, True), **how))
    return rendered("run.html", Frame("shop", "/shop", "runs"), page=page, data=embedded_data(page))


@pytest.fixture(scope="module", params=PLANS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    plan = folder / "plan.yaml"
    plan.write_text((ROOT / f"plans/{request.param}.yaml").read_text().replace("../schemas", str(ROOT / "schemas")))
    commands.run("exec", "plan.yaml", "--unattended", "--progress", "quiet", folder=folder, env=dict(os.environ))
    return folder


def test_every_moment_is_the_state_that_was(run: Path) -> None:
    whole, entries = told(run)
    with closing(open_journal(str(run / ".planrunner"), readonly=True)) as journal:
        growing = Story(begun(journal, journal.runs(1)[0].run))
        for entry in entries:
            growing.take([entry])
            now = {place: status for place, status in growing.statuses.items() if status != "pending"}
            then = {place: status for place, status in whole.status_at(entry.seq).items() if status != "pending"}
            assert then == now, entry


def test_a_page_has_a_row_a_node_and_a_drawer_for_each_task_of_the_plan(run: Path) -> None:
    story, _ = told(run)
    page = run_page(Given(story, story.last))
    places = {task.id for task in story.state.plan.tasks}
    assert places <= {lane.place for lane in page.lanes}
    assert places <= {node.place for node in page.picture.nodes}
    assert places <= {drawer.place for drawer in page.drawers}


def test_a_page_is_made_of_nothing_that_its_policy_forbids(run: Path) -> None:
    html = page_of(told(run)[0])
    assert " style=" not in html
    assert not re.search(r"<script(?![^>]*(?: src=|application/json))", html)
    assert not re.search(r" on[a-z]+=", html)
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert all(target in ids for target in re.findall(r'href="#(t-[^"]+)"', html))


def test_a_past_moment_shows_nothing_that_came_later(run: Path) -> None:
    story, entries = told(run)
    middle = entries[len(entries) // 2].seq
    html = page_of(story, at=middle)
    known = [int(seq) for seq in re.findall(r'data-from="(\d+)"(?! class="later")(?![^<]*later)', html)]
    hidden = [int(seq) for seq in re.findall(r'data-from="(\d+)" class="later"', html)]
    assert all(seq > middle for seq in hidden)
    assert html.count("data-past") >= 1
    assert known or hidden


def test_a_node_at_work_at_a_past_moment_does_not_have_its_time_yet(run: Path) -> None:
    story, entries = told(run)
    for entry in entries:
        if not isinstance(entry.event, AttemptEnded):
            continue
        page = run_page(Given(story, story.last, at=entry.seq))
        nodes = {node.place: node for node in page.picture.nodes}
        node = nodes.get(place_of(entry.event.task))
        if node is not None and page.statuses.get(node.place) == "running" and node.note:
            assert page.later(node.known), (entry, node)


def test_an_axis_of_years_of_waiting_has_the_labels_of_what_happened() -> None:
    year = 365 * 86_400.0
    scale = Scale(0.0, 10 * year, [(0, 10), (10 * year - 5, 10 * year)])
    assert [tick.text for tick in scale.ticks()][1:] == ["+5s", "+3649d23h"]
    assert len(scale.folds) == 1


def test_attempts_one_after_the_other_are_never_counted_as_at_once() -> None:
    state = State(plan(*[{"id": f"t{number}", "run": "work"} for number in range(300)]), "20231114-2200-abc123")
    events: list[Event] = [RunStarted("digest", {}, 1)]
    for number in range(300):
        outcome = Outcome(exit_code=0)
        events += [AttemptStarted(f"t{number}", 1, f"k{number}"), AttemptEnded(f"t{number}", 1, outcome)]
    entries = [Entry(seq, 1_700_000_000.0 + seq // 2 * 0.001, event) for seq, event in enumerate(events, 1)]
    story = Story(state).take(entries)
    points, most = _density(story, range(300), Scale(entries[0].at, entries[-1].at + 60, []), entries[-1].at)
    assert most == 1
    assert points


def test_idle_time_is_shortened_and_the_order_of_moments_stays() -> None:
    scale = Scale(0.0, 3600.0, [(0, 10), (5, 12), (3500, 3600)])
    places = [scale.at(moment) for moment in range(0, 3601, 7)]
    assert places == sorted(places)
    assert places[0] == 0.0
    assert scale.at(3600) == 100.0
    assert [round(fold.seconds) for fold in scale.folds] == [3488]
    assert scale.at(12) > 5
    assert all(0 <= tick.x <= 100 for tick in scale.ticks())


@rows("seed", range(40))
def test_nodes_of_a_drawing_do_not_overlap_and_edges_lead_to_the_right(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.randint(1, 60)
    ranks = [0]
    links = []
    for at in range(1, count):
        needs = sorted(set(chance.choices(range(at), k=chance.randint(0, 3))))
        ranks.append(max((ranks[need] + 1 for need in needs), default=0))
        links += [Link(need, at) for need in needs]
    inner = Level((Node("a", 0, 120, 42), Node("b", 1, 120, 42)), (Link(0, 1),))
    nodes = [
        Node(str(at), rank, chance.choice((120.0, 180.0)), 42.0, inner if chance.random() < 0.1 else None)
        for at, rank in enumerate(ranks)
    ]
    layout = laid_out(Level(tuple(nodes), tuple(links)))
    boxes = {box.key: box for box in layout.boxes if box.key.isdigit()}
    for one in boxes.values():
        assert 0 <= one.x <= layout.width - one.width + 0.01
        assert -0.01 <= one.y <= layout.height - one.height + 0.01
        for other in boxes.values():
            apart = one.x + one.width <= other.x or other.x + other.width <= one.x
            stacked = one.y + one.height + GAP_Y <= other.y + 0.01 or other.y + other.height + GAP_Y <= one.y + 0.01
            assert one is other or apart or stacked
    for line in layout.lines:
        if line.source.isdigit():
            assert boxes[line.source].x + boxes[line.source].width < boxes[line.target].x


def _plan(name: str) -> Plan:
    text = (ROOT / f"plans/{name}.yaml").read_text()
    plan = load(Source(text, "p.yaml"), Registry(plugins=False)).plan
    assert plan is not None
    return plan


@pytest.mark.parametrize("upright", [False, True], ids=["beside each other", "one below the other"])
@pytest.mark.parametrize("plan", ["rework", "gate-rework"])
def test_labels_of_edges_that_lead_back_stand_inside_the_drawing_and_on_no_node(plan: str, upright: bool) -> None:
    drawn = picture(Skeleton(_plan(plan)), upright=upright)
    (back,) = [edge for edge in drawn.edges if edge.kind == "back"]
    half = SMALL * len(back.label) / 2
    assert back.label.startswith("at most")
    assert half <= back.x <= drawn.width - half
    assert 0 < back.y < drawn.height
    for node in drawn.nodes:
        beside = back.x + half <= node.x or node.x + node.width <= back.x - half
        assert beside or back.y <= node.y or node.y + node.height <= back.y - 8


def test_places_and_anchors_are_one_to_one() -> None:
    places = ["a/b", "a.b", "a[1]", "a.5b1.5d", "a-b", "a_b", "ä", "a b"]
    assert len({anchor_of(place) for place in places}) == len(places)
    assert place_of("polish#2/fan@3[4]/x#1") == "polish/fan[4]/x"
    assert [owner_of(place) for place in ("a/b[3]", "a[3]/b", "a")] == ["a/b", "a[3]", ""]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    tasks = []
    for at in range(1000):
        task: dict[str, object] = {"id": f"t{at}", "uses": "noop", "with": {"value": at}}
        if at >= 25:
            task["needs"] = [f"t{at - 25}"]
        if at in (400, 700):
            task |= {"expect": ["outputs.value < 0"], "allow_failure": True}
        tasks.append(task)
    (folder / "plan.json").write_text(json.dumps({"plan": "large", "defaults": {"timeout": "1m"}, "tasks": tasks}))
    done = commands.run("exec", "plan.json", "--unattended", "--progress", "quiet", folder=folder, env=dict(os.environ))
    assert done.code == 0, done.err
    return folder


def test_a_thousand_tasks_fit_on_a_page_that_shows_what_is_not_well(large: Path) -> None:
    story, _ = told(large)
    html = page_of(story)
    assert len(html.encode()) < 300_000
    page = run_page(Given(story, story.last))
    assert {"t400", "t700"} <= {node.place for node in page.picture.nodes}
    assert {"t400", "t700"} <= {lane.place for lane in page.lanes}
    assert sum(node.tasks for node in page.picture.nodes) == 1000
    assert page.picture.hidden == 998
    assert "more tasks" in html
    assert len(page.moments) <= 1000


def test_a_task_that_is_folded_away_has_a_drawer_when_it_is_chosen(large: Path) -> None:
    story, _ = told(large)
    whole = run_page(Given(story, story.last, chosen="t5", whole=True))
    assert "t5" in {drawer.place for drawer in whole.drawers}
    assert len(whole.lanes) == 1000
    folded = run_page(Given(story, story.last, chosen="t5"))
    assert "t5" in {drawer.place for drawer in folded.drawers}


def test_a_large_plan_without_a_run_is_drawn_in_bundles(large: Path) -> None:
    plan = told(large, 1)[0].state.plan
    drawn = picture(Skeleton(plan))
    assert sum(node.tasks for node in drawn.nodes) == 1000
    assert all(node.sign is None for node in drawn.nodes)
    assert len(picture(Skeleton(plan), Coloured(), whole=True).nodes) == 1000


def test_what_ran_at_once_of_hidden_tasks_is_drawn_as_one_picture(large: Path) -> None:
    story, _ = told(large)
    rest = next(lane for lane in run_page(Given(story, story.last)).lanes if not lane.place)
    assert rest.name.startswith("998 more tasks: 998 completed")
    assert re.fullmatch(r"at most \d+ at once", rest.text)
    heights = [float(point.split(",")[1]) for point in rest.density.split(" ")]
    assert min(heights) == 0.0
    assert max(heights) == 22.0


def test_the_place_of_a_failure_is_told_and_linked_from_the_directory_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("plan: p\ntasks:\n  - {id: breaks, run: exit 3, timeout: 1m}\n")
    commands.run("exec", str(tmp_path / "plan.yaml"), "--progress", "quiet", folder=tmp_path, env=dict(os.environ))
    story, _ = told(tmp_path)
    with closing(open_journal(str(tmp_path / ".planrunner"), readonly=True)) as journal:
        text = journal.plan(journal.runs(1)[0].plan_digest).source().text
    page = run_page(Given(story, story.last, source=Source(text, str(tmp_path / "plan.yaml"))))
    assert [(each.file, each.line) for each in page.troubles] == [("plan.yaml", 3)]
    assert [moment.text for moment in page.moments][-1] == "run failed"


def test_an_exit_code_that_is_good_is_no_failed_attempt_and_what_has_no_rollback_is_told(tmp_path: Path) -> None:
    tasks = (
        "  - {id: good, run: exit 3, ok_codes: [0, 3], rollback: {run: 'true'}}\n"
        "  - {id: bare, run: echo hi >> log}\n"
        "  - {id: bad, needs: [good, bare], run: exit 4}\n"
    )
    for text, told_of in (
        (tasks, "Rolled back, but for 2 tasks without a rollback"),
        (
            tasks.replace("echo hi >> log", "'true', effect: read").replace("exit 4", "exit 4, effect: read"),
            "Everything",
        ),
    ):
        folder = tmp_path / told_of[:4]
        folder.mkdir()
        (folder / "plan.yaml").write_text(f"plan: p\ndefaults: {{timeout: 1m}}\non_failure: rollback\ntasks:\n{text}")
        commands.run("exec", "plan.yaml", "--progress", "quiet", folder=folder, env=dict(os.environ))
        story, _ = told(folder)
        status = {
            name: [each.status for each in story.pieces[name] if each.kind == "attempt"] for name in ("good", "bad")
        }
        assert status == {"good": ["completed"], "bad": ["failed"]}
        assert told_of in page_of(story)
