"""``planrunner capabilities``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from planrunner.cli.group import given_settings
from planrunner.cli.settings import output

if TYPE_CHECKING:
    from planrunner.plan.model import Capability, Field


@click.command("capabilities")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with the schema of the inputs.")
@click.pass_context
def command(ctx: click.Context, /, name: str | None, as_json: bool) -> int:
    """List what tasks can call, or tell all about one capability.

    \b
    Examples:
      planrunner capabilities
      planrunner capabilities shell
      planrunner capabilities --json
    """
    from planrunner.app.authoring import capability, catalogue

    found = catalogue() if name is None else [capability(name)]
    if as_json:
        rows = [_object(each) for each in found]
        data = {"format": 1, "capabilities": rows} if name is None else rows[0]
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
        return 0
    if name is not None:
        click.echo("\n".join(_described(found[0])))
        return 0
    from planrunner.views.table import table

    screen = output(given_settings(ctx))
    rows_ = [(each.name, each.effect, each.summary) for each in found]
    screen.write("\n".join(table(screen, ("NAME", "EFFECT", "WHAT IT DOES"), rows_)) + "\n")
    return 0


def _object(found: Capability) -> dict[str, Any]:
    from planrunner.app.schemas import input_schema

    data = found._asdict()
    data["inputs"] = [field._asdict() for field in found.inputs]
    data["outputs"] = [field._asdict() for field in found.outputs]
    return {**data, "schema": input_schema(found)}


def _described(found: Capability) -> list[str]:
    lines = [f"{found.name}: {found.summary}", f"effect {found.effect}, from {found.plugin}"]
    if found.risks:
        lines.append(f"risks: {', '.join(found.risks)}")
    if found.description and found.description != found.summary:
        lines += ["", found.description]
    for title, fields in (("inputs", found.inputs), ("outputs", found.outputs)):
        if fields:
            lines += ["", f"{title}:", *(_field(field) for field in fields)]
    return lines


def _field(field: Field) -> str:
    facts = [field.type, "required" if field.required else ""]
    if field.default is not None:
        facts.append(f"default {json.dumps(field.default, ensure_ascii=False)}")
    return f"  {field.name:<14} {', '.join(fact for fact in facts if fact)}  {field.description}".rstrip()
