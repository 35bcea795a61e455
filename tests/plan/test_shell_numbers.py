"""Numbers in the arithmetic of a shell."""

from __future__ import annotations

import subprocess

import pytest
from plan_loading import loaded
from rows import rows

from planrunner.plan.shell.quoting import ScriptError, compile_script, environment

NUMBERS = frozenset({"n"})


@pytest.mark.parametrize(
    ("text", "value", "printed"),
    [
        ("echo $(({{ params.n }} + 1))", 4, "5"),
        ("echo $((5-{{ params.n }}))", -3, "8"),
        ('echo "$(({{ int(params.word) }} * 2))"', 21, "42"),
        ("echo $(({{ len(tasks.t.outputs.x) + 1 }}))", 3, "3"),
        ("printf 'a\\nb\\nc\\n' | tail -n +$(({{ params.n }} + 1))", 2, "c"),
    ],
)
def test_a_number_stands_in_arithmetic(text: str, value: int, printed: str) -> None:
    script = compile_script(text, NUMBERS)
    variables = environment(script, {name: value for name, _ in script.values})
    done = subprocess.run(
        ["sh", "-e", "-c", script.text], env=variables | {"PATH": "/usr/bin:/bin"}, capture_output=True
    )
    assert done.stdout.decode().strip() == printed


@rows(
    "body",
    ["params.word", "env.N", "params.n ~ 'x'", "params.n if x else y", "tasks.t.outputs.n", "default(params.n, x)"],
)
def test_anything_else_is_refused_with_the_way_out(body: str) -> None:
    with pytest.raises(ScriptError):
        compile_script(f"echo $(({{{{ {body} }}}}))", NUMBERS)


@rows(
    ("params", "fits"),
    [
        ("{n: int}", True),
        ("{n: 3}", True),
        ("{n: {type: number, default: 2}}", True),
        ("{n: {type: int, required: false}}", False),
        ("{n: string}", False),
        ("{n: size}", False),
    ],
)
def test_lint_and_the_script_go_by_the_type_of_the_parameter(params: str, fits: bool) -> None:
    text = f"plan: p\nparams: {params}\ntasks:\n  - {{id: a, subplan: [{{id: s, run: 'echo $(({{{{ params.n }}}} + 1))'}}]}}\n"
    result = loaded(text)
    codes = [each.code for each in result.findings if each.severity == "error"]
    assert codes == ([] if fits else ["PLAN211"])
    if fits:
        assert result.plan is not None and result.plan.tasks[0].subplan[0].script is not None
