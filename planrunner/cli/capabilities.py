"""``planrunner capabilities``, ``schema`` and ``rule``: what plans can say."""

from __future__ import annotations

import json
from typing import Any

import click

from planrunner.app.plans.reference import (
    capability,
    capability_object,
    catalogue,
    example_tasks,
    explain_rule,
    rule_objects,
    schema_for,
)
from planrunner.capabilities.preconditions import described
from planrunner.cli.completion import completes
from planrunner.cli.group import given_settings
from planrunner.cli.options import json_option
from planrunner.cli.output import print_document
from planrunner.cli.settings import output
from planrunner.diagnostics import RULES
from planrunner.errors import NextStep, NotFound, UsageError
from planrunner.machine.ledger import SPENDABLE
from planrunner.plan.model import Capability, Field
from planrunner.views.documents import listing
from planrunner.views.terminal import table


@click.command("capabilities")
@click.argument(
    "name",
    required=False,
    shell_complete=completes(lambda ctx, word: [(each.name, each.summary) for each in catalogue()]),
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with the schema of the inputs.")
@click.pass_context
def capabilities_command(ctx: click.Context, /, name: str | None, as_json: bool) -> int:
    """List what tasks can call, or those of a family or a group in one, or tell all about one capability.

    \b
    Examples:
      planrunner capabilities
      planrunner capabilities files
      planrunner capabilities git.worktree
      planrunner capabilities shell
      planrunner capabilities --json
    """
    capabilities, is_list = _meant(name)
    if as_json:
        rows = [capability_object(each) for each in capabilities]
        print_document(listing("capabilities", rows) if is_list else rows[0])
        return 0
    if not is_list:
        click.echo("\n".join(_described(capabilities[0])))
        return 0
    screen = output(given_settings(ctx))
    rows_ = [(each.name, each.effect, each.summary) for each in capabilities]
    screen.write("\n".join(table(screen, ("NAME", "EFFECT", "WHAT IT DOES"), rows_)) + "\n")
    return 0


def _meant(name: str | None) -> tuple[list[Capability], bool]:
    """The capabilities that are meant, and whether they are a list of them. Raises NotFound."""
    if name is None:
        return catalogue(), True
    name = name.removesuffix(".")
    if "." not in name:
        return (family, True) if (family := catalogue(name)) else ([capability(name)], False)
    try:
        return [capability(name)], False  # for one alone no other plugin is loaded
    except NotFound:
        if family := catalogue(name):
            return family, True
        raise


def _described(found: Capability) -> list[str]:
    lines = [f"{found.name}: {found.summary}", f"effect {found.effect}: {_AFTER_A_CRASH[found.effect]}"]
    lines.append(f"preview: {'yes' if found.preview else 'no'}; undo: {_undone(found)}; from {found.plugin}")
    if found.risks:
        lines.append(f"risks: {', '.join(found.risks)}")
    if found.preconditions:
        lines.append(f"needs: {'; '.join(map(described, found.preconditions))}")
    if found.spends:
        spends = [what for what in found.spends if what in SPENDABLE]
        lines.append(f"spends: {', '.join(spends)}, so a plan with a budget for it says how much a task may use")
    if found.description and found.description != found.summary:
        lines += ["", found.description]
    for title, fields in (("inputs", found.inputs), ("outputs", found.outputs)):
        if fields:
            width = max(14, *(len(field.name) for field in fields))
            lines += ["", f"{title}:", *(_field(field, width, title == "inputs") for field in fields)]
    if found.open_outputs:
        lines += ["", "outputs: any that the task declares"]
    return [*lines, "", "example:", *(f"  {line}" for line in example_tasks(found, capability).splitlines())]


_AFTER_A_CRASH = {
    "pure": "the result depends on the inputs alone; runs again after a crash",
    "read": "looks and changes nothing; runs again after a crash",
    "idempotent": "twice is the same as once; runs again after a crash, with the same key",
    "checkable": "after a crash it finds out whether it took effect",
    "unsafe": "after a crash it is unknown whether it took effect: the task's `on_doubt` decides",
}


def _undone(capability: Capability) -> str:
    if capability.effect in ("pure", "read"):
        return "nothing to undo"
    if capability.irreversible:
        return "no, it is irreversible"
    return "exact, without the plan saying how" if capability.undo else "the task says how, with `rollback`"


def _field(field: Field, width: int, is_input: bool) -> str:
    choices = next((each["enum"] for each in _alternatives(field) if each.get("enum")), ())
    facts = ["|".join(map(str, choices)) or field.type, "required" if field.required and is_input else ""]
    if field.default is not None:
        facts.append(f"default {json.dumps(field.default, ensure_ascii=False)}")
    return f"  {field.name:<{width}} {', '.join(fact for fact in facts if fact)}  {field.description}".rstrip()


def _alternatives(field: Field) -> list[dict[str, Any]]:
    wanted: dict[str, Any] = field.schema or {}
    return [wanted, *wanted.get("anyOf", ())]


@click.command("schema")
@click.argument("path", required=False, type=click.Path())
@click.option("--write", metavar="FILE", help="Write to a file, with the inputs of the installed capabilities.")
def schema_command(path: str | None, write: str | None) -> int:
    """Print the JSON Schema of plans; PATH is `capabilities`, `project` (planrunner.yaml), `test`, `eval` (files of
    tests and evaluations), `run` (what `exec --json` prints) or a path of keys such as tasks.retry or project.models.

    \b
    Examples:
      planrunner schema tasks.retry
      planrunner schema capabilities
      planrunner schema project
      planrunner schema run
      planrunner schema --write plans/plan.schema.json
    """
    complete = write is not None and path is None
    text = json.dumps(schema_for(path, complete), indent=2, ensure_ascii=False) + "\n"
    if write is None:
        click.echo(text, nl=False)
        return 0
    try:
        with open(write, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"`{write}` cannot be written: {error.strerror}") from error
    click.echo(f"wrote {write}", err=True)
    return 0


@click.command("rule")
@click.argument(
    "code",
    required=False,
    shell_complete=completes(lambda ctx, word: [(each.code, each.title) for each in RULES.values()]),
)
@click.option("--all", "every", is_flag=True, help="Every rule.")
@json_option
def rule_command(code: str | None, every: bool, as_json: bool) -> int:
    """Explain a lint rule, by code or by name.

    \b
    Examples:
      planrunner rule PLAN103
      planrunner rule dependency-cycle
      planrunner rule --all --json
    """
    if every == (code is not None):
        raise UsageError("name one rule, or ask for --all", NextStep("rule", "PLAN103"))
    rules = rule_objects(None if every else code)
    if as_json:
        print_document(listing("rules", rules) if every else rules[0])
    elif every:
        for rule in rules:
            click.echo(f"{rule['code']}  {rule['severity']:<8} {rule['name']:<24} {rule['title']}")
    else:
        click.echo(explain_rule(rules[0]["code"]))
    return 0
