"""What levels of policy say to a call: every level may take rights away, none gives any back."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from rows import rows

from planrunner.files.match import name_matches, path_matches
from planrunner.plan.patterns import words_match
from planrunner.plan.rights import CapabilityUse, Decision, Level, capability, host, named, path
from planrunner.plan.shell.commands import commands

PUSH = {"uses": "shell", "run": "git push *"}


def level(section: str, said: Any, name: str = "x") -> Level:
    return Level(name, {section: said})


def shell(said: Any, script: str, values: dict[str, str] | None = None, final: bool = False) -> str:
    use = CapabilityUse("shell", None, commands(script, values if final else None), True, final)
    return capability([level("capabilities", said)], use).verdict


@rows(
    ("script", "verdict"),
    [
        ("git push origin", "deny"),
        ("/usr/bin/git push", "deny"),
        ("make && git push", "deny"),
        ("if true; then git push; fi", "deny"),
        ("sh -c 'git push'", "deny"),
        ("env GIT_DIR=x git push", "deny"),
        ("echo $(git push)", "deny"),
        ("p=push; git $p", "allow"),  # decided when the value is there
        ("git pull", "allow"),
        ("echo 'git push'", "allow"),
        ("make", "allow"),
        ("# git push\nmake", "allow"),
        ("FOO=1 make > out.txt 2>&1", "allow"),
        ("PATH=. make", "deny"),
    ],
)
def test_a_denied_command_is_found_in_a_script(script: str, verdict: str) -> None:
    assert shell({"deny": [PUSH]}, script) == verdict


def test_what_is_not_known_when_a_call_is_made_counts_as_what_is_denied() -> None:
    assert shell({"deny": [PUSH]}, 'git "$what"', {"what": "push"}, final=True) == "deny"
    assert shell({"deny": [PUSH]}, 'git "$what"', {"what": "pull"}, final=True) == "allow"
    assert shell({"deny": [PUSH]}, 'git "$else"', {}, final=True) == "deny"


def test_a_list_of_commands_allows_only_scripts_of_these() -> None:
    said = {"allow": [{"uses": "shell", "run": ["make *", "git status"]}]}
    assert shell(said, "make all && git status") == "allow"
    assert shell(said, "make all; curl x") == "deny"
    assert shell(said, "make $(curl x)") == "deny"
    assert shell({"allow": [{"uses": "shell", "run": "*"}]}, "anything $(at all)") == "allow"


@rows("pattern", ["./deploy.sh *", "tools/deploy.sh prod", "/opt/shop/deploy.sh *", "deploy.sh *"])
@rows("script", ["./deploy.sh prod", "/opt/shop/deploy.sh prod", "cd tools && ./deploy.sh prod"])
def test_a_program_that_is_denied_with_its_path_is_denied_by_any_way_to_it(pattern: str, script: str) -> None:
    assert shell({"deny": [{"uses": "shell", "run": pattern}]}, script) == "deny"


@rows(
    ("pattern", "script", "verdict"),
    [
        ("git *", "/usr/bin/git status", "allow"),
        ("./build.sh *", "./build.sh all", "allow"),
        ("/opt/tool/run *", "/opt/tool/run all", "allow"),
        ("git *", "./git status", "deny"),
        ("git *", "bin/git status", "deny"),
        ("git *", "/tmp/git status", "deny"),
        ("git *", "/usr/bin/../../tmp/git status", "deny"),
        ("./build.sh *", "build.sh all", "deny"),
        ("./build.sh *", "other/build.sh all", "deny"),
    ],
)
def test_what_allows_a_program_allows_no_other_of_its_name(pattern: str, script: str, verdict: str) -> None:
    assert shell({"allow": [{"uses": "shell", "run": pattern}]}, script) == verdict


@rows(
    "carrier",
    [
        "chrt -o 0", "dbus-run-session", "linux64", "nsenter -t 1", "prlimit", "proxychains", "runuser -u root",
        "script -qc", "setarch x86_64", "setpriv", "start-stop-daemon --start --exec", "strace -f", "systemd-run",
        "torsocks", "unbuffer", "/lib64/ld-linux-x86-64.so.2", "hash -p", "rlwrap", "pkexec", "fakeroot", "firejail",
    ],
)  # fmt: skip
def test_a_program_that_runs_another_is_denied_with_it(carrier: str) -> None:
    assert shell({"deny": [PUSH]}, f"{carrier} git push") == "deny"
    program = carrier.partition(" ")[0]
    assert shell({"allow": [{"uses": "shell", "run": f"{program} *"}]}, f"{carrier} git push") == "allow"


@rows(
    ("said", "uses", "inputs", "verdict"),
    [
        ({"allow": ["git.*"]}, "git.push", None, "allow"),
        (["git.*"], "git.push", None, "allow"),
        ("git.*", "shell", None, "deny"),
        ({"allow": ["git.*"]}, "noop", None, "allow"),
        ({"deny": ["noop"]}, "noop", None, "deny"),
        ({"allow": ["*"], "deny": ["git.push"]}, "git.push", None, "deny"),
        ({"ask": ["git.push"], "allow": ["git.status"]}, "git.push", None, "ask"),
        (
            {"allow": [{"uses": "http.get", "with": {"url": "https://a/*"}}]},
            "http.get",
            {"url": "https://a/x"},
            "allow",
        ),
        ({"allow": [{"uses": "http.get", "with": {"url": "https://a/*"}}]}, "http.get", {"url": "https://b/x"}, "deny"),
        ({"allow": [{"uses": "http.get", "with": {"url": "https://a/*"}}]}, "http.get", {}, "deny"),
        ({"allow": [{"uses": "http.get", "with": {"url": "https://a/*"}}]}, "http.get", {"url": "{{ x }}"}, "allow"),
        ({"ask": [{"uses": "http.get", "with": {"url": "https://a/*"}}]}, "http.get", {"url": "{{ x }}"}, "ask"),
        ({"deny": [{"uses": "git.push", "with": {"force": True}}]}, "git.push", {"force": True}, "deny"),
        ({"deny": [{"uses": "git.push", "with": {"force": True}}]}, "git.push", {"force": 1}, "allow"),
        (
            {"deny": [{"uses": "files.*", "with": {"paths": "secret/*"}}]},
            "files.x",
            {"paths": ["a", "secret/b"]},
            "deny",
        ),
        ({"allow": [{"uses": "files.*", "with": {"paths": "out/*"}}]}, "files.x", {"paths": ["a", "out/b"]}, "deny"),
    ],
)
def test_entries_name_capabilities_and_what_they_are_called_with(
    said: Any, uses: str, inputs: Any, verdict: str
) -> None:
    assert capability([level("capabilities", said)], CapabilityUse(uses, inputs)).verdict == verdict


def test_a_pattern_for_a_value_that_is_there_is_not_a_template() -> None:
    said = {"deny": [{"uses": "x", "with": {"a": "{{*"}}]}
    assert capability([level("capabilities", said)], CapabilityUse("x", {"a": "{{ b }}"}, final=True)).verdict == "deny"


@rows(
    ("said", "name", "port", "verdict"),
    [
        ([], "a.org", 443, "deny"),
        (["a.org"], "A.org", 443, "allow"),
        (["a.org:443"], "a.org", 80, "deny"),
        (["*.a.org"], "x.a.org", 0, "allow"),
        (["*.a.org"], "a.org", 0, "deny"),
        (["*.a.org"], "xa.org", 0, "deny"),
        ({"deny": ["a.org"]}, "a.org", 1, "deny"),
        ({"deny": ["a.org"]}, "b.org", 1, "allow"),
        (["10.0.0.0/8"], "a.org", 1, "allow"),  # decided when the address is there
    ],
)
def test_hosts(said: Any, name: str, port: int, verdict: str) -> None:
    assert host([level("network", said)], name, port).verdict == verdict


@rows(
    ("said", "way", "place", "verdict"),
    [
        ({"write": ["build/**"]}, "write", "build/a/b", "allow"),
        ({"write": ["build/**"]}, "write", "src/a", "deny"),
        ({"write": ["build/**"]}, "read", "src/a", "allow"),
        ({"read": ["src"], "write": "build"}, "read", "build/a", "allow"),
        ({"read": ["src"]}, "read", "etc", "deny"),
        ({"deny": [".git"]}, "read", ".git/config", "deny"),
        ({"deny": ["**/*.key"], "read": ["**"]}, "read", "a/b.key", "deny"),
        ({"write": ["*.txt"]}, "write", "a/b.txt", "deny"),
    ],
)
def test_files(said: Any, way: Any, place: str, verdict: str) -> None:
    assert path([level("files", said)], way, place).verdict == verdict


SAID = st.fixed_dictionaries(
    {},
    optional={
        key: st.lists(st.sampled_from(["a", "b", "c", "a*", "*"]), max_size=3) for key in ("allow", "ask", "deny")
    },
)
STRICT = {"allow": 0, "ask": 1, "deny": 2}


@given(st.lists(SAID, max_size=4), SAID, st.sampled_from(["a", "b", "ab"]))
def test_no_level_gives_back_what_another_takes(before: list[Any], more: Any, name: str) -> None:
    levels = [level("env", said, str(number)) for number, said in enumerate(before)]
    with_more = [*levels, level("env", more, "more")]
    said, then = named(levels, "env", name), named(with_more, "env", name)
    assert STRICT[then.verdict] == max(STRICT[said.verdict], STRICT[named(with_more[-1:], "env", name).verdict])
    assert STRICT[named(with_more[::-1], "env", name).verdict] == STRICT[then.verdict]


def test_the_answer_names_the_level_and_its_entry() -> None:
    narrow, wide = level("env", ["A"], "narrow"), level("env", {"deny": ["B*"]}, "wide")
    assert named([wide, narrow], "env", "BC") == Decision("deny", "policy.env.deny", "B*", wide)
    assert named([wide, narrow], "env", "A") == Decision("allow", "policy.env.allow", "A", narrow)
    assert named([], "env", "A") == Decision("allow")


@rows(
    ("pattern", "place", "fits"),
    [
        ("src/**", "src/a/b", True), ("src/**", "src", True), ("src", "src/a", True), ("*.py", "d/a.py", False),
        ("**/*.py", "a.py", True), ("**/*.py", "d/e/a.py", True), (".", "a", True), (".", "/a", False),
        ("/etc", "/etc/passwd", True), ("/etc", "etc/passwd", False), ("a/**/b", "a/x/y/b", True), ("a/*/b", "a/x/y/b", False),
        ("a?", "ab", True), ("a?", "a/", False), ("[a]", "a", False), ("[a]", "[a]", True),
    ],
)  # fmt: skip
def test_patterns_of_paths(pattern: str, place: str, fits: bool) -> None:
    assert path_matches(pattern, place) is fits


def test_no_pattern_takes_long() -> None:
    assert not name_matches("*a" * 300 + "b", "a" * 100_000)
    assert not path_matches("**/a/" * 100 + "z", "a/" * 1000 + "b")


@given(st.text(max_size=60))
def test_any_text_is_read_as_commands_or_refused(text: str) -> None:
    for found in (commands(text), commands(text, {"a": "b"})):
        assert found is None or all(words and all(isinstance(word, str) for word in words) for words in found)


def test_words_of_a_pattern_stand_for_single_words() -> None:
    assert words_match("git push *", ("git", "push")) and words_match("git push *", ("git", "push", "-f", "x"))
    assert not words_match("git push", ("git", "push", "x")) and not words_match("git *x", ("git", "push"))
