"""Plans that were not let start leave a record that can be proven, whoever refused them and however often they ask."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from planrunner.app.history import audit as denials
from planrunner.errors import Denied
from planrunner.journal import leases
from planrunner.journal.sqlite import open_journal
from planrunner.machine.events import Entry, PlanRefused

DENIED = """\
plan: own
tasks:
  - {id: a, uses: git.tag, with: {name: v1}, timeout: 1m}
"""


def rows(place) -> list[dict]:
    done = place("audit", "export", "refused")
    assert done.code == 0, done.err
    return [json.loads(row["body"]) for row in map(json.loads, done.out.splitlines()) if "seq" in row]


def deny(place, text: str = "policy: {capabilities: {deny: [git.*]}}\n") -> str:
    (place.work / "planrunner.yaml").write_text(text)
    (place.work / "own.yaml").write_text(DENIED)
    return "own.yaml"


def event(number: int = 0, at: str = "p.yaml") -> Denied:
    return Denied("no", "", "policy.plans", at, f"sha256:{number}")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "planrunner.yaml").write_text("")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def kept(project: Path) -> list[PlanRefused]:
    journal = open_journal(str(project / ".planrunner"), readonly=True)
    try:
        return [each.event for each in journal.entries("refused") if isinstance(each.event, PlanRefused)]
    finally:
        journal.close()


class TestWhatIsKept:
    def test_a_policy_that_refuses_at_the_start(self, place) -> None:
        assert place("exec", deny(place)).code == 12
        (row,) = rows(place)
        assert (row["plan"], row["rule"]) == (str(place.work / "own.yaml"), "policy.capabilities.deny")
        assert row["digest"].startswith("sha256:") and "planrunner.yaml denies `git.tag`" in row["message"]
        assert row["environment"]["uid"] == os.getuid() and row["environment"]["host"]

    def test_a_plan_that_nobody_vouches_for_and_nothing_beside_it(self, place) -> None:
        (place.other / ".git").mkdir()
        path = place.plan()
        assert place("exec", path).code == 12
        assert place("exec", path, "--trust", "sha256:" + "0" * 64).code == 12
        assert [row["rule"] for row in rows(place)] == ["trust", "trust"]
        assert rows(place)[0]["plan"] == str(place.other / "p.yaml")
        assert sorted(each.name for each in place.other.iterdir()) == [".git", "p.yaml"]

    def test_plans_from_outside_that_the_policy_refuses(self, place) -> None:
        (place.work / "planrunner.yaml").write_text("policy: {plans: {outside: deny}}\n")
        assert place("exec", place.plan()).code == 12
        assert [row["rule"] for row in rows(place)] == ["policy.plans"]

    def test_the_sandbox_is_not_taken_away_by_a_program(self, place) -> None:
        deny(place)
        assert place("exec", "own.yaml", "--no-sandbox").code == 12
        (row,) = rows(place)
        assert row["rule"] == "sandbox.off" and row["digest"].startswith("bytes:sha256:")

    def test_it_is_kept_where_the_options_say_whatever_the_values_of_parameters_look_like(self, place) -> None:
        path = deny(place)
        with (place.work / path).open("a") as file:
            file.write("params: {a: {type: string, default: ''}}\n")
        assert place("exec", path, "-p", "a=--state", "-p", "a=b", "-p", "a=--dry-run").code == 12
        assert not (place.work / "-p").exists()
        assert place("--state", "elsewhere", "exec", path, "--trust=", "-p", "a=b").code == 12  # click reads it
        assert (place.work / "elsewhere").is_dir()
        assert len(rows(place)) == 1

    def test_people_see_it_and_no_run_is_listed(self, place) -> None:
        place("exec", deny(place))
        shown = place("audit", "export", "refused", "--format", "text").out
        assert "refusal  plan_refused" in shown and "policy.capabilities.deny: policy does not let `own.yaml`" in shown
        assert place("audit", "verify").out.splitlines()[0] == "intact: 0 runs, 0 events, 1 refusal"
        assert (place("runs").code, place("runs").out) == (0, "")
        assert "is not a run" in place("show", "refused").err
        assert place("show", "last").code == 3
        (place.work / "good.yaml").write_text("plan: good\ntasks:\n  - {id: a, uses: noop, timeout: 1m}\n")
        assert place("exec", "good.yaml").code == 0
        assert place("show", "last", "--json").code == 0
        assert "refused" not in place("runs").out

    @pytest.mark.parametrize("words", [("lint",), ("exec", "--dry-run"), ("policy", "explain")])
    def test_looking_at_a_plan_leaves_none(self, words: tuple[str, ...], place) -> None:
        assert place(*words, deny(place)).code in (0, 1, 5, 12)
        assert place("audit", "export", "refused").code == 3

    def test_where_there_is_no_project_none_is_made(self, place) -> None:
        (place.work / "planrunner.yaml").unlink()
        assert place("exec", place.plan()).code == 12
        assert list(place.work.iterdir()) == []

    def test_secrets_of_the_project_are_not_in_it(self, place) -> None:
        settings = "policy: {capabilities: {deny: [shell]}}\n"
        deny(place, f"{settings}provider_credentials: [{{id: key, auth: {{source: env, env_var: TOKEN}}}}]\n")
        plan = "plan: own\ntasks:\n  - {id: a, run: [curl, 'https://me:pass@x.example/', S3cretValue], timeout: 1m}\n"
        (place.work / "own.yaml").write_text(plan)
        assert place("exec", "own.yaml", TOKEN="S3cretValue").code == 12
        (row,) = rows(place)
        assert "curl https://me:***@x.example/ [secret:key]" in row["message"]
        assert "S3cretValue" not in json.dumps(row) and "me:pass" not in json.dumps(row)


class TestProof:
    @pytest.mark.parametrize(
        "statement",
        [
            "UPDATE entries SET body = replace(body, 'own.yaml', 'owm.yaml') WHERE kind = 'plan_refused'",
            "DELETE FROM entries WHERE kind = 'plan_refused'",
            "DELETE FROM runs WHERE run = 'refused'",
            "UPDATE runs SET plan_digest = 'x' WHERE run = 'refused'",
        ],
    )
    def test_whatever_is_changed_is_found(self, statement: str, place) -> None:
        place("exec", deny(place))
        connection = sqlite3.connect(place.work / ".planrunner" / "journal.db", isolation_level=None)
        connection.execute(statement)
        connection.close()
        done = place("audit", "verify")
        assert done.code == 10 and "refused" in done.out + done.err
        again = place("exec", "own.yaml")
        assert again.code == 12 and "Traceback" not in again.err

    def test_nothing_is_added_to_one_that_was_changed_until_a_person_takes_it(self, place) -> None:
        place("exec", deny(place))
        connection = sqlite3.connect(place.work / ".planrunner" / "journal.db", isolation_level=None)
        connection.execute("UPDATE entries SET at = at + 1 WHERE kind = 'plan_refused'")
        connection.close()
        done = place("exec", "own.yaml")
        assert done.code == 12 and "warning: this refusal is not on record" in done.err
        assert place("audit", "accept", "refused", "--because", "a trial").code == 0
        place("exec", "own.yaml")
        assert place("audit", "verify").code == 0
        assert len(rows(place)) == 2

    def test_an_export_proves_itself(self, place) -> None:
        place("exec", deny(place))
        assert place("audit", "export", "-o", "out.jsonl").code == 0
        done = place("audit", "verify", "--export", "out.jsonl")
        assert (done.code, done.out.strip()) == (0, "intact: 0 runs, 0 events, 1 refusal")
        text = (place.work / "out.jsonl").read_text().replace("own.yaml", "owm.yaml")
        (place.work / "out.jsonl").write_text(text)
        assert place("audit", "verify", "--export", "out.jsonl").code == 10

    def test_a_writer_that_is_killed_leaves_whole_records(self, place) -> None:
        deny(place)
        code = (
            "import planrunner.app.history.audit as denials; from planrunner.errors import Denied\n"
            "denials.SAME = denials.MOST = 10**9\n"
            "for number in range(10**6):\n"
            "    denials.keep(Denied('no', '', 'trust', 'own.yaml', str(number)), None); print(number, flush=True)\n"
        )
        acknowledged = 0
        for _ in range(4):
            process = subprocess.Popen(
                [sys.executable, "-c", code], cwd=place.work, env=place.env, stdout=subprocess.PIPE, text=True
            )
            assert process.stdout is not None
            for _ in range(5):
                process.stdout.readline()
            process.send_signal(signal.SIGKILL)
            acknowledged += 5 + len(process.stdout.read().split())
            process.wait()
        assert len(rows(place)) >= acknowledged
        done = place("audit", "verify")
        assert done.code == 0, done.out


class TestBounds:
    def test_who_asks_again_and_again_is_kept_a_few_times_and_the_last_says_so(self, project: Path) -> None:
        for _ in range(denials.SAME + 10):
            denials.keep(event(), None)
        found = kept(project)
        assert [each.quiet for each in found] == [""] * (denials.SAME - 1) + ["same"]
        denials.keep(event(1), None)
        assert len(kept(project)) == denials.SAME + 1

    def test_all_that_is_kept_in_an_hour_is_bounded(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(denials, "MOST", 7)
        for number in range(20):
            denials.keep(event(number), None)
        assert [each.quiet for each in kept(project)] == [""] * 6 + ["all"]

    def test_after_an_hour_it_is_kept_again(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for _ in range(denials.SAME + 1):
            denials.keep(event(), None)
        later = time.time() + denials.WITHIN + 1
        monkeypatch.setattr(denials.time, "time", lambda: later)
        denials.keep(event(), None)
        assert len(kept(project)) == denials.SAME + 1

    def test_a_long_message_is_cut(self, project: Path) -> None:
        denials.keep(Denied("x" * 100_000, "", "trust", "p.yaml"), None)
        assert len(kept(project)[0].message) == 2000

    def test_no_run_takes_such_an_event(self) -> None:
        from planrunner.machine.evolve import evolve
        from planrunner.machine.state import State
        from planrunner.machine.statuses import IllegalMove
        from planrunner.plan.model import Plan

        entry = Entry(1, 0.0, PlanRefused("p.yaml", "trust", "no"))
        with pytest.raises(IllegalMove):
            evolve(State(Plan("p", ()), "r"), entry.event, entry.at)

    def test_whoever_comes_while_another_begins_the_record_waits(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        state = str(project / ".planrunner")
        open_journal(state).close()
        lock = leases.lock_run(state, "refused")
        pauses: list[float] = []
        this, pause = threading.current_thread(), time.sleep

        def sleep(seconds: float) -> None:
            if threading.current_thread() is not this:  # one that another test has left behind
                pause(seconds)
                return
            pauses.append(seconds)
            if len(pauses) == 50:
                leases.unlock_run(state, "refused", lock)

        monkeypatch.setattr(denials.time, "sleep", sleep)
        denials.keep(event(), None)
        assert len(pauses) == 50 and len(kept(project)) == 1

    def test_several_at_once_are_all_kept_and_chained(self, place) -> None:
        deny(place)
        command = [sys.executable, "-m", "planrunner", "exec", "own.yaml"]
        started = [
            subprocess.Popen(command, cwd=place.work, env=place.env, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
            for _ in range(4)
        ]
        assert [b"warning" in each.communicate()[1] for each in started] == [False] * 4
        assert len(rows(place)) == 4
        assert place("audit", "verify").code == 0


class TestWhereItCannotBeKept:
    def test_the_plan_stays_refused_and_a_warning_says_so(self, place) -> None:
        """A disk that takes nothing: the state directory lies on a file system of one page."""
        deny(place)
        full = place.folder / "full"
        full.mkdir()
        mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "none", full], capture_output=True)
        if mount.returncode:
            pytest.skip("mounting needs root")
        try:
            done = place("--state", str(full / "state"), "exec", place.plan())
        finally:
            subprocess.run(["umount", full], check=True)
        assert done.code == 12 and "warning: this refusal is not on record" in done.err
        assert "Traceback" not in done.err and "internal error" not in done.err

    def test_a_place_that_is_no_directory(self, place) -> None:
        (place.work / ".planrunner").write_text("in the way")
        done = place("exec", place.plan())
        assert done.code == 12 and "warning: this refusal is not on record" in done.err
        assert "Traceback" not in done.err
