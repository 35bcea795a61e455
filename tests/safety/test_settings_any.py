"""Whatever stands in the files of a project's settings, reading them gives findings or data: no traceback, no endless
wait."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from planrunner import caller
from planrunner.errors import PlanInvalid, UsageError
from planrunner.safety.content import SECTIONS
from planrunner.safety.project import check_files, read_located, read_project, read_settings
from planrunner.syntax.notations import write
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

ROUNDS = int(os.environ.get("PLANRUNNER_SETTINGS", "30"))

WORDS = st.sampled_from(
    [*SECTIONS, "ci", "dev", "none", "fast", "id", "uses", "default", "fallback", "description", "task_store", "a.yaml",
     "b.yaml", "planrunner.yaml", "../x", "plan", "max_parallel", "network", "allow", "", "*", "provider", "ollama"]
)  # fmt: skip
LEAVES = st.one_of(WORDS, st.text(max_size=8), st.integers(), st.floats(), st.booleans(), st.none())
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(WORDS | st.text(max_size=6), inner, max_size=5)
    ),
    max_leaves=25,
)
FILES = st.dictionaries(st.sampled_from(SECTIONS), VALUES, max_size=8)


def tree(value: object) -> Node:
    if isinstance(value, dict):
        return Mapping([(Scalar(str(key), 0, 0), tree(each)) for key, each in value.items()], 0, 0)
    if isinstance(value, list):
        return Sequence([tree(each) for each in value], 0, 0)
    return Scalar(value, 0, 0)  # type: ignore[arg-type]


def read_all(files: dict[str, bytes], profile: str | None = None) -> None:
    """Read the settings in every way there is; only the errors that people are told may come of it."""
    before = {name: os.environ.get(name) for name in ("XDG_CONFIG_HOME", caller.PROFILE_VARIABLE)}
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        os.environ["XDG_CONFIG_HOME"] = folder
        os.environ.pop(caller.PROFILE_VARIABLE, None)
        if profile is not None:
            os.environ[caller.PROFILE_VARIABLE] = profile or caller.NO_PROFILE
        try:
            for read in (check_files, read_settings, read_located, read_project):
                try:
                    found = read(folder)
                except (PlanInvalid, UsageError) as error:
                    assert str(error)
                    continue
                if read is check_files:
                    places = [file.source.place(each.span.start) for file in found for each in file.findings]  # type: ignore[attr-defined]
                    assert all(line >= 1 and column >= 1 for line, column in places)
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


@settings(max_examples=ROUNDS)
@given(first=st.binary(max_size=200), second=st.binary(max_size=200))
@example(first=b"include: a.yaml\n", second=b"include: \xff\n")
@example(first=b"include: [a.yaml\n", second=b"")
@example(first=b"\0", second=b"")
@example(first=b"profiles: {ci: &a [*a]}\n", second=b"")
def test_any_bytes_are_read(first: bytes, second: bytes) -> None:
    read_all({"planrunner.yaml": first, "a.yaml": second})


@settings(max_examples=ROUNDS * 3)
@given(first=FILES, second=FILES, profile=st.sampled_from([None, "", "ci", "gone"]))
def test_any_sections_in_any_files_are_read(
    first: dict[str, object], second: dict[str, object], profile: str | None
) -> None:
    first = {**first, "include": "a.yaml"}
    read_all({name: write(tree(data), "yaml").encode("utf-8", "replace") for name, data in
              (("planrunner.yaml", first), ("a.yaml", second))}, profile)  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "models: {" + ", ".join(f"m{at}: {{fallback: [x{at}]}}" for at in range(20_000)) + "}\n",
        "agents: {" + ", ".join(f"m{at}: {{model: x{at}}}" for at in range(20_000)) + "}\n",
        "profiles: {" + ", ".join(f"p{at}: {{models: {{a: null}}}}" for at in range(20_000)) + "}\nmodels: {"
        + ", ".join(f"m{at}: {{provider: ollama, model: x}}" for at in range(20_000)) + "}\n",
        "include: [" + ", ".join(f"x{at}.yaml" for at in range(20_000)) + "]\n",
        "profiles: {" + "a: {profiles: {" * 25 + "}}" * 25 + "}\n",
    ],
    ids=["fallbacks", "agents", "profiles", "includes", "deep"],
)  # fmt: skip
def test_what_is_large_and_wrong_ends_soon_and_with_few_findings_of_names(text: str, tmp_path: Path) -> None:
    (tmp_path / "planrunner.yaml").write_text(text)
    [file] = check_files(str(tmp_path))
    assert sum(each.code in ("PLAN841", "PLAN844") for each in file.findings) <= 200
