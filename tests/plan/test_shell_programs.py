"""What is told of the programs of a script, and of what they are given, against what shells run of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rows import rows
from shell_scripts import SCRIPTS, UNSEEN
from shells_at_work import SHELLS, Bench

from planrunner.app.proof.powers import programs
from planrunner.plan.model import Task
from planrunner.plan.shell.commands import passed_on

VALUE = "sesame"
VARIABLES = {"x": VALUE, "y": "bb", "PR_0": "bb"}
STARTING = frozenset("alias coproc env eval find nohup set sh sudo timeout trap xargs".split())
"""What starts programs that its arguments name: those are its own affair."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    yield Bench(tmp_path_factory.mktemp("bench"))


def named(script: str) -> list[str]:
    return programs(Task("a", uses="shell", run=script), "dash")


def readers(script: str) -> list[str]:
    """The shells that a script is for: to dash ``[[`` is a program that is not there."""
    return [shell for shell in SHELLS if shell == "bash" or "[[" not in script]


def all_are_named(bench: Bench, script: str) -> None:
    found = named(script)
    if any(name in STARTING or re.search(r"[$*?`{\[]", name) for name in found):
        return  # the name is made when it runs
    for shell in readers(script):
        for call in bench.ran(shell, script, VARIABLES):
            assert call[0] in found, f"{shell} runs {call}"


def leaks_are_told(bench: Bench, script: str) -> None:
    if any(name in STARTING for name in named(script)):
        return
    for shell in readers(script):
        for call in bench.ran(shell, script, VARIABLES):
            if any(VALUE in word for word in call[1:]):
                assert passed_on(script, "x") is not None, f"{shell} runs {call}"


@rows("script", sorted(SCRIPTS.keys() - UNSEEN))
def test_every_program_that_a_hard_script_runs_is_named(bench: Bench, script: str) -> None:
    all_are_named(bench, script)


@rows("script", [each for each in sorted(SCRIPTS.keys() - UNSEEN) if "aa" in each])
def test_every_program_of_a_hard_script_that_gets_a_variable_is_told(bench: Bench, script: str) -> None:
    leaks_are_told(bench, re.sub(r"\b(aa|bb)\b(?!\))", r'\1 "$x"', script))


LEAKS = {
    'aa "$x"': "aa",
    "aa a${x}b": "aa",
    "aa ${x:-bb}": "aa",
    "aa ${x-bb} ": "aa",
    'aa "${none:-$x}"': "aa",
    "aa ${none:-a$(bb $x)}": "bb",
    "aa `bb $x`": "bb",
    "aa `bb \\`cc $x\\``": "cc",
    'aa "$(bb "$x")"': "bb",
    "exec aa $x": "aa",
    "command aa $x": "aa",
    "time -p aa $x": "aa",
    "y=1 aa $x": "aa",
    "a[0]=1 aa $x": "aa",
    "case a in a) aa $x;; esac": "aa",
    "case $x in *) aa;; esac": None,
    "for i in $x; do aa; done": None,
    "f() { aa $1; }; f": None,
    "aa $xx ${xx} '$x' \\$x \"\\$x\" $'$x'": None,
    "aa ${#x} ${x:+a} ${x+a}": None,
    'aa <<< "$x" b': None,
    'aa b <<<"$x"': None,
    "aa <<E\n$x\nE": None,
    "aa <<'E'\naa $x\nE": None,
    "aa > $x": None,
    "aa < $x": None,
    "aa 2>&1 $x": "aa",
    'y="$x" aa': None,
    "y=$x; aa": None,
    "[ a = $x ] || aa": None,
    "[[ a < $x ]] || aa": None,
    'printf %s "$x" | aa': None,
    "aa # $x": None,
    "aa a#$x": "aa",
    "(aa $x)": "aa",
    "if ! aa $x; then bb; fi": "aa",
    "aa <(bb $x)": "bb",
    "aa \\\n $x": "aa",
    '"a"a $x': "aa",
}


@rows(("script", "program"), LEAKS.items())
def test_a_program_is_told_exactly_where_a_shell_hands_it_the_value(
    bench: Bench, script: str, program: str | None
) -> None:
    assert passed_on(script, "x") == program
    got = {call[0] for shell in SHELLS for call in bench.ran(shell, script, VARIABLES) if VALUE in " ".join(call[1:])}
    assert got == ({program} if program else set())


PIECES = (
    'aa |bb |cc |aa|f1| | |\n|;|&|&&|>|<|>>|2>|>&|1|\'|"|\\|\\\n|#|{ |; }|(|)|$x|"$x"|${x}|${none:-|}|`|$(|$((|*|!|'
    "if |then |; then |; fi|do |; done|case a in a) |;; esac|[[ | ]]|f() { |y=1 |y=|exec |command |time |\t|<<<|<<E|\nE\n|"
    "<(|$'|é|-".split("|")
)
HARD = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)


@HARD
@given(st.lists(st.sampled_from([*PIECES, "|", "||"]), max_size=9).map("".join))
def test_no_program_of_any_script_goes_unnamed(bench: Bench, script: str) -> None:
    all_are_named(bench, script)


@HARD
@given(st.lists(st.sampled_from([*PIECES, "|", "||"]), max_size=9).map("".join))
def test_no_program_of_any_script_gets_the_value_untold(bench: Bench, script: str) -> None:
    if "y=$x" not in script:
        leaks_are_told(bench, script)


@given(st.lists(st.sampled_from([*PIECES, "|", "||", "{{ x }}", "{%", "%}", "${ "]), max_size=60).map("".join))
def test_any_script_is_read_to_its_end(text: str) -> None:
    assert all(isinstance(name, str) and name for name in named(text + "\naa"))
    passed_on(text, "x")
