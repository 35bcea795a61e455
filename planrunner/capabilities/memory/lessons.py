"""``memory.learn`` and ``memory.advise``: what solved a problem, counted, and recalled for a similar one."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability
from planrunner.capabilities.files.inputs import check
from planrunner.capabilities.memory.entries import LAYER, RISKS, capture_of, mark, opened, reverted, writer
from planrunner.knowledge.memory.entries import LayerName
from planrunner.knowledge.memory.layers import THRESHOLD
from planrunner.knowledge.memory.lessons import Kind, Lesson, key_of, signature
from planrunner.knowledge.memory.lessons import advise as advised
from planrunner.knowledge.memory.lessons import learn as learned

Json = Any

_KIND = "failure: an error and its solution; pattern: a kind of work and a template for it"


class Learned(NamedTuple):
    key: Annotated[str, Doc("key of the lesson; equal for the same problem and solution")]
    signature: Annotated[str, Doc("the problem without its variable parts: numbers, times, paths, addresses")]


def undo_lesson(context: Context, before: dict[str, Json], outputs: dict[str, Json] | None) -> dict[str, Json]:
    """Take the count back, and with the first one the lesson."""
    return reverted(context, before, "lessons")


def _show_learn(context: Context, problem: str, worked: bool, layer: str = "project", **inputs: Json) -> Preview:
    check({"problem": problem})
    how = "worked" if worked else "did not work"
    return Preview(f"learn in the {layer} memory that a solution {how} for: {signature(problem)[:200]}")


@capability(
    "memory.learn", effect="idempotent", risks=RISKS,
    preview=_show_learn, capture=capture_of("memory.learn", kind="failure"), undo=undo_lesson,
)  # fmt: skip
def learn(
    context: Context,
    problem: Annotated[str, Doc("error message, or kind of problem")],
    solution: Annotated[Any, Doc("solution: text, a template, any JSON data")],
    worked: Annotated[bool, Doc("whether the solution worked")],
    kind: Annotated[Kind, Doc(_KIND)] = "failure",
    layer: Annotated[LayerName, Doc(LAYER)] = "project",
    tags: Annotated[list[str] | None, Doc("tags to filter lessons by")] = None,
) -> Learned:
    """Record whether a solution worked for a problem.

    Errors that differ only in numbers, times, paths and addresses count as the same. Each task counts once.
    """
    check({"problem": problem, "tags": tags})
    if worked not in (True, False) or kind not in ("failure", "pattern"):
        raise Failure("`worked` is true or false, `kind` failure or pattern")
    if not signature(problem):
        raise Failure("`problem` is empty")
    inputs = {"kind": kind, "problem": problem, "solution": solution, "worked": worked, "tags": tags}
    act = mark(context, "memory.learn", inputs)
    with opened(context, layer, "lessons") as memory:
        learned(memory, Lesson(kind, problem, solution, worked, tuple(tags or ())), writer(context), act)
    return Learned(key_of(kind, problem, solution), signature(problem))


class Advised(NamedTuple):
    lessons: Annotated[
        list[dict[str, Any]],
        Doc("lessons, the best first: problem, solution, similarity, uses, success_rate, key, tags, source"),
    ]
    total: Annotated[int, Doc("number of lessons; 0: no similar problem is known")]
    solution: Annotated[Any, Doc("solution of the best lesson; null without one")]
    similarity: Annotated[float, Doc("similarity of the best lesson, from 0 to 1")]
    success_rate: Annotated[float, Doc("success rate of the best lesson, from 0 to 1")]


@capability("memory.advise", effect="read", risks=RISKS, foreign=("lessons", "solution"))
def advise(
    context: Context,
    problem: Annotated[str, Doc("error message, or kind of problem")],
    kind: Annotated[Kind, Doc(_KIND)] = "failure",
    layer: Annotated[LayerName, Doc(LAYER)] = "project",
    threshold: Annotated[
        float | None, Doc("minimum similarity, from 0 to 1; default: `memory: {threshold: …}`, or else 0.65")
    ] = None,
    limit: Annotated[int, Doc("the most lessons, up to 50")] = 5,
) -> Advised:
    """Recall solutions of similar problems.

    The order depends on similarity and success rate; the rate of a rarely tried solution is pulled towards one half.
    """
    check({"problem": problem, "threshold": threshold, "limit": limit})
    least = threshold if threshold is not None else float(context.settings("memory").get("threshold", THRESHOLD))
    if not 0 < least <= 1 or not 1 <= limit <= 50:
        raise Failure("`threshold` is above 0 and at most 1, `limit` 1 to 50")
    with opened(context, layer, "lessons") as memory:
        advices = advised(memory, problem, kind, least, limit)
    lessons = [{**advice._asdict(), "tags": [*advice.tags], "source": advice.source._asdict()} for advice in advices]
    best = advices[0] if advices else None
    if best is None:
        return Advised([], 0, None, 0.0, 0.0)
    return Advised(lessons, len(lessons), best.solution, best.similarity, best.success_rate)
