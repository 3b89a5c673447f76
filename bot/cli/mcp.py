"""`dutiful mcp`."""

from __future__ import annotations

import typer

from bot.cli.options import ConfigOption, JsonOption
from bot.cli.process import load, run_command, set_up_logging

app = typer.Typer(help="MCP servers.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def mcp_list(json: JsonOption = False, config: ConfigOption = None) -> None:
    """List the servers of [mcp.*] and how they stand."""
    from bot.mcp_cli import list_servers, print_servers  # as in `status`

    print_servers(run_command(list_servers(load(config, secrets=False))), as_json=json)


@app.command("test")
def mcp_test(name: str, json: JsonOption = False, config: ConfigOption = None) -> None:
    """Connect to a server now and show what it offers; exit code 1 if it cannot be reached."""
    from bot.mcp_cli import print_offer, test_server  # as in `status`

    settings = load(config)
    set_up_logging(settings, quiet=True)
    print_offer(name, run_command(test_server(settings, name)), as_json=json)


@app.command("login")
def mcp_login(name: str, config: ConfigOption = None) -> None:
    """Log in at a server with auth = "oauth", in a browser here or elsewhere."""
    from bot.mcp_cli import log_in, print_offer  # as in `status`

    settings = load(config)
    set_up_logging(settings, quiet=True)
    print_offer(name, run_command(log_in(settings, name)), as_json=False)


@app.command("logout")
def mcp_logout(name: str, config: ConfigOption = None) -> None:
    """Forget the login at a server."""
    from bot.mcp_cli import log_out  # as in `status`

    was_there = run_command(log_out(load(config, secrets=False), name))
    print(f"the login at {name} is forgotten" if was_there else f"there was no login at {name}")
