"""``planrunner artifacts``: what runs kept, by plan, task and name."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import commands
import pytest
from workbench import ROOT

PLAN = """
plan: art
params: {word: one}
defaults: {timeout: 2m}
tasks:
  - id: write
    run: |
      mkdir -p build/sub
      echo {{ params.word }} > build/report.md
      echo inner > build/sub/file
      ln -sf ../report.md build/sub/link
    artifacts:
      - {name: report, path: build/report.md, type: markdown}
      - {name: tree, path: build, retention: run}
      - {name: newest, path: build/sub/file, retention: 1 version}
  - id: each
    needs: [write]
    foreach: [a, b]
    run: echo {{ params.word }}-{{ item }} > {{ item }}.txt
    artifacts: ["{{ item }}.txt"]
"""


class Folder:
    """A project in a folder with a state of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "p.yaml").write_text(PLAN)

    def call(self, *words: str, binary: bool = False) -> Any:
        done = commands.call(*words, folder=self.path, env=self.environment())
        if binary:
            return done
        return subprocess.CompletedProcess(words, done.returncode, done.stdout.decode(), done.stderr.decode())

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(ROOT), "PLANRUNNER_STATE": str(self.path / "state"), "NO_COLOR": "1"}

    def exec(self, word: str = "one", plan: str = "p.yaml") -> str:
        done = self.call("exec", plan, "-p", f"word={word}", "--json")
        assert done.returncode == 0, done.stderr
        return str(json.loads(done.stdout)["run_id"])

    def json(self, *words: str) -> Any:
        done = self.call("artifacts", *words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def contents(self) -> list[Path]:
        return sorted(path for path in (self.path / "state" / "artifacts" / "sha256").rglob("*") if path.is_file())

    def age(self) -> None:
        for path in self.contents():
            os.utime(path, (1, 1))


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """A folder with one run, for tests that only look."""
    folder = Folder(tmp_path_factory.mktemp("ran"))
    folder.exec()
    return folder


def test_versions_are_listed_by_plan_task_and_name(folder: Folder) -> None:
    first, second = folder.exec("one"), folder.exec("two")
    told = folder.json()
    assert told["total"] == 10 and {one["plan"] for one in told["artifacts"]} == {"art"}
    reports = folder.json("list", "--name", "report")["artifacts"]
    assert [(one["ref"], one["run_id"], one["type"]) for one in reports] == [
        ("art/write/report@2", second, "markdown"),
        ("art/write/report@1", first, "markdown"),
    ]
    assert reports[0]["sha256"] != reports[1]["sha256"] and reports[0]["size"] == 4
    assert {one["task"] for one in folder.json("--run", first, "--type", "")["artifacts"]} == {
        "write",
        "each[0]",
        "each[1]",
    }
    assert [one["name"] for one in folder.json("--task", "each[1]", "--run", "last")["artifacts"]] == ["b.txt"]
    text = folder.call("artifacts", "--limit", "1").stdout.splitlines()
    assert text[0].split() == ["ARTIFACT", "TYPE", "SIZE", "MADE", "RUN"] and len(text) == 2


def test_a_version_tells_where_it_came_from(ran: Folder) -> None:
    told = ran.json("show", "report")
    run = told["run_id"]
    assert (told["ref"], told["capability"], told["attempt"]) == ("art/write/report@1", "shell", 1)
    assert told["plan_digest"].startswith("sha256:") and len(told["inputs"]) == 32
    assert (told["stored"], told["over"], told["retention"], told["path"]) == (
        True,
        False,
        "forever",
        "build/report.md",
    )
    text = ran.call("artifacts", "show", "art/write/report@last").stdout
    assert text.startswith("art/write/report@1\n") and f"of run {run}" in text


def test_the_content_is_written_out_by_version_run_and_digest(folder: Folder) -> None:
    first = folder.exec("one")
    folder.exec("two")
    assert folder.call("artifacts", "get", "report", "-o", "-").stdout == "two\n"
    assert folder.call("artifacts", "get", "art/write/report@1", "-o", "-").stdout == "one\n"
    assert folder.call("artifacts", "get", f"report@{first}", "-o", "-").stdout == "one\n"
    digest = folder.json("show", "report@1")["sha256"]
    assert folder.call("artifacts", "get", digest[:12], "-o", "-").stdout == "one\n"
    assert folder.call("artifacts", "get", f"sha256:{digest}", "-o", "out.md").returncode == 0
    assert (folder.path / "out.md").read_text() == "one\n"
    assert folder.call("artifacts", "get", "report@2", "-o", "out.md").returncode == 2
    assert folder.call("artifacts", "get", "report@2", "-o", "out.md", "--force").returncode == 0
    assert (folder.path / "out.md").read_text() == "two\n"


def test_a_file_is_written_under_its_own_name_into_a_folder(ran: Folder) -> None:
    (ran.path / "into").mkdir()
    told = ran.call("artifacts", "get", "report", "-o", "into")
    assert told.returncode == 0 and told.stderr == "art/write/report@1 is in into/report.md\n"
    assert (ran.path / "into" / "report.md").is_file()
    assert ran.call("artifacts", "get", "report", "-o", "into/").returncode == 2
    assert ran.call("artifacts", "get", "report", "-o", "into/", "--force").returncode == 0


def test_a_folder_is_unpacked_as_it_was(ran: Folder) -> None:
    assert ran.call("artifacts", "get", "tree", "-o", "copy").returncode == 0
    assert (ran.path / "copy" / "sub" / "file").read_text() == "inner\n"
    assert os.readlink(ran.path / "copy" / "sub" / "link") == "../report.md"
    assert ran.call("artifacts", "get", "tree", "-o", "-", binary=True).stdout[257:262] == b"ustar"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["get", "repot"], 3, "did you mean `art/write/report`?"),
        (["show", "report@7"], 3, "it has 1 version"),
        (["show", "report@nope"], 3, "nope"),
        (["get", "art"], 3, "there is no artifact `art`"),
        (["get"], 2, "Missing argument 'REF'"),
        (["list", "x"], 2, "unexpected extra argument (x)"),
        (["get", "report", "--dry-run"], 2, "No such option '--dry-run'"),
        (["gc", "--older-than", "soon"], 2, "is not a duration"),
        (["--run", "nope"], 3, "nope"),
    ],
)
def test_a_wrong_call_is_told_with_its_code(ran: Folder, words: list[str], code: int, said: str) -> None:
    done = ran.call("artifacts", *words)
    assert done.returncode == code and said in done.stderr


