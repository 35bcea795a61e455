"""MCP servers: what tools they have, and calling one."""
