"""Python of the project in a process of its own, through the real command."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from workbench import planrunner

from planrunner.capabilities.contract import Call, Context, Failure
from planrunner.capabilities.python.run import run
from planrunner.plan.model import Task

SECRET = "'; import os; os.system('touch stolen') #$(touch stolen)"

TOOL = """
from __future__ import annotations
import asyncio, os, sys
from dataclasses import dataclass
from os import path

@dataclass
class Item:
    name: str
    price: float = 1.0

def total(items: list[Item]) -> dict:
    print("summing", len(items))
    return {"total": sum(each.price for each in items), "names": [each.name for each in items]}

async def later(x: int) -> int:
    await asyncio.sleep(0)
    return x + 1

def deep(x: int) -> float:
    return inner(x)

def inner(x: int) -> float:
    return 1 / x

def leave(code):
    sys.exit(code)

def vanish():
    os._exit(0)

def large() -> str:
    return "x" * 2_000_000

def reads() -> str:
    return sys.stdin.read()

def where() -> list:
    import shop.stock
    return [os.getcwd(), shop.stock.NAME, __name__]
"""

Tasks = dict[str, dict[str, Any]]


class Silent:
    def write(self, data: bytes, stream: str = "stdout") -> None: ...
    def beat(self) -> None: ...
    def spend(self, amounts: Any) -> None: ...


@pytest.fixture
def ran(tmp_path: Path) -> Callable[..., Tasks]:
    """Runs one task for each set of inputs; gives the tasks with what they came to."""
    project = tmp_path / "project"
    (project / "src" / "shop").mkdir(parents=True)
    (project / "tool.py").write_text(TOOL)
    (project / "src" / "shop" / "stock.py").write_text("NAME = 'stock'\n")

    def ran_with(_more: dict[str, Any] | None = None, **inputs: dict[str, Any]) -> Tasks:
        tasks = [
            {"id": name, "uses": "python.run", "with": {"python": sys.executable, **given}, "allow_failure": True, **(_more or {})}
            for name, given in inputs.items()
        ]  # fmt: skip
        (project / "p.json").write_text(json.dumps({"plan": "p", "tasks": tasks}))
        done = planrunner(project, "exec", "p.json", "--json", PLANRUNNER_STATE=str(tmp_path / "state"))
        assert done.stdout, done.stderr
        return json.loads(done.stdout)["tasks"]  # type: ignore[no-any-return]

    return ran_with


def test_functions_scripts_and_lines_give_outputs(ran: Callable[..., Tasks], tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "double.py").write_text("import tool\nprint('noise')\nresult = {'n': args['n'] * 2, 'main': __name__}\n")
    found = ran(
        by_file={"function": "tool.py:total", "args": {"items": [{"name": "a", "price": 2}, {"name": "b"}]}},
        by_module={"function": "shop.stock:NAME.upper"},
        coroutine={"function": "tool:later", "args": {"x": 1}},
        script={"file": "double.py", "args": {"n": 21}},
        lines={"code": "result = args['text']", "args": {"text": SECRET}},
        place={"function": "tool:where"},
        nothing={"code": "pass"},
        stdin={"function": "tool:reads"},
    )
    assert found["by_file"]["outputs"] == {"total": 3.0, "names": ["a", "b"]}
    assert found["by_module"]["detail"] == "shop.stock has no function `NAME.upper`"
    assert found["coroutine"]["outputs"] == {"value": 2}
    assert found["script"]["outputs"] == {"n": 42, "main": "__main__"}
    assert found["lines"]["outputs"] == {"value": SECRET}
    assert found["place"]["outputs"] == {"value": [str(project), "stock", "tool"]}
    assert found["nothing"]["outputs"] == {}
    assert found["stdin"]["outputs"] == {"value": ""}
    assert not (project / "stolen").exists()
    assert not list(project.rglob("__pycache__"))


def test_what_goes_wrong_says_what_and_where(ran: Callable[..., Tasks]) -> None:
    found = ran(
        unfit={"function": "tool:total", "args": {"items": [{"name": 1}]}},
        raises={"function": "tool:deep", "args": {"x": 0}},
        syntax={"code": "result = ("},
        exits={"function": "tool:leave", "args": {"code": 3}},
        exits_well={"function": "tool:leave", "args": {"code": 0}},
        says={"function": "tool:leave", "args": {"code": "no stock"}},
        vanishes={"function": "tool:vanish"},
        large={"function": "tool:large"},
        eats={"code": "x = bytearray(10**9)", "memory": "200MiB"},
        unknown={"function": "tool:nothing"},
        two={"function": "tool:total", "code": "pass"},
        nowhere={"function": "no_such_module:f"},
        killed={"code": "import os; os.kill(os.getpid(), 11)"},
    )
    said = {name: (task["status"], task["detail"]) for name, task in found.items()}
    assert said == {
        "unfit": ("failed", "`args.items[0].name` has to be text, found 1"),
        "raises": ("failed", "ZeroDivisionError: division by zero (tool.py, line 24)"),
        "syntax": ("failed", "SyntaxError: '(' was never closed (<code>, line 1)"),
        "exits": ("failed", "exit code 3"),
        "exits_well": ("completed", ""),
        "says": ("failed", "no stock"),
        "vanishes": ("failed", "ended without a result: the process was left by os._exit or exec"),
        "large": ("failed", "the result is larger than 1 MiB; write it to a file and declare an artifact"),
        "eats": ("failed", "ran out of memory: it may hold 200 MiB"),
        "unknown": ("failed", "tool has no function `nothing`"),
        "two": ("failed", "give one of `function`, `file` and `code`"),
        "nowhere": ("failed", "the working directory has no module `no_such_module`"),
        "killed": ("failed", "ended by signal 11"),
    }


def test_only_code_of_the_project_runs_and_only_as_it_stands_in_the_plan(
    ran: Callable[..., Tasks], tmp_path: Path
) -> None:
    (tmp_path / "outside.py").write_text("open('stolen', 'w')\ndef f(): pass\n")
    (tmp_path / "project" / "link.py").symlink_to(tmp_path / "outside.py")
    found = ran(
        module={"function": "os:system", "args": {"command": "touch stolen"}},
        through={"function": "tool:os.system", "args": {"command": "touch stolen"}},
        above={"file": "../outside.py"},
        linked={"function": "link.py:f"},
    )
    assert all(task["status"] == "failed" for task in found.values())
    assert found["module"]["detail"] == "os is outside the working directory"
    assert not list(tmp_path.rglob("stolen"))


def test_a_package_that_is_not_the_projects_is_not_imported_on_the_way_to_a_module(
    ran: Callable[..., Tasks], tmp_path: Path
) -> None:
    for name in ("foreign", "deep/er"):
        (tmp_path / "libraries" / name).mkdir(parents=True)
        (tmp_path / "libraries" / name / "__init__.py").write_text("open('imported', 'w')\n")
        (tmp_path / "libraries" / name / "b.py").write_text("def f(): pass\n")
    (tmp_path / "project" / "linked").symlink_to(tmp_path / "libraries" / "foreign")
    folder = tmp_path / "project" / "own" / "inner"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "b.py").write_text("def f(): return 'own'\n")
    found = ran(
        {"env": {"PYTHONPATH": str(tmp_path / "libraries")}},
        package={"function": "foreign.b:f"},
        missing={"function": "foreign.no_such:f"},
        deeper={"function": "deep.er.b:f"},
        linked={"function": "linked.b:f"},
        own={"function": "own.inner.b:f"},
        source={"function": "shop.no_such:f"},
    )
    assert not list(tmp_path.rglob("imported"))
    assert {name: task["detail"] for name, task in found.items() if task["status"] == "failed"} == {
        "package": "foreign.b is outside the working directory",
        "missing": "foreign.no_such is outside the working directory",
        "deeper": "deep.er.b is outside the working directory",
        "linked": "linked.b is outside the working directory",
        "source": "the working directory has no module `shop.no_such`",
    }
    assert found["own"]["outputs"] == {"value": "own"}


def test_lines_that_were_put_together_while_the_run_went_on_are_refused(tmp_path: Path) -> None:
    task = Task("t", uses="python.run", inputs={"code": "result = {{ params.x }}"})
    call = Call("r", task, 1, "k", {}, "", (), {}, {}, str(tmp_path), "", None)
    with pytest.raises(Failure, match="`code` is code and takes no templates: hand values over in `args`") as refused:
        run(Context(call, Silent(), lambda: False), code="result = 1")
    assert refused.value.failure == "policy"


def test_a_temporary_exit_code_is_tried_again(ran: Callable[..., Tasks]) -> None:
    code = "import os, sys\nif not os.path.exists('seen'):\n    open('seen', 'w'); sys.exit(75)\nresult = 'second'"
    found = ran({"retry": {"attempts": 2, "delay": "0s"}}, flaky={"code": code})
    assert (found["flaky"]["attempts"], found["flaky"]["outputs"]) == (2, {"value": "second"})


def test_a_timeout_ends_the_process_and_all_that_it_started(ran: Callable[..., Tasks], tmp_path: Path) -> None:
    code = "import os, subprocess, time\np = subprocess.Popen(['sleep', '600'])\nopen('pids', 'w').write(f'{os.getpid()} {p.pid}')\ntime.sleep(600)"
    pids = tmp_path / "project" / "pids"
    for timeout in ("1s", "5s", "25s"):  # the least one in which the program begins
        found = ran({"timeout": timeout}, slow={"code": code})
        assert found["slow"]["detail"] == f"ran longer than its timeout of {timeout}"
        if pids.exists() and pids.read_text():
            break
    for pid in pids.read_text().split():
        assert not Path(f"/proc/{pid}").exists()
