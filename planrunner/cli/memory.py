"""``planrunner memory``."""

from __future__ import annotations

import sys
from typing import Any

import click

from planrunner.app.project import memory
from planrunner.app.project.memory import Where
from planrunner.cli.group import CommandGroup, given_settings
from planrunner.cli.options import json_option, options
from planrunner.cli.output import print_document
from planrunner.cli.settings import emit, note_stranger, output
from planrunner.errors import UsageError
from planrunner.jsontext import read_json, write_json
from planrunner.knowledge.memory.entries import LAYERS, Picked
from planrunner.knowledge.memory.layers import Layer
from planrunner.views.documents import document_of, listing
from planrunner.views.memory import details, rows
from planrunner.views.terminal import plural

Json = Any

place_options = options(
    click.option("--layer", type=click.Choice(LAYERS), default="project", help="The layer of memory (project)."),
    click.option("--run", metavar="RUN", default="", help="The run, for --layer task."),
    click.option("--lessons", is_flag=True, help="Lessons (memory.learn) instead of entries."),
)


def _where(ctx: click.Context, chosen: dict[str, Json]) -> Where:
    settings = given_settings(ctx)
    note_stranger(settings)
    return Where(chosen["layer"], chosen["run"], chosen["lessons"], settings.state)


@click.group("memory", cls=CommandGroup, default="list")
def memory_command() -> None:
    """List, search and change the memory of runs.

    \b
    Examples:
      planrunner memory search "how was the port chosen"
      planrunner memory put deploy/region eu-west-1 --trusted
      planrunner memory list --lessons
      planrunner memory export > memory.jsonl
    """


@memory_command.command("list")
@place_options
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only entries with this tag.")
@click.option("--prefix", default="", metavar="TEXT", help="Only entries whose key starts with TEXT.")
@click.option("--limit", type=click.IntRange(1), default=50, metavar="N", help="At most N (50).")
@json_option
@click.pass_context
def list_entries(
    ctx: click.Context, /, tags: tuple[str, ...], prefix: str, limit: int, as_json: bool, **chosen: Json
) -> int:
    """List entries, the latest change first."""
    with memory.opened(_where(ctx, chosen)) as layer:
        entries, total = layer.page(Picked(prefix, tags), limit)
        empty = not layer.page(limit=1)[1]
        none = "" if entries else _none(ctx, layer, chosen)
    none += _learned(ctx, chosen) if empty else ""
    data = [entry.as_json() for entry in entries]
    if as_json:
        print_document(listing("entries", data, layer=chosen["layer"], total=total))
        return 0
    _print_table(ctx, data, none)
    if total > limit:
        click.echo(f"{total - limit} more: --limit {total} lists all", err=True)
    return 0


@memory_command.command("search")
@click.argument("query")
@place_options
@click.option(
    "--by",
    type=click.Choice(("both", "text", "vector")),
    default="both",
    help="Search by words, by similarity, or by both (both).",
)
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Only entries with this tag.")
@click.option("--limit", type=click.IntRange(1, 1000), default=10, metavar="N", help="At most N (10).")
@json_option
@click.pass_context
def search_entries(
    ctx: click.Context, /, query: str, by: Any, tags: tuple[str, ...], limit: int, as_json: bool, **chosen: Json
) -> int:
    """Search for entries, the best match first."""
    with memory.opened(_where(ctx, chosen)) as layer:
        hits = layer.search(query, by, limit, Picked("", tags))
        empty = not layer.page(limit=1)[1]
        none = "" if hits else _none(ctx, layer, chosen)
    none += _learned(ctx, chosen) if empty else ""
    data = [{**hit.entry.as_json(), "score": round(hit.score, 4)} for hit in hits]
    if as_json:
        print_document(listing("entries", data, layer=chosen["layer"], total=len(data)))
        return 0
    _print_table(ctx, data, none)
    return 0


def _none(ctx: click.Context, layer: Layer, chosen: dict[str, Json]) -> str:
    """What is said where nothing was found: nothing fits, or there is nothing yet, and what brings the first entry."""
    if layer.page(limit=1)[1]:
        return "no matching entries"
    if chosen["lessons"]:
        return f"no lessons in the {layer.name} memory yet; tasks learn them with `uses: memory.learn`"
    if layer.name == "task":
        return "no entries in the task memory yet; tasks of the run remember with `uses: memory.put`"
    where = "" if layer.name == "project" else f" --layer {layer.name}"
    first = f"{given_settings(ctx).program} memory put KEY VALUE{where}"
    return f"no entries in the {layer.name} memory yet; remember the first one: {first}"


