"""A plugin that is wrong in whatever way is named and left out, and commands go on without it."""

from __future__ import annotations

import json
import os
import signal
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from commands import Started, start

ODD = """
    from typing import Annotated, Literal
    from planrunner.capabilities.contract import Context, Preview
    from planrunner.capabilities.contract import Declaration, Doc, TAG, capability

    def tagged(declaration):
        def function() -> None:
            '''Act.'''
        setattr(function, TAG, declaration)
        return function

    none = tagged(Declaration("odd.none", None))
    seven = tagged(Declaration("odd.seven", 7))
    several = tagged(Declaration("odd.several", ["read"]))
    word = tagged(Declaration("odd.word", "sideways"))
    number = tagged(Declaration(5, "read"))
    risks = tagged(Declaration("odd.risks", "read", risks=5))

    @capability("odd.default", effect="read")
    def default(data: bytes = b"x") -> None:
        '''Act.'''

    @capability("odd.half", effect="read")
    def half(data: str = "\\ud800") -> None:
        '''Act.'''

    @capability("odd.choice", effect="read")
    def choice(data: Literal[b"x"]) -> None:
        '''Act.'''

    @capability("odd.doc", effect="read")
    def doc(data: Annotated[str, Doc(5)]) -> None:
        '''Act.'''

    class Trap:
        def __getattr__(self, name):
            raise SystemExit("trapped")

    trap = Trap()

    def number_preview(context):
        return 5

    def exit_preview(context):
        raise SystemExit(3)

    def previewing(name, preview):
        @capability(name, effect="unsafe", preview=preview, irreversible=True)
        def function(context: Context) -> None:
            '''Act.'''
        return function

    five = previewing("odd.five", lambda context: 5)
    fives = previewing("odd.fives", lambda context: Preview(5, 5, 5))
    names = previewing("odd.names", lambda context: Preview("x", "x", (5,)))
    interrupted = previewing("odd.exit", exit_preview)
    circle = previewing("odd.circle", lambda context: (found := {}, found.update(a=found))[0])
    fine = previewing("odd.fine", lambda context: Preview("a name", "\\udcff"))

    @capability("odd.good", effect="read")
    def good() -> str:
        '''Good.'''
        return "good"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    install(tmp_path, "odd", "[planrunner.capabilities]\nodd = odd_plugin\n", odd_plugin=ODD)
    return tmp_path


def install(folder: Path, name: str, points: str, **modules: str) -> None:
    about = folder / "site-packages" / f"{name}-1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (about / "entry_points.txt").write_text(points)
    for module, text in modules.items():
        (about.parent / f"{module}.py").write_text(textwrap.dedent(text))


def started(project: Path, *words: str) -> Started:
    env = {"PYTHONPATH": str(project / "site-packages"), "XDG_CACHE_HOME": str(project / "cache")}
    return start(*words, folder=project, env={**os.environ, **env})


def call(project: Path, *words: str) -> tuple[int, str, str]:
    process = started(project, *words)
    try:
        out, err = process.communicate(timeout=240)
    finally:
        process.kill()
    return process.returncode, out, err


def test_capabilities_that_nobody_can_be_shown_are_named_and_the_others_listed(project: Path) -> None:
    code, out, err = call(project, "capabilities")
    assert code == 0, err
    assert "odd.good" in out
    for name, why in {
        "odd.none": "its effect None is not one of",
        "odd.seven": "its effect 7 is not one of",
        "odd.several": "its effect ['read'] is not one of",
        "odd.word": "its effect 'sideways' is not one of",
        "odd.risks": "its `risks` are 5",
        "odd.default": "the default of the input `data` is a bytes, which is not JSON data",
        "odd.half": "the default of the input `data` is not text that UTF-8 can encode",
        "odd.choice": "what is said of the type of `data`.enum[0] is a bytes",
        "odd.doc": "the text of `data` is a int",
    }.items():
        assert name not in out
        (line,) = (line for line in err.splitlines() if f"the capability `{name}` of odd is left out: " in line)
        assert ".py:" in line
        assert f": {why}" in line
    assert "a capability is named 5, which is not a text" in err
    assert "the plugin odd: SystemExit: trapped" in err


@pytest.mark.parametrize("name", ["odd.none", "odd.default", "odd.doc"])
def test_asking_for_one_that_is_left_out_is_no_internal_error(project: Path, name: str) -> None:
    code, _, err = call(project, "capabilities", name)
    assert code not in (0, 4)
    assert f"the capability `{name}` of odd is left out" in err


def test_a_plan_that_names_one_that_is_left_out_does_not_begin(project: Path) -> None:
    (project / "plan.yaml").write_text("plan: p\ntasks:\n  - {id: a, uses: odd.seven, timeout: 2m}\n")
    code, _, err = call(project, "exec", "plan.yaml")
    assert code not in (0, 4)
    assert "its effect 7 is not one of" in err


def test_previews_that_go_wrong_are_rows_with_a_problem(project: Path) -> None:
    tasks: list[dict[str, Any]] = [
        {"id": name, "uses": f"odd.{name}", "timeout": "2m"}
        for name in ("five", "fives", "names", "exit", "circle", "fine")
    ]
    (project / "plan.json").write_text(json.dumps({"plan": "p", "tasks": tasks}))
    code, out, err = call(project, "preview", "plan.json", "--changes", "--json")
    assert code == 0, err
    rows = {row["task"]: row for row in json.loads(out)["changes"]}
    for name in ("five", "fives", "names"):
        assert rows[name]["problem"] == f"the preview of `odd.{name}` is not a Preview of texts"
    assert rows["exit"]["problem"] == "as things are now: SystemExit: 3"
    assert rows["circle"]["problem"] == "as things are now: the preview.a refers to itself"
    assert (rows["fine"]["problem"], rows["fine"]["diff"]) == ("", "\udcff")
    assert call(project, "preview", "plan.json", "--changes", "--save", "kept.json")[0] == 0
    assert json.loads((project / "kept.json").read_text())["changes"][-1]["diff"] == "\udcff"


@pytest.mark.parametrize("group", ["planrunner.plugins", "planrunner.capabilities"])
@pytest.mark.parametrize("error", ["KeyboardInterrupt", "SystemExit(3)", "GeneratorExit", "BaseException('x')"])
def test_whatever_an_import_raises_names_the_plugin_and_the_command_goes_on(
    tmp_path: Path, error: str, group: str
) -> None:
    install(tmp_path, "ender", f"[{group}]\nender = ender_plugin\n", ender_plugin=f"raise {error}")
    code, out, err = call(tmp_path, "capabilities")
    assert code == 0
    assert "noop" in out
    assert f"the plugin ender is left out: {error.partition('(')[0]}" in err


def test_a_ctrl_c_during_an_import_still_ends_the_command(tmp_path: Path) -> None:
    text = "import time\nopen('began', 'w').close()\nwhile True: time.sleep(0.01)\n"
    install(tmp_path, "slow", "[planrunner.plugins]\nslow = slow_plugin\n", slow_plugin=text)
    process = started(tmp_path, "capabilities")
    until = time.monotonic() + 240
    while not (tmp_path / "began").exists() and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    try:
        _, err = process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "interrupted" in err
