"""Two readers of the same arguments: the quick one may give up, and must never read something else than click."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planrunner.cli import group, quick, running
from planrunner.cli.options import ExecOptions, ResumeOptions
from planrunner.cli.settings import Settings, settings

ORDINARY = [
    "exec p.yaml",
    "run p.yaml --json",
    "-C . exec p.yaml",
    "exec p.yaml -p a=1 -p b=2 --param c=x=y",
    "exec -p a= p.yaml",
    "exec p.yaml --param=a=1",
    "exec p.yaml --only x --only y --until z",
    "exec p.yaml --only=x",
    "exec --max-parallel 4 p.yaml --seed=7",
    "exec p.yaml --dry-run --json --progress quiet",
    "exec p.yaml --progress=tree --no-wait",
    "exec p.yaml --unattended",
    "exec p.yaml --params-file f.json",
    "--state /s exec p.yaml",
    "--state=/s --color never --no-input exec p.yaml",
    "--color=always exec p.yaml",
    "exec p.yaml --progress plain --progress jsonl",
    "resume last",
    "resume last --json --settle a=retry --settle b=completed --progress plain",
    "resume 2026 --settle=a=failed",
]
UNUSUAL = [
    "-C",
    "exec --help",
    "exec p.yaml -h",
    "exec a b",
    "exec p.yaml -p",
    "exec p.yaml -p a",
    "exec p.yaml -p =1",
    "exec p.yaml -pa=1",
    "exec p.yaml -p -x=1",
    "exec p.yaml --only -x",
    "exec -- p.yaml",
    "exec p.yaml --max-parallel 0",
    "exec p.yaml --max-parallel x",
    "exec p.yaml --max-parallel ٣",
    "exec p.yaml --seed -1",
    "exec p.yaml --progress fancy",
    "exec p.yaml --unknown",
    "exec p.yaml --dry-run=yes",
    "exec p.yaml --js",
    "--color pink exec p.yaml",
    "--unknown exec p.yaml",
    "--version exec p.yaml",
    "--state exec",
    "resume",
    "resume last --settle a=maybe",
    "resume last other",
    "lint p.yaml",
    "--state /s",
]


def _plain(call):
    """A call as data: options are plain objects without equality."""
    return call and [(type(part).__name__, {name: getattr(part, name) for name in part.__slots__}) for part in call]


@pytest.fixture
def click_reads(monkeypatch):
    """What click makes of the arguments: the call it would have led to, or its exit code."""
    return _click_reader(monkeypatch)


def _click_reader(monkeypatch):
    calls = []

    def remember(given, options):
        calls.append(_plain((given, options)))
        return 0

    monkeypatch.setattr(running, "exec_plan", remember)
    monkeypatch.setattr(running, "resume_run", remember)

    def read(arguments):
        calls.clear()
        code = group.run(arguments, [])
        return calls[0] if calls else code

    return read


@pytest.mark.parametrize("line", ORDINARY)
def test_ordinary_calls_are_read_without_click_and_mean_the_same(line, click_reads):
    found = quick.read(line.split())
    assert found is not None
    assert _plain(found) == click_reads(line.split())


@pytest.mark.parametrize("line", UNUSUAL)
def test_help_mistakes_and_rare_spellings_are_left_to_click(line):
    assert quick.read(line.split()) is None


def test_no_argument_vector_is_read_in_two_ways(click_reads, capsys):
    """Every order of a set of words that are valid, half valid and wrong."""
    words = [
        "exec",
        "resume",
        "p.yaml",
        "-p",
        "a=1",
        "--only",
        "--json",
        "--max-parallel",
        "2",
        "--state",
        "--progress=plain",
    ]
    for size in (1, 2, 3):
        for arguments in itertools.permutations(words, size):
            found = quick.read(list(arguments))
            if found is not None:
                assert _plain(found) == click_reads(list(arguments)), arguments
    capsys.readouterr()


@given(
    st.lists(st.sampled_from(["exec", "p.yaml", "-p", "a=b", "--param=x=y", "--dry-run", "--only", "t", "--seed", "3"]))
)
def test_whatever_the_quick_reader_accepts_click_reads_the_same(arguments):
    found = quick.read(list(arguments))
    if found is not None:
        with pytest.MonkeyPatch.context() as patch:
            assert _plain(found) == _click_reader(patch)(list(arguments))


def test_the_environment_names_the_state_directory_where_no_option_does(monkeypatch):
    monkeypatch.setenv("PLANRUNNER_STATE", "/elsewhere")
    assert _plain(quick.read(["exec", "p"])) == _plain((Settings("/elsewhere"), ExecOptions("p")))
    assert _plain(quick.read(["--state", "/here", "resume", "r"])) == _plain((settings("/here"), ResumeOptions("r")))
