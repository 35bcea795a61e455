"""The MCP server that a task names, held to those of the project."""

from __future__ import annotations

from fnmatch import fnmatchcase

from planrunner.plan.lower.values import Lowering
from planrunner.plan.nearest import meant, nearest
from planrunner.plan.templated import holds_template
from planrunner.syntax.tree import Mapping, Node, Scalar

FAMILY = "mcp."
"""How the names of the capabilities begin that take a server."""


def _check_tool(low: Lowering, server: str, tool: Node | None) -> None:
    """Report a tool that the patterns of the project leave out."""
    if low.roster is None or not isinstance(tool, Scalar) or not isinstance(tool.value, str):
        return
    given = low.roster.tools[server].get("tools") or "*"
    patterns = [given] if isinstance(given, str) else [str(each) for each in given]
    if holds_template(tool.value) or any(fnmatchcase(tool.value, pattern) for pattern in patterns):
        return
    way = meant(nearest(tool.value, patterns))
    help_ = f"`tools` of the server in planrunner.yaml has {', '.join(f'`{each}`' for each in patterns[:8])}"
    low.report("PLAN841", f"the server `{server}` has no tool `{tool.value}` for plans{way}", tool.span, help_)


def check_server(low: Lowering, node: Mapping) -> None:
    """Report a server that the project does not have; one that a template names the run looks up."""
    given = node.get("with")
    if not isinstance(given, Mapping):
        return
    server = given.get("server")
    if low.roster is None or not isinstance(server, Scalar) or not isinstance(server.value, str):
        return
    known = [name for name, said in low.roster.tools.items() if isinstance(said, dict) and "mcp" in said]
    if holds_template(server.value):
        return
    if server.value in known:
        _check_tool(low, server.value, given.get("tool"))
        return
    way = meant(nearest(server.value, known))
    listed = ", ".join(f"`{name}`" for name in known[:8])
    help_ = f"planrunner.yaml has {listed}" if known else f"add it: `tools: {{{server.value}: {{mcp: …}}}}`"
    low.report("PLAN841", f"there is no MCP server `{server.value}`{way}", server.span, help_)
