"""Values, outputs, files, pages and repositories that try to become more than data, through the real command line.

None has an effect: the canary is never made, nothing is written outside, no other host is reached. What is refused while
a run goes on stands in its journal with the rule; what lint refuses never starts.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import pty
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from security_desk import ROOT, Desk, Told

PYTHON = {"python": sys.executable}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    assert not made.canary.exists()
    strange = {path.name for path in tmp_path.iterdir()} - {"project", "state", "outside", "srv"}
    assert not strange, strange


def hostile(desk: Desk) -> list[str]:
    """Texts that are code somewhere: in templates, shells, Jinja, expressions, SQL, JSON, terminals, paths."""
    touch = f"touch {desk.canary}"
    return [
        "{{ 7 * 7 }}", "{{ params.secret }}", "{% for i in [1] %}x{% endfor %}", "{# x #}", "{{", "}}", "{%", "{{{{ 1 }}}}",
        "{{ ''.__class__.__mro__ }}", "{{ lipsum.__globals__ }}", "{{ cycler.__init__ }}", "${HOME}", "$HOME", "${{ 1 }}",
        f"$({touch})", f"`{touch}`", f"; {touch}", f"| {touch}", f"&& {touch}", f"\n{touch}\n", f"' ; {touch} ; '",
        f'" ; {touch} ; "', f"$'{touch}'", f"<({touch})", "'", '"', "\\", "\\'", "''", "-rf", "--help", "-", "--", "@/etc/passwd",
        "@file", "*", "?", "[a-z]*", "~", "~root", "!x", "#x", "%s%n", "a\r\nX: y", "\x1b]0;title\x07", "\x1b[2J", "\u202e", "\u2066",
        "LD_PRELOAD=/x.so", "IFS=/", "PS4=$(touch x)", "BASH_ENV=/x", "PYTHONPATH=/x", "GIT_SSH_COMMAND=touch x", "true", "null",
        "1 == 1", "tasks.other.outputs.x", "__proto__", "__class__", '{"__class__": "os.system"}', "!!python/object:os.system",
        "'; DROP TABLE t; --", "1; import os", f"__import__('os').system('{touch}')", "../../x", "/etc/passwd", "\ufeff", "é", "",
    ]  # fmt: skip


# 1 to 4: a value stays the text that it is, however often it is handed on


def test_values_stay_text_through_outputs_templates_files_and_inputs(desk: Desk) -> None:
    """First order and second: what one task gives is filled into the next one's template, file, data and command."""
    values = hostile(desk)
    whole = "{{ params.all }}"
    told = desk.run(
        {"id": "first", "uses": "noop", "with": {"value": whole}},
        {"id": "glued", "uses": "noop", "needs": ["first"], "with": {"value": "<{{ tasks.first.outputs.value[0] }}>"}},
        {"id": "second", "uses": "noop", "needs": ["first"], "with": {"value": "{{ tasks.first.outputs.value }}"}},
        {
            "id": "file", "uses": "files.write", "needs": ["second"],
            "with": {"path": "out.json", "content": "{{ tasks.second.outputs.value | tojson }}"},
        },
        {
            "id": "lines", "uses": "python.run", "needs": ["second"],
            "with": {"code": "result = {'same': args['all']}", "args": {"all": "{{ tasks.second.outputs.value }}"}, **PYTHON},
            "outputs": {"same": "list"},
        },
        {"id": "shell", "needs": ["lines"], "run": "printf '%s' {{ tasks.lines.outputs.same | tojson }} > got.json"},
        params={"all": {"type": "list", "default": []}},
        values={"all": values},
    )  # fmt: skip
    assert told.code == 0, told.stderr
    assert told.outputs("glued")["value"] == f"<{values[0]}>"
    assert told.outputs("second")["value"] == told.outputs("lines")["same"] == values
    assert json.loads((desk.folder / "out.json").read_text()) == values
    assert json.loads((desk.folder / "got.json").read_text()) == values


def test_what_a_process_tells_as_its_output_is_not_filled_in_again(desk: Desk) -> None:
    values = [value for value in hostile(desk) if "\n" not in value and "\r" not in value]
    desk.write("values.txt", "".join(f"k{number}={value}\n" for number, value in enumerate(values)))
    told = desk.run(
        {"id": "say", "run": 'cat values.txt >> "$PLANRUNNER_OUTPUT"'},
        *(
            {"id": f"use-{number}", "needs": ["say"], "uses": "noop", "with": {"value": f"{{{{ tasks.say.outputs.k{number} }}}}"}}
            for number in range(len(values))
        ),
    )  # fmt: skip
    assert told.code == 0, told.stderr
    assert [told.outputs(f"use-{number}")["value"] for number in range(len(values))] == values


def test_a_file_that_is_read_is_no_template(desk: Desk) -> None:
    desk.write("page.txt", "\n".join(hostile(desk)))
    told = desk.run(
        {"id": "read", "uses": "files.read", "with": {"path": "page.txt"}},
        {"id": "copy", "needs": ["read"], "uses": "files.write", "with": {"path": "copy.txt", "content": "{{ tasks.read.outputs.content }}"}},
    )  # fmt: skip
    assert told.code == 0, told.stderr
    assert (desk.folder / "copy.txt").read_bytes() == (desk.folder / "page.txt").read_bytes()


