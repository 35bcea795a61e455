"""``planrunner capabilities NAME`` tells all there is to know before a task is written, with a task to copy."""

from __future__ import annotations

import json

import pytest

from planrunner.cli import main


def test_effect_risks_undo_fields_and_example_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capabilities", "files.write"]) == 0
    told = capsys.readouterr().out
    for part in ("files.write: ", "effect idempotent: ", "preview: yes; undo: exact", "inputs:", "outputs:", "example:",
                 "uses: files.write", "risks: "):  # fmt: skip
        assert part in told


def test_what_looks_has_nothing_to_undo_and_a_script_says_so_itself(capsys: pytest.CaptureFixture[str]) -> None:
    main(["capabilities", "files.read"])
    assert "undo: nothing to undo" in capsys.readouterr().out
    main(["capabilities", "shell"])
    told = capsys.readouterr().out
    assert "undo: the task says how, with `rollback`" in told
    assert "run: echo hello" in told


def test_the_name_of_a_family_lists_its_members(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capabilities", "docker"]) == 0
    told = capsys.readouterr().out
    assert "docker.build" in told
    assert "docker.tag" in told
    assert "files.read" not in told
    assert main(["capabilities", "docker", "--json"]) == 0
    assert {each["name"].partition(".")[0] for each in json.loads(capsys.readouterr().out)["capabilities"]} == {
        "docker"
    }


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("git.worktree", ["git.worktree_add", "git.worktree_remove"]),
        ("kubectl.rollout", ["kubectl.rollout_status", "kubectl.rollout_undo"]),
        ("docker.image", ["docker.image_remove"]),
    ],
)
def test_what_names_of_a_family_have_in_common_lists_them(
    capsys: pytest.CaptureFixture[str], name: str, found: list[str]
) -> None:
    assert main(["capabilities", name, "--json"]) == 0
    assert [each["name"] for each in json.loads(capsys.readouterr().out)["capabilities"]] == found


def test_a_capability_goes_before_the_group_that_is_named_so_and_a_dot_at_the_end_is_let_be(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["capabilities", "git.tag", "--json"]) == 0  # there is `git.tag_delete` too
    assert json.loads(capsys.readouterr().out)["name"] == "git.tag"
    assert main(["capabilities", "docker."]) == 0
    assert "docker.tag" in capsys.readouterr().out


def test_the_beginning_of_a_word_is_no_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["capabilities", "git.work"]) == 3
    assert "no installed capability is named `git.work`" in capsys.readouterr().err
