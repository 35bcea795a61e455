"""The server of the protocol: tools and resources of one project, each request carried out in a thread."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from anyio import to_thread
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from mcp.types import Tool as ListedTool

from planrunner import __version__
from planrunner.caller import Workspace, acting, principal, workspace
from planrunner.errors import INTERNAL, NO_PLAN, NotFound, PlanInvalid, PlanrunnerError
from planrunner.mcpserver import inspection, steering
from planrunner.mcpserver.calls import capability_tools
from planrunner.mcpserver.resources import PATTERNS, content, entries
from planrunner.mcpserver.tool import Site, Tool, check_arguments, offer
from planrunner.plan.nearest import nearest
from planrunner.views.documents import document_text, error_document
from planrunner.views.findings import findings_data

Json = Any
Request = ServerRequestContext[Any]
Result = TypeVar("Result")

INSTRUCTIONS = """\
planrunner runs plans: YAML files with tasks, gates and undo. Write a plan below `plans/`, then `lint` and `preview` it,
`start` it and ask `status` until it has ended. `why` and `logs` explain what failed. A run that waits at a gate waits
for a person: show the user what `gates` lists, and wait. You cannot decide a gate. The schema of plans is the resource
planrunner://schema/plan."""

Report = Callable[[BaseException], str]
"""Keeps what an internal error was, and says where; empty where it could not."""


def make_server(site: Site, report: Report) -> Server[Any]:
    """The server of a project. What it offers follows the settings of the project at each request; requests act for
    the account of the process."""
    who, profile = principal(), workspace().profile
    where = Workspace(site.root, site.state, profile)

    async def carried_out(work: Callable[[], Result]) -> Result:
        def here() -> Result:
            with acting(who, where):
                return work()

        return await to_thread.run_sync(here)

    async def list_tools(_: Request, __: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=[_listed(tool) for tool in await _answered(carried_out, lambda: tools(site))])

    async def call_tool(_: Request, params: CallToolRequestParams) -> CallToolResult:
        return await carried_out(lambda: called(site, report, params.name, params.arguments or {}))

    async def list_resources(_: Request, __: PaginatedRequestParams | None) -> ListResourcesResult:
        found = await _answered(carried_out, lambda: [*entries(site)])
        return ListResourcesResult(
            resources=[Resource(uri=each.uri, name=each.name, title=each.title, mime_type=each.mime) for each in found]
        )

    async def list_templates(_: Request, __: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        rows = [
            ResourceTemplate(uri_template=p.template, name=p.name, title=p.title, mime_type=p.mime) for p in PATTERNS
        ]
        return ListResourceTemplatesResult(resource_templates=rows)

    async def read_resource(_: Request, params: ReadResourceRequestParams) -> ReadResourceResult:
        uri = str(params.uri)
        found = await _answered(carried_out, lambda: content(site, uri))
        return ReadResourceResult(contents=[TextResourceContents(uri=uri, text=found.text, mime_type=found.mime)])

    return Server(
        "planrunner",
        version=__version__,
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read_resource,
    )


def tools(site: Site) -> list[Tool]:
    """The tools that the project offers at this moment. No setting adds one that decides a gate: there is none."""
    offered = offer(site.root)
    acts = [tool for tool in steering.TOOLS if tool.name in offered.actions]
    return [*inspection.TOOLS, *acts, *capability_tools(site, offered)]


def called(site: Site, report: Report, name: str, given: dict[str, Json]) -> CallToolResult:
    """The result of a call: a document, also as text for clients that read only that. What goes wrong is a result as
    well, so that the model learns of it."""
    try:
        known = {tool.name: tool for tool in tools(site)}
        if name not in known:
            raise _unknown(name, known)
        told = known[name].act(site, check_arguments(known[name], given))
        return _result(told, failed="call" in told and told["status"] != "completed")
    except PlanrunnerError as error:
        return _result(_error(error), failed=True)
    except Exception as error:  # a fault of planrunner: the client gets one sentence, the report the rest
        place = report(error)
        hint = f"a report for the maintainers is in {place}" if place else ""
        return _result(error_document(f"internal error: {type(error).__name__}", hint, INTERNAL), failed=True)


def _unknown(name: str, known: dict[str, Tool]) -> PlanrunnerError:
    if any(tool.name == name for tool in steering.TOOLS):
        return NotFound(f"the project does not offer `{name}`", f"planrunner.yaml would: mcp: {{actions: [{name}]}}")
    near = nearest(name, known)
    return NotFound(
        f"there is no tool `{name}`", f"did you mean `{near}`?" if near else f"there are {', '.join(known)}"
    )


def _listed(tool: Tool) -> ListedTool:
    notes = ToolAnnotations(
        read_only_hint=tool.reads,
        destructive_hint=tool.destroys,
        idempotent_hint=tool.reads,
        open_world_hint=not tool.reads,
    )
    return ListedTool(
        name=tool.name, title=tool.title, description=tool.description, input_schema=tool.schema, annotations=notes
    )


def _result(told: dict[str, Json], failed: bool = False) -> CallToolResult:
    text = document_text(told, line=True)
    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=json.loads(text), is_error=failed
    )


def _error(error: PlanrunnerError) -> dict[str, Json]:
    findings = None
    if isinstance(error, PlanInvalid):
        findings = findings_data([(error.source, error.findings)])["findings"]
    return error_document(error.message, error.hint, error.exit_code, error.way_out.steps, findings)


async def _answered(
    carried_out: Callable[[Callable[[], Result]], Awaitable[Result]], work: Callable[[], Result]
) -> Result:
    """What ``work`` gives; its errors are errors of the protocol."""
    try:
        return await carried_out(work)
    except PlanrunnerError as error:
        code = INVALID_PARAMS if error.exit_code == NO_PLAN else INTERNAL_ERROR
        raise MCPError(code=code, message=f"{error.message}; {error.hint}" if error.hint else error.message) from None
