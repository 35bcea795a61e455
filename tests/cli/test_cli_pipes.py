"""A failing command of a pipe fails the task where the shell has ``pipefail``."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest

PLAN = """plan: p
defaults: {timeout: 1m, shell: bash}
on_failure: continue
tasks:
  - {id: fails, run: no_such_program shop | cat > shop.sql.gz}
  - {id: middle, run: echo x | false | cat}
  - {id: item, foreach: [1, 2], run: "false | cat"}
  - {id: closed, run: yes | head -1}
  - {id: well, run: echo x | tr x y | cat}
"""


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_failing_command_of_a_pipe_fails_the_task(run: Callable[..., Any], plan: Callable[[str], str]) -> None:
    run("exec", plan(PLAN))
    tasks = run("show", "last", "--json").data["tasks"]
    assert {name: tasks[name]["status"] for name in ("fails", "middle", "item", "closed", "well")} == {
        **dict.fromkeys(("fails", "middle", "item", "closed"), "failed"),
        "well": "completed",
    }
    assert "wrote to one that had ended, such as `head` (exit code 141)" in run("why", "last", "closed").out
