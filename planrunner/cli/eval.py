"""``planrunner eval``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from planrunner.app.proof.eval import EvalRequest, Evaluated, evaluate_paths
from planrunner.cli.completion import RUN
from planrunner.cli.group import given_settings
from planrunner.cli.options import json_option
from planrunner.cli.output import print_document, require_writable, write_file
from planrunner.cli.prompts import vouch
from planrunner.cli.proof import Counter
from planrunner.cli.settings import messages, output
from planrunner.errors import BUDGET, FAILED, INVALID, OK
from planrunner.process import ended_in_order
from planrunner.views.documents import document_text
from planrunner.views.evaluation import evaluation_junit, evaluation_lines
from planrunner.views.findings import render_text
from planrunner.views.terminal import Terminal, plural


@click.command("eval")
@click.argument("paths", nargs=-1, type=click.Path())
@click.option("-k", "pattern", default="", metavar="PATTERN", help="Only cases whose file::id contains this.")
@click.option("--against", default="", metavar="FILE|RUN|REV", help="Compare with another version of the plan.")
@click.option("--baseline", default="", metavar="FILE", help="Compare with a result that --save wrote.")
@click.option("--recorded", default="", metavar="RUN", shell_complete=RUN, help="Score this recorded run; run nothing.")
@click.option("--keep", default="", metavar="FOLDER", help="Write each run to FOLDER, for `run:` of a case.")
@click.option("--save", metavar="FILE", help="Write the result as JSON, for --baseline.")
@click.option("--junit", metavar="FILE", help="Write JUnit XML as well.")
@json_option
@click.pass_context
def eval_command(
    ctx: click.Context, /, save: str | None, junit: str | None, as_json: bool, **options: Any
) -> int:  # fmt: skip
    """Run plans for real in scratch copies of the project, score the results, and compare models and versions. PATH is
    an evaluation file (*.eval.yaml) or a folder.

    The project and its journal are not changed. Effects elsewhere (network, databases) and their costs are real. Exit
    codes: 0 every case passes, 1 a case fails or regressed, 3 no evaluation, 5 a file or a plan is invalid, 6 the
    budgets of an evaluation are used up.

    \b
    Examples:
      planrunner eval
      planrunner eval evals/summary.eval.yaml --against main
      planrunner eval --save result.json
      planrunner eval --baseline result.json --junit build/eval.xml
    """
    given = given_settings(ctx)
    if options["against"] and options["baseline"]:
        raise click.UsageError("--against and --baseline exclude each other")
    for wanted in filter(None, (save, junit)):
        require_writable(wanted)
    counter = Counter(messages(given), "runs done")

    def admit(plan: str, params: Mapping[str, Any]) -> None:
        vouch(given, plan, tuple(params.items()))

    paths = tuple(options.pop("paths"))
    request = EvalRequest(paths, **options, state=given.state, vouch=admit, progress=counter)
    try:
        with ended_in_order():  # runs that nothing waits for would go on, and cost money
            evaluated = evaluate_paths(request)
    finally:
        counter.clear()
    for path, text in ((save, document_text(evaluated.document)), (junit, evaluation_junit(evaluated.document))):
        if path is not None and not evaluated.invalid:
            write_file(path, text)
    if as_json:
        print_document(evaluated.document)
    elif not evaluated.invalid:
        screen = output(given)
        screen.write("".join(f"{line}\n" for line in evaluation_lines(screen, evaluated.document)))
    return _code(evaluated, messages(given))


def _code(evaluated: Evaluated, screen: Terminal) -> int:
    for source, findings in evaluated.invalid:
        screen.write(render_text(findings, source, screen.color) + "\n")
    if evaluated.invalid:
        screen.write(f"error: {plural(len(evaluated.invalid), 'invalid file')}\n")
        return INVALID
    document = evaluated.document
    if document["failed"] or document.get("comparison", {}).get("regressed"):
        return FAILED
    return BUDGET if document["undecided"] else OK
