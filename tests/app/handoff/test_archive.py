"""Archives: everything about a run in one place, which opens and is verified without planrunner."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tarfile
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from rows import rows

from planrunner.app.handoff.archive import archive
from planrunner.app.handoff.members import safe_name
from planrunner.app.history.audit import anchors_of, verify_export
from planrunner.app.history.replay import replay_run
from planrunner.app.people.gates import decide
from planrunner.app.runs.execute import Silent
from planrunner.app.runs.resume import resume
from planrunner.app.runs.revise import ReviseRequest, revise
from planrunner.errors import UsageError
from planrunner.machine.requests import Vote

FAILING = """\
plan: release
title: Release the shop
params: {version: {type: string, default: 2.3.8}}
defaults: {timeout: 1m}
tasks:
  - id: build
    run: "echo {{ params.version }} > shop.txt; echo building"
    artifacts: [shop.txt]
  - id: smoke
    needs: [build]
    run: "echo 'no answer <b>from</b> `shop`' >&2; exit 7"
    retry: {attempts: 2, delay: 1ms}
    failure_modes: [{name: logic, recover: Look at the shop first}]
  - {id: announce, needs: [smoke], run: "true"}
"""


@pytest.fixture
def archived(made):
    run = made.run(FAILING)
    return archive(run, made.state, str(made.folder / "out"))


def _text(archived, name):
    with open(os.path.join(archived.path, name), encoding="utf-8") as file:
        return file.read()


def test_every_file_is_verified_by_standard_tools_and_a_changed_byte_is_found(archived):
    check = ["sha256sum", "--check", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=archived.path, check=False).returncode == 0
    with open(os.path.join(archived.path, "postmortem.md"), "a", encoding="utf-8") as file:
        file.write("and more\n")
    ran = subprocess.run(check, cwd=archived.path, check=False, capture_output=True, text=True)
    assert "postmortem.md" in ran.stdout + ran.stderr


def test_the_sums_name_every_file_and_have_the_digest_that_was_printed(archived):
    listed = {line.split("  ", 1)[1] for line in _text(archived, "SHA256SUMS").splitlines()}
    there = {
        os.path.relpath(os.path.join(folder, name), archived.path)
        for folder, _, names in os.walk(archived.path)
        for name in names
    }
    assert listed == there - {"SHA256SUMS"}
    digest = subprocess.run(["sha256sum", "SHA256SUMS"], cwd=archived.path, check=True, capture_output=True, text=True)
    assert digest.stdout.split()[0] == archived.sha256
    assert archived.files == len(there)


def test_the_archive_holds_plan_artifacts_logs_and_a_journal_that_replays(archived, made):
    assert _text(archived, "plan/revision-1.yaml") == FAILING
    assert _text(archived, "artifacts/build/shop.txt") == "2.3.8\n"
    assert _text(archived, "logs/build.1.log") == "building\n"
    assert "no answer" in _text(archived, "logs/smoke.2.log")
    replayed = replay_run(os.path.join(archived.path, "journal/run.jsonl"), made.state)
    assert replayed.replayed.difference is None
    head = json.loads(_text(archived, "manifest.json"))["head"]
    export = os.path.join(archived.path, "journal/audit.jsonl")
    assert not verify_export(export, anchors_of([head])).breaks


def test_the_postmortem_tells_the_cause_with_its_events_and_nothing_that_the_journal_does_not_have(archived):
    told = json.loads(_text(archived, "postmortem.json"))
    events = {
        json.loads(line)["seq"]: json.loads(line) for line in _text(archived, "journal/run.jsonl").splitlines()[1:]
    }
    assert [cause["task"] for cause in told["causes"]] == ["smoke"]
    cause = told["causes"][0]
    assert cause["facts"]["attempts"] == "both failed attempts ended the same way and printed the same lines"
    assert "no answer" in cause["facts"]["stderr"]
    assert events[cause["events"][-1]]["kind"] == "task_settled"
    assert {events[seq]["body"]["task"] for seq in cause["events"]} == {"smoke"}
    assert any(action["text"] == "Look at the shop first." for action in told["actions"])
    assert not any("foresees no failure" in gap["text"] for gap in told["detection_gaps"])
    assert any("`build` came before the failure" in gap["text"] for gap in told["detection_gaps"])


def test_the_postmortem_tells_each_failure_once(archived):
    texts = [moment["text"] for moment in json.loads(_text(archived, "postmortem.json"))["timeline"]]
    assert any(" failed" in text for text in texts)
    assert all(text != after for text, after in pairwise(texts))


def test_the_postmortem_holds_the_run_against_the_last_one_that_completed(made):
    text = "plan: p\nparams: {n: {type: int, default: 0}}\ndefaults: {timeout: 1m}\ntasks:\n"
    text += '  - {id: a, run: "exit {{ params.n }}"}\n'
    good, bad = made.run(text), made.run(text, n=3)
    told = _text(archive(bad, made.state, str(made.folder / "out")), "postmortem.md")
    assert good in told
    assert "parameter `n`: 0 → 3" in told


def test_a_run_that_completed_has_a_postmortem_without_causes(made):
    run = made.run("plan: p\ndefaults: {timeout: 1m}\ntasks:\n  - {id: a, uses: noop}\n")
    done = archive(run, made.state, str(made.folder / "out"))
    told = json.loads(_text(done, "postmortem.json"))
    assert (told["causes"], told["actions"], told["detection_gaps"]) == ([], [], [])
    assert "Nothing is left to do" in _text(done, "README.md")


def test_text_of_tasks_does_not_act_in_markdown_or_html(archived):
    readme, told, page = (_text(archived, name) for name in ("README.md", "postmortem.md", "index.html"))
    assert "<b>from</b>" not in re.sub(r"```.*?```", "", told, flags=re.DOTALL)
    assert "<b>from" not in readme
    assert "<b>from" not in page
    assert "&lt;b&gt;from" in page


class _Outside(HTMLParser):
    """Collects what a page loads or leads to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "action")]


