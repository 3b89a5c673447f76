"""Ready-made MCP scripts that several tests share."""

from __future__ import annotations

from tests.platforms.mcp_script import Prompt, Resource, Script, Tool

OBJECT = {"type": "object", "properties": {}}

# Case C077: names that no provider takes as they are. The last two are one name once cleaned.
AWKWARD_NAMES = ("files.read/all", "21st_builder", "n" * 150, "get.item", "get/item")


def workshop() -> Script:
    """Return a server with a little of everything: tools echo, add and create_ticket, resources, a prompt."""
    return Script(
        name="workshop",
        instructions="Tickets cannot be deleted.",
        tools=[
            echo_tool(),
            Tool(
                name="add",
                description="Adds two numbers.",
                does="add",
                input_schema={
                    "type": "object",
                    "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
                    "required": ["a", "b"],
                },
                output_schema={"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]},
                annotations={"readOnlyHint": True},
            ),
            ticket_tool(),
        ],
        resources=[
            Resource(uri="memo://welcome", name="welcome", description="A greeting.", text="Welcome."),
            Resource(
                uri="memo://day/{day}", name="day", description="What happened on a day.", text="Rain.", template=True
            ),
        ],
        prompts=[
            Prompt(
                name="greet",
                description="Greets a person.",
                arguments=[{"name": "who", "description": "Whom to greet.", "required": True}],
                text="Greet {who}.",
            )
        ],
    )


def echo_tool(name: str = "echo") -> Tool:
    """Return a read-only tool that says what it was given."""
    return Tool(
        name=name,
        description="Returns its text.",
        does="echo",
        input_schema={
            "type": "object",
            "properties": {"text": {"type": "string", "description": "What to return."}},
            "required": ["text"],
        },
        annotations={"readOnlyHint": True},
    )


def ticket_tool() -> Tool:
    """Return a tool with a lasting effect: each call that is performed makes one more ticket."""
    return Tool(
        name="create_ticket",
        description="Opens a ticket.",
        does="ticket",
        input_schema={"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
        annotations={"destructiveHint": False, "idempotentHint": False},
    )


def awkward_names() -> Script:
    """Return the server of case C077; each tool says its own name."""
    return Script(name="awkward", tools=[Tool(name=name, does="name") for name in AWKWARD_NAMES])


def many_tools(count: int = 200, *, page_size: int = 50) -> Script:
    """Return a server with `count` tools on pages."""
    return Script(name="many", page_size=page_size, tools=[echo_tool(f"tool_{number:03}") for number in range(count)])


def invalid_tools() -> Script:
    """Return a server with one good tool among definitions that the specification forbids."""
    return Script(
        name="invalid",
        tools=[
            echo_tool(),
            Tool(name="not_an_object", input_schema={"type": "string"}),
            Tool(name="", raw={"description": "has no name", "inputSchema": OBJECT}),
            Tool(name="no_schema", raw={"name": "no_schema"}),
        ],
    )
