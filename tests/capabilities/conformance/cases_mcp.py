"""Cases of the MCP family, with the test server of `tests/agents`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from planrunner.testing.conformance import Case, Ready

NEEDS = ("module:mcp",)
SERVER = str(Path(__file__).parents[2] / "agents" / "mcp_server.py")


def _called(tool: str, **arguments: Any) -> Callable[[Path], Ready]:
    def setup(directory: Path) -> Ready:
        settings = {"tools": {"notes": {"mcp": [sys.executable, SERVER]}}}
        inputs = {"server": "notes", **({"tool": tool, "arguments": arguments} if tool else {})}
        return Ready(inputs, settings)

    return setup


def _waiting(directory: Path) -> Ready:
    return _called("wait", started=str(directory.parent / "started"))(directory)


CASES = [
    Case("mcp.tools", _called(""), requires=NEEDS),
    Case("mcp.call", _called("keep", name="a", text="b"), requires=NEEDS),
    Case("mcp.call", _called("picture"), "that gives a picture", requires=NEEDS),
    Case("mcp.call", _called("note", name="missing"), "that the tool calls an error", fails="logic", requires=NEEDS),
    Case("mcp.call", _called("die"), "that ends the server", fails="transient", requires=NEEDS),
    Case("mcp.call", _waiting, "that waits", waits=True, requires=NEEDS),
]
