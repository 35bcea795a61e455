"""The graph of a plan: order, groups, circles, ancestors and roles, by hand, by brute force and at size."""

from __future__ import annotations

import random
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import rows

from planrunner.plan.graph import Graph
from planrunner.plan.model import NOWHERE, Edge, Expression, Fanout, Gate, Plan, Task


def graph(*tasks: Task) -> Graph:
    return Graph(Plan("p", tasks=tasks))


def chain(*names: str) -> list[Task]:
    return [Task(name, needs=names[at - 1 : at] if at else ()) for at, name in enumerate(names)]


def edges(*pairs: tuple[str, str]) -> tuple[Edge, ...]:
    return tuple(Edge(target, on) for on, target in pairs)  # type: ignore[arg-type]


def numbered(arrows: list[tuple[int, int]], count: int) -> Graph:
    """Tasks 0..count-1 where the first of each pair is needed by the second."""
    needs: list[list[str]] = [[] for _ in range(count)]
    for earlier, later in arrows:
        needs[later].append(str(earlier))
    return graph(*(Task(str(here), needs=tuple(names)) for here, names in enumerate(needs)))


def test_neighbours_are_positions_in_the_plan() -> None:
    found = graph(Task("a", edges=edges(("failure", "c"))), Task("b", needs=("a",)), Task("c"))
    assert found.needs == [[], [0], []]
    assert found.dependents == [[1], [], []]
    assert found.routes == [[2], [], []]
    assert found.routed_from == [[], [], [0]]
    assert found.before(2) == [0]
    assert found.after(0) == [1, 2]


def test_names_without_a_task_give_no_arrow_and_repeated_ones_a_single_one() -> None:
    found = graph(Task("a"), Task("b", needs=("a", "nobody", "a"), edges=edges(("success", "nobody"))))
    assert found.needs[1] == [0]
    assert found.routes[1] == []


def test_of_two_tasks_with_one_id_the_first_is_meant() -> None:
    found = graph(Task("a"), Task("a"), Task("b", needs=("a",)))
    assert found.needs[2] == [0]


def test_a_member_of_a_family_stands_for_the_family() -> None:
    found = graph(Task("dive-*"), Task("b", needs=("dive-7",)), Task("c", needs=("dive-*",)))
    assert found.needs[1] == [0]
    assert found.needs[2] == [0]
    assert found.find("divers") == -1


def test_the_order_puts_earlier_tasks_first_and_keeps_the_text_otherwise() -> None:
    found = graph(Task("late", needs=("b", "a")), Task("b"), Task("a"))
    assert [found.ids[here] for here in found.order] == ["b", "a", "late"]


def test_tasks_under_finally_come_last_in_order_and_groups() -> None:
    found = graph(*chain("a", "b"), Task("clean", finally_=True), Task("tell", finally_=True, needs=("clean",)))
    assert [found.ids[here] for here in found.order] == ["a", "b", "clean", "tell"]
    assert found.groups() == [[0], [1], [2], [3]]


def test_groups_hold_what_may_run_side_by_side() -> None:
    found = graph(
        Task("a"), Task("b"), Task("c", needs=("a",)), Task("d", needs=("a", "b")), Task("e", needs=("c", "d"))
    )
    assert found.groups() == [[0, 1], [2, 3], [4]]


def test_a_plan_without_tasks_has_no_groups() -> None:
    assert graph().groups() == []
    assert graph().cycles() == []


def test_a_circle_is_given_whole_and_starts_with_its_first_task_in_the_text() -> None:
    found = graph(Task("a", needs=("c",)), Task("b", needs=("a",)), Task("c", needs=("b",)), Task("d", needs=("a",)))
    assert [[found.ids[here] for here in cycle] for cycle in found.cycles()] == [["a", "c", "b"]]


def test_a_circle_is_found_beside_needs_that_name_no_task() -> None:
    found = graph(Task("a", needs=("b", "nobody")), Task("b", needs=("a", "nothing")))
    assert found.cycles() == [[0, 1]]


def test_each_knot_gives_its_shortest_circle() -> None:
    long = [(0, 1), (1, 2), (2, 3), (3, 0), (2, 1)]
    other = [(5, 6), (6, 5)]
    assert numbered([*long, *other], 7).cycles() == [[1, 2], [5, 6]]


def test_a_task_that_needs_itself_is_no_circle_but_a_loner() -> None:
    found = graph(Task("a", needs=("a",)))
    assert found.cycles() == []
    assert found.loners == [0]
    assert found.order == [0]


def test_a_circle_of_edges_is_a_circuit_and_no_circle_of_needs() -> None:
    found = graph(
        Task("a", edges=edges(("success", "b"))),
        Task("b", edges=edges(("success", "c"))),
        Task("c", edges=edges(("failure", "a"))),
    )
    assert found.cycles() == []
    assert found.circuits() == [[0, 1, 2]]


def test_a_circuit_may_close_over_needs() -> None:
    found = graph(Task("build"), Task("test", needs=("build",), edges=edges(("failure", "build"))))
    assert found.cycles() == []
    assert found.circuits() == [[0, 1]]


def test_an_edge_to_the_task_itself_is_a_circuit() -> None:
    assert graph(Task("a", edges=edges(("failure", "a")))).circuits() == [[0]]


def test_a_ring_of_needs_has_no_circuit() -> None:
    assert graph(Task("a", needs=("b",)), Task("b", needs=("a",))).circuits() == []