def test_values_of_a_template_in_a_file_are_not_templates(desk: Desk) -> None:
    desk.write("letter.txt", "Dear {{ name }}!")
    for value in ("{{ 7 * 7 }}", "{% raw %}", "{{ ''.__class__ }}"):
        told = desk.run(
            {"id": "fill", "uses": "files.template", "with": {"path": "made.txt", "template": "letter.txt", "values": {"name": "{{ params.v }}"}}},
            params={"v": {"type": "string", "default": ""}}, values={"v": value},
        )  # fmt: skip
        assert told.code == 0, told.stderr
        assert (desk.folder / "made.txt").read_text() == f"Dear {value}!"


# 5 to 7: templates of the plan itself reach data and nothing else

ESCAPES = (
    "''.__class__.__mro__[1].__subclasses__()", "''['__class__']", "''|attr('__class__')", "[1]|map(attribute='__class__')|list",
    "[1]|map('attr', '__class__')|list", "lipsum.__globals__['os'].popen('id').read()", "cycler.__init__.__globals__",
    "joiner.__init__", "namespace.__init__", "self.__init__", "self._TemplateReference__context", "config", "request.application",
    "range.__class__", "dict.__class__", "params.__class__", "params['__class__']", "tasks.a.__class__", "'{0.__class__}'|format(1)",
    "'{0.__class__}'.format(1)", "'%s'.__mod__", "(lambda: 1)()", "import_module('os')", "get_flashed_messages", "url_for.__globals__",
    "[].append.__self__", "{}.__class__", "''.join.__self__", "loop.__class__", "caller", "varargs", "undefined_name.__init__",
)  # fmt: skip


def test_no_template_gets_out_of_its_data(desk: Desk) -> None:
    """Each is refused by lint, which starts nothing, at its own place."""
    tasks = [
        {"id": f"t{number}", "uses": "noop", "with": {"value": "{{ " + text + " }}"}, "allow_failure": True}
        for number, text in enumerate(ESCAPES)
    ]
    head = '{"plan": "p", "defaults": {"timeout": "1m"}, "tasks": [\n'
    desk.write("p.json", head + ",\n".join(map(json.dumps, tasks)) + "\n]}\n")
    found = json.loads(desk.do("lint", "--format", "json", "p.json", code=1).stdout)["findings"]
    refused = {each["range"]["start"]["line"] - 2 for each in found if each["severity"] == "error"}
    assert refused == set(range(len(ESCAPES)))


BOMBS = (
    "{{ range(1000000000)|list }}", "{{ 'a' * 1000000000 }}", "{{ 10**10**10 }}", "{{ [0] * 1000000000 }}", "{{ 'a'|center(9) }}",
    "{{ '%1000000000d'|format(1) }}", "{% for a in range(99999) %}{{ range(99999) }}{% endfor %}", "{{ lipsum(100000) }}", "{{ 1|pprint }}",
    "{% for a in l %}{% for b in l %}{% for c in l %}{% for d in l %}x{% endfor %}{% endfor %}{% endfor %}{% endfor %}",
    "{{ ('a' * 100000)|replace('a', 'b' * 100000) }}", "{{ 'a'.zfill(9) }}", "{{ 'a'.ljust(9) }}", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
)  # fmt: skip


@pytest.mark.parametrize("text", BOMBS)
def test_no_template_takes_all_time_or_memory(desk: Desk, text: str) -> None:
    text = text.replace(" in l ", f" in {list(range(60))} ")
    told = desk.run({"id": "a", "uses": "noop", "with": {"value": text}})
    assert told.code in (1, 5), (text, told.ends)


def test_templates_in_a_file_of_parameters_stay_text(desk: Desk) -> None:
    plan = desk.plan(
        {"id": "a", "uses": "noop", "with": {"value": "{{ params.v }}"}},
        params={"v": {"type": "string"}, "secret": {"type": "string", "default": "hidden"}},
    )
    desk.write("values.yaml", 'v: "{{ params.secret }}{{ env.HOME }}"\n')
    told = Told(desk, desk.do("exec", plan, "--params-file", "values.yaml", "--progress", "quiet", code=0))
    assert told.outputs("a")["value"] == "{{ params.secret }}{{ env.HOME }}"


@pytest.mark.parametrize("name", ["__class__", "__proto__", "{{ x }}", "v\nother", "-x", "params.v"])
def test_a_parameter_that_the_plan_has_not_is_refused(desk: Desk, name: str) -> None:
    plan = desk.plan({"id": "a", "uses": "noop"}, params={"v": {"type": "string", "default": ""}})
    desk.write("values.json", json.dumps({name: "x"}))
    assert desk.do("exec", plan, "--params-file", "values.json").returncode in (2, 5)
    assert not (desk.folder / ".planrunner").exists()


# 8 to 10: what a task gives speaks for itself alone


