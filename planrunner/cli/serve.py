"""``planrunner serve``."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from planrunner.caller import acting, principal
from planrunner.cli.group import given_settings
from planrunner.cli.runner import lay_environment
from planrunner.cli.settings import Settings, messages
from planrunner.errors import OK, UsageError
from planrunner.safety.project import env_variables
from planrunner.service.access import Access
from planrunner.service.context import Project, projects_at
from planrunner.service.logs import Log
from planrunner.service.server import Listening, listen, serve

PORT = 8421


@click.command("serve")
@click.argument("directories", nargs=-1, metavar="[DIR]...", type=click.Path(exists=True, file_okay=False))
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Address to listen at (default: 127.0.0.1).")
@click.option(
    "--port", default=PORT, type=click.IntRange(0, 65535), metavar="N", help="Port (default: 8421; 0: a free one)."
)
@click.option("--name", "names", multiple=True, metavar="HOST", help="Answer to this host name too; may be repeated.")
@click.option("--log", metavar="FILE", help="Append a line of JSON for each request to FILE (-: standard error).")
@click.pass_context
def serve_command(
    ctx: click.Context, /, directories: tuple[str, ...], host: str, port: int, names: tuple[str, ...], log: str | None
) -> int:
    """Serve a page and an HTTP API for one project or several. Without DIR it is the project of the working directory.

    \b
    Examples:
      planrunner serve
      planrunner serve ~/shop ~/site --port 0
      planrunner serve --host 0.0.0.0 --name plans.example.org
    """
    given = given_settings(ctx)
    projects = projects_at(directories, given.state)
    _lay_environment(projects, given)
    place, lines = listen(host, port, names), Log(log)
    screen = messages(given)

    def told(access: Access) -> None:
        screen.write("\n".join(_lines(projects, place, access, names)) + "\n")
        sys.stderr.flush()

    serve(projects, place, told, lines)
    return OK


def _lay_environment(projects: list[Project], given: Settings) -> None:
    """Set what the environment files of the project say. Raises UsageError where several projects are served: the
    variables of one would hold for the tasks of all."""
    for project in projects:
        with acting(principal(), project.place):
            if len(projects) == 1:
                lay_environment(given)
            elif env_variables(project.root):
                told = f"`env_file` of `{project.name}` would hold for every project of the service"
                raise UsageError(told, "serve that project by a service of its own, or leave `env_file` out")


def _lines(projects: list[Project], place: Listening, access: Access, names: Sequence[str]) -> list[str]:
    """What is said at the start: where, what, who, and how it ends."""
    called = f" (also called {', '.join(names)})" if names else ""
    lines = [f"planrunner serves {place.address}{called}"]
    lines += [f"  {project.name}  {project.root}" for project in projects]
    who = (
        "the user of this process, without a token; other users of this machine are refused"
        if access.is_open
        else "holders of tokens (planrunner token list)"
    )
    return [*lines, f"who may act: {who}", "stop it with Ctrl-C; runs pause and go on at the next start"]
