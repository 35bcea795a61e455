"""``planrunner mcp``."""

from __future__ import annotations

import os
import secrets
from functools import partial
from importlib import import_module

import click

from planrunner.app.queue.lease import start_worker
from planrunner.app.runs.host import Host
from planrunner.cli.crash import write_report
from planrunner.cli.group import given_settings
from planrunner.cli.runner import lay_environment, say
from planrunner.errors import OK, UsageError, missing_extra
from planrunner.journal.workspace import find_project, find_state
from planrunner.process import share_process

VARIABLE = "PLANRUNNER_MCP_TOKEN"
"""The variable that may hold the token of the server over HTTP."""
_SHORTEST = 16


@click.command("mcp")
@click.option("--http", is_flag=True, help="Serve over HTTP on 127.0.0.1 instead of standard input and output.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, metavar="N", help="Port for --http (any free one).")
@click.pass_context
def mcp_command(ctx: click.Context, /, http: bool, port: int) -> int:
    """Serve the project to a model by the Model Context Protocol.

    The tools lint and preview plans, start runs and show how they stand. Further actions and capabilities are offered
    where `mcp` of planrunner.yaml lists them. Gates can be read; only people decide them. A run continues in a worker
    of the queue when the client leaves.

    A client starts this command itself. With --http it prints an address and a token, which every request carries; the
    variable PLANRUNNER_MCP_TOKEN sets the token.

    \b
    Examples:
      planrunner mcp
      planrunner -C ~/project mcp
      planrunner mcp --http --port 8765
    """
    try:
        transport = import_module("planrunner.mcpserver.transport")
        server = import_module("planrunner.mcpserver.server")
        parts = import_module("planrunner.mcpserver.tool")
    except ImportError as error:
        raise missing_extra("mcp needs", "mcp", error) from None
    given, token = given_settings(ctx), os.environ.get(VARIABLE) or secrets.token_urlsafe(32)
    if http and len(token) < _SHORTEST:
        raise UsageError(f"{VARIABLE} is shorter than {_SHORTEST} characters", "leave it out for a random one")
    if port and not http:
        raise UsageError("--port has no effect without --http", "add --http")
    share_process()
    lay_environment(given)
    state = find_state(None, given.state)
    root = find_project(None)
    os.chdir(root)
    with Host() as host:
        site = parts.Site(root, state, host, partial(start_worker, root, state))
        made = server.make_server(site, partial(write_report, arguments=["mcp"]))
        if not http:
            transport.serve_streams(made, host.close)
            return OK
        try:
            bound = transport.opened(port)
        except OSError as error:
            raise UsageError(
                f"port {port} cannot be used: {error.strerror}", "leave --port out for a free one"
            ) from None
        with bound:
            _greet(f"http://127.0.0.1:{bound.getsockname()[1]}{transport.PATH}", token)
            transport.serve_http(made, bound, token)
    return OK


def _greet(address: str, token: str) -> None:
    say(f"planrunner mcp: {address}")
    say("  every request carries the header `Authorization: Bearer TOKEN`; stop with Ctrl-C")
    say("  the token is that of PLANRUNNER_MCP_TOKEN" if os.environ.get(VARIABLE) else f"  token: {token}")
