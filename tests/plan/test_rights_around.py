"""Patterns of commands against what stands around a command: variables that make it another, the folder it works in."""

from __future__ import annotations

from typing import Any

from rows import rows

from planrunner.plan.rights import CapabilityUse, Level, capability
from planrunner.plan.shell.commands import commands
from planrunner.plan.shell.variables import set_in, steers


def verdict(said: Any, script: str, final: bool = True, values: Any = None, **around: Any) -> str:
    use = CapabilityUse("shell", None, commands(script, (values or {}) if final else None), True, final, **around)
    return capability([Level("x", {"capabilities": said})], use).verdict


def about(pattern: Any) -> list[Any]:
    return [{"uses": "shell", "run": pattern}]


def test_a_variable_that_makes_commands_others_makes_a_script_that_nobody_can_tell() -> None:
    assert verdict({"allow": about("ls *")}, "ls -l") == "allow"
    assert verdict({"allow": about("ls *")}, "ls -l", steered="PATH") == "deny"
    assert verdict({"deny": about("git push *")}, "ls -l", steered="PATH") == "deny"
    assert verdict({"ask": about("git push *")}, "ls -l", steered="PATH") == "ask"
    assert verdict({"allow": about("*")}, "ls -l", steered="PATH") == "allow"
    assert verdict({"deny": ["git.*"]}, "ls -l", steered="PATH") == "allow", "no entry is about commands"


@rows("name", ["PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "BASH_ENV", "ENV", "PS4", "PROMPT_COMMAND", "CDPATH"])
def test_variables_that_make_commands_others(name: str) -> None:
    assert steers(name)
    assert not steers(f"MY_{name}")


@rows(
    ("run", "names"),
    [
        ("LD_PRELOAD=x env", ["LD_PRELOAD"]),
        ("A=1 B+=2 make C=3", ["A", "B"]),
        ("export A=1 B; make", ["A"]),
        ("env -i A=1 make", ["A"]),
        ("if true; then x=$(A=1 make); fi", ["A", "x"]),
        ("for f in *; do A=1 make; done", ["A"]),
        ("echo A=1 'B=2 make'", []),
        (("env", "A=1", "make"), ["A"]),
        (("make", "A=1"), []),
        (None, []),
    ],
)
def test_the_variables_that_a_script_sets(run: Any, names: list[str]) -> None:
    assert sorted(set_in(run)) == names


def test_a_script_for_another_interpreter_sets_no_variables() -> None:
    assert not [*set_in("A=1", "python3")]
    assert [*set_in("A=1", "/usr/bin/env bash")] == ["A"]


@rows(
    ("script", "denied"),
    [
        ('A=-exec; find . "$A" git push ";"', True),
        ("find . $A git push", True),
        ('find "$A" -name x', True),
        ('find . -name "$A"', False),
        ('find . -name -name "$A" git push', True),
        ('find . -ex"$A" git push', True),
        ('find "src/$A"', False),
        ("find src/$A", True),
        ("find src/*", False),
        ("find *.py", False),
        ("find *", True),
        ('find *e -name "$A" git push', True),
        ('/usr/bin/find "$A"', True),
    ],
)
def test_an_action_of_find_may_hide_in_a_word_that_is_not_known(script: str, denied: bool) -> None:
    assert verdict({"deny": about("git push *")}, script) == ("deny" if denied else "allow")


def test_a_word_of_find_with_a_template_is_judged_when_its_value_is_there() -> None:
    said = {"deny": about("git push *")}
    assert verdict(said, "find {{ params.where }}", final=False) == "allow"
    assert verdict(said, 'find "${PR_0}"', values={"PR_0": "src"}) == "allow"
    assert verdict(said, 'find "${PR_0}" git push', values={"PR_0": "-exec"}) == "deny"


@rows(
    ("pattern", "script", "elsewhere", "said"),
    [
        ("./build.sh *", "./build.sh all", False, "allow"),
        ("./build.sh *", "./build.sh all", True, "deny"),
        ("tools/build.sh *", "tools/build.sh all", True, "deny"),
        ("/opt/build.sh *", "/opt/build.sh all", True, "allow"),
        ("make *", "make all", True, "allow"),
        (["./build.sh *", "cd *"], "cd other && ./build.sh all", False, "deny"),
        (["./build.sh *", "pushd *"], "pushd other; ./build.sh all", False, "deny"),
        (["make *", "cd *"], "cd other && make all", False, "allow"),
        ("*", "./build.sh all", True, "allow"),
    ],
)
def test_a_relative_path_that_allows_counts_from_where_the_run_works(
    pattern: Any, script: str, elsewhere: bool, said: str
) -> None:
    assert verdict({"allow": about(pattern)}, script, elsewhere=elsewhere) == said
    denies = {"deny": about(pattern)}
    assert verdict(denies, script, elsewhere=True) == "deny", "what denies is about every program of that name"
