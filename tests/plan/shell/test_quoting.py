from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from rows import rows

from planrunner.plan.expressions.values import Names
from planrunner.plan.shell.commands import commands
from planrunner.plan.shell.parse import parse
from planrunner.plan.shell.quoting import (
    Script,
    ScriptError,
    compile_script,
    environment,
    problems,
    simple_command,
)
from planrunner.plan.templates import render

SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)]
CURATED = [
    "",
    " ",
    "\n",
    "a\n\n",
    "-n",
    "--help",
    "-",
    "a b  c",
    "*",
    "~",
    "$HOME",
    "${HOME}",
    "$(touch canary)",
    "`touch canary`",
    "; touch canary #",
    "' ; touch canary; '",
    '" ; touch canary; "',
    "'\"'\"'$(touch canary)",
    "a[$(touch canary)]",
    "\\",
    "\\n\\t\\0",
    "$'\\x41'",
    "EOF",
    "\nEOF\ntouch canary\n",
    "{{ params.other }}",
    "{% raw %}",
    "!!",
    "%s%n",
    "\x01\x02\x7f\x1b",
    "āӁ\u2028\U0001f600",
    "\u0081\u0082\u0083\u0084\u0085\u0086\u0087\u0088",
    ")",
    "}",
    "))",
    "&& touch canary",
    "| touch canary",
    "> canary",
    "\r\n",
]


def hostile(count: int) -> list[str]:
    chance = random.Random(20)
    signs = "\"'`$(){}[]\\;&|<>*?~!#%=-+ \t\n\r:,.@^/abEOF01\x01\x7f\x81ā\U0001f600"
    pieces = [*signs, "$(touch canary)", "`touch canary`", "${IFS}", "PR_0", "\nEOF\n", "'\"", "\\'", "$'"]
    return ["".join(chance.choices(pieces, k=chance.randint(1, 14))) for _ in range(count)]


CONTEXTS = {
    "plain": ("printf '%s\\0' {{{{ {} }}}}", "{}"),
    "joined": ("printf '%s\\0' --x={{{{ {0} }}}}y{{{{ {0} }}}}", "--x={0}y{0}"),
    "double": ("printf '%s\\0' \"a {{{{ {} }}}}b\"", "a {}b"),
    "single": ("printf '%s\\0' 'a {{{{ {} }}}}b'", "a {}b"),
    "substituted": ("printf '%s\\0' \"$(printf '%s.' {{{{ {} }}}})\"", "{}."),
    "deep": ("printf '%s\\0' \"$(printf '%s.' \"$(printf '%s.' '{{{{ {} }}}}')\")\"", "{}.."),
    "here": ("{{ cat <<EOF; printf '\\0'; }}\n-{{{{ {} }}}}.\nEOF", "-{}.\n"),
    "variable": ("v={{{{ {} }}}}; printf '%s\\0' \"$v\"", "{}"),
    "case": ("case {{{{ {0} }}}} in ({{{{ {0} }}}}) printf '%s\\0' {{{{ {0} }}}};; (*) printf 'no\\0';; esac", "{}"),
    "function": ("f() ( printf '%s\\0' \"$1\" ); f {{{{ {} }}}}", "{}"),
}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("context", CONTEXTS)
def test_values_reach_the_command_byte_for_byte(shell: str, context: str, tmp_path: Path) -> None:
    form, expected = CONTEXTS[context]
    values = CURATED + hostile(1100 if context in ("plain", "double", "single") else 250)
    for start in range(0, len(values), 200):
        batch = values[start : start + 200]
        text = "\n".join(form.format(f"v{number}") for number in range(len(batch)))
        script = compile_script(text)
        scope = Names({f"v{number}": value for number, value in enumerate(batch)})
        rendered = {name: render(template, scope) for name, template in script.values}
        done = subprocess.run(
            [shell, "-e", "-u", "-c", script.text],
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **environment(script, rendered)},
            cwd=tmp_path,
            capture_output=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr[:500]
        found = done.stdout.decode().split("\0")[:-1]
        assert found == [expected.format(value) for value in batch]
    assert not list(tmp_path.iterdir())


@given(st.text(st.sampled_from("echo $`'\"\\(){}[]<>&|;#\n=*~ \t%EOF-"), max_size=60))
def test_a_script_without_templates_stays_as_it_is(text: str) -> None:
    assume("{{" not in text)
    script = compile_script(text)
    assert (script.text, script.values) == (text, ())


