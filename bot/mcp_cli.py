"""`dutiful mcp`: how the configured servers stand, whether one can be connected to, and logging in at one."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from bot.config import Config, McpSection
from bot.control import connect
from bot.errors import ConfigError, DutifulError
from bot.parts import load_settings
from bot.screen import PipeScreen, clean
from bot.toolkit.mcp.logins import LateLogins
from bot.toolkit.mcp.manager import McpManager
from bot.toolkit.mcp.offer_cache import OfferCache
from bot.toolkit.mcp.offers import Offer

_STOPPED = "not running"  # the state of every server while no service runs
_PIPE_CHARS = 240

Row = Mapping[str, Any]


class UnknownServer(DutifulError):
    """No server of this name is configured."""


async def list_servers(settings: Config) -> list[Row]:
    """Return all servers by name, as the running service sees them, or as they are configured and were seen last."""
    connection = await connect(settings.bot.data_dir)
    if connection is not None:
        try:
            rows: list[Row] = await connection.request("mcp.list")
        finally:
            await connection.close()
        return rows
    return await asyncio.to_thread(_known, settings)


def _known(settings: Config) -> list[Row]:
    """Return the servers without a service. Blocks."""
    with suppress(ConfigError):
        settings = load_settings(settings.path)  # with secrets: what was kept of a server is known by all of its keys
    cache = OfferCache(settings.bot.data_dir / "mcp")
    return [_row(name, section, cache.load(name, section)) for name, section in sorted(settings.mcp.items())]


def _row(name: str, section: McpSection, offer: Offer | None) -> Row:
    known = offer or Offer()
    wanted = section.enabled_tools
    return {
        "name": name,
        "transport": "stdio" if section.command is not None else section.transport,
        "state": _STOPPED if section.enabled else "off",
        "problem": "",
        "retry_in_s": None,
        "tools": sum(wanted is None or tool["name"] in wanted for tool in known.tools) if offer else None,
        "resources": len(known.resources) + len(known.resource_templates) if offer else None,
        "prompts": len(known.prompts) if offer else None,
        "faults": list(known.faults),
    }


async def test_server(settings: Config, name: str) -> Offer:
    """Connect to a server now, with a connection of this process, and return what it offers.

    Raises:
        UnknownServer, McpCallError: it cannot be connected to; says why.
    """
    section = _section(settings, name).model_copy(update={"enabled": True})
    data_dir = settings.bot.data_dir
    workspace = settings.bot.workspace
    manager = McpManager({name: section}, workspace=workspace, data_dir=data_dir, oauth_of=LateLogins(data_dir))
    workspace.mkdir(parents=True, exist_ok=True, mode=0o700)  # where programs start, as `run` makes it
    try:
        await manager.start()
        connection = manager.connection(name)
        assert connection is not None
        await connection.connected()
        return manager.offer(name) or Offer()
    finally:
        await manager.close()


async def log_in(settings: Config, name: str) -> Offer:
    """Let the person at this terminal log in at a server, and tell a running service.

    Raises:
        UnknownServer, LoginFailed: says why there is no login.
    """
    section = _section(settings, name)
    # The SDK costs over a second; only here is it certain to be needed.
    from bot.toolkit.mcp.login import log_in as log_in_at

    offer = await log_in_at(
        name,
        section,
        data_dir=settings.bot.data_dir,
        workspace=settings.bot.workspace,
        say=lambda text: print(clean(text), flush=True),
        pasted=_typed_lines,
    )
    await _tell_service(settings, name)
    return offer


async def log_out(settings: Config, name: str) -> bool:
    """Forget the login at a server; returns whether there was one. The server is not told.

    Raises:
        UnknownServer: there is none of this name.
    """
    _section(settings, name)
    from bot.toolkit.mcp.login_file import LoginFile  # as in `log_in`

    return await LoginFile(settings.bot.data_dir, name).forget()


async def _tell_service(settings: Config, name: str) -> None:
    connection = await connect(settings.bot.data_dir)
    if connection is not None:
        try:
            await connection.request("mcp.connect", name=name)
        finally:
            await connection.close()


async def _typed_lines() -> AsyncIterator[str]:
    screen = PipeScreen()
    while (line := await screen.read()) is not None:
        yield line


def _section(settings: Config, name: str) -> McpSection:
    section = settings.mcp.get(name)
    if section is None:
        known = ", ".join(sorted(settings.mcp)) or "none"
        raise UnknownServer(f"there is no [mcp.{name}]; configured are: {known}")
    return section


# --- what is printed


def print_servers(rows: list[Row], *, as_json: bool) -> None:
    """Print what `list_servers` returned."""
    if as_json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    if not rows:
        print("no MCP servers are configured")
        return
    width = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else _PIPE_CHARS
    console = Console(highlight=False, markup=False, emoji=False, width=width)
    table = Table(Column("name", no_wrap=True), "transport", "state", "tools", "problem", box=None, pad_edge=False)
    for row in rows:
        tools = "?" if row["tools"] is None else str(row["tools"])
        table.add_row(row["name"], row["transport"], row["state"], tools, Text(clean(row["problem"])))
    console.print(table)
    for row in rows:
        for fault in row["faults"]:
            print(clean(f"{row['name']}: {fault}"))


def print_offer(name: str, offer: Offer, *, as_json: bool) -> None:
    """Print what a server offers."""
    if as_json:
        print(json.dumps(asdict(offer), indent=2, ensure_ascii=False))
        return
    who = f"{offer.server_name} {offer.server_version}".strip()
    print(clean(f"{name}: connected to {who or 'a server without a name'}, protocol {offer.protocol_version}"))
    resources = [str(entry.get("uri")) for entry in offer.resources]
    resources += [str(entry.get("uriTemplate")) for entry in offer.resource_templates]
    for what, names in (
        ("tools", [str(tool.get("name")) for tool in offer.tools]),
        ("resources", resources),
        ("prompts", [str(prompt.get("name")) for prompt in offer.prompts]),
    ):
        print(clean(f"{what}: {', '.join(names) or 'none'}").replace("\n", " "))
    for fault in offer.faults:
        print(clean(f"fault: {fault}"))
