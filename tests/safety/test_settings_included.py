"""A project's settings in several files: what may be included, how files are put together, where findings point."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from planrunner.errors import PlanInvalid, UsageError
from planrunner.safety.project import check_files, read_data, read_project, settings_files, unsound

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "of-the-user"))
    root = tmp_path / "project"
    root.mkdir()

    def put(**files: str) -> Path:
        for name, text in files.items():
            path = root / f"{name.replace('__', '/')}.yaml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return root

    return put


def findings(root: Path) -> list[tuple[str, str, str]]:
    """Place, code and message of each finding."""
    found = []
    for file in check_files(str(root)):
        for each in file.findings:
            line, column = file.source.place(each.span.start)
            found.append((f"{os.path.relpath(file.source.name, root)}:{line}:{column}", each.code, each.message))
    return found


OLLAMA = "{provider: ollama, model: m}"


def test_sections_of_several_files_are_put_together_key_by_key_and_lists_one_after_the_other(write: Write) -> None:
    root = write(
        planrunner=f"include: [config/a.yaml, config/b.yaml]\nmodels: {{one: {OLLAMA}}}\n",
        config__a=f"models: {{two: {OLLAMA}}}\ntools: [{{id: x, uses: files.read}}]\n",
        config__b="include: config/deep/c.yaml\ntools: [{id: y, uses: files.read}]\n",
        config__deep__c="people: {ana: release}\n",
    )
    data = read_data(str(root))
    assert list(data["models"]) == ["one", "two"]
    assert [each["id"] for each in data["tools"]] == ["x", "y"]
    assert data["people"] == {"ana": "release"}
    assert settings_files(str(root)) == ("planrunner.yaml", "config/a.yaml", "config/b.yaml", "config/deep/c.yaml")


@pytest.mark.parametrize(
    ("include", "said"),
    [
        ("../outside.yaml", "leads out of the project"),
        ("config/../../outside.yaml", "leads out of the project"),
        ("/etc/passwd", "leads out of the project"),
        ("~/x.yaml", "leads out of the project"),
        ("gone.yaml", "there is no such file"),
        ("link.yaml", "it is a link"),
        ("linked/a.yaml", "a link or no folder"),
        ("folder", "Is a directory"),
        ("pipe", "not a regular file"),
        ("socket", "No such device"),
        ("'.'", "names no file"),
        ("''", "names no file"),
        ('"a\\0b"', "names no file"),
        ("planrunner.yaml", "includes itself: planrunner.yaml → planrunner.yaml"),
        ("circle.yaml", "includes itself: planrunner.yaml → circle.yaml → planrunner.yaml"),
        ("[sound.yaml, ./sound.yaml]", "is included already, at planrunner.yaml:1:11"),
        ("deep1.yaml", "is included too deep: planrunner.yaml → deep1.yaml → deep2.yaml → deep3.yaml"),
        (f"[{', '.join(f'many{at}.yaml' for at in range(40))}]", "is one file too many"),
    ],
)
def test_what_cannot_be_included_is_a_finding_where_it_is_named(write: Write, include: str, said: str) -> None:
    root = write(
        planrunner=f"include: {include}\n",
        circle="include: planrunner.yaml\n",
        sound="people: {ana: release}\n",
        deep1="include: deep2.yaml\n",
        deep2="include: deep3.yaml\n",
        deep3="include: deep4.yaml\n",
        deep4="people: {}\n",
        **{f"many{at}": "# nothing\n" for at in range(40)},
    )
    (root.parent / "outside.yaml").write_text("people: {eve: release}\n")
    (root / "link.yaml").symlink_to("sound.yaml")
    (root / "folder").mkdir()
    (root / "linked").symlink_to(root.parent)
    (root.parent / "a.yaml").write_text("people: {eve: release}\n")
    os.mkfifo(root / "pipe")
    here = os.getcwd()
    os.chdir(root)  # the name of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("socket")
    finally:
        os.chdir(here)
    found = [each for each in findings(root) if each[1] == "PLAN842"]
    assert found, findings(root)
    assert all(said in message for _, _, message in found)
    with pytest.raises(PlanInvalid):
        read_data(str(root))


def test_all_files_together_are_no_larger_than_a_plan_may_be(write: Write) -> None:
    large = "#" * (5 << 20) + "\n"
    root = write(planrunner="include: [a.yaml, b.yaml]\n", a=large, b=large)
    [(place, code, message)] = findings(root)
    assert (place, code) == ("planrunner.yaml:1:19", "PLAN842")
    assert "too large" in message


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        (f"models: {{fast: {OLLAMA}}}\n", f"models: {{fast: {OLLAMA}}}\n", "`fast` of `models` stands at planrunner.yaml:2:10"),
        ("profile: ci\nprofiles: {ci: {}}\n", "profile: ci\n", "cannot be put together"),
        ("tools: []\n", "tools: {}\n", "`tools` stands at planrunner.yaml:2:1 already, and the two cannot be put"),
        ("tools: [{id: x, uses: noop}]\n", "tools: [{id: x, uses: noop}]\n", "`x` of `tools` stands at planrunner.yaml:2:14"),
        ("policy: {network: {allow: []}}\n", "policy: {network: {allow: ['*']}}\n", "`network` of `policy` stands at"),
    ],
)  # fmt: skip
def test_what_stands_in_two_files_is_an_error_that_names_both_places(
    write: Write, first: str, second: str, said: str
) -> None:
    root = write(planrunner=f"include: a.yaml\n{first}", a=second)
    [(place, _, message)] = [each for each in findings(root) if each[1] == "PLAN843"]
    assert place.startswith("a.yaml:1:")
    assert said in message


def test_a_fault_in_an_included_file_is_told_with_that_files_place(write: Write) -> None:
    root = write(
        planrunner="include: config/a.yaml\n", config__a="# ours\nmodels:\n  fast: {provider: opnai, model: x}\n"
    )
    [(place, code, message)] = findings(root)
    assert (place, code) == ("config/a.yaml:3:20", "PLAN006")
    assert "did you mean `openai`?" in message
    with pytest.raises(PlanInvalid) as raised:
        read_data(str(root))
    assert "config/a.yaml` is not sound: line 3, column 20" in unsound(raised.value)


def test_a_pipe_in_the_place_of_the_file_is_an_error_and_nobody_waits(write: Write) -> None:
    root = write()
    os.mkfifo(root / "planrunner.yaml")
    with pytest.raises(UsageError, match="not a regular file"):
        check_files(str(root))


def test_an_approval_is_bound_to_included_files_as_well(write: Write) -> None:
    root = write(planrunner="include: a.yaml\n", a="network: {private: [127.0.0.1]}\n")
    before = read_project(str(root)).digest
    write(a="network: {private: [127.0.0.2]}\n")
    after = read_project(str(root)).digest
    assert before != after
    write(planrunner="network: {private: [127.0.0.2]}\n")
    assert read_project(str(root)).digest == after  # what is said counts, not the file it stands in


def test_the_printed_shapes_of_manifests_load(write: Write) -> None:
    root = write(
        planrunner="include: [config/memory.yaml, config/scheduler.yaml]\n",
        config__memory="""
