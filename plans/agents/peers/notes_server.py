"""An MCP server that keeps notes, for `tools-by-mcp.yaml`: started by the run, over its standard input and output."""

from mcp.server import MCPServer

server = MCPServer("notes")
notes: dict[str, str] = {"today": "Plan the release."}


@server.tool()
def read_notes() -> dict[str, str]:
    """All notes by their names."""
    return notes


@server.tool(structured_output=False)
def keep(name: str, text: str) -> str:
    """Keep a note."""
    notes[name] = text
    return f"kept {name}"


@server.tool(structured_output=False)
def delete(name: str) -> str:
    """Delete a note."""
    del notes[name]
    return f"deleted {name}"


if __name__ == "__main__":
    server.run("stdio")