def test_the_order_is_total_even_around_a_circle() -> None:
    found = graph(Task("after", needs=("x",)), Task("x", needs=("y",)), Task("y", needs=("x", "first")), Task("first"))
    order = [found.ids[here] for here in found.order]
    assert sorted(order) == ["after", "first", "x", "y"]
    assert order[0] == "first"
    assert order[-1] == "after"


def test_a_need_and_an_edge_both_put_a_task_before_another() -> None:
    found = graph(Task("a", edges=edges(("failure", "b"))), Task("b"), Task("c", needs=("b",)), Task("d"))
    assert found.precedes([(0, 1), (0, 2), (1, 2), (2, 0), (3, 2), (0, 0)]) == [True, True, True, False, False, False]
    assert found.upstream(2) == {0, 1}


def test_members_of_a_circle_are_before_each_other_and_before_what_follows() -> None:
    found = graph(Task("a", needs=("c",)), Task("b", needs=("a",)), Task("c", needs=("b",)), Task("d", needs=("b",)))
    assert found.precedes([(0, 1), (1, 0), (2, 1), (2, 3), (3, 0)]) == [True, True, True, True, False]


@settings(max_examples=150, deadline=None)
@given(
    st.integers(2, 14).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1))))
    )
)
def test_order_circles_and_ancestors_agree_with_brute_force(case: tuple[int, list[tuple[int, int]]]) -> None:
    count, arrows = case
    arrows = [(a, b) for a, b in arrows if a != b]
    found = numbered(arrows, count)
    above = closure(arrows, count)
    every = [(a, b) for a in range(count) for b in range(count)]
    assert found.precedes(every) == [a in above[b] for a, b in every]
    assert all(found.upstream(here) == above[here] for here in range(count))
    knots = {
        frozenset(b for b in range(count) if b in above[a] and a in above[b]) for a in range(count) if a in above[a]
    }
    cycles = found.cycles()
    assert {frozenset(next(knot for knot in knots if cycle[0] in knot)) for cycle in cycles} == knots
    for cycle in cycles:
        assert all(need in found.needs[here] for here, need in pairwise([*cycle, cycle[0]]))
    assert sorted(found.order) == list(range(count))
    if not cycles:
        place = {here: at for at, here in enumerate(found.order)}
        assert all(place[a] < place[b] for a, b in arrows)
        assert all(found.levels()[a] < found.levels()[b] for a, b in arrows)


def closure(arrows: list[tuple[int, int]], count: int) -> list[set[int]]:
    above: list[set[int]] = [set() for _ in range(count)]
    changed = True
    while changed:
        changed = False
        for a, b in arrows:
            more = above[a] | {a}
            if not more <= above[b]:
                above[b] |= more
                changed = True
    return above


ROLES = [
    ("START", graph(Task("x"), Task("b", needs=("x",)))),
    ("EXIT", graph(Task("a"), Task("x", needs=("a",)))),
    ("LINEAR", graph(*chain("a", "x", "b"))),
    ("SPLIT", graph(Task("a"), Task("x", needs=("a",), fanout=Fanout(items=[1])), Task("b", needs=("x",)))),
    ("DECISION", graph(Task("a"), Task("x", needs=("a",), edges=edges(("failure", "h"))), Task("h"))),
    ("DECISION", graph(Task("a"), Task("x", needs=("a",), gate=Gate("decision")), Task("b", needs=("x",)))),
    ("BRANCH", graph(Task("a"), Task("x", needs=("a",)), Task("b", needs=("x",)), Task("c", needs=("x",)))),
    ("MERGE", graph(Task("a"), Task("b"), Task("x", needs=("a", "b")), Task("c", needs=("x",)))),
]


@rows(("role", "found"), ROLES)
def test_the_role_follows_from_the_arrows(role: str, found: Graph) -> None:
    assert found.role(found.index["x"]) == role


def test_a_task_may_play_several_roles() -> None:
    found = graph(Task("a"), Task("b"), Task("x", needs=("a", "b")), Task("c", needs=("x",)), Task("d", needs=("x",)))
    assert found.roles(2) == ("BRANCH", "MERGE")
    assert found.roles(0) == ("START",)


def test_an_edge_with_a_condition_decides_and_one_that_always_fires_does_not() -> None:
    condition = Expression("outputs.n > 1", ("const", 0, 4, True), (), NOWHERE)
    deciding = graph(Task("x", edges=(Edge("b", "success", condition),)), Task("b"))
    always = graph(Task("x", edges=(Edge("b", "always"),)), Task("b"))
    assert "DECISION" in deciding.roles(0)
    assert "DECISION" not in always.roles(0)


@pytest.mark.slow
def test_a_hundred_thousand_tasks_take_seconds_not_minutes() -> None:
    draw = random.Random(7)
    count = 100_000
    tasks = [
        Task(
            f"t{here}", needs=tuple({f"t{draw.randrange(max(0, here - 400), here)}" for _ in range(3)}) if here else ()
        )
        for here in range(count)
    ]
    start = time.process_time()
    found = graph(*tasks)
    assert len(found.order) == count
    assert not found.cycles()
    assert found.groups()[0] == [0]
    pairs = [(draw.randrange(here), here) for here in range(1, 10_000)]
    assert len(found.precedes(pairs)) == len(pairs)
    assert time.process_time() - start < 15


def test_a_ring_of_many_tasks_is_reported_without_recursion() -> None:
    count = 30_000
    found = graph(*(Task(f"t{here}", needs=(f"t{(here - 1) % count}",)) for here in range(count)))
    assert [len(cycle) for cycle in found.cycles()] == [count]
    assert len(found.order) == count
