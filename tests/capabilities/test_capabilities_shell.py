"""``shell``: scripts, exit codes and outputs. The function is called as the engine calls it; its process is run plainly."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planrunner.capabilities.contract import OUTPUT_LIMIT, Call, Context, Exit, Failure
from planrunner.capabilities.core import classify, shell
from planrunner.capabilities.outputs import parse_outputs, read_output_file, settle_outputs, stdout_outputs, typed
from planrunner.machine.events import Outcome
from planrunner.plan.model import Output, Task


class NoLog:
    def write(self, data: bytes, stream: str = "stdout") -> None:
        raise AssertionError("the shell has no log of its own")


def run(
    folder: Path, script: str = "", arguments: tuple[str, ...] = (), task: Task | None = None, **parts: Any
) -> Outcome:
    task = task or Task("task", uses="shell")
    (folder / "scratch").mkdir(exist_ok=True)
    scratch = str(folder / "scratch" / "task.1")
    values = {"values": {}, "env": {}, "directory": str(folder), **parts}
    call = Call("run", task, 1, "run:task:1", {}, script, arguments, scratch=scratch, timeout=None, **values)
    spawn = shell(Context(call, NoLog(), lambda: False))
    done = subprocess.run(
        spawn.arguments, env={**os.environ, **spawn.env}, cwd=spawn.directory, capture_output=True, check=False
    )
    assert spawn.finish is not None
    kept = done.stdout[-spawn.keep :].decode("utf-8", "replace")
    ended = Exit(done.returncode, 0.5, kept, done.stderr.decode(), dropped=max(0, len(done.stdout) - spawn.keep))
    return spawn.finish(ended)


class TestScripts:
    def test_a_script_stops_at_the_first_command_that_fails(self, tmp_path: Path) -> None:
        outcome = run(tmp_path, "echo one\nfalse\necho two")
        assert (outcome.failure, outcome.exit_code, outcome.stdout) == ("logic", 1, "one\n")

    def test_the_task_chooses_its_interpreter(self, tmp_path: Path) -> None:
        assert run(tmp_path, "echo ${BASH_VERSION:+bash}", task=Task("t", shell="bash")).stdout == "bash\n"
        assert run(tmp_path, "print(6 * 7)", task=Task("t", shell="python3 -S")).stdout == "42\n"

    @pytest.mark.parametrize(
        ("interpreter", "before"),
        [
            ("node", ["node", "-e"]),
            ("/opt/bin/node18 --no-warnings", ["/opt/bin/node18", "--no-warnings", "-e"]),
            ("perl -e", ["perl", "-e"]),
            ("/usr/bin/env -S perl -w", ["/usr/bin/env", "-S", "perl", "-w", "-e"]),
            ("deno", ["deno", "eval"]),
            ("php8.3", ["php8.3", "-r"]),
            ("python3.11", ["python3.11", "-c"]),
            ("/usr/bin/env A=1 bash", ["/usr/bin/env", "A=1", "bash", "-e", "-o", "pipefail", "-c"]),
            ("sh", ["sh", "-e", "-c"]),
            ("env", ["env", "-c"]),
        ],
    )
    def test_a_program_gets_the_script_as_its_code(self, tmp_path: Path, interpreter: str, before: list[str]) -> None:
        call = Call(
            *("run", Task("t", uses="shell", shell=interpreter), 1, "run:t:1", {}, "the script", ()),
            values={}, env={}, directory=str(tmp_path), scratch="", timeout=None,
        )  # fmt: skip
        assert list(shell(Context(call, NoLog(), lambda: False)).arguments) == [*before, "the script"]

    @pytest.mark.skipif(shutil.which("perl") is None, reason="perl is not installed")
    def test_perl_runs_the_script(self, tmp_path: Path) -> None:
        for interpreter in ("perl", "perl -e"):
            assert run(tmp_path, 'print "hi\n"', task=Task("t", shell=interpreter)).stdout == "hi\n"

    def test_arguments_go_to_the_program_as_they_are(self, tmp_path: Path) -> None:
        assert run(tmp_path, arguments=("printf", "%s|", "a b", "$HOME", "*")).stdout == "a b|$HOME|*|"

    def test_values_come_after_the_environment_of_the_task(self, tmp_path: Path) -> None:
        outcome = run(tmp_path, 'echo "$A $B"', env={"A": "1", "B": "2"}, values={"B": "3; false"})
        assert outcome.stdout == "1 3; false\n"

    def test_the_first_line_of_a_script_is_line_one_of_its_errors(self, tmp_path: Path) -> None:
        outcome = run(tmp_path, "no-such-command")
        assert outcome.failure == "logic"
        assert outcome.message.startswith("a command of the script was not found (exit code 127): ")
        assert ": 1: " in outcome.message


class TestExitCodes:
    def test_a_command_that_ends_a_script_with_a_code_above_128_was_not_ended_by_a_signal(self, tmp_path: Path) -> None:
        outcome = run(tmp_path, "(exit 129)")
        assert (outcome.failure, outcome.message, outcome.exit_code) == ("logic", "exit code 129", 129)

    def test_a_shell_that_a_signal_ends_failed_from_outside(self, tmp_path: Path) -> None:
        outcome = run(tmp_path, "kill -TERM $$")
        assert (outcome.failure, outcome.message) == ("transient", "ended from outside by signal 15 (TERM)")

    @pytest.mark.parametrize(
        ("code", "direct", "failure", "message"),
        [
            (0, True, "", ""),
            (1, True, "logic", "exit code 1: last words"),
            (75, False, "transient", "exit code 75 (try again later): last words"),
            (126, False, "logic", "a command of the script could not be executed (exit code 126): last words"),
            (127, True, "logic", "exit code 127: last words"),
            (-9, True, "transient", "ended from outside by signal 9 (KILL, perhaps for lack of memory)"),
            (137, False, "logic", "exit code 137: last words"),
            (129, False, "logic", "exit code 129: last words"),
            (137, True, "logic", "exit code 137: last words"),
            (-15, True, "transient", "ended from outside by signal 15 (TERM)"),
            (-11, True, "logic", "ended by signal 11: last words"),
            (139, False, "logic", "exit code 139: last words"),
        ],
    )
    def test_each_exit_code_has_its_class(self, code: int, direct: bool, failure: str, message: str) -> None:
        assert classify(Exit(code, 1.0, "", "first\nlast words\n\n"), direct) == (failure, message)

    @pytest.mark.parametrize("mark", ["   ^", "     | ^~~~"])
    def test_a_mark_below_a_line_is_not_the_message(self, mark: str) -> None:
        said = f"first\nERROR:  no such column\nLINE 1: SELECT a\n{mark}\n"
        assert classify(Exit(1, 1.0, "", said), True) == ("logic", "exit code 1: ERROR:  no such column")

    @pytest.mark.parametrize(
        ("code", "said", "cause"),
        [
            (2, "a.c:3:5: error: no type `foo`\n  3 | foo x;\n    | ^~~\nmake[1]: *** [Makefile:5: a.o] Error 1\nmake: Leaving directory 'x'\nmake: *** [Makefile:1: all] Error 2", "a.c:3:5: error: no type `foo`"),
            (2, "make: *** No rule to make target 'x'.  Stop.", "make: *** No rule to make target 'x'.  Stop."),
            (127, "shim: python3.12: command not found\n\nThe command exists in:\n  3.12.1\n\nNote: versions\n  at once.", "shim: python3.12: command not found"),
            (1, "+ echo hi\n+ ls nothing\nls: nothing: No such file\n++ true", "ls: nothing: No such file"),
            (1, "+ echo hi\n+ grep -q nothing f", "`grep -q nothing f`"),
            (1, "Traceback (most recent call last):\n  File x\nValueError: bad", "ValueError: bad"),
            (1, "/x.js:1\nthrow new Error('bad')\n^\n\nError: bad\n    at Object\n\nNode.js v20.1.0", "Error: bad"),
            (1, "error[E1]: no value `x`\n --> a.rs:3:5\n  |\n3 |  x\n  |  ^ not in scope\n\nerror: aborting due to 1 error\n\nFor more about it, ask.\nerror: could not compile `a`", "error[E1]: no value `x`"),
            (1, "error: failed to push\nhint: Updates were rejected\nhint: pull first", "error: failed to push"),
            (1, "   all\n   indented", "indented"),
        ],
    )  # fmt: skip
    def test_the_message_has_the_line_that_says_why(self, code: int, said: str, cause: str) -> None:
        assert classify(Exit(code, 1.0, "", said), True) == ("logic", f"exit code {code}: {cause}")


class TestOutputFile:
    def test_json_lines_pairs_and_blocks_may_be_mixed(self, tmp_path: Path) -> None:
        script = """
        echo '{"count": 3, "names": ["a", "b"]}' >> "$PLANRUNNER_OUTPUT"
        echo 'plain=a = b' >> "$PLANRUNNER_OUTPUT"
        echo 'empty=' >> "$PLANRUNNER_OUTPUT"
        { echo 'text<<END'; echo 'first'; echo; echo ' END '; echo 'x=1'; echo 'END'; } >> "$PLANRUNNER_OUTPUT"
        echo '{"count": 4}' >> "$PLANRUNNER_OUTPUT"
        """
        outputs = {"count": 4, "names": ["a", "b"], "plain": "a = b", "empty": "", "text": "first\n\n END \nx=1"}
        assert run(tmp_path, script).outputs == outputs

    def test_the_file_is_gone_afterwards_and_nothing_else_was_made(self, tmp_path: Path) -> None:
        run(tmp_path, "echo a=1 >> $PLANRUNNER_OUTPUT")
        run(tmp_path, "echo a=1 >> $PLANRUNNER_OUTPUT; exit 1")
        run(tmp_path, "true")
        assert list((tmp_path / "scratch").iterdir()) == []

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "a=1\nnonsense\n",
                "line 2 of the output file is neither a JSON object, `key=value` nor `key<<END`: nonsense",
            ),
            ('{"a": \n', "line 1 of the output file is not valid JSON: Expecting value: line 1 column 7 (char 6)"),
            ('a=1\n{"a": NaN}\n', "line 2 of the output file is not valid JSON: NaN is not a JSON value"),
            ("a=1\n\nb<<END\nno end\n", "line 3 of the output file opens `b<<END` and no line `END` closes it"),
            (
                "two words=1",
                "line 1 of the output file is neither a JSON object, `key=value` nor `key<<END`: two words=1",
            ),
            ("=1", "line 1 of the output file is neither a JSON object, `key=value` nor `key<<END`: =1"),
        ],
    )
    def test_a_malformed_line_fails_the_task_and_is_named(self, tmp_path: Path, text: str, message: str) -> None:
        outcome = run(tmp_path, 'printf %s "$TEXT" >> $PLANRUNNER_OUTPUT', env={"TEXT": text})
        assert (outcome.failure, outcome.message, outcome.outputs) == ("logic", message, {})

    def test_bytes_that_are_no_text_are_named_by_their_line(self) -> None:
        with pytest.raises(Failure, match="line 2 of the output file is not UTF-8 text"):
            parse_outputs(b"a=1\nb=\xff\n")

    def test_a_deeply_nested_line_is_a_failure_like_any_other(self) -> None:
        with pytest.raises(Failure, match="line 1 of the output file is not valid JSON"):
            parse_outputs(b'{"a": ' + b"[" * 100_000)

    def test_a_file_above_1_mib_is_refused(self, tmp_path: Path) -> None:
        outcome = run(
            tmp_path, f"{{ printf a=; head -c {OUTPUT_LIMIT - 1} /dev/zero | tr '\\0' x; }} >> $PLANRUNNER_OUTPUT"
        )
        assert "larger than 1 MiB" in outcome.message
        outcome = run(
            tmp_path, f"{{ printf a=; head -c {OUTPUT_LIMIT - 2} /dev/zero | tr '\\0' x; }} >> $PLANRUNNER_OUTPUT"
        )
        assert len(outcome.outputs["a"]) == OUTPUT_LIMIT - 2

    @pytest.mark.parametrize("make", ["mkfifo", "mkdir", "ln -s /etc/passwd"])
    def test_what_is_no_regular_file_is_refused_without_waiting(self, tmp_path: Path, make: str) -> None:
        outcome = run(tmp_path, f'{make} "$PLANRUNNER_OUTPUT"')
        assert outcome.failure == "logic"
        assert outcome.message.startswith("the output file ")

    def test_a_failing_script_keeps_its_own_reason(self, tmp_path: Path) -> None:
        outcome = run(tmp_path, "echo nonsense >> $PLANRUNNER_OUTPUT; exit 3")
        assert outcome.message == "exit code 3"

    @given(
        st.dictionaries(st.from_regex(r"[a-z_][a-z0-9_-]{0,8}", fullmatch=True), st.text(st.characters(codec="utf-8")))
    )
    def test_every_text_survives_a_json_line(self, tmp_path_factory: pytest.TempPathFactory, outputs: dict) -> None:
        import json

        path = tmp_path_factory.mktemp("outputs") / "file"
        path.write_text(json.dumps(outputs) + "\n", encoding="utf-8")
        assert read_output_file(str(path)) == outputs
        assert not path.exists()

    @given(st.binary(max_size=200))
    def test_any_bytes_give_outputs_or_a_failure(self, data: bytes) -> None:
        try:
            assert isinstance(parse_outputs(data), dict)
        except Failure as failure:
            assert "of the output file" in str(failure)


class TestStandardOutput:
    def test_json_objects_give_their_members(self, tmp_path: Path) -> None:
        task = Task("t", stdout="json")
        assert run(tmp_path, """echo '{"a": 1, "b": [2]}'""", task=task).outputs == {"a": 1, "b": [2]}
        assert run(tmp_path, "echo '[1]'", task=task).outputs == {"value": [1]}
        only = task._replace(outputs=(Output("report", "map"),))
        assert run(tmp_path, """echo '{"a": 1}'""", task=only).outputs == {"report": {"a": 1}}
        assert run(tmp_path, """echo '{"report": {"a": 1}}'""", task=only).outputs == {"report": {"a": 1}}

    def test_text_and_lines_give_one_output(self, tmp_path: Path) -> None:
        task = Task("t", stdout="text", outputs=(Output("sha", "string"),))
        assert run(tmp_path, "echo abc", task=task).outputs == {"sha": "abc"}
        assert run(tmp_path, "printf 'a\\nb\\n'", task=Task("t", stdout="lines")).outputs == {"value": ["a", "b"]}

    def test_a_byte_order_mark_is_not_part_of_the_text(self, tmp_path: Path) -> None:
        assert parse_outputs('\ufeff{"a": 1}\n'.encode()) == {"a": 1}
        assert typed("a", "map", '\ufeff{"a": 1}') == {"a": 1}
        assert stdout_outputs("json", '\ufeff{"a": 1}', ()) == {"a": 1}

    def test_what_is_no_json_fails_the_task(self, tmp_path: Path) -> None:
        outcome = run(tmp_path, "echo hello", task=Task("t", stdout="json"))
        assert (outcome.failure, outcome.outputs) == ("logic", {})
        assert outcome.message.startswith("standard output is not valid JSON: ")

    def test_more_than_is_kept_is_refused_rather_than_cut(self, tmp_path: Path) -> None:
        outcome = run(tmp_path, f"head -c {OUTPUT_LIMIT + 1} /dev/zero | tr '\\0' x", task=Task("t", stdout="text"))
        assert "standard output is larger than 1 MiB" in outcome.message
        outcome = run(tmp_path, f"head -c {OUTPUT_LIMIT} /dev/zero | tr '\\0' x", task=Task("t", stdout="text"))
        assert len(outcome.outputs["value"]) == OUTPUT_LIMIT

    def test_the_output_file_goes_before_standard_output(self, tmp_path: Path) -> None:
        script = """echo '{"a": 1, "b": 1}'; echo b=2 >> $PLANRUNNER_OUTPUT"""
        assert run(tmp_path, script, task=Task("t", stdout="json")).outputs == {"a": 1, "b": "2"}


class TestTypes:
    @pytest.mark.parametrize(
        ("kind", "value", "expected"),
        [
            ("string", "a", "a"),
            ("int", "12", 12),
            ("int", 12.0, 12),
            ("number", "1.5", 1.5),
            ("number", "-3", -3),
            ("bool", "true", True),
            ("duration", "1h30m", 5400.0),
            ("duration", "12.5", 12.5),
            ("size", "5KB", 5000),
            ("money", "$2", 2.0),
            ("list", "[1, 2]", [1, 2]),
            ("map", '{"a": 1}', {"a": 1}),
            ("any", "x", "x"),
            ("a type of later", "x", "x"),
        ],
    )
    def test_text_becomes_the_declared_type(self, kind: str, value: object, expected: object) -> None:
        found = typed("x", kind, value)
        assert found == expected
        assert type(found) is type(expected)

    @pytest.mark.parametrize(
        ("kind", "value"),
        [
            ("string", 1), ("int", "1.5"), ("int", True), ("int", 1.5), ("int", "inf"), ("number", "nan"),
            ("number", False), ("bool", "yes"), ("duration", "soon"), ("duration", -1), ("size", "-5"), ("money", "2€"),
            ("list", "{}"), ("list", "[" * 100_000), ("map", "[]"), ("map", None), ("int", float("inf")),
        ],
    )  # fmt: skip
    def test_another_type_is_refused_by_name(self, kind: str, value: object) -> None:
        with pytest.raises(Failure, match=f"the output `x` is declared {kind}, found"):
            typed("x", kind, value)

    def test_outputs_in_files_are_checked_and_read(self, tmp_path: Path) -> None:
        (tmp_path / "count.txt").write_text("12\n")
        (tmp_path / "report.md").write_text("# hello")
        declared = (Output("count", "int", path="count.txt"), Output("report.md", path="report.md"))
        assert settle_outputs(declared, {}, str(tmp_path)) == {"count": 12, "report.md": "report.md"}
        with pytest.raises(Failure, match=r"the declared output `gone` is missing: gone.md does not exist"):
            settle_outputs((Output("gone", path="gone.md"),), {}, str(tmp_path))
        with pytest.raises(Failure, match=r"the declared output `gone` is missing: gone.json: No such file"):
            settle_outputs((Output("gone", "map", path="gone.json"),), {}, str(tmp_path))
