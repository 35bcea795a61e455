"""Items of lists have the types that the schema of their output tells, in comprehensions and in fan-outs."""

from __future__ import annotations

import pytest

from planrunner.plan.load import load
from planrunner.plan.model import Capability, Field
from planrunner.source import Source

FILES = {
    "type": "array",
    "items": {"type": "object", "properties": {"path": {"type": "string"}, "size": {"type": "integer"}}},
}
FIND = Capability("find", outputs=(Field("files", "list", schema=FILES),), effect="read")
NOOP = Capability("noop", open_inputs=True, open_outputs=True, effect="pure", instant=True)


class Known:
    def find(self, name: str) -> Capability | None:
        return {"find": FIND, "noop": NOOP}.get(name)

    def names(self) -> tuple[str, ...]:
        return ("find", "noop")


def found(task: str) -> list[tuple[str, str, str]]:
    text = f"plan: p\ntasks:\n  - {{id: f, uses: find}}\n  - {{id: t, needs: [f], {task}}}\n"
    findings = load(Source(text, "p.yaml", "yaml"), Known()).findings
    return [(each.code, each.message, each.help) for each in findings if each.severity == "error"]


@pytest.mark.parametrize(
    "task",
    [
        'foreach: "[x for x in tasks.f.outputs.files if x.size > 100B]", uses: noop',
        'foreach: tasks.f.outputs.files, when: "item.size > 100B", uses: noop',
        'foreach: tasks.f.outputs.files, subplan: [{id: s, when: "item.size > 100B", uses: noop}]',
        'foreach: "[x for x in tasks.f.outputs.files]", when: "item.size > 100B", uses: noop',
        'when: "tasks.f.outputs.files[0].size > 100B", uses: noop',
    ],
)
def test_a_number_of_bytes_that_is_compared_with_a_size_is_found_and_the_help_names_size(task: str) -> None:
    [(code, message, help_)] = found(task)
    assert (code, "a number is compared with a size" in message) == ("PLAN205", True)
    assert "or `size(…)` around bytes" in help_


def test_a_member_that_an_item_does_not_have_is_found() -> None:
    [(code, message, help_)] = found('foreach: tasks.f.outputs.files, uses: noop, with: {value: "{{ item.pth }}"}')
    assert (code, help_) == ("PLAN201", "did you mean `path`?") and "has no `pth`" in message


@pytest.mark.parametrize(
    "task",
    [
        'foreach: "[x for x in tasks.f.outputs.files if size(x.size) > 100B]", uses: noop',
        'foreach: tasks.f.outputs.files, when: "size(item.size) > 100B", uses: noop, with: {value: "{{ item.path }}"}',
        "foreach: \"['a', 1]\", uses: noop, with: {value: '{{ item }}'}",
    ],
)
def test_what_fits_has_no_finding(task: str) -> None:
    assert found(task) == []
