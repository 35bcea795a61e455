"""Outside the directory of its run a task acts only where somebody said so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from trust_terminal import Terminal

ELSEWHERE = "plan: own\ntasks:\n  - {id: a, run: 'echo made > made.txt', cwd: WHERE, timeout: 1m}\n"


def own(place, text: str, where: str = "../other") -> str:
    (place.work / "own.yaml").write_text(text.replace("WHERE", where))
    return "own.yaml"


def refused(place) -> dict[str, str]:
    """How the task of the last run was refused, as the journal tells it."""
    rows = [json.loads(line) for line in place("events", "last", "--json", "--type", "attempt_ended").out.splitlines()]
    return next(row["outcome"] for row in rows if "outcome" in row)


class TestBeforeTheStart:
    def test_a_task_that_works_outside_is_refused_with_the_option_and_the_line(self, place) -> None:
        done = place("exec", own(place, ELSEWHERE))
        assert done.code == 12
        assert "`own.yaml` acts outside the project (cwd of `a`: ../other)" in done.err
        line = f"policy: {{files: {{write: ['**', {place.other}]}}}}"
        assert f"allow it with --allow-outside {place.other}, or in planrunner.yaml: {line}" in done.err
        assert "reaches out ../other (cwd of a)" in done.err
        assert not (place.other / "made.txt").exists()

    def test_the_option_lets_it_and_the_record_says_so(self, place) -> None:
        assert place("exec", own(place, ELSEWHERE), "--allow-outside", "../other").code == 0
        assert (place.other / "made.txt").exists()
        assert place.noted()["outside"] == [str(place.other)]

    def test_a_folder_is_allowed_with_all_that_lies_in_it_and_nothing_beside_it(self, place) -> None:
        (place.other / "deep").mkdir()
        assert place("exec", own(place, ELSEWHERE, "../other/deep"), "--allow-outside", "../other").code == 0
        assert place("exec", own(place, ELSEWHERE, "../house"), "--allow-outside", "../other").code == 12

    def test_the_line_of_the_policy_lets_it(self, place) -> None:
        policy = f"policy: {{files: {{write: ['**', {place.other}]}}}}\n"
        (place.work / "planrunner.yaml").write_text(policy)
        assert place("exec", own(place, ELSEWHERE)).code == 0

    def test_any_number_of_folders_in_a_pattern_does_not_name_what_lies_outside(self, place) -> None:
        (place.work / "planrunner.yaml").write_text("policy: {files: {write: '**'}}\n")
        assert place("exec", own(place, ELSEWHERE)).code == 12

    def test_at_a_terminal_it_is_asked(self, place) -> None:
        terminal = Terminal(place, "exec", own(place, ELSEWHERE))
        shown = terminal.until("[y/N/a] ")
        assert "A plan of the project wants to act outside of it." in shown
        terminal.type("y")
        assert terminal.end() == 0
        assert place.noted()["outside"] == [str(place.other)]

    def test_whoever_trusts_a_plan_by_its_digest_has_seen_where_it_acts(self, place) -> None:
        path = own(place, ELSEWHERE)
        digest = json.loads(place("trust", path, "--json").out)["digest"]
        assert place("exec", path, "--trust", digest).code == 0

    def test_a_policy_that_lets_plans_from_outside_run_does_not_let_them_act_anywhere(self, place) -> None:
        (place.work / "planrunner.yaml").write_text("policy: {plans: {outside: allow}}\n")
        assert place("exec", place.plan(ELSEWHERE.replace("WHERE", "../house"))).code == 12

    def test_a_parameter_may_lead_outside_too(self, place) -> None:
        text = "plan: own\nparams: {to: {type: string, default: sub}}\n" + ELSEWHERE.partition("\n")[2]
        (place.work / "sub").mkdir()
        path = own(place, text, '"{{ params.to }}"')
        assert place("exec", path).code == 0
        assert place("exec", path, "-p", f"to={place.other}").code == 12
        assert place("exec", path, "-p", f"to={place.work}/sub").code == 0

    def test_an_output_that_is_read_from_outside_is_refused(self, place) -> None:
        (place.other / "secret.txt").write_text("sesame")
        text = "plan: own\ntasks:\n  - {id: a, run: 'true', timeout: 1m, outputs: [{name: x, type: string, path: WHERE}]}\n"
        done = place("exec", own(place, text, "../other/secret.txt"))
        assert done.code == 12
        assert "sesame" not in done.err
        assert place("exec", own(place, text, "../other/secret.txt"), "--allow-outside", "../other").code == 0


class TestWhileItRuns:
    LATE = (
        "plan: own\ntasks:\n"
        "  - {id: where, run: 'printf WHERE', stdout: text, timeout: 1m}\n"
        '  - {id: a, needs: [where], run: "echo made > made.txt", cwd: "{{ tasks.where.stdout }}", timeout: 1m}\n'
    )

    def test_a_place_that_is_known_only_then_is_refused_by_its_rule(self, place) -> None:
        done = place("exec", own(place, self.LATE, str(place.other)))
        assert done.code == 12
        rows = place("events", "last", "--json", "--type", "attempt_ended", "--task", "a").out.splitlines()
        outcome = next(json.loads(row)["outcome"] for row in rows if "outcome" in json.loads(row))
        assert (outcome["failure"], outcome["rule"]) == ("policy", "trust.outside")
        assert f"`planrunner exec --allow-outside {place.other}` lets it" in outcome["message"]
        assert f"`policy: {{files: {{write: ['**', {place.other}]}}}}`" in outcome["message"]
        assert not (place.other / "made.txt").exists()
        assert place("replay", "last").code == 0

    def test_what_was_allowed_at_the_start_holds(self, place) -> None:
        assert place("exec", own(place, self.LATE, str(place.other)), "--allow-outside", str(place.other)).code == 0

    def test_a_link_inside_the_project_counts_as_what_it_leads_to(self, place) -> None:
        (place.work / "link").symlink_to(place.other)
        done = place("exec", own(place, ELSEWHERE, "link"))
        assert done.code == 12
        assert refused(place)["rule"] == "trust.outside"
        assert not (place.other / "made.txt").exists()

    def test_folders_of_the_project_need_no_word(self, place) -> None:
        (place.work / "sub" / "deep").mkdir(parents=True)
        for where in ("sub", "sub/deep/..", "./sub", str(place.work / "sub")):
            assert place("exec", own(place, ELSEWHERE, where)).code == 0, where
            assert not {"trust", "outside"} & place.noted().keys()

    @pytest.mark.parametrize(
        "call",
        [
            "uses: files.write, with: {path: ../other/x, content: hi}",
            "uses: files.read, with: {path: /etc/hostname}",
            "uses: sql.query, with: {database: 'sqlite:///../other/x.db', statement: 'select 1'}",
        ],
    )
    def test_capabilities_refuse_paths_that_lead_out_whatever_is_allowed(self, call: str, place) -> None:
        path = own(place, f"plan: own\ntasks:\n  - {{id: a, {call}, timeout: 1m}}\n")
        done = place("exec", path, "--allow-outside", "/")
        assert done.code == 12, done.err
        assert refused(place)["rule"] == "files.beneath"

    def test_a_state_directory_elsewhere_changes_nothing(self, place, tmp_path: Path) -> None:
        assert place("--state", str(tmp_path / "state"), "exec", own(place, ELSEWHERE)).code == 12
        (place.work / "sub").mkdir()
        assert place("--state", str(tmp_path / "state"), "exec", own(place, ELSEWHERE, "sub")).code == 0


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap shuts processes in")
class TestShutIn:
    """A plan from outside runs in a sandbox; so does one of the project where the policy says something of files."""

    def test_a_place_that_was_allowed_is_let_in_and_nothing_beside_it(self, place) -> None:
        text = "plan: p\ntasks:\n  - {id: a, run: 'echo x > made.txt; ! touch ../HOUSE/x', cwd: WHERE, timeout: 1m}\n"
        (place.folder / "third").mkdir()
        path = place.plan(text.replace("WHERE", "../third").replace("HOUSE", place.home.name))
        digest = json.loads(place("trust", path, "--json").out)["digest"]
        done = place("exec", path, "--trust", digest)
        assert done.code == 0, done.err
        assert (place.folder / "third" / "made.txt").exists()
        assert not (place.home / "x").exists()

    def test_without_a_word_it_is_refused_there_too(self, place) -> None:
        (place.work / "planrunner.yaml").write_text("policy: {plans: {outside: allow}}\n")
        text = TestWhileItRuns.LATE.replace("WHERE", str(place.home))
        assert place("exec", place.plan(text)).code == 12
        assert not (place.home / "made.txt").exists()
