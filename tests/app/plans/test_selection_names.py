"""A selection takes whole tasks of a plan: what names something inside one is told the task to name."""

from __future__ import annotations

import pytest
from workbench import working_plan

from planrunner.app.plans.tasks import select
from planrunner.errors import NotFound


@pytest.mark.parametrize(
    ("name", "around"),
    [("o[1]", "o"), ("o/step", "o"), ("o#2/step", "o"), ("dive-1", "dive-*"), ("dive-2/x", "dive-*")],
)
def test_a_name_inside_a_task_leads_to_the_task(name: str, around: str) -> None:
    plan = working_plan({"id": "o", "foreach": [1, 2]}, {"id": "dive-*", "foreach": [1, 2]})
    with pytest.raises(NotFound) as caught:
        select(plan, (name,), ())
    assert caught.value.message == f"`{name}` is inside `{around}`, and a selection takes whole tasks of the plan"
    assert caught.value.hint == f"name `{around}`"