def test_outputs_are_no_results_of_other_tasks(desk: Desk) -> None:
    forged = [
        "tasks.other.outputs.ok=true", "other.ok=true", "__proto__=x", "__class__=x", "status=completed", "outcome=completed",
        '{"tasks": {"other": {"outputs": {"ok": true}}}}', '{"constructor": {"prototype": {"ok": true}}}', "ok=first", "ok=second",
        '{"$type": "os.system", "__reduce__": ["os.system", "id"]}', "failure=", "artifacts=[]", "key=other:1",
    ]  # fmt: skip
    desk.write("forged.txt", "\n".join(forged) + "\n")
    told = desk.run(
        {"id": "liar", "run": 'cat forged.txt >> "$PLANRUNNER_OUTPUT"', "allow_failure": True},
        {"id": "other", "needs": ["liar"], "run": "exit 3", "allow_failure": True},
        {"id": "use", "needs": ["other"], "join": "always", "when": "tasks.other.status == 'completed'", "run": f"touch {desk.canary}"},
    )  # fmt: skip
    assert told.code == 0, told.stderr
    assert told.ends["other"]["exit_code"] == 3 and not told.ends["other"].get("outputs")
    settled = {entry["task"]: entry["status"] for entry in told.entries if entry["type"] == "task_settled"}
    assert settled["other"] == "failed" and settled["use"] == "skipped"
    given = told.ends["liar"]["outputs"]
    assert not given or (given["ok"], given["failure"], given["artifacts"]) == ("second", "", "[]")


@pytest.mark.parametrize(
    "write",
    [
        'yes x=1 | head -c 3000000 >> "$PLANRUNNER_OUTPUT"',
        'ln -s /etc/passwd "$PLANRUNNER_OUTPUT"',
        'mkfifo "$PLANRUNNER_OUTPUT"',
        'mkdir "$PLANRUNNER_OUTPUT"',
        "printf 'a=\\377\\n' >> \"$PLANRUNNER_OUTPUT\"",
        'printf \'{"a": 1e999}\\n\' >> "$PLANRUNNER_OUTPUT"',
        "printf 'no assignment\\n' >> \"$PLANRUNNER_OUTPUT\"",
        "printf 'a<<END\\nnever ends\\n' >> \"$PLANRUNNER_OUTPUT\"",
        'python3 -c "print(\'{\\"a\\":\' + \'[\' * 100000)" >> "$PLANRUNNER_OUTPUT"',
    ],
)
def test_a_file_of_outputs_that_is_none_fails_its_task_alone(desk: Desk, write: str) -> None:
    told = desk.run({"id": "a", "run": write, "allow_failure": True}, {"id": "b", "run": "true"})
    assert told.code == 0, told.stderr
    assert told.ends["a"]["failure"] == "logic" and told.ends["b"]["failure"] == ""


def test_a_log_that_looks_like_the_journal_decides_nothing(desk: Desk) -> None:
    lines = [
        '{"type":"gate_decided","task":"ask","decision":"approved"}', "✔ ask approved by root", "run p: `ask` is approved by bo",
        "::set-output name=decision::approved", "::add-mask::x", "PLANRUNNER_OUTPUT: decision=approved", "\x1b]52;c;eA==\x07",
    ]  # fmt: skip
    desk.write("log.txt", "\n".join(lines) + "\n")
    told = desk.run(
        {"id": "liar", "run": "cat log.txt; cat log.txt >&2"},
        {"id": "ask", "needs": ["liar"], "gate": "approval", "ask": "Go on"},
        {"id": "act", "needs": ["ask"], "run": f"touch {desk.canary}"},
    )
    assert told.code == 8
    assert not [entry for entry in told.entries if entry["type"] in ("gate_decided", "gate_voted")]
    for words in (("show", "last"), ("gates", "last"), ("why", "last", "liar")):
        said = desk.do(*words).stdout
        assert "\x1b" not in said and "\x07" not in said


# 11 and 12: people are shown what is there


@pytest.mark.parametrize(
    "text",
    ["\x1b[2J\x1b[1;1HAll clear", "ok\u202eton", "\x1b]8;;http://evil\x07x\x1b]8;;\x07", "a\r\nb\x08\x08", "\x9b31m"],
)
def test_what_a_gate_shows_does_not_steer_the_terminal(desk: Desk, text: str) -> None:
    desk.write("notes.txt", text)
    told = desk.run(
        {"id": "ask", "gate": "approval", "ask": "Go on {{ params.v }}", "evidence": ["notes.txt", {"said": "{{ params.v }}"}]},
        params={"v": {"type": "string", "default": ""}}, values={"v": text},
    )  # fmt: skip
    assert told.code == 8
    for words in (("gates", "last"), ("show", "last"), ("why", "last", "ask")):
        said = desk.do(*words)
        shown = said.stdout + said.stderr
        assert not set(shown) & set("\x1b\x07\x08\x9b\u202e\r"), repr(shown)