def test_a_name_that_may_mean_several_is_refused_with_all_of_them(folder: Folder) -> None:
    folder.exec()
    (folder.path / "q.yaml").write_text(PLAN.replace("plan: art", "plan: other"))
    folder.exec(plan="q.yaml")
    done = folder.call("artifacts", "get", "write/report")
    assert done.returncode == 2 and "`art/write/report`, `other/write/report`" in done.stderr


def test_where_nothing_ran_there_is_nothing(folder: Folder) -> None:
    assert folder.call("artifacts").returncode == 3


def test_gc_removes_what_its_retention_gives_up_and_nothing_else(folder: Folder) -> None:
    folder.exec("one")
    (folder.path / "p.yaml").write_text(PLAN.replace("echo inner", "echo other"))
    folder.exec("two")
    folder.age()
    before = len(folder.contents())
    dry = folder.json("gc", "--dry-run")
    assert len(dry["removed"]) == 3 and len(folder.contents()) == before
    told = folder.json("gc")
    assert told["removed"] == dry["removed"] and len(folder.contents()) == before - 3
    assert folder.call("artifacts", "get", "newest@1").returncode == 3
    assert folder.call("artifacts", "get", "newest@2", "-o", "-").stdout == "other\n"
    assert "its retention is `run`" in folder.call("artifacts", "get", "tree").stderr
    assert folder.call("artifacts", "verify").returncode == 0
    assert folder.json("gc")["removed"] == []
    assert folder.call("replay", "last").returncode == 0


def test_young_contents_stay_for_a_day_unless_told_otherwise(folder: Folder) -> None:
    folder.exec()
    assert folder.json("gc")["removed"] == []
    time.sleep(1.1)
    assert len(folder.json("gc", "--older-than", "0s")["removed"]) == 1


def test_the_project_says_how_long_what_says_nothing_is_kept(folder: Folder) -> None:
    (folder.path / "planrunner.yaml").write_text("artifacts: {retention: run}\n")
    folder.exec()
    folder.age()
    assert len(folder.json("gc")["removed"]) == 4 and len(folder.contents()) == 1  # its newest version is kept
    (folder.path / "planrunner.yaml").write_text("artifacts: {retention: sometimes}\n")
    done = folder.call("artifacts")
    assert done.returncode == 5 and "3 versions" in done.stderr


def test_a_retention_that_says_nothing_is_found_by_lint(folder: Folder) -> None:
    (folder.path / "p.yaml").write_text(PLAN.replace("retention: run", "retention: rum"))
    done = folder.call("lint", "p.yaml", "--format", "concise")
    assert done.returncode == 1 and "PLAN006" in done.stdout and "did you mean `run`?" in done.stdout


