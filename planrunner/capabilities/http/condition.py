"""A condition on an answer, written as data: its status, and what stands at a place of its JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.http.expected import status_range
from planrunner.capabilities.http.inputs import Answer, Code
from planrunner.capabilities.http.pointer import ABSENT, at, checked_pointer
from planrunner.jsontext import shown

_TESTS = ("exists", "equals", "in")
Said = TypedDict(
    "Said", {"status": Code | list[Code], "pointer": str, "exists": bool, "equals": Any, "in": list[Any]}, total=False
)
"""How a plan says it."""


class Condition(NamedTuple):
    """Every part that is given has to hold; an answer without JSON has nothing at any place."""

    statuses: tuple[tuple[int, int], ...] = ()
    pointer: str | None = None
    test: str = ""
    value: Any = None

    def holds(self, answer: Answer) -> bool:
        if self.statuses and not any(first <= answer.status <= last for first, last in self.statuses):
            return False
        if self.pointer is None:
            return bool(self.statuses)
        found = ABSENT if answer.json is None and answer.text != "null" else at(answer.json, self.pointer)
        if self.test == "exists":
            return bool((found is not ABSENT) == self.value)
        if found is ABSENT:
            return False
        return any(same(found, each) for each in (self.value if self.test == "in" else [self.value]))

    def seen(self, answer: Answer) -> str:
        """What an answer says about it, for messages."""
        if self.pointer is None:
            return f"status {answer.status}"
        found = at(answer.json, self.pointer)
        shown = "absent" if found is ABSENT else json.dumps(found, ensure_ascii=False)[:100]
        return f"status {answer.status}, `{self.pointer}` {'is ' if found is not ABSENT else ''}{shown}"


def condition_of(given: Any, name: str) -> Condition:
    """Read an input such as `until`. Raises Failure for what is no condition."""
    if not isinstance(given, Mapping) or not given:
        raise Failure(f"`{name}` must say `status`, or `pointer` with `equals`, `in` or `exists`")
    if strange := sorted(given.keys() - {"status", "pointer", *_TESTS}):
        raise Failure(f"`{name}` has the part `{strange[0]}`, expected status, pointer, equals, in or exists")
    status = given.get("status")
    wanted = [] if status is None else status if isinstance(status, list) else [status]
    statuses = tuple(status_range(each, f"{name}.status") for each in wanted)
    tests = [test for test in _TESTS if test in given]
    if "pointer" not in given:
        if tests:
            raise Failure(f"`{name}` has `{tests[0]}` without the `pointer` it is about")
        return Condition(statuses)
    if len(tests) > 1:
        raise Failure(f"`{name}` has `{tests[0]}` and `{tests[1]}`, expected one of them")
    test = tests[0] if tests else "exists"
    value = given.get(test, True)
    if (test == "exists" and not isinstance(value, bool)) or (test == "in" and not isinstance(value, list)):
        raise Failure(
            f"`{name}.{test}` must be {'true or false' if test == 'exists' else 'a list'}, found {shown(value)}"
        )
    return Condition(statuses, checked_pointer(given["pointer"], f"{name}.pointer"), test, value)


def same(one: Any, other: Any) -> bool:
    """Equality of JSON values, in which true is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    return bool(one == other)
