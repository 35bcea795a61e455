"""What is read of a script against what shells run of it: no command that runs is missed by a policy or by the look for
text from outside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rows import rows
from shell_scripts import SCRIPTS, UNSEEN
from shells_at_work import PROGRAMS, SHELLS, Bench

from planrunner.plan.patterns import Loose, words_may_match
from planrunner.plan.rights import CapabilityUse, Level, capability
from planrunner.plan.shell.commands import commands
from planrunner.plan.taint.positions import asks

VALUES = {"PR_0": "bb"}
VARIABLES = {**VALUES, "x": "bb cc"}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture(scope="module")
def one_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    yield Bench(tmp_path_factory.mktemp("bench"))


def verdict(said: dict[str, list[str]], script: str) -> str:
    entries = {key: [{"uses": "shell", "run": patterns}] for key, patterns in said.items()}
    use = CapabilityUse("shell", None, commands(script, VALUES), True, final=True)
    return capability([Level("x", {"capabilities": entries})], use).verdict


def patterns_for(call: tuple[str, ...]) -> list[str]:
    """Patterns of a policy that are about a call."""
    plain = all(word.split() == [word] and not set(word) & set("*?") for word in call)
    return [f"{call[0]} *", *([" ".join(call)] if plain else [])]


@rows("script", SCRIPTS)
def test_the_commands_of_a_script_are_told_or_nobody_can_tell_them(script: str) -> None:
    found = commands(script, VALUES)
    assert SCRIPTS[script] == (None if found is None else [" ".join(words) for words in found])


@rows("script", SCRIPTS)
@rows("shell", SHELLS)
def test_what_a_shell_runs_is_known_to_both_readings(shell: str, script: str, bench: Bench) -> None:
    for call in bench.ran(shell, script, VARIABLES):
        judged_by_policy(shell, script, call)
        if call[0] in ("aa", "bb", "cc") and call[0] in script and script not in UNSEEN:
            asking = script.replace(call[0], "curl")
            assert asks(asking), f"{shell} runs {call}"


@pytest.mark.parametrize("script", ["<<< x curl y", "<<E curl y\nE", "echo ${ curl y; }", "echo ${|curl y; }"])
def test_a_command_behind_what_it_reads_and_one_in_braces_is_read(script: str) -> None:
    assert asks(script)


def judged_by_policy(shell: str, script: str, call: tuple[str, ...]) -> None:
    for pattern in patterns_for(call):
        assert verdict({"deny": [pattern]}, script) == "deny", f"{shell} runs {call}"
    others = [f"{name} *" for name in PROGRAMS if name != call[0]]
    assert verdict({"allow": others}, script) == "deny", f"{shell} runs {call}"


PIECES = (
    'aa |bb |cc |aa|f1| | |\n|;|&|&&|>|<|>>|2>|>&|&>|1|2|\'|"|\\|\\\n|#|{|}|{ |; }|(|)|$|$x|"$x"|"${PR_0}"|`|$(|*|?|b*|'
    "[|]|~|{aa,bb}|! |if |then |; then |; fi|else |do |; done|for i in a; do |case a in a) |;; esac|[[ | ]]|f() { |x=1 |"
    "x=|x[0]=1 |=|export |PATH=|PR_0=bb |set -- |command |exec |time |\t|\r|\xa0|-p|-|--|{v}>|;;|<(|$'|é".split("|")
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(st.lists(st.sampled_from([*PIECES, "|", "||"]), max_size=9).map("".join))
def test_no_policy_misses_a_command_of_any_script(one_bench: Bench, script: str) -> None:
    if commands(script, VALUES) is None:
        return  # it counts as whatever is denied, and as nothing that is allowed
    for shell in SHELLS:
        for call in one_bench.ran(shell, script, VARIABLES):
            judged_by_policy(shell, script, call)


@given(st.lists(st.sampled_from([*PIECES, "|", "||", "<<E", "\nE\n", "<<<", "{{ x }}"]), max_size=60).map("".join))
def test_any_script_is_read_to_its_end(text: str) -> None:
    asks(text + " curl")
    for found in (commands(text), commands(text, VALUES)):
        assert found is None or all(words and all(isinstance(word, str) for word in words) for words in found)


@rows(
    ("script", "verdict_of_it"),
    [
        ("> \\\n x git push", "deny"),
        ("x &> y git push", "deny"),
        ("git pu*", "deny"),
        ("git *.py", "allow"),
        ("git p{ull,ush}", "deny"),
        ("git $how", "deny"),
        ('git "$@"', "deny"),
        ("/usr/bin/gi? push", "deny"),
        ('"gi\\\nt" push', "deny"),
        ("a[0]=1 git push", "deny"),
        ('export PR_""0=push; git "${PR_0}"', "deny"),
        ("export PATH=.; make", "deny"),
        ("shopt -s nullglob; git x* push", "deny"),
        ("hash -p /usr/bin/git make; make push", "deny"),
        ("yes | find . -ok git push ;", "deny"),
        ("rm *.o && git status", "allow"),
    ],
)
def test_no_spelling_of_a_denied_command_is_missed(script: str, verdict_of_it: str) -> None:
    assert verdict({"deny": ["git push *"]}, script) == verdict_of_it


def test_what_allows_a_pattern_of_files_allows_it_as_it_is_written() -> None:
    assert verdict({"allow": ["ls *", "rm build/*"]}, "ls *.py && rm build/*") == "allow"
    assert verdict({"allow": ["ls *"]}, "ls $where") == "deny"
    assert verdict({"allow": ["make", "if *"]}, "'if' make") == "deny"


@rows(
    ("shell", "told"),
    [("", True), ("bash", True), ("/bin/sh -eu", True), ("bash -o pipefail", True), ("python3", False), ("zsh", False),
     ("env git push", False), ("bash x.sh", False), ("sh -c make", False)],
)  # fmt: skip
def test_a_script_is_told_for_the_shells_that_read_it_so(shell: str, told: bool) -> None:
    assert (commands("make", None, shell) is not None) is told


@rows(
    ("pattern", "words", "may"),
    [
        ("rm -rf *", ("rm", Loose("*.o")), False),
        ("rm -rf *", ("rm", Loose("*")), True),
        ("rm x", ("rm", Loose("~/x")), True),
        ("cat secret/*", ("cat", Loose("s*")), True),
        ("cat secret/*", ("cat", Loose("src/*")), False),
        ("git push", ("git", Loose("{{}}"), "push"), True),
        ("git push", ("git", "push", Loose("{{}}")), True),
        ("git push", ("git", "*", "x"), False),
        ("git push *", ("git",), False),
    ],
)
def test_words_that_are_not_known(pattern: str, words: tuple[str, ...], may: bool) -> None:
    assert words_may_match(pattern, words) is may