def test_damage_and_loss_are_told_by_verify(folder: Folder) -> None:
    folder.exec()
    report = folder.json("show", "report")["sha256"]
    newest = folder.json("show", "newest")["sha256"]
    store = folder.path / "state" / "artifacts" / "sha256"
    (store / newest[:2] / newest[2:]).unlink()
    (store / report[:2] / report[2:]).chmod(0o600)
    (store / report[:2] / report[2:]).write_text("0ne\n")
    done = folder.call("artifacts", "verify")
    assert done.returncode == 1
    assert f"damaged  sha256:{report}" in done.stdout and "lost     art/write/newest@1" in done.stdout
    got = folder.call("artifacts", "get", "report", "-o", "x")
    assert got.returncode == 11 and not (folder.path / "x").exists()
    assert folder.call("artifacts", "get", "report", "-o", "-").stdout == ""


def test_backups_and_checkpoints_outlive_every_collection(folder: Folder) -> None:
    (folder.path / "p.yaml").write_text(
        "plan: p\nparams: {word: x}\ndefaults: {timeout: 2m}\ntasks:\n  - id: a\n    backup: [kept.txt]\n"
        "    checkpoint: {paths: [made.txt]}\n    run: echo new > kept.txt; echo made > made.txt\n"
        "    rollback: {run: 'true'}\n"
    )
    (folder.path / "kept.txt").write_text("old\n")
    folder.exec()
    folder.age()
    assert folder.json("gc")["removed"] == []
    assert folder.call("rollback", "last").returncode == 0
    assert (folder.path / "kept.txt").read_text() == "old\n"
    (folder.path / "made.txt").unlink()
    assert folder.call("checkpoints", "last", "a", "--restore-files", "--yes").returncode == 0
    assert (folder.path / "made.txt").read_text() == "made\n"


