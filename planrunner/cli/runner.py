"""Runs a plan and shows it: what the commands that start, continue and steer runs share."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from time import time
from typing import TYPE_CHECKING

from planrunner.app.runs.execute import ExecRequest, RunResult, Watch, execute
from planrunner.app.runs.setup import edited_plan
from planrunner.cli.options import PROGRESS, ExecOptions
from planrunner.cli.output import print_document
from planrunner.cli.settings import Settings, may_ask, messages, terminal
from planrunner.errors import NO_PLAN, OK, Denied, Hint, NextStep, NotFound, PlanrunnerError, UsageError
from planrunner.journal.workspace import NAME, find_project, find_state, program
from planrunner.later import Later
from planrunner.machine.events import Entry
from planrunner.safety.trust import why_outside
from planrunner.views.status import is_dry
from planrunner.views.terminal import plural

if TYPE_CHECKING:
    from shlex import quote

    from planrunner.app.history.show import look
    from planrunner.app.notices.outstanding import send_outstanding
    from planrunner.app.plans.files import read_params
    from planrunner.app.runs.control import Steered, steered_document
    from planrunner.app.runs.proposals import continued
    from planrunner.cli.prompts import Desk, consent
    from planrunner.safety.project import env_variables, read_data
    from planrunner.views.run import run_object
else:
    quote = Later("shlex:quote")
    look = Later("planrunner.app.history.show:look")
    send_outstanding = Later("planrunner.app.notices.outstanding:send_outstanding")
    read_params = Later("planrunner.app.plans.files:read_params")
    continued = Later("planrunner.app.runs.proposals:continued")
    Desk = Later("planrunner.cli.prompts:Desk")
    consent = Later("planrunner.cli.prompts:consent")
    steered_document = Later("planrunner.app.runs.control:steered_document")
    env_variables = Later("planrunner.safety.project:env_variables")
    read_data = Later("planrunner.safety.project:read_data")
    run_object = Later("planrunner.views.run:run_object")


RENDERERS = {
    "tree": Later("planrunner.views.progress.tree:TreeProgress"),
    "plain": Later("planrunner.views.progress.plain:PlainProgress"),
    "github": Later("planrunner.views.progress.plain:GithubProgress"),
    "jsonl": Later("planrunner.views.progress.jsonl:JsonLinesProgress"),
    "quiet": Later("planrunner.views.progress.plain:QuietProgress"),
}
"""The watch for a progress mode."""


def lay_environment(given: Settings, plan: str | None = None) -> None:
    """Set what the environment files of the project say and what is not set yet; of a project from outside nothing.
    Raises as ``env_variables``."""
    state = find_state(plan, given.state)
    project = os.path.dirname(state) if os.path.basename(state) == NAME else find_project(plan)
    settings = os.path.join(project, "planrunner.yaml")
    if (
        not os.path.lexists(settings)
        or why_outside(settings, find_project(None))
        or (plan is not None and why_outside(plan, find_project(None)))
    ):
        return
    for name, value in env_variables(project).items():
        os.environ.setdefault(name, value)


def watch(given: Settings, mode: str, output: str | None = None) -> Watch:
    """The renderer for a progress mode. ``auto`` is PLANRUNNER_PROGRESS, else groups in GitHub Actions, a tree where
    the cursor can be moved, and lines elsewhere. ``output`` is how the output of tasks is shown; None leaves it to the
    renderer. JSON lines are data and go to standard output."""
    if mode == "auto":
        mode = os.environ.get("PLANRUNNER_PROGRESS") or "auto"
        if mode not in PROGRESS:
            raise UsageError(f"PLANRUNNER_PROGRESS is `{mode}`", f"it may be {', '.join(PROGRESS)}")
    screen = messages(given)
    if mode == "auto":
        in_github = os.environ.get("GITHUB_ACTIONS") == "true"
        mode = "github" if in_github else "tree" if screen.live else "plain"
    if output not in (None, "none") and mode in ("jsonl", "quiet"):
        raise UsageError(
            f"--output {output} has no effect with --progress {mode}", "it works with tree, plain and github"
        )
    renderer: Callable[..., Watch] = RENDERERS[mode]
    if mode in ("jsonl", "quiet"):
        return renderer(terminal(sys.stdout, given) if mode == "jsonl" else screen)
    return renderer(screen, output or ("none" if mode == "tree" else "grouped"))


def say(sentence: str) -> None:
    """Write a line to standard error at once."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


def report_notices(steered: Steered) -> None:
    for notice in steered.notices:
        say(f"note: {notice}")


def report_steered(steered: Steered, as_json: bool) -> int:
    """Print what became of a request. Raises UsageError where it was refused, NotFound for an unknown task."""
    report_notices(steered)
    if not steered.answer.applied:
        kind = NotFound if steered.answer.code == NO_PLAN else UsageError
        raise kind(f"run {steered.run_id}: {steered.answer.message}", NextStep("show", steered.run_id))
    if as_json:
        print_document(steered_document(steered), line=True)
    else:
        say(f"run {steered.run_id}: {steered.answer.message}")
    return OK