def test_words_of_people_are_data(desk: Desk) -> None:
    form = {"id": "ask", "gate": "decision", "ask": "Which", "form": {"way": {"type": "string"}}}
    use = {"id": "use", "needs": ["ask"], "run": "printf '%s' {{ tasks.ask.outputs.way }} > way.txt"}
    value = f"$(touch {desk.canary}) {{{{ params.x }}}} ; touch {desk.canary}"
    assert desk.run(form, use).code == 8
    desk.do("answer", "last", "ask", "--as", "bo", "-f", f"way={value}", "--reason", f"`touch {desk.canary}`\x1b[2J")
    desk.do("resume", "last", "--progress", "quiet", code=0)
    assert (desk.folder / "way.txt").read_text() == value
    assert "\x1b" not in desk.do("why", "last", "ask").stdout


HIDDEN = b"plain \x1b[31mred\x1b[0m \x1b]52;c;eA==\x07 \x1b[2J \x1b]0;t\x1b\\ \xc2\x9b31m \xe2\x80\xae x\ty\r\n"


def test_a_log_does_not_steer_the_terminal_and_is_kept_as_it_was(desk: Desk) -> None:
    desk.write("page", HIDDEN * 3)
    desk.run({"id": "say", "run": "cat page"})
    piped = desk.do("logs", "last", "say").stdout.encode("utf-8", "surrogateescape")
    assert piped == HIDDEN * 3
    master, slave = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PLANRUNNER_STATE": str(desk.state)}
    words = [sys.executable, "-m", "planrunner", "logs", "last", "say"]
    child = subprocess.Popen(words, cwd=desk.folder, env=environment, stdin=slave, stdout=slave, stderr=subprocess.PIPE)
    os.close(slave)
    got = b""
    with contextlib.suppress(OSError):  # the other side has gone
        while piece := os.read(master, 4096):
            got += piece
    assert child.wait(240) == 0
    os.close(master)
    assert b"\x1b]" not in got and b"\x1b[2J" not in got and b"\x07" not in got
    assert b"\xe2\x80\xae" not in got and b"\xc2\x9b" not in got and b"plain" in got


# 13 and 14: conditions and criteria


@pytest.mark.parametrize(
    "value", ["true", "1 == 1", "true || true", '" or "1" == "1', "yes", "ok' || 'a' == 'a", "{{ true }}"]
)
def test_a_condition_reads_a_value_and_does_not_run_it(desk: Desk, value: str) -> None:
    told = desk.run(
        {"id": "act", "when": "params.v == 'granted'", "run": f"touch {desk.canary}"},
        {"id": "check", "run": "true", "expect": ["params.v != 'granted'"]},
        params={"v": {"type": "string", "default": ""}}, values={"v": value},
    )  # fmt: skip
    assert told.code == 0, told.stderr
    assert "act" not in told.ends


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(.*)*x", "(?P<x>a)(?P=x)+$", "a{1,99999}{1,99999}"])
def test_a_pattern_that_never_ends_is_not_waited_for(desk: Desk, pattern: str) -> None:
    told = desk.run(
        {"id": "a", "when": "params.text matches params.pattern", "run": "true"},
        params={"text": {"type": "string", "default": ""}, "pattern": {"type": "string", "default": ""}},
        values={"text": "a" * 40 + "!", "pattern": pattern},
    )
    assert told.code in (0, 1, 5)


# 15 to 18: paths


PATHS = (
    "../outside/x",
    "/etc/x",
    "a/../../outside/x",
    "link/x",
    "/dev/fd/1",
    "/proc/self/cwd/../outside/x",
    "./../outside/x",
)


@pytest.mark.parametrize("path", PATHS)
def test_no_value_leads_a_file_outside(desk: Desk, path: str) -> None:
    outside = desk.folder.parent / "outside"
    outside.mkdir()
    (desk.folder / "link").symlink_to(outside)
    (desk.folder / "in.txt").write_text("x")
    given = "{{ params.path }}"
    tasks = {
        "write": ("files.write", {"path": given, "content": "x"}), "append": ("files.append", {"path": given, "content": "x"}),
        "mkdir": ("files.mkdir", {"path": given}), "copy": ("files.copy", {"path": "in.txt", "to": given}),
        "move": ("files.move", {"path": "in.txt", "to": given}), "template": ("files.template", {"template": "in.txt", "path": given}),
    }  # fmt: skip
    told = desk.run(
        *({"id": name, "uses": uses, "with": inputs, "allow_failure": True} for name, (uses, inputs) in tasks.items()),
        params={"path": {"type": "string", "default": ""}}, values={"path": path}, max_parallel=1,
    )  # fmt: skip
    assert {told.rule(name) for name in tasks} <= {"files.beneath", "files.link"}
    assert not list(outside.iterdir())


@pytest.mark.parametrize(
    "path", ["../outside/secret", "/etc/passwd", "link", "link/secret", "/proc/self/environ", "/dev/fd/0"]
)
def test_no_value_reads_a_file_outside(desk: Desk, path: str) -> None:
    outside = desk.folder.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("CANARY-SECRET")
    (desk.folder / "link").symlink_to(outside if path == "link/secret" else outside / "secret")
    given = "{{ params.path }}"
    told = desk.run(
        {"id": "read", "uses": "files.read", "with": {"path": given}, "allow_failure": True},
        {"id": "scan", "uses": "python.scan", "with": {"file": given}, "allow_failure": True},
        {"id": "run", "uses": "python.run", "with": {"file": given, **PYTHON}, "allow_failure": True},
        {"id": "keep", "run": "true", "artifacts": [{"path": given, "name": "kept"}], "allow_failure": True},
        params={"path": {"type": "string", "default": ""}}, values={"path": path},
    )  # fmt: skip
    for name in ("read", "scan", "run", "keep"):
        assert told.rule(name) in ("files.beneath", "files.link"), (name, told.ends[name])
    assert b"CANARY-SECRET" not in b"".join(path.read_bytes() for path in desk.state.rglob("*") if path.is_file())


