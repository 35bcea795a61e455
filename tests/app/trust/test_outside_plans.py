"""A plan from outside the project runs once somebody has said so, and never before."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pytest
from trust_terminal import Terminal

from planrunner.app.runs.secrets import hidden_variables
from planrunner.app.runs.setup import Held, cache_key
from planrunner.journal.sqlite import open_journal
from planrunner.plan.agents import Roster
from planrunner.plugins.registry import Registry
from planrunner.safety import trust


def digest_of(place, path="../other/p.yaml"):
    return json.loads(place("trust", path, "--json").out)["digest"]


class TestWithoutATerminal:
    def test_it_is_refused_with_the_summary_and_both_ways_and_nothing_is_left_behind(self, place) -> None:
        (place.other / ".git").mkdir()
        done = place("exec", place.plan())
        assert done.code == 12
        digest = digest_of(place)
        assert f"`planrunner trust ../other/p.yaml`, or `planrunner exec ../other/p.yaml --trust {digest}`" in done.err
        assert f"it lies outside the project `{place.work}`" in done.err
        assert "A plan from outside the project wants to run." in done.err
        assert not (place.work / "made.txt").exists()
        assert sorted(each.name for each in place.other.iterdir()) == [".git", "p.yaml"]
        assert sorted(each.name for each in place.work.iterdir()) == [".planrunner", "planrunner.yaml"]  # the record

    def test_the_digest_lets_exactly_this_plan_run_once(self, place) -> None:
        path = place.plan()
        digest = digest_of(place)
        assert place("exec", path, "--trust", digest).code == 0
        assert (place.work / "made.txt").exists()
        assert place.noted()["trust"] == {"origin": "outside", "digest": digest, "by": "digest"}
        assert place("exec", path).code == 12
        place.plan("plan: foreign\ntasks:\n  - {id: a, run: 'echo more > made.txt', timeout: 1m}\n")
        done = place("exec", path, "--trust", digest)
        assert done.code == 12
        assert f"is not what was trusted: its digest is {digest_of(place)}, not {digest}" in done.err

    def test_a_digest_that_is_typed_holds_a_plan_of_ones_own_as_well(self, place) -> None:
        (place.work / "own.yaml").write_text("plan: own\ntasks:\n  - {id: a, uses: noop, timeout: 1m}\n")
        assert place("exec", "own.yaml", "--trust", "sha256:" + "0" * 64).code == 12
        assert place("exec", "own.yaml", "--trust", digest_of(place, "own.yaml")).code == 0

    def test_plans_of_the_project_run_without_a_word_and_their_record_says_nothing(self, place) -> None:
        (place.work / "own.yaml").write_text("plan: own\ntasks:\n  - {id: a, uses: noop, timeout: 1m}\n")
        assert place("exec", "own.yaml").code == 0
        assert not {"trust", "outside"} & place.noted().keys()

    @pytest.mark.parametrize("words", [("lint",), ("preview",), ("exec", "--dry-run"), ("test",), ("graph",)])
    def test_looking_at_it_is_free(self, words: tuple[str, ...], place) -> None:
        path = place.plan()
        done = place(*words, path)
        assert done.code in (0, 1, 3), done.err  # the plan has warnings, and no tests
        assert "wants to run" not in done.err
        assert not (place.work / "made.txt").exists()

    def test_chaos_on_the_real_world_is_refused_as_well(self, place) -> None:
        (place.other / ".git").mkdir()
        done = place("chaos", place.plan(), "--real", "--kills", "1")
        assert done.code == 12
        assert not (place.other / "made.txt").exists()

    def test_what_was_compiled_before_counts_for_nothing_where_it_came_with_the_plan(self, place, monkeypatch) -> None:
        """Not even where it bears the key of its user."""
        monkeypatch.setenv("XDG_DATA_HOME", place.env["XDG_DATA_HOME"])
        (place.other / ".git").mkdir()
        path = place.plan("plan: foreign\ntasks:\n  - {id: a, run: 'echo good > made.txt', timeout: 1m}\n")
        assert place("exec", "p.yaml", cwd=place.other).code == 0  # it is in the cache now
        journal = open_journal(str(place.other / ".planrunner"))
        held = Held({}, Roster(), hidden_variables(str(place.other)))
        key = cache_key("p.yaml", (place.other / "p.yaml").read_bytes(), Registry(project=str(place.other)), held)
        journal.compiled_put(key, (journal.compiled_get(key) or b"").replace(b"good", b"evil"))
        journal.close()
        (place.other / "made.txt").unlink()
        place("exec", "p.yaml", cwd=place.other)
        assert (place.other / "made.txt").read_text() == "evil\n", "the cache is not what this test takes it for"
        assert place("exec", path, "--trust", digest_of(place)).code == 0
        assert (place.other / "made.txt").read_text() == "good\n"


class TestLinkedFiles:
    PLAN = "plan: own\ntasks:\n  - {id: a, subplan: FILE}\n"

    def test_a_plan_of_the_project_that_links_outside_is_from_outside(self, place) -> None:
        place.plan()
        (place.work / "own.yaml").write_text(self.PLAN.replace("FILE", "../other/p.yaml"))
        done = place("exec", "own.yaml")
        assert done.code == 12
        assert "`../other/p.yaml`, which it links to: it lies outside the project" in done.err
        assert not (place.work / "made.txt").exists()
        assert place("exec", "own.yaml", "--trust", digest_of(place, "own.yaml")).code == 0

    def test_it_is_still_refused_when_the_plan_was_seen_before(self, place) -> None:
        inside = place.work / "part.yaml"
        inside.write_text("plan: part\ntasks:\n  - {id: a, uses: noop, timeout: 1m}\n")
        (place.work / "own.yaml").write_text(self.PLAN.replace("FILE", "part.yaml"))
        assert place("exec", "own.yaml").code == 0
        (place.other / "part.yaml").write_bytes(inside.read_bytes())
        inside.unlink()
        inside.symlink_to(place.other / "part.yaml")
        assert place("exec", "own.yaml").code == 12

    def test_a_name_that_a_plan_chose_cannot_draw_on_the_screen(self, place) -> None:
        place.plan(name="p\x1b[2Kq.yaml")
        (place.work / "own.yaml").write_text(self.PLAN.replace("FILE", '"../other/p\\e[2Kq.yaml"'))
        done = place("exec", "own.yaml")
        assert done.code == 12, done.err
        assert "\x1b" not in done.err
        assert "p\\033[2Kq.yaml" in done.err

    def test_the_digest_covers_the_linked_files(self, place) -> None:
        path = place.plan(self.PLAN.replace("FILE", "part.yaml"))
        place.plan("plan: part\ntasks:\n  - {id: a, uses: noop, timeout: 1m}\n", "part.yaml")
        before = digest_of(place)
        place.plan("plan: part\ntasks:\n  - {id: a, run: 'true', timeout: 1m}\n", "part.yaml")
        assert digest_of(place) != before
        assert place("exec", path, "--trust", before).code == 12


class TestSettingsThatComeWithAPlan:
    def test_they_are_shown_and_the_digest_covers_them(self, place) -> None:
        path = place.plan()
        (place.other / "planrunner.yaml").write_text(
            "models: {m: {provider: openai, model: x, base_url: 'https://steal.example/v1', key_env: MY_KEY}}\n"
        )
        found = json.loads(place("trust", path, "--json").out)
        told = {name: value for name, value in found["settings"].items() if value}
        assert told == {"sections": ["models"], "hosts": ["steal.example"], "env": ["MY_KEY"]}
        (place.other / "planrunner.yaml").write_text("network: {private: [127.0.0.1]}\n")
        assert digest_of(place) != found["digest"]

    def test_their_policy_does_not_let_the_plan_run(self, place) -> None:
        (place.other / "planrunner.yaml").write_text("policy: {plans: {outside: allow, inside: allow}}\n")
        assert place("exec", place.plan()).code == 12

    def test_the_policy_of_the_working_directory_holds_beside_theirs(self, place) -> None:
        (place.other / "planrunner.yaml").write_text("policy: {capabilities: {allow: ['*']}}\n")
        (place.work / "planrunner.yaml").write_text("policy: {capabilities: {deny: [shell]}}\n")
        path = place.plan()
        done = place("exec", path, "--trust", digest_of(place))
        assert done.code == 12
        assert "planrunner.yaml denies `shell`" in done.err
        assert not (place.other / "made.txt").exists()

    @pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap shuts processes in")
    def test_their_policy_lets_nothing_more_into_the_sandbox(self, place) -> None:
        (place.other / "planrunner.yaml").write_text(f"policy: {{files: {{write: ['**', {place.home}]}}}}\n")
        path = place.plan(f"plan: p\ntasks:\n  - {{id: a, run: 'touch {place.home}/x', timeout: 1m}}\n")
        assert place("exec", path, "--trust", digest_of(place)).code != 0
        assert not (place.home / "x").exists()
        (place.work / "planrunner.yaml").write_text(f"policy: {{files: {{write: ['**', {place.home}]}}}}\n")
        assert place("exec", path, "--trust", digest_of(place)).code == 0


class TestPolicy:
    def test_outside_allow_lets_them_run_and_is_recorded(self, place) -> None:
        (place.work / "planrunner.yaml").write_text("policy: {plans: {outside: allow}}\n")
        assert place("exec", place.plan()).code == 0
        assert place.noted()["trust"] == {"origin": "outside", "digest": digest_of(place), "by": "policy"}

    def test_outside_deny_refuses_whatever_anybody_says(self, place) -> None:
        path = place.plan()
        assert place("trust", path, "--yes").code == 0
        (place.work / "planrunner.yaml").write_text("policy: {plans: {outside: deny}}\n")
        for words in (("exec", path), ("exec", path, "--trust", digest_of(place))):
            done = place(*words)
            assert done.code == 12
            assert "the policy refuses plans from outside the project" in done.err
            assert "policy: {plans: {outside: deny}} in planrunner.yaml" in done.err

    @pytest.mark.parametrize(
        ("user", "project", "code"), [("deny", "allow", 12), ("allow", "ask", 12), ("allow", "", 0)]
    )
    def test_the_strictest_of_the_users_and_the_projects_policy_counts(
        self, user: str, project: str, code: int, place
    ) -> None:
        config = place.home / ".config" / "planrunner" / "config.yaml"
        config.parent.mkdir(parents=True)
        config.write_text(f"policy: {{plans: {{outside: {user}}}}}\n")
        if project:
            (place.work / "planrunner.yaml").write_text(f"policy: {{plans: {{outside: {project}}}}}\n")
        assert place("exec", place.plan()).code == code

    def test_inside_ask_asks_about_plans_of_the_project_too(self, place) -> None:
        (place.work / "planrunner.yaml").write_text("policy: {plans: {inside: ask}}\n")
        (place.work / "own.yaml").write_text("plan: own\ntasks:\n  - {id: a, uses: noop, timeout: 1m}\n")
        done = place("exec", "own.yaml")
        assert done.code == 12
        assert "the policy asks for it" in done.err
        assert place("trust", "own.yaml", "--yes").code == 0
        assert place("exec", "own.yaml").code == 0
        assert place.noted()["trust"]["origin"] == "inside"


class TestTheStore:
    def test_trusted_once_it_runs_until_it_changes(self, place) -> None:
        path = place.plan()
        assert place("trust", path).code == 2  # nobody is here to ask
        assert place("trust", path, "--yes").code == 0
        assert place("exec", path).code == 0
        assert place.noted()["trust"]["by"] == "store"
        place.plan("plan: foreign\ntasks:\n  - {id: a, run: 'echo more', timeout: 1m}\n")
        done = place("exec", path)
        assert done.code == 12
        assert "it has changed since it was trusted" in done.err

    def test_the_same_plan_elsewhere_is_another_one(self, place) -> None:
        """What its commands start lies beside it, and is not what was looked at."""
        assert place("trust", place.plan(), "--yes").code == 0
        (place.folder / "third").mkdir()
        (place.folder / "third" / "p.yaml").write_bytes((place.other / "p.yaml").read_bytes())
        assert place("exec", "../third/p.yaml").code == 12

    def test_it_is_listed_and_forgotten_by_path_or_digest(self, place) -> None:
        path = place.plan()
        for named in (path, digest_of(place)):
            place("trust", path, "--yes")
            rows = json.loads(place("trust", "list", "--json").out)["trusted"]
            assert [(row["kind"], row["path"], row["digest"]) for row in rows] == [
                ("plan", str(place.other / "p.yaml"), digest_of(place))
            ]
            assert place("trust", "forget", named).code == 0
            assert place("exec", path).code == 12
        assert place("trust", "forget", path).code == 3
        assert place("trust", "list").out == "nothing is trusted\n"

    def test_a_record_that_others_could_have_written_counts_for_nothing(self, place) -> None:
        path = place.plan()
        place("trust", path, "--yes")
        folder = place.folder / "data" / "planrunner" / "trust"
        (record,) = folder.iterdir()
        assert record.stat().st_mode & 0o777 == 0o600
        assert folder.stat().st_mode & 0o777 == 0o700
        record.chmod(0o666)
        assert place("exec", path).code == 12

    def test_a_forged_record_counts_for_nothing(self, place) -> None:
        path = place.plan()
        place("trust", path, "--yes")
        (record,) = (place.folder / "data" / "planrunner" / "trust").iterdir()
        kept = json.loads(record.read_text())
        record.write_text(json.dumps({**kept, "text": kept["text"] + " "}))
        assert place("exec", path).code == 12

    def test_what_is_trusted_as_a_plan_is_no_trusted_plugin(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
        trust.trust(str(tmp_path / "x.py"), b"text", "plan")
        assert trust.trust_state(str(tmp_path / "x.py"), b"text", "plan") == "trusted"
        assert trust.trust_state(str(tmp_path / "x.py"), b"text") == "untrusted"


class TestTrustedProjects:
    def test_its_plans_run_from_anywhere_until_its_settings_change(self, place) -> None:
        (place.other / ".git").mkdir()
        path = place.plan()
        assert place("trust", "../other", "--yes").code == 0
        assert place("exec", str(place.other / "p.yaml"), cwd=Path("/")).code == 0
        place.plan("plan: foreign\ntasks:\n  - {id: a, run: 'echo more', timeout: 1m}\n")
        assert place("exec", path).code == 0
        (place.other / "planrunner.yaml").write_text("network: {private: [127.0.0.1]}\n")
        assert place("exec", path).code == 12

    def test_a_repository_inside_it_is_not_trusted_with_it(self, place) -> None:
        (place.other / "clone" / ".git").mkdir(parents=True)
        (place.other / "clone" / "p.yaml").write_bytes((place.other / place.plan()[9:]).read_bytes())
        assert place("trust", "../other", "--yes").code == 0
        assert place("exec", "../other/clone/p.yaml").code == 12

    def test_home_and_the_root_of_the_system_are_not_trusted_as_a_whole(self, place) -> None:
        for folder in (str(place.home), "/"):
            assert place("trust", folder, "--yes").code == 2


class TestGoingOn:
    GATE = (
        "plan: foreign\ntasks:\n"
        "  - {id: ask, gate: approval}\n"
        "  - {id: a, needs: [ask], run: 'echo made > made.txt', timeout: 1m}\n"
    )

    def waiting(self, place, *words: str) -> str:
        path = place.plan(self.GATE)
        assert place("exec", path, *words).code == 8
        assert place("approve", "last", "ask", USER="ana").code == 0
        return path

    def test_a_run_goes_on_with_what_was_said_when_it_began(self, place) -> None:
        path = place.plan(self.GATE)
        self.waiting(place, "--trust", digest_of(place))
        place.plan()  # another plan stands there now: the run keeps its own
        assert place("resume", "last").code == 0
        assert place.noted()["trust"]["by"] == "digest"
        assert path

    def test_it_does_not_go_on_when_trust_was_taken_back(self, place) -> None:
        place("trust", place.plan(self.GATE), "--yes")
        path = self.waiting(place)
        assert place("trust", "forget", path).code == 0
        for words in (("resume", "last"), ("rerun", "last", "ask"), ("retry", "last", "ask")):
            done = place(*words)
            assert done.code == 12
            assert "it is no longer trusted" in done.err
        assert not (place.work / "made.txt").exists()
        assert place("trust", path, "--yes").code == 0
        assert place("resume", "last").code == 0

    def test_what_the_state_directory_keeps_has_to_be_the_plan_that_was_looked_at(self, place) -> None:
        place.plan(self.GATE)
        self.waiting(place, "--trust", digest_of(place))
        (database,) = (each for each in (place.work / ".planrunner").iterdir() if each.name.endswith(".db"))
        with sqlite3.connect(database) as connection:
            connection.execute(
                "update plans set compiled = cast(replace(cast(compiled as text), 'made', 'evil') as blob)"
            )
        connection.close()
        assert place("resume", "last").code == 10
        assert not (place.work / "evil.txt").exists()

    @pytest.mark.parametrize("then", ["ask", "deny"])
    def test_it_does_not_go_on_when_the_policy_no_longer_lets_it(self, then: str, place) -> None:
        (place.work / "planrunner.yaml").write_text("policy: {plans: {outside: allow}}\n")
        self.waiting(place)
        (place.work / "planrunner.yaml").write_text(f"policy: {{plans: {{outside: {then}}}}}\n")
        assert place("resume", "last").code == 12
        assert not (place.work / "made.txt").exists()
        (place.work / "planrunner.yaml").write_text("policy: {plans: {outside: allow}}\n")
        assert place("resume", "last").code == 8  # the change of the policy has voided what was approved
        assert place("approve", "last", "ask", USER="ana").code == 0
        assert place("resume", "last").code == 0


class TestWhatItIsGiven:
    TELL = "plan: foreign\ntasks:\n  - {id: a, run: 'env > seen.txt', timeout: 1m}\n"

    def test_its_processes_get_only_the_basic_environment_also_after_a_resume(self, place) -> None:
        text = self.TELL.replace("tasks:\n", "tasks:\n  - {id: ask, gate: approval}\n").replace(
            "id: a,", "id: a, needs: [ask],"
        )
        path = place.plan(text)
        assert place("exec", path, "--trust", digest_of(place)).code == 8
        place("approve", "last", "ask", USER="ana")
        assert place("resume", "last", CANARY="sesame").code == 0
        seen = (place.work / "seen.txt").read_text()
        assert "PATH=" in seen
        assert "sesame" not in seen

    def test_plans_of_the_project_keep_the_whole_environment(self, place) -> None:
        (place.work / "own.yaml").write_text(self.TELL)
        assert place("exec", "own.yaml", CANARY="sesame").code == 0
        assert "CANARY=sesame" in (place.work / "seen.txt").read_text()


class TestAtATerminal:
    def test_yes_runs_it_once(self, place) -> None:
        path = place.plan()
        terminal = Terminal(place, "exec", path)
        shown = terminal.until("[y/N/a] ")
        assert "A plan from outside the project wants to run." in shown
        terminal.type("y")
        assert terminal.end() == 0
        assert place.noted()["trust"]["by"] == "asked"
        assert place("exec", path).code == 12

    def test_always_is_kept(self, place) -> None:
        path = place.plan()
        terminal = Terminal(place, "exec", path)
        terminal.until("[y/N/a] ")
        terminal.type("a")
        assert terminal.end() == 0
        assert place("exec", path).code == 0

    @pytest.mark.parametrize("answer", ["", "n", "no"])
    def test_anything_else_does_not_run_it(self, answer: str, place) -> None:
        terminal = Terminal(place, "exec", place.plan())
        terminal.until("[y/N/a] ")
        terminal.type(answer)
        assert terminal.end() == 12
        assert not (place.work / "made.txt").exists()

    def test_what_is_no_answer_is_asked_again(self, place) -> None:
        terminal = Terminal(place, "exec", place.plan())
        terminal.until("[y/N/a] ")
        terminal.type("yeah sure")
        terminal.until("[y/N/a] ")
        terminal.type("n")
        assert terminal.end() == 12

    @pytest.mark.parametrize("words", [("--no-input", "exec"), ("exec", "--unattended")])
    def test_nobody_is_asked_who_does_not_want_to_be(self, words: tuple[str, ...], place) -> None:
        terminal = Terminal(place, *words, place.plan())
        assert terminal.end() == 12
        assert "[y/N/a]" not in terminal.seen
