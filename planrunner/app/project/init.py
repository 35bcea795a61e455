"""A first plan to start from."""

from __future__ import annotations

import os

from planrunner.errors import Hint, NextStep, UsageError
from planrunner.records import Struct

PLAN = "plans/hello.yaml"
README = "plans/README.md"

_PLAN_TEXT = """\
plan: hello
title: A first plan
params:
  name: {type: string, default: world, description: whom to greet}
defaults:
  timeout: 1m
tasks:
  - id: greet
    title: Write a greeting
    run: |
      mkdir -p build
      echo "Hello, {{ params.name }}!" > build/greeting.txt
    artifacts:
      - {name: greeting, path: build/greeting.txt}
    on_failure: explain

  - id: check
    title: Look whether the greeting is there
    needs: [greet]
    run: grep "Hello" build/greeting.txt
    expect:
      - exit_code == 0
    on_failure: explain

  - id: explain
    title: Runs only when a task above failed
    run: echo "look at build/greeting.txt and at 'planrunner logs last'"
"""

_README_TEXT = """\
# Plans

    planrunner lint plans/            check all plans
    planrunner exec plans/hello.yaml  run one
    planrunner exec plans/hello.yaml -p name=you
    planrunner show last              see how it went
    planrunner why last explain       see why a task ran or did not

An editor that reads JSON Schema can check and complete plans. `planrunner schema --write plans/plan.schema.json` writes
the schema; put this line at the top of a plan that is to use it, and write the schema again after an upgrade:

    # yaml-language-server: $schema=plan.schema.json
"""


class Started(Struct):
    """The files that were written, in the order of writing."""

    files: tuple[str, ...]


def start_project(directory: str) -> Started:
    """Write a runnable plan and a short guide below ``directory``.

    Nothing that exists is overwritten: a plan in the way raises UsageError, a guide that is there stays.
    """
    plan = os.path.join(directory, PLAN)
    if os.path.lexists(plan):
        raise UsageError(f"`{plan}` is there already", Hint("run it: ", NextStep("exec", plan)))
    try:
        os.makedirs(os.path.dirname(plan), exist_ok=True)
        return Started(tuple(_written(directory)))
    except OSError as error:
        raise UsageError(f"`{error.filename or directory}` cannot be written: {error.strerror}") from error


def _written(directory: str) -> list[str]:
    written = []
    for name, text in ((PLAN, _PLAN_TEXT), (README, _README_TEXT)):
        path = os.path.join(directory, name)
        try:
            with open(path, "x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            continue
        written.append(path)
    return written