@pytest.mark.parametrize("path", ["../outside/secret", "link", "/etc/hostname", "../outside/*"])
def test_evidence_of_a_gate_is_not_read_outside(desk: Desk, path: str) -> None:
    outside = desk.folder.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("CANARY-SECRET")
    (desk.folder / "link").symlink_to(outside / "secret")
    told = desk.run(
        {"id": "ask", "gate": "approval", "ask": "Go on", "evidence": ["{{ params.path }}"]},
        params={"path": {"type": "string", "default": ""}}, values={"path": path},
    )  # fmt: skip
    assert told.code == 7
    (examined,) = (entry for entry in told.entries if entry["type"] == "gate_examined")
    assert [each.get("rule") for each in examined["evidence"]] == ["files.beneath"]
    assert b"CANARY-SECRET" not in b"".join(path.read_bytes() for path in desk.state.rglob("*") if path.is_file())


@pytest.mark.parametrize("place", ["../outside", "/", "link", "a/../../outside"])
def test_what_a_task_gives_leads_no_other_task_outside(desk: Desk, place: str) -> None:
    outside = desk.folder.parent / "outside"
    outside.mkdir()
    (desk.folder / "link").symlink_to(outside)
    (desk.folder / "inner").mkdir()
    given = {"cwd": "{{ tasks.say.outputs.place }}", "needs": ["say"], "allow_failure": True}
    told = desk.run(
        {"id": "say", "run": f"echo place={place} >> $PLANRUNNER_OUTPUT; echo inner=inner >> $PLANRUNNER_OUTPUT"},
        {"id": "run", "run": "touch made", **given},
        {"id": "write", "uses": "files.write", "with": {"path": "made", "content": "x"}, **given},
        {"id": "python", "uses": "python.run", "with": {"code": "open('made', 'w')", **PYTHON}, **given},
        {"id": "each", "foreach": [place], "run": "touch made", "cwd": "{{ item }}", "allow_failure": True},
        {"id": "inside", "needs": ["say"], "cwd": "{{ tasks.say.outputs.inner }}", "run": "touch made"},
    )
    for name in ("run", "write", "python", "each[0]"):
        assert told.rule(name) == "trust.outside", (name, told.ends)
    assert not list(outside.iterdir()) and not Path("/made").exists()
    assert (desk.folder / "inner" / "made").exists()


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", ".git/config", "planrunner.yaml", ".planrunner/journal.db"])
def test_no_value_writes_what_rules_over_plans_and_git(desk: Desk, path: str) -> None:
    told = desk.run(
        {"id": "a", "uses": "files.write", "with": {"path": "{{ params.path }}", "content": "x"}},
        params={"path": {"type": "string", "default": ""}}, values={"path": path},
    )  # fmt: skip
    assert told.rule("a") in ("files.protected", "files.state")
    assert not (desk.folder / path).exists()


def test_a_value_in_an_option_or_a_pattern_stays_a_name(desk: Desk) -> None:
    for name in ("-rf", "--help", "*", "~", "a b", "$(x)", "@x"):
        told = desk.run(
            {"id": "a", "uses": "files.write", "with": {"path": "d/{{ params.name }}", "content": "x", "parents": True}},
            {"id": "b", "needs": ["a"], "run": "cd d && cat -- {{ params.name }}"},
            params={"name": {"type": "string", "default": ""}}, values={"name": name},
        )  # fmt: skip
        assert told.code == 0, (name, told.stderr)
        assert (desk.folder / "d" / name).read_text() == "x"


def test_a_nul_character_reaches_no_program(desk: Desk) -> None:
    told = desk.run(
        {"id": "run", "run": "echo {{ params.v }}", "allow_failure": True},
        {"id": "write", "uses": "files.write", "with": {"path": "{{ params.v }}", "content": "x"}, "allow_failure": True},
        {"id": "read", "uses": "files.read", "with": {"path": "{{ params.v }}"}, "allow_failure": True},
        {"id": "env", "env": {"V": "{{ params.v }}"}, "run": "true", "allow_failure": True},
        params={"v": {"type": "string", "default": ""}}, values={"v": "a\0b"},
    )  # fmt: skip
    assert {name: bool(end["failure"]) for name, end in told.ends.items()} == dict.fromkeys(told.ends, True)
    assert not list(desk.folder.glob("a*"))


# 19: variables of the environment


