"""Items of a matrix are called by their values, wherever people read of them, and are found by that name."""

from __future__ import annotations

import workbench
from rows import rows
from simulator.rehearsal import rehearse

from planrunner.machine.names import label, labelled, named


def _state(matrix):
    task = {"id": "test", "matrix": matrix, "subplan": [{"id": "go", "run": "x", "timeout": "1m"}]}
    return rehearse(workbench.plan(task)).state


@rows(
    ("axes", "path", "name"),
    [
        ({"seed": [1, 2]}, "test[1]", "test[seed=2]"),
        ({"seed": [1], "os": ["linux"]}, "test[0]/go", "test[seed=1,os=linux]/go"),
        ({"fast": [True]}, "test[0]", "test[fast=true]"),
        ({"path": ["a/b"]}, "test[0]", "test[0]"),
        ({"title": ["a long title of many words"]}, "test[0]", "test[0]"),
        ({"sign": ["\x1b[31m"]}, "test[0]", "test[0]"),
        ({"name": [""]}, "test[0]", "test[0]"),
    ],
)
def test_an_item_of_a_matrix_is_called_by_its_values_if_they_are_words(axes, path, name):
    state = _state(axes)
    number = state.index[path]
    assert label(state, number) == name
    assert named(state, name) == [number]


def test_only_paths_between_backticks_are_renamed():
    state = _state({"seed": [1, 2]})
    text = "2 of 2 failed, the first is `test[0]`: test[1] and `other[1]`"
    assert labelled(state, text) == "2 of 2 failed, the first is `test[seed=1]`: test[1] and `other[1]`"