@pytest.mark.parametrize("name", ["index.html", "report.html"])
def test_the_pages_need_nothing_from_elsewhere_and_lead_only_into_the_archive(archived, name):
    page = _Outside()
    page.feed(_text(archived, name))
    for link in page.links:
        inside = link.startswith(("#", "data:image/svg+xml;base64,"))
        assert inside or os.path.exists(os.path.join(archived.path, link.partition("#")[0])), link


def test_a_tar_archive_holds_the_same_and_is_the_same_each_time(made):
    run = made.run(FAILING)
    done = archive(run, made.state, str(made.folder / "hand.tar.gz"))
    with tarfile.open(done.path) as opened:
        names = {member.name for member in opened}
        assert all(not member.issym() and member.uid == 0 for member in opened)
        opened.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)  # Python 3.11.3 has none
        opened.extractall(made.folder / "there")
    assert "hand/index.html" in names
    check = ["sha256sum", "--check", "--quiet", "SHA256SUMS"]
    assert subprocess.run(check, cwd=made.folder / "there/hand", check=False).returncode == 0


def test_an_artifact_that_is_gone_is_named_and_the_rest_is_archived(made):
    run = made.run(FAILING)
    for folder, _, names in os.walk(os.path.join(made.state, "artifacts", "sha256")):
        for name in names:
            os.unlink(os.path.join(folder, name))
    done = archive(run, made.state, str(made.folder / "out"))
    assert ("artifacts/build/shop.txt", "its content is not kept any more") in done.left_out
    assert "artifacts/build/shop.txt" in _text(done, "README.md")


def test_what_a_writer_that_was_killed_left_is_removed_by_the_next_one(made):
    run = made.run(FAILING)
    gone = subprocess.Popen(["true"])
    gone.wait()
    kept = [f"out.tar.gz.{os.getpid()}-01234567.planrunner", f"other.tar.gz.{gone.pid}-01234567.planrunner"]
    left = [f"out.tar.gz.{gone.pid}-{digits}.planrunner" for digits in ("01234567", "89abcdef")]
    for name in (*kept, left[0]):
        (made.folder / name).write_text("half")
    (made.folder / left[1] / "inside").mkdir(parents=True)
    archive(run, made.state, str(made.folder / "out.tar.gz"))
    assert sorted(
        name for name in os.listdir(made.folder) if name.endswith(".planrunner") and name != ".planrunner"
    ) == (sorted(kept))


