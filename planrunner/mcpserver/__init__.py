"""The MCP server: tools and resources of a project for a model, over standard streams or HTTP on this machine."""
