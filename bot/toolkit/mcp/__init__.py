"""Tools, resources and prompts of MCP servers. Nothing here may take the bot down, whatever a server does.

`offers` is what a server has, as plain JSON; `server_calls` the seam between the tools and a connection. Each
configured server has one owner task that opens, serves and closes its session. The SDK costs a second to import
and is loaded only where a server is configured.
"""