memory:
  task_store:
    backend: "file"  # or "sqlite"
    retention:
      max_items: 1000
  project_store:
    backend: "sqlite"
    retention:
      max_items: 5000
  global_store:
    backend: "sqlite"
    retention:
      max_items: 10000
""",
        config__scheduler="""
scheduler:
  enabled: true                 # Default: true
  max_concurrency: 1            # v1 default (sequential)
  queue_policy: "fifo"          # ONLY policy in v1
  max_queue_size: 100           # Optional; null = unbounded
  rate_limit:
    requests_per_minute: 60
    burst: 10
""",
    )
    assert not findings(root)
    assert read_data(str(root))["memory"]["global_store"]["retention"] == {"max_items": 10000}


def test_what_was_read_before_holds_only_while_every_byte_of_it_is_the_same(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    def models(text: str | None = None) -> list[str]:
        return sorted(read_data(str(root if text is None else write(planrunner=text)))["models"])

    root = write(planrunner=f"models: {{a: {OLLAMA}}}\n")
    assert models() == models() == ["a"]
    read_data(str(root))["models"]["x"] = {}
    assert models() == ["a"]
    assert models(f"models: {{b: {OLLAMA}}}\n") == ["b"]
    assert models(f"models: {{b: {OLLAMA}}}\nprofiles: {{ci: {{models: {{c: {OLLAMA}}}}}}}\n") == ["b"]
    monkeypatch.setenv("PLANRUNNER_PROFILE", "ci")
    assert models() == ["b", "c"]
    mine = root.parent / "of-the-user/planrunner/config.yaml"
    mine.parent.mkdir(parents=True)
    mine.write_text(f"models: {{d: {OLLAMA}}}\n")
    assert models() == ["b", "c", "d"]
    mine.unlink()
    assert models() == ["b", "c"]
    for name in ("e", "f"):
        (root / "inner.yaml").write_text(f"models: {{{name}: {OLLAMA}}}\n")
        assert models(f"include: inner.yaml\nprofiles: {{ci: {{models: {{c: {OLLAMA}}}}}}}\n") == ["c", name]
    (root / "planrunner.yaml").unlink()
    with pytest.raises(UsageError):
        models()
