"""The MCP server that a task names, held to those of the project."""

from __future__ import annotations

from planrunner.plan.lower.values import Lowering
from planrunner.plan.nearest import nearest
from planrunner.plan.templates import holds_template
from planrunner.syntax.tree import Mapping, Scalar

FAMILY = "mcp."
"""How the names of the capabilities begin that take a server."""


def check_server(low: Lowering, node: Mapping) -> None:
    """Report a server that the project does not have; one that a template names the run looks up."""
    given = node.get("with")
    server = given.get("server") if isinstance(given, Mapping) else None
    if low.roster is None or not isinstance(server, Scalar) or not isinstance(server.value, str):
        return
    known = [name for name, said in low.roster.tools.items() if isinstance(said, dict) and "mcp" in said]
    if server.value in known or holds_template(server.value):
        return
    close = nearest(server.value, known)
    way = f", did you mean `{close}`?" if close else ""
    listed = ", ".join(f"`{name}`" for name in known[:8])
    help_ = f"planrunner.yaml has {listed}" if known else f"add it: `tools: {{{server.value}: {{mcp: …}}}}`"
    low.report("PLAN841", f"there is no MCP server `{server.value}`{way}", server.span, help_)