def test_a_place_that_is_taken_is_refused_and_left_as_it_is(made):
    run = made.run(FAILING)
    (made.folder / "out").mkdir()
    with pytest.raises(UsageError, match="is there already"):
        archive(run, made.state, str(made.folder / "out"))
    assert not os.listdir(made.folder / "out")
    assert not [name for name in os.listdir(made.folder) if name.endswith(".planrunner") and name != ".planrunner"]


@rows("name", ["../../etc/passwd", "/etc/passwd", ".hidden", "a\nb", "x" * 400, "", "..", "-rf"])
def test_no_name_of_a_run_leads_out_of_the_archive(name):
    safe = safe_name(name)
    assert safe
    assert "/" not in safe
    assert not safe.startswith((".", "-"))
    assert len(safe) < 200


def test_names_that_differ_stay_apart():
    assert safe_name("a b") != safe_name("a\tb")
    assert safe_name("a/b") != safe_name("a+b ")


def test_a_run_that_was_paused_and_continued_is_not_told_as_interrupted(made):
    text = 'plan: p\ndefaults: {timeout: 1m}\ntasks:\n  - {id: ask, gate: approval, ask: "Go?"}\n'
    run = made.run(text)
    decide(run, Vote("ask", "approve", reason="fine"), made.state)
    resume(run, (), made.state, Silent())
    done = archive(run, made.state, str(made.folder / "out"))
    told = json.loads(_text(done, "postmortem.json"))
    assert not any("without pausing" in fact["text"] for fact in told["factors"])
    decided = json.loads(_text(done, "decisions.json"))
    assert [(one["task"], one["said"], one["reason"]) for one in decided] == [("ask", "approved", "fine")]
    assert "Digest of what was shown" in _text(done, "evidence/ask-visit-1.md")


def test_a_failure_that_a_revision_mended_is_a_factor_and_no_cause(made):
    text = "plan: p\ndefaults: {timeout: 1m}\ntasks:\n  - {id: a, run: exit 1}\n"
    run = made.run(text)
    (made.folder / "p.yaml").write_text(text.replace("exit 1", "echo mended"), encoding="utf-8")
    revise(ReviseRequest(run, "p.yaml", reason="mended"), made.state)
    resume(run, (), made.state, Silent())
    done = archive(run, made.state, str(made.folder / "out"))
    told = json.loads(_text(done, "postmortem.json"))
    assert not told["causes"]
    factors = [fact["text"] for fact in told["factors"]]
    assert "`a` had failed, and completed when it ran again." in factors
    assert any("changed the plan meanwhile (revision 2): mended" in fact for fact in factors)
    assert "+  - {id: a, run: echo mended}" in _text(done, "plan/revision-1-to-2.diff")


def test_an_item_that_failed_and_was_tolerated_is_not_said_to_be_replaced(made):
    text = """plan: p
defaults: {timeout: 1m}
tasks:
  - {id: each, foreach: [0, 1], tolerate: 1, run: "exit {{ item }}"}
  - id: rounds
    needs: [each]
    loop: {max: 2, until: tasks.try.ok, tasks: [{id: try, run: "test {{ loop.round }} -eq 2"}]}
"""
    done = archive(made.run(text), made.state, str(made.folder / "out"))
    factors = [fact["text"] for fact in json.loads(_text(done, "postmortem.json"))["factors"]]
    assert "`each[1]` failed, and `each` completed all the same." in factors
    assert "`rounds#1/try` failed, and `rounds` completed all the same." in factors
    assert not any("replaced" in text for text in factors)


def test_the_answers_of_a_form_are_written_with_their_units(made):
    form = "form: {most: {type: money, required: true}, until: {type: duration, default: 1h}}"
    run = made.run(f"plan: asks\ntasks: [{{id: ask, gate: approval, ask: how much, {form}}}]\n")
    (voted,) = decide(run, Vote("ask", "approve", fields={"most": "$70"}), made.state)
    assert voted.steered.answer.applied, voted.steered.answer
    resume(run, (), made.state, Silent())
    done = archive(run, made.state, str(made.folder / "out"))
    assert "answered most=$70, until=1h" in _text(done, "decisions.md")
    (decision,) = json.loads(_text(done, "decisions.json"))
    assert decision["fields"] == {"most": 70.0, "until": 3600.0}
