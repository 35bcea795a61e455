"""An MCP server that keeps notes, for `plans/capabilities/mcp.yaml`; planrunner starts it. Needs the extra `mcp`."""

from __future__ import annotations

from mcp.server import MCPServer

server = MCPServer("notes")
notes: dict[str, str] = {}


@server.tool(structured_output=False)
def keep(name: str, text: str) -> str:
    """Keep a note."""
    notes[name] = text
    return f"kept {name}, {len(notes)} in all"


@server.tool()
def search(words: str) -> dict[str, list[str]]:
    """The names of the notes that hold these words."""
    return {"names": sorted(name for name, text in notes.items() if words in text)}


@server.tool(structured_output=False)
def delete(name: str) -> str:
    """Delete a note."""
    return f"deleted {notes.pop(name)}"


if __name__ == "__main__":
    server.run("stdio")
