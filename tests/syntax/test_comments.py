"""Comments: read from either notation, and kept by either writer, whatever happens to the tree in between."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from planrunner.source import Source
from planrunner.syntax.comments import Comments
from planrunner.syntax.notations import parse, read_comments, write
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

if TYPE_CHECKING:
    from planrunner.source import Notation

YAML = """\
# yaml-language-server: $schema=../schemas/plan.schema.json
# what this file is
# and who wrote it

# about the plan
plan: release-check  # its name
title: Is it ready?
params:
  ref: {type: string, default: HEAD}  # behind brackets
  # at the end of the parameters
defaults: &d
  timeout: 5m  # five
  # before retry
  retry: 3
tasks:
  # the first
  - id: status  # behind an id
    uses: git.status

  - id: test
    # why
    needs: [status]
    <<: *d
    run: |  # behind a bar
      # not a comment
      python -m pytest -q
    expect:
      - exit_code == 0  # zero
      # about time
      - duration < 10m
      # at the end of the criteria
    list:
      - a  # in brackets
      # before b
      - b
    on_failure: explain  # an edge
    next:
      # a condition
      - {on: transient, to: later}  # behind an edge
  # at the end of the tasks
# before the last part
finally:
  - id: z
# the end
"""

TEXT = """\
# what this file is

# about the plan
plan release-check "Is it ready?"  # its name
  params:
    ref: {type: string}  # behind brackets
    # at the end of the parameters

# the first
task status using:git.status  # behind a task

# the second
task test
  # why
  needs: status lint  # behind needs
  run: |  # behind a bar
    # not a comment
    python -m pytest
  expect:
    - exit_code == 0  # zero
    # about time
    - duration < 10m
    # at the end of the criteria
  # before an edge
  on failure -> explain  # an edge
  # before a second
  on failure -> mend recovers  # another
  on transient -> later  # a third

# before the last part
finally  # behind finally
  task z
    run: x
# the end
"""


def tree_and_comments(text: str, notation: Notation) -> tuple[Node, Comments]:
    source = Source(text, "x", notation)
    tree = parse(source).tree
    assert tree is not None, parse(source).findings
    return tree, read_comments(source, tree)


def rewritten(text: str, notation: Notation, into: Notation) -> str:
    tree, comments = tree_and_comments(text, notation)
    return write(tree, into, comments)


def comments_of(text: str) -> list[str]:
    return sorted(line for line in re.findall(r"(?:^|\s)(#[^\n]*)", text) if "not a comment" not in line)


def test_yaml_keeps_every_comment_in_its_place() -> None:
    assert rewritten(YAML, "yaml", "yaml") == YAML


def test_text_keeps_every_comment_in_its_place() -> None:
    assert rewritten(TEXT, "text", "text") == TEXT


@pytest.mark.parametrize(("text", "notation"), [(YAML, "yaml"), (TEXT, "text")])
def test_comments_survive_the_way_to_the_other_notation_and_back(text: str, notation: Notation) -> None:
    other: Notation = "text" if notation == "yaml" else "yaml"
    there = rewritten(text, notation, other)
    assert comments_of(there) == comments_of(text)
    back = rewritten(there, other, notation)
    assert comments_of(back) == comments_of(text)
    assert rewritten(there, other, other) == there


def test_comments_follow_their_key_when_keys_are_renamed_and_reordered() -> None:
    tree, comments = tree_and_comments(
        "tasks:\n  # about x\n  - run: a  # behind run\n    # before id\n    id: x\n  - id: z\n", "yaml"
    )
    assert isinstance(tree, Mapping)
    tasks = tree.get("tasks")
    assert isinstance(tasks, Sequence) and isinstance(tasks.items[0], Mapping)
    first = tasks.items[0]
    (run, value), named = first.entries
    renamed = Scalar("command", run.start, run.end, run.raw)
    rebuilt = Mapping([named, (renamed, value)], first.start, first.end)
    changed = Mapping(
        [(tree.entries[0][0], Sequence([rebuilt, tasks.items[1]], tasks.start, tasks.end))], tree.start, tree.end
    )
    assert write(changed, "yaml", comments) == (
        "tasks:\n  # about x\n  -\n    # before id\n    id: x\n    command: a  # behind run\n\n  - id: z\n"
    )


def test_comments_whose_place_is_gone_stand_at_the_end() -> None:
    tree, comments = tree_and_comments("a: 1  # one\n# two\nb: 2\nc: 3\n", "yaml")
    assert isinstance(tree, Mapping)
    tree.entries = tree.entries[2:]
    assert write(tree, "yaml", comments) == "c: 3\n# two\n# one\n"


def test_comments_inside_brackets_open_them() -> None:
    assert rewritten("a: [\n  x, # first\n  z\n]\n", "yaml", "yaml") == "a:\n  - x  # first\n  - z\n"
    assert rewritten("a: {\n  # why\n  x: 1\n} # behind\n", "yaml", "yaml") == "a:  # behind\n  # why\n  x: 1\n"


def test_a_comment_belongs_to_the_collection_it_is_indented_with() -> None:
    text = "a:\n  b:\n    c: 1\n    # of b\n  # of a\n# of d\nd: 1\n"
    assert rewritten(text, "yaml", "yaml") == text


def test_a_hash_without_a_space_before_it_is_no_comment() -> None:
    _, comments = tree_and_comments("a: x#y\nb: 'z # w'\nc: |\n  # in a block\n", "yaml")
    assert comments == Comments("", (), {}, {}, {})


def test_json_has_no_comments() -> None:
    _, comments = tree_and_comments('{"a": "x # y"}', "json")
    assert comments == Comments("", (), {}, {}, {})
    assert write(parse(Source("a: 1 # c\n")).tree, "json") == '{\n  "a": 1\n}\n'  # type: ignore[arg-type]


def test_comments_keep_with_crlf() -> None:
    assert rewritten("# top\r\na: 1 # one\r\n", "yaml", "yaml") == "# top\na: 1  # one\n"
    assert rewritten("# top\r\ntask a # one\r\n", "text", "text") == "# top\ntask a  # one\n"