PIECES = [
    "{{ x }}",
    *"a $`'\"\\(){}[]<>&|;#\n=*~ \t%-",
    "<<E",
    "\nE\n",
    "$((",
    "case a in ",
    "${",
    "eval ",
    "[[ ",
    " -eq ",
]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_any_script_is_either_compiled_or_refused_with_a_place(text: str) -> None:
    found = problems(text)
    for problem in found:
        assert 0 <= problem.start <= problem.end <= len(text)
    if found:
        with pytest.raises(ScriptError):
            compile_script(text)
    else:
        assert "{{ x }}" not in compile_script(text).text


@rows(
    ("text", "words"),
    [
        ("echo `cat {{ x }}`", "backticks"),
        ("cat <<'EOF'\n{{ x }}\nEOF", "quoted end mark"),
        ("cat <<\\EOF\n{{ x }}\nEOF", "quoted end mark"),
        ("cat <<{{ x }}\na\n", "end mark"),
        ("echo $(( {{ x }} + 1 ))", "arithmetic"),
        ("echo $[ {{ x }} ]", "arithmetic"),
        ("(( {{ x }} ))", "arithmetic"),
        ("for ((i = 0; i < {{ x }}; i++)); do :; done", "arithmetic"),
        ("echo \\{{ x }}", "backslash"),
        ('echo "\\{{ x }}"', "backslash"),
        ("echo ${A:-{{ x }}}", r"\$\{"),
        ('echo "${A#{{ x }}}"', r"\$\{"),
        ("echo ${{ x }}", r"after `\$`"),
        ('echo "${{ x }}"', r"after `\$`"),
        ("echo $'{{ x }}'", r"\$'"),
        ("echo $'\\'' {{ x }}", "read differently"),
        ("eval echo {{ x }}", "eval"),
        ("if true; then eval '{{ x }}'; fi", "eval"),
        ("trap 'rm {{ x }}' EXIT", "trap"),
        ("bash -c 'echo {{ x }}'", "bash -c"),
        ('sudo /bin/sh -ec "cd {{ x }} && make"', "sh -c"),
        ("find . -exec sh -c 'mv {{ x }} y' \\;", "sh -c"),
        ("export {{ x }}=1", "export"),
        ("declare a={{ x }}", "declare"),
        ("local -i a={{ x }}", "local"),
        ("read {{ x }}", "read"),
        ("printf -v {{ x }} a", "printf"),
        ("unset {{ x }}", "unset"),
        ("a[{{ x }}]=1", "index"),
        ("[[ {{ x }} -eq 1 ]]", "numeric test"),
        ("[[ a == a && {{ x }} -gt 1 ]]", "numeric test"),
        ("[[ -v {{ x }} ]]", "numeric test"),
        ('echo a; echo "$(eval {{ x }})"', "eval"),
    ],
)
def test_templates_where_something_would_evaluate_the_value_are_refused(text: str, words: str) -> None:
    found = problems(text)
    assert [problem.code for problem in found] == ["PLAN211"]
    assert "{{ x }}" in text[found[0].start : found[0].end]
    assert found[0].help
    with pytest.raises(ScriptError, match=words):
        compile_script(text)


@rows(
    "text",
    [
        "# it's {{ x }}\nprintf '%s' {{ v }}",
        "echo \"it's\" >/dev/null # ' {{ x\n }}\nprintf '%s' {{ v }}",
        "x=$(case a in a) echo ')';; esac); printf '%s' {{ v }}",
        "cat <<'A' <<B >/dev/null\n'\nA\n\"\nB\nprintf '%s' {{ v }}",
        "cat <<-A >/dev/null\n\t'\n\tA\nprintf '%s' {{ v }}",
        ": $(( (1 << 2) + 3 )) ${#v} \"${v:-')'}\"\nprintf '%s' {{ v }}",
        ": \\' \\\" \\\\\nprintf '%s' {{ v }}",
        ": \"$(echo \"a)b\" '(' \\) )\"\nprintf '%s' {{ v }}",
        "export PR_0=1\nprintf '%s' {{ v }}",
        "if [ {{ v }} = {{ v }} ]; then printf '%s' {{ v }}; fi",
    ],
)
@rows("shell", SHELLS)
def test_quotes_are_followed_through_comments_here_documents_and_substitutions(shell: str, text: str) -> None:
    script = compile_script(text)
    values = environment(script, {name: 'it\'s $(x) "a"' for name, _ in script.values})
    done = subprocess.run(
        [shell, "-e", "-c", script.text],
        env={"PATH": "/usr/bin:/bin", "v": "", **values},
        capture_output=True,
        timeout=240,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b'it\'s $(x) "a"', b"")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("git status --short", ("git", "status", "--short")),
        ("git log -n {{ n }} --format='%h %s'\n", ("git", "log", "-n", "{{ n }}", "--format=%h %s")),
        ("make \"a b\" c=d ''", ("make", "a b", "c=d", "")),
        ('prog pre-{{ a }}-{{ b }} "{{ c }} d"', ("prog", "pre-{{ a }}-{{ b }}", "{{ c }} d")),
        ("./tool.sh", ("./tool.sh",)),
    ],
)
def test_one_plain_command_needs_no_shell(text: str, words: tuple[str, ...]) -> None:
    assert compile_script(text).simple == words