STDIN = "<stdin>"
"""What a plan on standard input is called; it counts as a file of the working directory."""


def asked_for(given: Settings, options: ExecOptions) -> ExecRequest:
    """The request that options stand for; the environment files of the project are laid. Raises as
    ``lay_environment``, NotFound, and Denied for ``--no-sandbox`` without a terminal."""
    plan, text = options.plan, None
    if options.group is not None and not options.group.strip():
        raise UsageError("--group takes the name of a group")
    if options.overlap and not options.group:
        raise UsageError("--overlap says what happens in a group", "name one with --group")
    if plan == "-":
        plan, text = STDIN, sys.stdin.buffer.read()
    lay_environment(given, None if text is not None else plan)
    params = options.params
    if options.params_file is not None:
        params = (*read_params(options.params_file), *params)
    return ExecRequest(
        plan,
        params,
        options.only,
        options.until,
        options.max_parallel,
        given.state,
        options.dry_run,
        options.seed,
        options.preview,
        options.unattended,
        options.no_sandbox and may_leave_sandbox(plan),
        options.trust or "",
        options.allow_outside,
        partial(consent, given, options.unattended),
        forced=options.force,
        text=text,
        group=options.group or "",
        overlap=options.overlap or "queue",
    )


def name_program(given: Settings, plan: str) -> None:
    """Let hints name the state directory where the plan of another project leaves its runs."""
    if not given.state:
        there = program(find_state(plan))
        given.program = there if there != "planrunner" else given.program


def exec_plan(given: Settings, options: ExecOptions) -> int:
    """Run a plan; the exit code of the contract."""
    given.on_paper = options.dry_run
    request = asked_for(given, options)
    plan = request.plan
    name_program(given, plan)
    progress = watch(given, options.progress, options.output)
    if not (options.no_wait or options.unattended or options.dry_run):
        progress = attended(given, progress)
    result = with_proposals(execute(request, progress), progress, options.unattended, request.unconfined)
    if result.notices and request.text is None and not options.json and options.progress in ("auto", "tree", "plain"):
        say(f"lint has {plural(result.notices, 'finding')} about this plan: planrunner lint {plan}")
    return report(result, options.json)


def with_proposals(result: RunResult, progress: Watch, unattended: bool = False, unconfined: bool = False) -> RunResult:
    """The run as it was left; one that has proposed a plan, and may take it over itself, is driven further."""
    if not result.state.proposal:
        return result
    return continued(result, progress, unattended, unconfined)


def may_leave_sandbox(what: str) -> bool:
    """Whether standard input is a terminal. Raises Denied elsewhere if ``what`` is to run unconfined."""
    if sys.stdin is not None and sys.stdin.isatty():
        return True
    raise Denied(
        "--no-sandbox works only at a terminal, and standard input is not a terminal",
        Hint("see ", NextStep("doctor", "--sandbox"), " for what keeps the sandbox from working here"),
        "sandbox.off",
        what,
    )


def tell_edited(given: Settings, run: str) -> None:
    """Say that the plan file has changed, and how the run continues with it."""
    edited = edited_plan(run, given.state)
    if edited is not None:
        command = f"{given.program} resume {edited.run_id} --plan {quote(edited.path)}"
        say(f"{edited.path} has changed since run {edited.run_id} started; continue with it: {command}")


def attended(given: Settings, progress: Watch) -> Watch:
    """The watch that also prompts for gates, at a terminal; else the watch alone."""
    return Desk(given, progress) if may_ask(given) else progress


def report(result: RunResult, as_json: bool) -> int:
    """Print warnings, and the object of a run where it is asked for; the exit code."""
    for warning in result.warnings:
        say(f"note: {warning}")
    if as_json:
        write_object(result)
    _notify(result)
    return result.exit_code


def _notify(result: RunResult) -> None:
    """Send the notices that the project wants of its runs; what cannot be sent is said, and waits."""
    root = str(result.state.environment.get("directory") or "")
    settings = os.path.join(root, "planrunner.yaml")
    if is_dry(result.state) or not os.path.lexists(settings) or why_outside(settings, find_project(None)):
        return
    try:
        wanted = read_data(root).get("notify")
        if not wanted:
            return
        problems = send_outstanding(wanted, root, result.state_dir, result.run_id, say)
    except PlanrunnerError as error:
        problems = {"notify": error.message}
    for name, problem in problems.items():
        told = problem if problem.startswith(name) else f"{name}: {problem}"
        say(f"note: a notice waits: {told}; send it: planrunner telemetry")


def write_object(result: RunResult) -> None:
    """The object of a run as a line on standard output; its journal adds times, parameters and attempts."""
    state = result.state
    entries: tuple[Entry, ...] = ()
    if not is_dry(state):
        recorded = look(result.run_id, result.state_dir)
        state, entries = recorded.state, recorded.entries
    print_document(run_object(state, result.revision, result.exit_code, time(), entries), line=True)