def test_what_a_living_run_keeps_is_its_own_until_it_has_told_of_it(folder: Folder) -> None:
    """A content that no journal names yet, as old as the run: it stays while the run lives and goes when it is over."""
    (folder.path / "p.yaml").write_text(
        "plan: p\ntasks:\n  - id: a\n    timeout: 4m\n    run: touch begun; while ! test -e stop; do sleep 0.05; done\n"
    )
    running = subprocess.Popen(
        [sys.executable, "-m", "planrunner", "exec", "p.yaml"],
        cwd=folder.path,
        env=folder.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.time() + 240
        while not (folder.path / "begun").exists() and time.time() < until:
            time.sleep(0.05)
        script = f"from planrunner.knowledge.artifacts import ArtifactStore as S; S({str(folder.path / 'state')!r}).keep_bytes(b'x')"
        subprocess.run([sys.executable, "-c", script], env=folder.environment(), check=True)
        time.sleep(1.3)
        during = folder.json("gc", "--older-than", "0s")
        assert during["removed"] == [] and during["young"] == 1
    finally:
        (folder.path / "stop").touch()
        running.wait(240)
    assert len(folder.json("gc", "--older-than", "0s")["removed"]) == 1


def test_two_collectors_and_a_run_get_along(folder: Folder) -> None:
    for number in range(3):
        folder.exec(str(number))
    folder.age()
    words = [sys.executable, "-m", "planrunner", "artifacts", "gc", "--json"]
    both = [
        subprocess.Popen(words, cwd=folder.path, env=folder.environment(), stdout=subprocess.PIPE) for _ in range(2)
    ]
    folder.exec("while they collect")
    removed: list[str] = []
    for each in both:
        out, _ = each.communicate(timeout=240)
        assert each.returncode == 0
        removed += json.loads(out)["removed"]
    assert len(removed) == len(set(removed)) > 0
    assert folder.call("artifacts", "verify").returncode == 0
    assert folder.call("artifacts", "get", "report", "-o", "-").stdout == "while they collect\n"


def test_results_that_speak_of_an_artifact_whose_time_is_over_do_not_keep_it(folder: Folder) -> None:
    """The digest of `gone` is handed on as an output; that of `kept` is a parameter of another run."""
    (folder.path / "p.yaml").write_text(
        "plan: p\nparams: {word: x}\ndefaults: {timeout: 2m}\ntasks:\n"
        "  - id: a\n    run: 'echo {{ params.word }} > gone.txt; echo kept > kept.txt'\n"
        "    artifacts: [{name: gone, path: gone.txt, retention: run}, {name: kept, path: kept.txt, retention: run}]\n"
        "  - {id: b, needs: [a], uses: noop, with: {value: '{{ tasks.a.artifacts.gone.sha256 }}'}}\n"
    )
    folder.exec("one")
    folder.exec(folder.json("show", "kept")["sha256"])
    folder.age()
    assert len(folder.json("gc")["removed"]) == 2
    assert folder.call("artifacts", "get", "kept@1", "-o", "-").stdout == "kept\n"


def test_the_default_is_that_of_the_project_that_the_state_belongs_to(folder: Folder) -> None:
    """Whoever clears another project does not do so by the rules of the one they stand in."""
    other = folder.path / "other"
    (other / ".planrunner").mkdir(parents=True, mode=0o700)
    folder.exec()
    (folder.path / "state").rename(other / ".planrunner" / "state")
    (folder.path / "planrunner.yaml").write_text("artifacts: {retention: run}\n")
    for path in (other / ".planrunner" / "state").iterdir():
        path.rename(other / ".planrunner" / path.name)
    told = folder.call("--state", str(other / ".planrunner"), "artifacts", "show", "report", "--json")
    assert (told.returncode, json.loads(told.stdout)["retention"]) == (0, "forever"), told.stderr


SPACES = """
plan: art
defaults: {timeout: 2m}
tasks:
  - id: write
    run: |
      echo one > "my report.md"
    artifacts:
      - {name: my report, path: my report.md}
      - {name: it's, path: my report.md}
      - {name: plain, path: my report.md}
"""


def test_a_name_with_spaces_is_listed_in_quotes_and_found_as_it_is_listed(folder: Folder) -> None:
    (folder.path / "s.yaml").write_text(SPACES)
    assert folder.call("exec", "s.yaml").returncode == 0
    listed = folder.call("artifacts").stdout.splitlines()[1:]
    assert any(line.startswith("'art/write/my report@1'  ") for line in listed)
    assert any(line.startswith("art/write/plain@1  ") for line in listed)
    for line in listed:
        (ref,) = [word for word in shlex.split(line) if word.startswith("art/")]
        assert folder.call("artifacts", "get", ref, "-o", "-").stdout == "one\n"
    assert folder.call("artifacts", "show", "my report").stdout.startswith("'art/write/my report@1'\n")


WHEEL = """
plan: ci
params: {days: "1"}
tasks:
  - id: pack
    timeout: 1m
    run: |
      rm -rf dist; mkdir dist; for n in 1 2 3; do
        case {{ params.days }} in *$n*) echo $n > dist/tool-$n.whl;; esac
      done
    artifacts: [{name: wheel, path: dist/*.whl, retention: 2 versions}]
"""


def test_a_pattern_goes_by_the_name_that_the_plan_gives_it(folder: Folder) -> None:
    (folder.path / "ci.yaml").write_text(WHEEL)
    assert folder.call("exec", "ci.yaml").returncode == 0
    folder.exec()  # `last` is the newest version, whatever ran since
    for ref in ("wheel", "wheel@last", "pack/wheel", "ci/pack/wheel", "wheel@1"):
        assert folder.call("artifacts", "get", ref, "-o", "-").stdout == "1\n", ref
    assert folder.json("show", "wheel")["ref"] == "ci/pack/wheel@1"
    assert folder.call("exec", "ci.yaml", "-p", "days=23").returncode == 0
    several = folder.call("artifacts", "get", "wheel")
    assert several.returncode == 2 and "`wheel` is 2 files" in several.stderr
    assert "`ci/pack/wheel/dist/tool-2.whl@2`, `ci/pack/wheel/dist/tool-3.whl@2`" in several.stderr
    assert folder.call("artifacts", "get", "ci/pack/wheel/dist/tool-3.whl@2", "-o", "-").stdout == "3\n"
    assert folder.call("artifacts", "get", "wheel@1", "-o", "-").stdout == "1\n"
    assert "it has 2 versions" in folder.call("artifacts", "get", "wheel@3").stderr


@pytest.mark.parametrize("name", ["name: wheel, ", ""], ids=["named", "unnamed"])
def test_versions_of_a_pattern_are_counted_whatever_the_files_are_called(folder: Folder, name: str) -> None:
    (folder.path / "ci.yaml").write_text(WHEEL.replace("name: wheel, ", name))
    for days in ("1", "12", "23", "3"):
        assert folder.call("exec", "ci.yaml", "-p", f"days={days}").returncode == 0
    versions = {(one["path"], one["version"], one["over"]) for one in folder.json()["artifacts"]}
    told = [("1", 1, True), ("1", 2, True), ("2", 2, True), ("2", 3, False), ("3", 3, False), ("3", 4, False)]
    assert versions == {(f"dist/tool-{day}.whl", number, over) for day, number, over in told}


def test_what_failed_attempts_left_pushes_out_none_of_a_good_one(folder: Folder) -> None:
    (folder.path / "q.yaml").write_text(
        """
plan: q
params: {ok: {type: bool, default: true}}
tasks:
  - id: check
    timeout: 1m
    run: "echo {{ params.ok }} > report; {{ params.ok }}"
    artifacts: [{name: report, path: report, retention: 1 version}]
"""
    )
    assert folder.call("exec", "q.yaml").returncode == 0
    for _ in range(2):
        assert folder.call("exec", "q.yaml", "-p", "ok=false").returncode == 1
    states = [(one["version"], one["failed"], one["over"]) for one in folder.json()["artifacts"]]
    assert states == [(3, True, False), (2, True, True), (1, False, False)]