@rows(
    "text",
    [
        *(
            "ls *.py",
            "ls a?",
            "ls [ab]",
            "ls ~",
            "a; b",
            "a && b",
            "a | b",
            "a &",
            "a > f",
            "a < f",
            "a $b",
            "a `b`",
            "a\nb",
        ),
        *("X=1 a", "cd /tmp", "export X", "eval a", "set -e", ". ./a", "source a", "exit 3", "[ a = b ]", "! a", "# a"),
        *(
            "{{ a }} b",
            "a \\b",
            "a {b,c}",
            "a $'b'",
            'a "$b"',
            'a "b',
            "a 'b",
            "",
            "\n",
            "if a",
            "a (b)",
            "a '{% b %}'",
            "''",
        ),
    ],
)
def test_whatever_a_shell_would_act_on_keeps_its_shell(text: str) -> None:
    assert compile_script(text).simple is None


def test_the_same_template_is_one_variable_and_names_of_the_script_are_avoided() -> None:
    assert compile_script("echo {{ x }} '{{ x }}' $HOME").values == (("PR_0", "{{ x }}"),)
    assert compile_script("echo $PR_0 {{ x }} $HOME").values == (("PRV_0", "{{ x }}"),)


def test_lists_arrive_as_json_in_one_word(tmp_path: Path) -> None:
    script = compile_script('for x in {{ items }}; do echo "$x"; done')
    values = environment(script, {"PR_0": ["a b", 1, None, {"c": True}]})
    done = subprocess.run(["sh", "-c", script.text], env={"PATH": "/usr/bin:/bin", **values}, capture_output=True)
    assert done.stdout == b'["a b", 1, null, {"c": true}]\n'


@pytest.mark.parametrize(
    ("value", "words"),
    [("a\0b", "NUL"), ("a" * 131_072, "131,072"), ("\ud800", "as text"), (["a\0"], ""), (object(), "as text")],
)
def test_values_no_variable_can_carry_are_refused(value: object, words: str) -> None:
    script = Script("x", (("PR_0", "{{ params.key }}"),))
    if words:
        with pytest.raises(ScriptError, match=words) as caught:
            environment(script, {"PR_0": value})
        assert "params.key" in caught.value.message
    else:
        assert "\0" not in environment(script, {"PR_0": value})["PR_0"]


def test_the_largest_value_still_starts_a_command() -> None:
    script = compile_script("printf %s {{ x }} | wc -c")
    values = environment(script, {"PR_0": "a" * (131_072 - len("PR_0=") - 1)})
    done = subprocess.run(["sh", "-c", script.text], env={"PATH": "/usr/bin:/bin", **values}, capture_output=True)
    assert done.stdout.strip() == b"131066"


def test_reading_a_long_script_takes_time_in_proportion() -> None:
    compile_script.cache_clear()
    assert compile_script("echo \"{{ x }}\" '{{ y }}' $(date)\n" * 3900).values == (
        ("PR_0", "{{ x }}"),
        ("PR_1", "{{ y }}"),
    )
    with pytest.raises(ScriptError):
        compile_script("$(" * 50_000 + "{{ x }}")


def test_lists_of_commands_in_braces_take_no_longer_the_deeper_they_lie() -> None:
    """Each of them is read when all of it is known, and not once for every brace around it."""
    script = parse("${ aa " * 30 + "; }" * 30)
    assert len(script.commands) < 100


def test_quotes_within_a_template_belong_to_the_template() -> None:
    assert simple_command("aa '{{ a['b'] }}'") == ("aa", "{{ a['b'] }}")


def test_a_name_that_goes_on_in_the_next_line_is_not_told() -> None:
    assert commands("aa $HOMES\\\nTEAD", {"HOME": "x"}) is None