@pytest.mark.prints_environment
def test_a_value_makes_no_other_variable(desk: Desk) -> None:
    value = f"x\nLD_PRELOAD=/evil.so\nBASH_ENV={desk.folder}/evil.sh\nPATH=/evil"
    desk.write("evil.sh", f"touch {desk.canary}")
    told = desk.run(
        {"id": "a", "env": {"GIVEN": "{{ params.v }}"}, "run": "env -0 | tr '\\n' ' ' | tr '\\0' '\\n' > env.txt; echo {{ params.v }} > /dev/null"},
        params={"v": {"type": "string", "default": ""}}, values={"v": value},
    )  # fmt: skip
    assert told.code == 0, told.stderr
    names = {line.partition("=")[0] for line in (desk.folder / "env.txt").read_text().splitlines()}
    assert not names & {"LD_PRELOAD", "BASH_ENV", "IFS", "PS4", "ENV"}


@pytest.mark.prints_environment
def test_what_a_task_leaves_in_its_environment_reaches_no_other(desk: Desk) -> None:
    told = desk.run(
        {"id": "a", "run": f"export LD_PRELOAD=/x BASH_ENV=/x PS4='$(touch {desk.canary})' PATH=/evil:$PATH; env >> \"$PLANRUNNER_OUTPUT\" || true", "allow_failure": True},
        {"id": "b", "needs": ["a"], "run": "set -x; env > env.txt"},
    )  # fmt: skip
    assert told.code == 0, told.stderr
    text = (desk.folder / "env.txt").read_text()
    assert "LD_PRELOAD" not in text and "/evil" not in text


# 20 to 23: addresses


class _Page(http.server.BaseHTTPRequestHandler):
    asked: ClassVar[list[str]] = []
    to = ""

    def do_GET(self) -> None:
        type(self).asked.append(f"{self.path} {dict(self.headers)}")
        if self.path == "/redirect":
            self.send_response(302)
            self.send_header("Location", type(self).to)
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"inner")

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def served() -> Iterator[int]:
    _Page.asked = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


FORMS = (
    "http://127.0.0.1:{}/", "http://localhost:{}/", "http://2130706433:{}/", "http://0x7f000001:{}/", "http://0177.0.0.1:{}/",
    "http://127.1:{}/", "http://0:{}/", "http://[::ffff:127.0.0.1]:{}/", "http://[::1]:{}/", "http://example.com@127.0.0.1:{}/",
    "http://127.0.0.1:{}#@example.com/", "http://127.0.0.1:{}\\@example.com/", "http://user:pass@127.0.0.1:{}/", "http://①②⑦.⓪.⓪.①:{}/",
)  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_no_value_reaches_this_machine(desk: Desk, form: str) -> None:
    with served() as port:
        told = desk.run(
            {"id": "get", "uses": "http.get", "with": {"url": "{{ params.url }}"}},
            params={"url": {"type": "string", "default": ""}}, values={"url": form.format(port)},
        )  # fmt: skip
        assert _Page.asked == []
    end = told.ends["get"]
    assert end["failure"] in ("policy", "logic") and not end["outputs"]
    assert end["failure"] == "logic" or told.rule("get") in ("network.private", "git.credentials"), end


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "gopher://127.0.0.1:25/_x",
        "ftp://127.0.0.1/",
        "data:text/plain,x",
        "//127.0.0.1/",
        "http:///x",
        "http://a b/",
        "http://x\r\nHost: y/",
    ],
)
def test_what_is_no_address_of_the_web_is_refused(desk: Desk, url: str) -> None:
    told = desk.run(
        {"id": "get", "uses": "http.get", "with": {"url": "{{ params.url }}"}},
        params={"url": {"type": "string", "default": ""}}, values={"url": url},
    )  # fmt: skip
    assert told.ends["get"]["failure"] in ("policy", "logic", "transient") and not told.ends["get"]["outputs"]


@pytest.mark.parametrize(
    "to",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://[fd00:ec2::254]/",
        "file:///etc/passwd",
        "http://10.0.0.1/",
        "http://127.0.0.1:1/",
    ],
)
def test_a_redirect_leads_nowhere_else(desk: Desk, to: str) -> None:
    with served() as port:
        _Page.to = to
        desk.write("planrunner.yaml", f'network: {{private: ["127.0.0.1:{port}"]}}')
        told = desk.run({"id": "get", "uses": "http.get", "with": {"url": f"http://127.0.0.1:{port}/redirect"}})
    end = told.ends["get"]
    assert "inner" not in json.dumps(end["outputs"])
    assert (end["failure"], end["rule"]) == ("policy", "network.private") or (
        end["failure"] == "logic" and to[:4] == "file"
    ), end


@pytest.mark.parametrize("value", ["x\r\nX-Injected: 1", "x\nHost: evil", "x\0y", "x\r\n\r\nGET /second HTTP/1.1"])
def test_a_header_stays_one_header(desk: Desk, value: str) -> None:
    with served() as port:
        desk.write("planrunner.yaml", f'network: {{private: ["127.0.0.1:{port}"]}}')
        told = desk.run(
            {"id": "get", "uses": "http.get", "with": {"url": f"http://127.0.0.1:{port}/", "headers": {"X-Given": "{{ params.v }}"}}},
            params={"v": {"type": "string", "default": ""}}, values={"v": value},
        )  # fmt: skip
        assert not [each for each in _Page.asked if "Injected" in each or "second" in each or "evil" in each]
    assert told.ends["get"]["failure"], told.ends["get"]


