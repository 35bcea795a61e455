"""``python.write_tests``: tests of the project's code, written by hypothesis or by a model, and run.

Code from a model is untrusted: rules and Bandit check it before it runs, and it runs confined. Until pytest can collect
the tests they are in a scratch folder, so that the project only gets tests that start.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple

from planrunner.capabilities.contract import Context, Doc, Failure, Preview, capability
from planrunner.capabilities.files import records
from planrunner.capabilities.files.text import to_write
from planrunner.capabilities.files.verb import Act, carry_out_late, late, open_tree, undone
from planrunner.capabilities.programs import Program, run
from planrunner.capabilities.python.author import drafted
from planrunner.capabilities.python.draft import Draft, Order, quiet, scratch
from planrunner.capabilities.python.scan import content, decoded
from planrunner.capabilities.validate.code import find
from planrunner.capabilities.validate.evidence import Finding
from planrunner.capabilities.validate.tests import WITHOUT, FailedTest, Tested, judged, tested_with
from planrunner.files.staged import settle

Json = Any

NAME = "python.write_tests"
MOST_REPAIRS = 5
_GHOST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ghost.py")
_LARGEST = 1 << 20
"""Bytes of a text that a model is shown or gives."""


class WrittenTests(NamedTuple):
    """``counts``, ``failures`` and ``findings`` are as ``validate.pytest`` gives them."""

    path: Annotated[str, Doc("path of the test file")]
    changed: Annotated[bool, Doc("false if the file had the same tests already")]
    author: Annotated[str, Doc("hypothesis, or the name of the model that wrote the tests")]
    ok: Annotated[bool, Doc("whether tests exist and all pass")]
    counts: Annotated[dict[str, int], Doc("total, passed, failed, errors and skipped")]
    duration: Annotated[float, Doc("total duration of the tests in seconds", form="seconds")]
    failures: Annotated[list[FailedTest], Doc("name, file, line, message, text and example of each test that failed")]
    findings: Annotated[list[Finding], Doc("the failures as findings, as from every check")]
    truncated: Annotated[bool, Doc("whether there are more failures than given")]
    repairs: Annotated[int, Doc("number of repairs until pytest could collect the tests")]
    usage: Annotated[dict[str, Any], Doc("{input, output, cost} of all requests; null if unknown")]
    attempts: Annotated[list[dict[str, Any]], Doc("every request to a model: model, status, failure, usage, digests")]


def preview(context: Context, file: str, path: str, by: str = "hypothesis", **_: Json) -> Preview:
    """Which file would be written; what it would hold is known once it is."""
    return Preview(f"have {'a model' if by == 'model' else 'hypothesis'} write tests of {file} to {path}, and run them")


def capture(context: Context, file: str, path: str, **_: Json) -> dict[str, Json]:
    """What stands at the path is kept when the tests are there."""
    return late(context, _record(context, file, path), "the tests are not written yet")


def _record(context: Context, file: str, path: str) -> str:
    return records.name_of(context, NAME, {"file": file, "path": path})


@capability(
    NAME,
    effect="idempotent",
    spends=("cost", "tokens", "calls"),
    risks=(
        "runs code of the project, which may change files and use the network",
        "replaces the file at `path`",
        "with a model: sends the code to its provider, over the network, and costs money",
    ),
    foreign=("findings", "failures", "attempts"),
    own=("path", "changed", "author", "ok", "counts", "usage"),
    preview=preview,
    capture=capture,
    undo=undone,
    writes=("path",),
)
def write_tests(
    context: Context,
    file: Annotated[str, Doc("file with the code to test", form="file-read")],
    path: Annotated[str, Doc("test file to write", form="file-written")],
    functions: Annotated[list[str] | None, Doc("functions and classes to test; default: all in the file")] = None,
    by: Annotated[Literal["hypothesis", "model"], Doc("author of the tests")] = "hypothesis",
    model: Annotated[str, Doc("name of a model in planrunner.yaml; default: its `default`")] = "",
    goal: Annotated[str, Doc("focus of the tests that a model writes")] = "",
    repairs: Annotated[int, Doc("the most repairs by the model if pytest cannot collect the tests, up to 5")] = 2,
    seed: Annotated[int | None, Doc("seed of Hypothesis, for reproducible examples")] = None,
    python: Annotated[str, Doc("interpreter; default: `python` on the PATH, or else planrunner's", use="command")] = "",
    fail: Annotated[bool, Doc("fail with the class `tests` if a test fails")] = True,
    max_findings: Annotated[int, Doc("the most failures to give; `counts` is of all")] = 50,
) -> WrittenTests:
    """Write tests for Python code with pytest and Hypothesis, and run them.

    Hypothesis writes tests of properties for all inputs that the annotations allow. A model writes tests from the code:
    `python.scan` and Bandit check them, and they run confined, without network access. If pytest cannot collect the
    tests, the model gets the errors. Failing tests are written as well: they may show a bug.
    """
    if not 0 <= repairs <= MOST_REPAIRS:
        raise Failure(f"`repairs` is {repairs}; it is 0 to {MOST_REPAIRS}")
    for name, given in (("model", model), ("goal", goal)):
        if given and by != "model":
            raise Failure(f"`{name}` has no effect on tests by {by}: add `by: model`")
    order = Order(file, tuple(functions or ()), path, python)
    written = _written(context, order, lambda: _draft(context, order, by == "model", (model, goal, repairs)))
    chosen = [*WITHOUT, *([f"--hypothesis-seed={seed}"] if seed is not None else [])]
    made = path if by == "model" else ""
    tested = tested_with(context, find(context, "pytest", python), [*chosen, "--", path], max_findings, made=made)
    return _told(tested, written, fail)


def _told(tested: Tested, written: dict[str, Json], fail: bool) -> WrittenTests:
    evidence = {name: value for name, value in tested._asdict().items() if name in WrittenTests._fields}
    result = WrittenTests(**{**evidence, **{key: written[key] for key in WrittenTests._fields if key in written}})
    try:
        judged(tested, fail)
    except Failure as failure:
        raise Failure(str(failure), failure.failure, result._asdict()) from None
    return result


def _written(context: Context, order: Order, draft: Callable[[], Draft]) -> dict[str, Json]:
    """Put the tests at their path, once in a visit of the task; gives what is known of them."""
    name = _record(context, order.file, order.path)
    with open_tree(context) as tree:
        tree.writable(order.path)
        earlier = records.load(context, name)
        if earlier is not None and settle(tree, earlier.steps):
            return earlier.outputs
    made = draft()
    with open_tree(context) as tree:
        planned = to_write(order.path, made.text, parents=True)(context, tree)
        about = {"author": made.author, "usage": made.usage, "attempts": made.attempts, "repairs": made.repairs}
        outputs = {"path": order.path, "changed": planned.outputs["changed"], **about}
        carry_out_late(context, tree, Act(name, NAME), planned._replace(outputs=outputs))
        return outputs


def _draft(context: Context, order: Order, by_model: bool, asked: tuple[str, str, int]) -> Draft:
    source = decoded(content(context, order.file))
    if not order.file.endswith(".py"):
        raise Failure(f"{order.file} is not a Python file")
    if by_model:
        return drafted(context, order, source, asked)
    context.spend(cost=0, tokens=0, calls=0)
    words = find(context, "hypothesis", order.python).words
    find(context, "black", order.python)  # with which it formats what it writes
    task = {"directory": context.call.directory, "module": order.module, "functions": list(order.functions)}
    with scratch(context) as folder:
        program = Program((words[0], _GHOST), stdin=json.dumps(task).encode(), env=quiet(folder), limit=_LARGEST)
        ended = run(context, program)
    if ended.code:
        raise Failure(f"Hypothesis cannot write tests for {order.file}: {ended.said}")
    text = str(json.loads(ended.text))
    blind = re.findall(r"st\.nothing\(\).*?\ndef (test_\w+)", text, re.DOTALL)
    if blind:
        way = "annotate its parameters, leave it out by `functions`, or have them written `by: model`"
        raise Failure(f"Hypothesis cannot choose inputs for the function of `{blind[0]}`: {way}")
    return Draft(text, "hypothesis", {"input": 0, "output": 0, "cost": 0}, [])
