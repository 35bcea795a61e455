"""``planrunner preview``."""

from __future__ import annotations

import sys
from shlex import quote
from typing import Any

import click

from planrunner.app.plans.agents import agents_of
from planrunner.app.plans.files import read_params
from planrunner.app.plans.preview import Choice, changes_of, missing_of, preview_object, previewed, write_preview
from planrunner.cli.group import given_settings
from planrunner.cli.options import PlanPath, json_option, params_option
from planrunner.cli.output import print_document
from planrunner.cli.settings import output
from planrunner.views.preview import preview_lines


@click.command("preview")
@click.argument("plan", type=PlanPath())
@params_option()
@click.option("--params-file", metavar="FILE", help="Read parameters from a YAML or JSON file; -p takes precedence.")
@click.option("--only", multiple=True, metavar="TASK", help="Run only this task; may be repeated.")
@click.option("--until", multiple=True, metavar="TASK", help="Run this task and what it needs; may be repeated.")
@click.option("--max-parallel", type=click.IntRange(1), metavar="N", help="At most N tasks at once.")
@click.option("--save", metavar="FILE", help="Write the preview to a file, for `exec --preview FILE`.")
@click.option("--changes", is_flag=True, help="Show what capabilities would change now: diffs and exact calls.")
@json_option
@click.pass_context
def preview_command(ctx: click.Context, /, **options: Any) -> int:
    """Show what a run would do: what runs in which order, who is asked, and the worst case of time and cost.

    Nothing is run and no question is asked. With --changes, capabilities also show the diff or the exact calls that
    they would make now; they change nothing. A saved preview binds a run: `exec --preview FILE` refuses with code 10
    if the plan, its parameters or anything in the preview has changed since. Missing secrets, keys, programs and
    folders are listed; `exec` does not start without them.

    \b
    Examples:
      planrunner preview plans/release.yaml -p ref=v1.2
      planrunner preview plans/files.yaml --changes
      planrunner preview plans/release.yaml --save release.preview.json
      planrunner exec plans/release.yaml --preview release.preview.json
    """
    given = given_settings(ctx)
    params = options["params"]
    if options["params_file"] is not None:
        params = (*read_params(options["params_file"]), *params)
    chosen = Choice(params, options["only"], options["until"], options["max_parallel"])
    seen = previewed(options["plan"], chosen)
    preview = preview_object(options["plan"], seen)
    if options["changes"]:
        preview["changes"] = changes_of(options["plan"], seen, given.state)
    if options["save"] is not None:
        write_preview(options["save"], preview)
    preview["agents"] = agents_of(options["plan"], seen)
    preview["missing"] = missing_of(options["plan"], seen)
    screen = output(given)
    if options["as_json"]:
        print_document(preview)
    else:
        screen.write("".join(f"{line}\n" for line in preview_lines(screen, preview)))
    if options["save"] is not None:
        words = [given.program, "exec", options["plan"], *_again(options), f"--preview {options['save']}"]
        sys.stderr.write(f"wrote {options['save']}; run exactly this: {' '.join(words)}\n")
    return 0


def _again(options: dict[str, Any]) -> list[str]:
    """The options of the preview that a run has to have as well."""
    words = [f"-p {quote(f'{name}={value}')}" for name, value in options["params"]]
    words += [f"--{name} {task}" for name in ("only", "until") for task in options[name]]
    if options["params_file"] is not None:
        words.append(f"--params-file {options['params_file']}")
    if options["max_parallel"] is not None:
        words.append(f"--max-parallel {options['max_parallel']}")
    return words