# 24 to 27: git


@pytest.fixture
def repository(desk: Desk) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    os.rmdir(desk.folder / ".git")
    for words in (["init", "-q", "-b", "main"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run(
            ["git", "-c", "user.name=x", "-c", "user.email=x@example.com", *words], cwd=desk.folder, check=True
        )
    return desk.folder


@pytest.mark.parametrize(
    "ref", ["--upload-pack=touch {}", "-o{}", "--output={}", "--exec=touch {}", "-c core.pager=touch {}"]
)
def test_a_name_of_a_commit_is_no_option(desk: Desk, repository: Path, ref: str) -> None:
    given = {"ref": "{{ params.ref }}"}
    told = desk.run(
        {"id": "switch", "uses": "git.switch", "with": given, "allow_failure": True},
        {"id": "show", "uses": "git.show", "with": given, "allow_failure": True},
        {"id": "merge", "uses": "git.merge", "with": given, "allow_failure": True},
        {"id": "branch", "uses": "git.branch", "with": {"name": "{{ params.ref }}"}, "allow_failure": True},
        params={"ref": {"type": "string", "default": ""}}, values={"ref": ref.format(desk.canary)},
    )  # fmt: skip
    assert {told.rule(name) for name in ("switch", "show", "merge", "branch")} == {"git.option"}


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% {}",
        "--upload-pack=touch {}",
        "ssh://-oProxyCommand=touch {}/x",
        "-oProxyCommand=x:y",
        "file://host/x",
        "fd::17",
        "x\ny",
    ],
)
def test_an_address_is_no_command(desk: Desk, repository: Path, url: str) -> None:
    told = desk.run(
        {"id": "clone", "uses": "git.clone", "with": {"url": "{{ params.url }}", "path": "copy"}},
        params={"url": {"type": "string", "default": ""}}, values={"url": url.format(desk.canary)},
    )  # fmt: skip
    assert told.rule("clone") in ("git.address", "git.protocol", "git.option")
    assert not (desk.folder / "copy").exists()


@pytest.mark.parametrize(
    "key", ["core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "diff.external", "core.hooksPath"]
)
def test_settings_of_a_repository_start_nothing(desk: Desk, repository: Path, key: str) -> None:
    evil = repository / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {desk.canary}\n")
    evil.chmod(0o755)
    subprocess.run(["git", "config", key, str(evil)], cwd=repository, check=True)
    for hook in ("pre-commit", "post-checkout", "reference-transaction", "post-index-change"):
        (repository / ".git" / "hooks").mkdir(exist_ok=True)
        (repository / ".git" / "hooks" / hook).symlink_to(evil)
    desk.run(
        {"id": "status", "uses": "git.status", "allow_failure": True},
        {"id": "diff", "uses": "git.diff", "needs": ["status"], "join": "always", "allow_failure": True},
        {"id": "add", "uses": "git.add", "needs": ["diff"], "join": "always", "with": {"paths": ["."]}, "allow_failure": True},
        {"id": "branch", "uses": "git.branch", "needs": ["add"], "join": "always", "with": {"name": "b"}, "allow_failure": True},
    )  # fmt: skip


@pytest.mark.parametrize("key", ["filter.evil.clean", "include.path", "alias.status"])
def test_a_filter_of_a_repository_is_refused_and_nothing_runs(desk: Desk, repository: Path, key: str) -> None:
    (repository / "evil.sh").write_text(f"#!/bin/sh\ntouch {desk.canary}\n")
    (repository / "evil.sh").chmod(0o755)
    (repository / ".gitattributes").write_text("* filter=evil\n")
    (repository / "more").write_text(f"[core]\n\tfsmonitor = {repository}/evil.sh\n")
    value = {"filter": f"{repository}/evil.sh", "include": f"{repository}/more"}.get(
        key.partition(".")[0], f"!{repository}/evil.sh"
    )
    subprocess.run(["git", "config", key, value], cwd=repository, check=True)
    told = desk.run({"id": "add", "uses": "git.add", "with": {"paths": ["."]}})
    assert told.code == 0 if key.startswith("alias") else told.rule("add") == "git.settings"


@pytest.mark.parametrize("key", ["core.fsmonitor", "filter.evil.clean", "diff.external", "diff.evil.textconv"])
def test_a_gate_that_shows_a_diff_starts_nothing(desk: Desk, repository: Path, key: str) -> None:
    (repository / "evil.sh").write_text(f"#!/bin/sh\ntouch {desk.canary}\ncat\n")
    (repository / "evil.sh").chmod(0o755)
    (repository / "a.txt").write_text("one\n")
    words = ["-c", "user.name=x", "-c", "user.email=x@example.com", "commit", "-q", "-m", "more"]
    subprocess.run(["git", "add", "-A"], cwd=repository, check=True)
    subprocess.run(["git", *words], cwd=repository, check=True)
    (repository / "a.txt").write_text("two\n")
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "attributes").write_text("* filter=evil diff=evil\n")
    subprocess.run(["git", "config", key, f"{repository}/evil.sh"], cwd=repository, check=True)
    told = desk.run({"id": "look", "gate": "diff", "ask": "Fine", "evidence": ["a.txt"]})
    (examined,) = (entry for entry in told.entries if entry["type"] == "gate_examined")
    if key.startswith("filter"):
        assert told.code == 7 and [each.get("rule") for each in examined["evidence"]] == ["git.settings"]
    else:
        assert told.code == 8 and "+two" in examined["evidence"][0]["text"]


