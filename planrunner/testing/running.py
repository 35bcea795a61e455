"""Run a plan for a test, with capabilities that need not be installed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from planrunner.app.execute import ExecRequest, RunResult, execute
from planrunner.capabilities.contract import declaration_of
from planrunner.plugins.registry import Registry
from planrunner.testing.silent import Silent


def run_plan(
    plan: str | Mapping[str, Any] | os.PathLike[str],
    directory: str,
    functions: Sequence[Callable[..., Any]] = (),
    params: Mapping[str, Any] | None = None,
) -> RunResult:
    """The result of a run with its state in ``directory/.planrunner``. ``plan`` is a path, or a plan as text or data,
    which is written to ``plan.yaml`` there. Raises PlanInvalid with the findings of a plan that cannot run."""
    path = os.path.join(directory, "plan.yaml")
    if isinstance(plan, os.PathLike):
        path = os.fspath(plan)
    else:
        text = plan if isinstance(plan, str) else json.dumps(dict(plan))
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    registry = Registry(project=directory)
    for function in functions:
        declaration = declaration_of(function)
        if declaration is None:
            raise TypeError(f"{function!r} is not marked with @capability")
        registry.add(SimpleNamespace(function=function), declaration.name, declaration.name.partition(".")[0])
    given = tuple((params or {}).items())
    state = os.path.join(directory, ".planrunner")
    return execute(ExecRequest(path, given, state=state, unattended=True, vouched=True), Silent(), registry)
