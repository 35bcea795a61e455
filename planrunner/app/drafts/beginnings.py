"""Short plans to begin with in an editor. Each is sound as it stands."""

from __future__ import annotations

import os
import re

from planrunner.app.plans.lint import convert_text
from planrunner.plan.files import decode
from planrunner.records import Struct
from planrunner.source import notation_of


class Beginning(Struct):
    """A plan to begin with; in ``text`` stands ``NAME`` where the plan is named."""

    name: str
    title: str
    about: str
    text: str


BEGINNINGS = (
    Beginning(
        "task",
        "One task",
        "a command with a timeout and a criterion",
        """\
plan: NAME
title: What this plan reaches
tasks:
  - id: check
    title: Run the tests
    run: echo "write your command here"
    timeout: 5m
    expect:
      - exit_code == 0
""",
    ),
    Beginning(
        "approval",
        "A gate before something is published",
        "build, ask a person, publish, and undo it",
        """\
plan: NAME
title: Publish after approval
params:
  version: {type: string, default: 1.0.0, description: what is published}
defaults:
  timeout: 10m
tasks:
  - id: build
    run: mkdir -p build && echo "{{ params.version }}" > build/version.txt
    artifacts:
      - {name: version, path: build/version.txt}
  - id: sign-off
    gate: approval
    needs: [build]
    ask: Publish {{ params.version }}?
    expires: 1d
  - id: publish
    needs: [sign-off]
    run: cp build/version.txt build/published.txt
    rollback:
      run: rm -f build/published.txt
""",
    ),
    Beginning(
        "items",
        "The same work for many items",
        "a fan-out over a list, a few at a time",
        """\
plan: NAME
title: Look at every item
params:
  names: {type: list, default: [one, two, three], description: what is looked at}
defaults:
  timeout: 5m
tasks:
  - id: look
    foreach: params.names
    max_parallel: 2
    run: echo "{{ item }}"
  - id: report
    needs: [look]
    run: echo "all were looked at"
""",
    ),
)


def beginning(name: str) -> Beginning:
    """The beginning of a name, the first one for any other name."""
    return next((each for each in BEGINNINGS if each.name == name), BEGINNINGS[0])


def begun(path: str, name: str) -> str:
    """The text of a plan that begins at a path, in the notation of its file, named after it."""
    stem = os.path.basename(path).split(".")[0]
    plan = re.sub(r"^[^A-Za-z_]+|[^A-Za-z0-9_-]+", "", stem) or "plan"
    text = beginning(name).text.replace("NAME", plan)
    notation = notation_of(path)
    return text if notation == "yaml" else convert_text(decode(text.encode(), "begin.yaml"), notation)
