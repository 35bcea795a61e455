"""``planrunner audit``: what people see of the chain, and an export that proves itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from pathlib import Path

import pytest

from planrunner.app.history.audit import _event
from planrunner.errors import MISMATCH, NO_PLAN, OK, STORAGE, USAGE, WAITING

PLAN = """\
plan: p
tasks:
  - {id: a, run: 'echo hello', timeout: 1m}
  - {id: asks, needs: [a], gate: approval, ask: Well, timeout: 1m}
  - {id: b, needs: [asks], run: 'echo bye; exit 3', timeout: 1m}
"""


@pytest.fixture
def ran(run, plan, tmp_path):
    """A run with a vote and a failure, and how to call the command."""
    assert run("exec", plan(PLAN), "--no-wait").code == WAITING
    assert run("approve", "last", "asks", "--reason", "seen it", USER="ann").code == OK
    assert run("resume", "last").code == 1
    return run


def change(tmp_path: Path, statement: str) -> None:
    connection = sqlite3.connect(tmp_path / "state" / "journal.db", isolation_level=None)
    connection.execute(statement)
    connection.close()


def breaks(done) -> list[tuple[int, str]]:
    return [(each["seq"], each["kind"]) for each in json.loads(done.out)["breaks"]]


def test_a_journal_that_is_what_was_written_says_so(ran):
    done = ran("audit", "verify")
    assert (done.code, done.err) == (OK, "")
    assert done.out.startswith("intact: 1 run, ")
    told = json.loads(ran("audit", "verify", "last", "--json").out)
    assert (told["intact"], told["breaks"], told["accepted"]) == (True, [], [])
    assert told["runs"][0]["events"] == told["runs"][0]["anchored"]


def test_what_was_changed_is_told_with_run_event_and_kind_and_code_10(ran, tmp_path):
    change(tmp_path, "UPDATE entries SET body = replace(body, 'seen it', 'never') WHERE kind = 'gate_voted'")
    done = ran("audit", "verify")
    assert done.code == MISMATCH
    assert "changed: event" in done.out and "Traceback" not in done.err
    ((seq, kind),) = breaks(ran("audit", "verify", "last", "--json"))
    assert kind == "changed" and seq > 5
    assert ran("audit", "verify", "last", "--json").code == MISMATCH
    assert ran("audit", "head").code == MISMATCH


@pytest.mark.parametrize(
    "words", [("resume", "last"), ("retry", "last"), ("rerun", "last", "--task", "a"), ("rollback", "last", "--yes")]
)
def test_nothing_acts_on_a_run_that_was_changed(ran, tmp_path, words):
    change(tmp_path, "UPDATE entries SET at = at + 1 WHERE id & 65535 = 3")
    before = sorted(path.read_bytes() for path in (tmp_path / "state" / "logs").rglob("*") if path.is_file())
    done = ran(*words)
    assert done.code in (MISMATCH, USAGE), done
    assert sorted(path.read_bytes() for path in (tmp_path / "state" / "logs").rglob("*") if path.is_file()) == before


def test_a_fork_of_a_changed_run_is_refused(ran, tmp_path):
    name = json.loads(ran("checkpoints", "last", "--json").out)["checkpoints"][0]["name"]
    change(tmp_path, "UPDATE entries SET at = at + 0.5 WHERE id & 65535 = 3")
    done = ran("fork", "last", "--from", name)
    assert done.code == MISMATCH and "audit verify" in done.err, done


def test_forks_reruns_and_collection_leave_the_journal_what_was_written(ran):
    name = json.loads(ran("checkpoints", "last", "--json").out)["checkpoints"][0]["name"]
    first = json.loads(ran("runs", "--json").out)["runs"][0]["run_id"]
    assert ran("fork", "last", "--from", name).code == OK
    ran("rerun", first, "--task", "b")
    ran("retry", first)
    ran("rollback", first, "--yes")
    ran("artifacts", "gc")
    done = ran("audit", "verify")
    assert done.code == OK, done.out
    assert done.out.startswith("intact: 2 runs")


def test_anchors_tell_what_whoever_has_the_key_changed(ran, tmp_path):
    done = ran("audit", "head")
    (tmp_path / "anchors").write_text(done.out)
    assert ran("audit", "verify", "--head", "anchors").code == OK
    assert ran("audit", "verify", "--head", done.out.strip()).code == OK
    change(tmp_path, "UPDATE entries SET at = at + 1 WHERE id & 65535 = 3")
    assert ran("audit", "accept", "--because", "nothing to see here").code == OK
    assert ran("audit", "verify").code == OK
    found = ran("audit", "verify", "--head", "anchors", "--json")
    assert [kind for _, kind in breaks(found)] == ["anchor"]
    assert "nothing to see here" in found.out


def test_an_export_tells_who_what_when_and_why_and_proves_itself(ran, tmp_path):
    lines = [json.loads(line) for line in ran("audit", "export").out.splitlines()]
    assert lines[0] == {"format": 1, "type": "audit"}
    events = [line for line in lines if "seq" in line]
    (vote,) = [line for line in events if line["class"] == "vote"]
    assert (vote["who"], vote["subject"], vote["why"]) == ("ann", "asks", "seen it: approve")
    assert f"(uid {os.getuid()}) on {os.uname().nodename}" in events[0]["who"]
    ended = [line for line in events if line["class"] == "output"]
    assert "bye" in ended[-1]["body"] and ended[-1]["why"].startswith("logic")
    head = ran("audit", "head").out.strip()
    assert head == f"{events[-1]['run']}:{events[-1]['seq']}:{events[-1]['link']}"
    assert ran("audit", "export", "last", "-o", "x.jsonl").code == OK
    assert (tmp_path / "x.jsonl").stat().st_mode & 0o777 == 0o600
    shutil.rmtree(tmp_path / "state")
    elsewhere = {"XDG_DATA_HOME": str(tmp_path / "elsewhere")}
    assert ran("audit", "verify", "--export", "x.jsonl", "--head", head, **elsewhere).code == OK
    assert not (tmp_path / "elsewhere").exists() and not (tmp_path / "state").exists()


def test_every_line_of_an_export_that_is_changed_gone_or_doubled_is_found(ran, tmp_path):
    whole = ran("audit", "export", "last").out.splitlines(keepends=True)
    head = ran("audit", "head").out.strip()

    def found(lines: list[str]) -> list[tuple[int, str]]:
        (tmp_path / "y.jsonl").write_text("".join(lines))
        done = ran("audit", "verify", "--export", "y.jsonl", "--head", head, "--json")
        assert done.code == MISMATCH, lines
        return breaks(done)

    assert found(whole[:-1]) == [(len(whole) - 2, "cut")]
    assert found(whole[:1])[0] == (1, "cut")
    for number in (2, 7, len(whole) - 1):
        line, seq = whole[number], number - 1
        for field, value in (
            ("at", 5),
            ("who", "bo"),
            ("why", "because"),
            ("class", "step "),
            ("body", "{}"),
            ("run", "r"),
        ):
            forged = json.dumps({**json.loads(line), field: value}) + "\n"
            assert found([*whole[:number], forged, *whole[number + 1 :]])[0] == (seq, "changed")
        assert found([*whole[:number], *whole[number + 1 :]])[0][0] == seq
        assert found([*whole[: number + 1], line, *whole[number + 1 :]])[0] == (seq + 1, "changed")
        assert found([*whole[:number], "{\n", *whole[number + 1 :]])[0] == (seq, "changed")


def test_a_refusal_stands_in_an_export_with_its_rule(run, plan):
    run("exec", plan("plan: p\ntasks:\n  - {id: a, uses: http.get, with: {url: 'http://127.0.0.1:9/'}, timeout: 1m}\n"))
    events = [json.loads(line) for line in run("audit", "export", "last").out.splitlines()]
    (refusal,) = [event for event in events if event.get("class") == "refusal"]
    assert refusal["subject"] == "a" and refusal["why"].startswith("policy: network.")


def test_what_a_person_allowed_when_a_run_began_stands_in_an_export(run, plan, tmp_path):
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "planrunner.yaml").touch()
    name = plan("plan: p\ntasks:\n  - {id: a, uses: noop, timeout: 1m}\n", "elsewhere/p.yaml")
    refused = run("exec", f"../{name}", cwd=tmp_path / "project")
    (digest,) = set(re.findall(r"sha256:[0-9a-f]{64}", refused.err))
    words = ("exec", f"../{name}", "--trust", digest)
    assert run(*words, cwd=tmp_path / "project", USER="ann").code == OK
    events = [json.loads(line) for line in run("audit", "export", "last").out.splitlines()]
    started = next(event for event in events if event.get("kind") == "run_started")
    assert started["who"].startswith("ann (uid ")
    assert started["why"] == "a plan from outside the project, allowed by digest"


def test_a_run_without_a_sandbox_or_a_chain_says_so_in_its_first_line():
    environment = {"user": "ann", "sandbox": {"off": True, "by": "ann"}, "unchained": "no home", "outside": ["/srv"]}
    stored = {
        "seq": 1,
        "at": 0.5,
        "version": 1,
        "kind": "run_started",
        "body": json.dumps({"environment": environment}),
    }
    told = _event("r", stored, b"")
    assert told["why"] == "may act outside the project: /srv: without a sandbox, by ann: without a chain, since no home"
    assert (told["who"], told["when"]) == ("ann", "1970-01-01T00:00:00.500Z")


def test_an_export_for_people_has_no_control_characters(run, plan):
    assert run("exec", plan('plan: p\ntasks:\n  - {id: a, run: "exit 1", timeout: 1m, title: "\\e[2J"}\n')).code == 1
    out = run("audit", "export", "last", "--format", "text").out
    assert "run_ended" in out and "\x1b" not in out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("audit",), USAGE, "`audit` needs a command: verify, export, head, accept"),
        (("audit", "accept"), USAGE, "needs --because"),
        (("audit", "verify", "--format", "text"), USAGE, "No such option '--format'"),
        (("audit", "export", "--json"), USAGE, "No such option '--json'"),
        (("audit", "verify", "nothing"), NO_PLAN, "nothing"),
        (("audit", "verify", "--head", "nothing"), NO_PLAN, "neither an anchor nor a file of anchors"),
        (("audit", "verify", "--head", "p.yaml"), USAGE, "is not an anchor"),
        (("audit", "verify", "--export", "p.yaml"), NO_PLAN, "cannot be read"),
        (("audit", "verify", "--export", "p.yaml", "last"), USAGE, "no RUN goes with it"),
        (("audit", "export", "-o", "p.yaml"), USAGE, "cannot be written"),
    ],
)
def test_a_wrong_call_says_what_is_wrong(ran, words, code, said):
    done = ran(*words)
    assert (done.code, said in done.err) == (code, True), done


def test_before_the_first_run_there_is_nothing_to_verify(run, tmp_path):
    done = run("audit", "verify")
    assert done.code == NO_PLAN and "there are no runs" in done.err
    assert not (tmp_path / "state").exists()


def test_a_damaged_database_is_a_finding_and_no_traceback(ran, tmp_path):
    path = tmp_path / "state" / "journal.db"
    content = path.read_bytes()
    for damage in (b"", b"no database", content[:5000], content[:100] + bytes(len(content) - 100)):
        path.write_bytes(damage)
        done = ran("audit", "verify", "last", "--json")
        assert done.code == MISMATCH and breaks(done), done
        for words in (("head",), ("export",), ("accept", "--because", "x")):
            assert "Traceback" not in ran("audit", *words).err


def test_a_database_that_is_gone_is_cut_whichever_run_is_asked_for(ran, tmp_path):
    for each in (tmp_path / "state").glob("journal.db*"):
        each.unlink()
    for words in ((), ("last",), ("2026",)):
        done = ran("audit", "verify", *words, "--json")
        assert done.code == MISMATCH and breaks(done), done


def test_a_run_without_a_key_says_so_on_standard_error_and_in_the_journal(run, plan, tmp_path):
    (tmp_path / "file").touch()
    done = run("exec", plan("plan: p\ntasks:\n  - {id: a, uses: noop}\n"), XDG_DATA_HOME=str(tmp_path / "file"))
    assert done.code == OK
    assert "note: what happens can not be proven later: no key can be kept" in done.err
    assert "with XDG_DATA_HOME set to a folder that you may write it can\n" in done.err
    assert '"unchained":' in run("events", "last", "--json").out


def test_who_has_no_home_is_told_that_there_is_no_place_for_a_key(ran, run):
    assert (
        "nothing can be compared: the user has no home for a key"
        in run("audit", "verify", HOME="nowhere", XDG_DATA_HOME="").out
    )


def test_a_state_directory_of_mode_755_is_mended_and_that_is_said(ran, tmp_path):
    (tmp_path / "state").chmod(0o755)
    done = ran("exec", "p.yaml", "--no-wait")
    assert f"note: the state directory `{tmp_path}/state` had mode 755" in done.err
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


def test_a_linked_log_folder_is_refused_with_the_way_out(ran, tmp_path):
    shutil.rmtree(tmp_path / "state" / "logs")
    (tmp_path / "state" / "logs").symlink_to("/tmp")
    done = ran("exec", "p.yaml", "--no-wait")
    assert done.code == STORAGE and "is not followed" in done.err