def _learned(ctx: click.Context, chosen: dict[str, Json]) -> str:
    """What is said of lessons where there are no entries."""
    if chosen["lessons"]:
        return ""
    with memory.opened(_where(ctx, {**chosen, "lessons": True})) as layer:
        total = layer.page(limit=1)[1]
    where = "" if layer.name == "project" else f" --layer {layer.name}"
    where += f" --run {chosen['run']}" if chosen["run"] else ""
    listed = f"{given_settings(ctx).program} memory list --lessons{where}"
    return f"\n{plural(total, 'lesson')} in it: {listed}" if total else ""


def _print_table(ctx: click.Context, data: list[dict[str, Json]], none: str) -> None:
    screen = output(given_settings(ctx))
    if data:
        screen.write("\n".join(rows(screen, data)) + "\n")
    else:
        click.echo(none, err=True)


@memory_command.command("show")
@click.argument("key")
@place_options
@json_option
@click.pass_context
def show_entry(ctx: click.Context, /, key: str, as_json: bool, **chosen: Json) -> int:
    """Show an entry and its source."""
    with memory.opened(_where(ctx, chosen)) as layer:
        data = memory.got(layer, key).as_json()
    return emit(given_settings(ctx), document_of(data) if as_json else details(data))


@memory_command.command("put")
@click.argument("key")
@click.argument("value")
@place_options
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A tag of the entry.")
@click.option("--data", is_flag=True, help="Read VALUE as JSON instead of text.")
@click.option("--trusted", is_flag=True, help="Vouch for VALUE: plans can use it as trusted text.")
@json_option
@click.pass_context
def put_entry(ctx: click.Context, /, key: str, value: str, tags: tuple[str, ...], as_json: bool, **chosen: Json) -> int:
    """Keep VALUE under KEY; `-` reads standard input."""
    text = sys.stdin.read() if value == "-" else value
    with memory.opened(_where(ctx, chosen), writes=True) as layer:
        entry = memory.put(layer, key, _data(text) if chosen["data"] else text, tags, chosen["trusted"])
    return _done(as_json, entry.as_json(), f"remembered `{key}` in the {chosen['layer']} memory")


def _done(as_json: bool, data: dict[str, Json], words: str) -> int:
    """Say what was done, as a document or in words."""
    if as_json:
        print_document(document_of(data))
    else:
        click.echo(words, err=True)
    return 0


def _data(text: str) -> Json:
    try:
        return read_json(text)
    except ValueError as error:
        raise UsageError(f"the value is not JSON: {error}", "omit `--data` to keep it as text") from None


@memory_command.command("forget")
@click.argument("key")
@place_options
@json_option
@click.pass_context
def forget_entry(ctx: click.Context, /, key: str, as_json: bool, **chosen: Json) -> int:
    """Forget an entry."""
    with memory.opened(_where(ctx, chosen), writes=True) as layer:
        memory.forget(layer, key)
    return _done(as_json, {"key": key, "layer": chosen["layer"]}, f"forgot `{key}` of the {chosen['layer']} memory")


@memory_command.command("export")
@place_options
@click.pass_context
def export_entries(ctx: click.Context, /, **chosen: Json) -> int:
    """Print all entries as lines of JSON, which `import` takes."""
    screen = output(given_settings(ctx))
    with memory.opened(_where(ctx, chosen)) as layer:
        for entry in memory.exported(layer):
            screen.write(write_json(entry) + "\n")
    return 0


@memory_command.command("import")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@place_options
@json_option
@click.pass_context
def import_entries(ctx: click.Context, /, file: Any, as_json: bool, **chosen: Json) -> int:
    """Import entries from `export`, replacing those with the same keys; imported entries are not trusted."""
    with memory.opened(_where(ctx, chosen), writes=True) as layer:
        count = memory.imported(layer, file)
    return _done(
        as_json, {"imported": count, "layer": chosen["layer"]}, f"{count} entries are in the {chosen['layer']} memory"
    )


@memory_command.command("reindex")
@place_options
@json_option
@click.pass_context
def reindex_entries(ctx: click.Context, /, as_json: bool, **chosen: Json) -> int:
    """Recompute the vectors of all entries, without a model."""
    with memory.opened(_where(ctx, chosen), writes=True) as layer:
        count = memory.reindexed(layer)
    return _done(
        as_json,
        {"reindexed": count, "layer": chosen["layer"]},
        f"{count} entries of the {chosen['layer']} memory have new vectors",
    )
