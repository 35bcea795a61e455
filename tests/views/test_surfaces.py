"""Whatever a run holds, each surface shows it: templates ask for nothing that is not there, and statuses, odd names,
big values and logs that are cut are shown by commands, by the page and its API, by reports and archives."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from jinja2 import Environment, FileSystemLoader, meta, nodes
from rows import rows
from serving import Served, serving
from surfaces import ENDS, make_runs, task_id

from planrunner.app.project import plugins
from planrunner.cli import main
from planrunner.views.page import render


def environments() -> Iterator[tuple[str, Environment]]:
    """Every place of the product where templates of Jinja are filled in."""
    yield "page", render._environment()
    yield "plugin", Environment(loader=FileSystemLoader(plugins._FOLDER), autoescape=True)


TEMPLATES = [(where, name) for where, made in environments() for name in made.list_templates()]


@rows(("where", "name"), TEMPLATES)
def test_each_filter_and_test_of_a_template_exists(where: str, name: str) -> None:
    made = dict(environments())[where]
    assert made.loader is not None
    tree = made.parse(made.loader.get_source(made, name)[0])
    assert {each.name for each in tree.find_all(nodes.Filter)} <= made.filters.keys()
    assert {each.name for each in tree.find_all(nodes.Test)} <= made.tests.keys()
    for each in tree.find_all((nodes.FromImport, nodes.Import, nodes.Include, nodes.Extends)):
        for other in meta.find_referenced_templates(nodes.Template([each], environment=made)):
            assert other in made.list_templates()
    for imported in tree.find_all(nodes.FromImport):
        assert isinstance(imported.template, nodes.Const)
        offered = vars(made.get_template(imported.template.value).module)
        assert {one if isinstance(one, str) else one[0] for one in imported.names} <= offered.keys()


def test_only_these_modules_fill_in_templates() -> None:
    root = Path(render.__file__).parents[2]
    users = {str(path.relative_to(root)) for path in root.rglob("*.py") if "from jinja2" in path.read_text()}
    assert users == {"views/page/render.py", "app/project/plugins.py"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("surfaces") / "shop"
    make_runs(made)
    return made


@pytest.fixture(scope="module")
def runs() -> dict[str, str]:
    return {status: f"20231114-22{number:02}-abc123" for number, status in enumerate(ENDS)}


COMMANDS = (
    ("show", "{run}"),
    ("show", "{run}", "--all", "--timeline"),
    ("show", "{run}", "--json"),
    ("why", "{run}", "failed"),
    ("why", "{run}", "in-doubt"),
    ("logs", "{run}", "completed"),
    ("events", "{run}"),
    ("events", "{run}", "--json"),
    ("gates", "{run}"),
    ("gates", "{run}", "--json"),
    ("metrics", "{run}"),
    ("report", "{run}", "-o", "{new}.html"),
    ("archive", "{run}", "-o", "{new}.tar.gz"),
)
OF_ALL = (("runs",), ("runs", "--json"), ("runs", "digest"), ("runs", "digest", "--json"), ("gates",))


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_command_shows_every_run(
    folder: Path,
    runs: dict[str, str],
    tmp_path: Path,
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    for status, run in runs.items():
        code = main([word.format(run=run, new=tmp_path / status) for word in words])
        out, err = capfd.readouterr()
        assert "internal error" not in err, err
        assert code == 0, (status, err)
        assert "--json" in words or "\u202e" not in out + err


@pytest.mark.parametrize("words", OF_ALL, ids=" ".join)
def test_a_command_lists_every_run(
    folder: Path, words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    code = main([*words])
    out, err = capfd.readouterr()
    assert code == 0, err
    assert "--json" in words or "\u202e" not in out + err


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    with serving(folder) as running:
        yield running


ADDRESSES: tuple[Callable[[str, str], str], ...] = (
    lambda project, run: f"/{project}/runs/{run}",
    lambda project, run: f"/{project}/runs/{run}?rows=all",
    lambda project, run: f"/{project}/runs/{run}?at=9",
    lambda project, run: f"/{project}/runs/{run}?task={task_id('in_doubt')}",
    lambda project, run: f"/{project}/inbox/{run}/blocked",
    lambda project, run: f"/api/v1/projects/{project}/runs/{run}",
    lambda project, run: f"/api/v1/projects/{project}/runs/{run}/gates",
    lambda project, run: f"/api/v1/projects/{project}/runs/{run}/log?task=completed",
)


@pytest.mark.parametrize("address", ADDRESSES, ids=lambda address: address("shop", "run"))
def test_the_service_shows_every_run(served: Served, runs: dict[str, str], address: Callable[[str, str], str]) -> None:
    for status, run in runs.items():
        if "/inbox/" in address("", "") and status in ("completed", "failed", "cancelled"):
            continue
        answer = served.get(address(served.project, run), accept="text/html")
        assert answer.status == 200, (status, answer.text[-500:])
        if "html" in answer.headers["content-type"]:
            assert "<script>alert" not in answer.text


@pytest.mark.parametrize("path", ["/shop/runs", "/shop/inbox", "/shop/knowledge/digest", "/api/v1/projects/shop/runs"])
def test_the_service_lists_every_run(served: Served, path: str) -> None:
    answer = served.get(path, accept="text/html")
    assert answer.status == 200
    assert "<script>alert" not in answer.text or "json" in answer.headers["content-type"]


def test_the_end_of_a_log_that_is_cut_says_how_much_is_before_it(served: Served, runs: dict[str, str]) -> None:
    text = served.get(f"/{served.project}/runs/{runs['failed']}", accept="text/html").text
    assert "kB before this" in text


def test_a_task_in_doubt_is_the_first_question_on_every_surface(
    served: Served, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    page = served.get("/shop/inbox?show=all", accept="text/html").text
    doubts = ["result unknown" in question for question in re.findall(r'class="q">([^<]*)<', page)]
    assert doubts == sorted(doubts, reverse=True)
    assert 0 < sum(doubts) < len(doubts)
    kinds = [gate["kind"] for gate in served.get(f"{served.api}/gates").data["gates"]]
    assert kinds[0] == "doubt"
    monkeypatch.chdir(folder)
    assert main(["gates", "20231114-2202-abc123"]) == 0
    listed = capfd.readouterr().out
    assert listed.index("result unknown") < listed.index("approvals")
    assert "planrunner resume 20231114-2202-abc123 --settle in-doubt=completed\n" in listed
    assert main(["runs", "digest"]) == 0
    assert "in-doubt  `in-doubt` was interrupted, result unknown: did it succeed?" in capfd.readouterr().out


def test_a_task_in_doubt_shows_its_log_and_what_may_be_said_of_it(served: Served) -> None:
    page = served.get("/shop/inbox/20231114-2202-abc123/in-doubt", accept="text/html").text
    assert "1499 " in page
    for how in ("completed", "failed", "retry"):
        assert f'name="how" value="{how}"' in page
    assert 'value="rollback"' not in page


def test_runs_with_a_task_in_doubt_are_found_and_amber(served: Served, runs: dict[str, str]) -> None:
    page = served.get("/shop/runs?q=status:doubt", accept="text/html").text
    assert {run for run in runs.values() if f"/runs/{run}" in page} == {
        runs[each] for each in ("running", "paused", "blocked")
    }
    assert "In doubt" in page


def test_a_task_in_doubt_shows_its_output_and_no_time_that_nobody_knows(served: Served, runs: dict[str, str]) -> None:
    page = served.get(f"/shop/runs/{runs['running']}", accept="text/html").text
    block = page[page.index('<span class="sr">Doubt about </span>') :]
    block = block[: block.index("</section>")]
    assert "1499 " in block
    assert "attempt 1 was cut off" in page
    assert "was cut off after" not in page
