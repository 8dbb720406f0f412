"""An MCP server made with the official Python SDK: over stdio, or over HTTP on the port that is given."""

import sys

from mcp.server import MCPServer

server = MCPServer("official")


@server.tool()
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool()
def fail() -> str:
    """Fails."""
    raise ValueError("as asked")


if len(sys.argv) > 1:
    server.run(transport="streamable-http", port=int(sys.argv[1]))
else:
    server.run()