# 28 and 29: databases


def test_a_value_is_no_statement(desk: Desk) -> None:
    pytest.importorskip("sqlalchemy")
    with sqlite3.connect(desk.folder / "d.db") as made:
        made.execute("CREATE TABLE t (name TEXT)")
    values = hostile(desk)
    told = desk.run(
        {
            "id": "put", "uses": "sql.execute",
            "with": {"database": "sqlite:///d.db", "statement": "INSERT INTO t VALUES (:name)", "params": "{{ params.all }}"},
        },
        {"id": "get", "needs": ["put"], "uses": "sql.query", "with": {"database": "sqlite:///d.db", "statement": "SELECT name FROM t ORDER BY rowid"}},
        params={"all": {"type": "list", "default": []}}, values={"all": [{"name": value} for value in values]},
    )  # fmt: skip
    assert told.code == 0, told.stderr
    assert [row["name"] for row in told.outputs("get")["rows"]] == values


@pytest.mark.parametrize(
    ("statement", "rule"),
    [
        ("DROP TABLE t", "sql.readonly"),
        ("COMMIT", "sql.transaction"),
        ("WITH x AS (SELECT 1) DELETE FROM t", "sql.readonly"),
        ("ATTACH '/tmp/other.db' AS o", "sql.transaction"),
    ],
)
def test_a_query_only_reads(desk: Desk, statement: str, rule: str) -> None:
    pytest.importorskip("sqlalchemy")
    with sqlite3.connect(desk.folder / "d.db") as made:
        made.execute("CREATE TABLE t (name TEXT)")
    told = desk.run({"id": "q", "uses": "sql.query", "with": {"database": "sqlite:///d.db", "statement": statement}})
    assert told.rule("q") == rule
    with sqlite3.connect(desk.folder / "d.db") as made:
        assert made.execute("SELECT name FROM sqlite_master").fetchall() == [("t",)]


@pytest.mark.parametrize("database", ["sqlite:////etc/x.db", "sqlite:///../x.db", "postgresql://h/x", "nobody"])
def test_a_value_names_no_other_database(desk: Desk, database: str) -> None:
    pytest.importorskip("sqlalchemy")
    told = desk.run(
        {"id": "q", "uses": "sql.query", "with": {"database": "{{ params.d }}", "statement": "SELECT 1"}},
        params={"d": {"type": "string", "default": ""}}, values={"d": database},
    )  # fmt: skip
    if database == "nobody":
        assert told.code == 5 and "names no database `nobody`" in told.stderr
    else:
        assert told.rule("q") in ("files.beneath", "sql.address", "sql.database")


# 30: names of items, artifacts and objects


def test_items_with_hostile_names_stay_items(desk: Desk) -> None:
    values = [value for value in hostile(desk) if value]
    told = desk.run(
        {"id": "each", "foreach": "params.all", "run": "echo {{ item }}"},
        params={"all": {"type": "list", "default": []}}, values={"all": values},
    )  # fmt: skip
    assert told.code == 0, told.stderr
    logs = list(desk.state.rglob("*.log"))
    assert len(logs) >= len(values)
    assert all(path.resolve().is_relative_to(desk.state.resolve()) for path in logs)


def test_data_with_names_of_types_is_data(desk: Desk) -> None:
    data = {
        "__class__": "os.system",
        "py/object": "os.system",
        "$type": "x",
        "__reduce__": ["os.system", [f"touch {desk.canary}"]],
        "lc": 1,
        "id": ["os"],
    }
    told = desk.run(
        {"id": "a", "uses": "noop", "with": {"value": "{{ params.d }}"}},
        {"id": "b", "needs": ["a"], "uses": "python.run", "with": {"code": "result = {'d': args['d']}", "args": {"d": "{{ tasks.a.outputs.value }}"}, **PYTHON}},
        params={"d": {"type": "map", "default": {}}}, values={"d": data},
    )  # fmt: skip
    assert told.outputs("b")["d"] == data


@pytest.mark.parametrize("name", ["DOCKER_HOST", "LD_PRELOAD", "PATH", "a=b", "-e"])
def test_a_variable_that_steers_a_client_is_refused(desk: Desk, name: str) -> None:
    client = desk.write("bin/docker", f"#!/bin/sh\ntouch {desk.canary}\n")
    client.chmod(0o755)
    desk.env["PATH"] = f"{desk.folder}/bin:{os.environ['PATH']}"
    told = desk.run({"id": "a", "uses": "docker.run", "with": {"image": "x", "env": {name: "y"}}})
    assert told.rule("a") == "clients.env"


def test_a_socket_is_bound_to_nothing_here() -> None:
    """The addresses that are tried above do reach a server of this machine where nothing stands in the way."""
    with served() as port, socket.create_connection(("127.1", port), timeout=240):
        pass
