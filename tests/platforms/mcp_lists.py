"""How a scripted MCP server lists what it has: definitions, and pages of them."""

from __future__ import annotations

from tests.platforms.mcp_script import Json, Prompt, Resource, Script, Tool


def page(script: Script, method: str, key: str, entries: list[Json], params: Json) -> Json:
    """Return the page of `entries` that a request's cursor wants; the cursor is the number of its first entry."""
    cursor = int(params.get("cursor") or 0)
    if method in script.endless:
        return {key: entries, "nextCursor": str(cursor + 1)}
    end = cursor + (script.page_size or len(entries))
    more = {"nextCursor": str(end)} if end < len(entries) else {}
    return {key: entries[cursor:end], **more}


def describe_tool(tool: Tool) -> Json:
    """Return a tool's entry in a list."""
    if tool.raw is not None:
        return tool.raw
    entry = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "outputSchema": tool.output_schema,
        "annotations": tool.annotations,
        "_meta": tool.meta,
    }
    return {key: value for key, value in entry.items() if value is not None}


def describe_resource(resource: Resource) -> Json:
    """Return the entry of a resource or template in a list."""
    entry = {
        "uriTemplate" if resource.template else "uri": resource.uri,
        "name": resource.name,
        "description": resource.description,
        "mimeType": resource.mime_type,
    }
    return {key: value for key, value in entry.items() if value is not None}


def describe_prompt(prompt: Prompt) -> Json:
    """Return a prompt's entry in a list."""
    described = {} if prompt.description is None else {"description": prompt.description}
    return {"name": prompt.name, **described, "arguments": prompt.arguments}
