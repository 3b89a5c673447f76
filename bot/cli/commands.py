"""The commands without a group, from `run` to `export`."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bot import __version__
from bot.cli import jobs, mcp, outbox
from bot.cli.options import ConfigOption, JsonOption
from bot.cli.process import ask, ask_running, ends_with_terminal, load, run_command, set_up_logging, stop_signals
from bot.errors import ConfigError

if TYPE_CHECKING:
    from bot.config import Config

app = typer.Typer(
    name="dutiful",
    help="A self-hosted assistant that keeps its promises.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(jobs.app, name="jobs")
app.add_typer(mcp.app, name="mcp")
app.add_typer(outbox.app, name="outbox")


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(f"dutiful {__version__}")
        raise typer.Exit


@app.command()
def run(config: ConfigOption = None) -> None:
    """Run the service: all configured channels, until SIGTERM."""
    # What is imported stays, and the collector would look at all of it again and again, for a tenth of the start's
    # time. The engine puts it back to work once it has warmed up.
    gc.disable()
    settings = load(config)
    set_up_logging(settings, quiet=False)
    # The engine's imports take half a second that --help and check need not pay.
    from bot.app import Engine

    async def serve() -> int:
        import asyncio  # as in `_run`

        engine = await Engine.open(settings)
        for number in stop_signals():
            asyncio.get_running_loop().add_signal_handler(number, engine.stop)
        if not ends_with_terminal():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, engine.reload_soon)
        return await engine.serve()

    sys.exit(run_command(serve(), fast=True))


@app.command()
def chat(
    message: Annotated[
        str | None, typer.Option("-m", "--message", help="Say one thing, print the reply, exit.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Talk in this terminal, beside a running service or without one."""
    if message is not None and not message.strip():
        raise typer.BadParameter("there is nothing to say", param_hint="--message")
    settings = load(config, secrets=False)  # a running service has read them
    set_up_logging(settings, quiet=True)
    # As for `run`; the terminal's own libraries on top.
    from bot.terminal import chat as open_chat

    sys.exit(run_command(open_chat(settings, message)))


@app.command()
def init(
    config: Annotated[Path, typer.Option("--config", "-c", help="Where to write it.")] = Path("dutiful.toml"),
) -> None:
    """Write a configuration file with every key explained, and the files that shape the assistant."""
    from bot.agent.bootstrap import write_templates  # pydantic is not needed for --help
    from bot.config import default_config_text  # as above

    made = _write_new(config, default_config_text)
    workspace = load(config, secrets=False).bot.workspace
    try:
        templates = write_templates(workspace)
    except OSError as exc:
        told = f"wrote {config}, but " if made else ""
        raise ConfigError(f"{told}the workspace {workspace} cannot be written: {exc.strerror}") from exc
    if not made and not templates:
        raise ConfigError(f"{config} and the files in {workspace} exist already; nothing was changed")
    if made:
        print(f"Wrote {config}. Edit it, then try `dutiful check` and `dutiful chat`.")
    else:
        print(f"Kept {config}.")
    if templates:
        names = ", ".join(path.name for path in templates)
        print(f"Wrote {names} in {workspace}: what every chat's assistant is told. Unchanged they are not used.")


def _write_new(path: Path, text: Callable[[], str]) -> bool:
    """Write a file that must not be there yet, for this user only; return whether it was not there.

    Raises:
        ConfigError: it cannot be written.
    """
    try:
        # Closed from the start: it is going to hold tokens.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text())
    except FileExistsError:
        return False
    except OSError as exc:
        raise ConfigError(f"{path} cannot be written: {exc.strerror}") from exc
    return True


@app.command()
def check(config: ConfigOption = None) -> None:
    """Check the configuration without using the network."""
    settings = load(config)
    from bot.config import find_config  # as in `init`

    source = find_config(config)
    print(f"{source or 'no configuration file (defaults)'}: OK")
    print(f"channels: {', '.join(sorted(settings.channels)) or 'none (terminal only)'}; model: {_model(settings)}")


@app.command()
def status(json: JsonOption = False, config: ConfigOption = None) -> None:
    """Show sessions, queues, dead letters, jobs and channels."""
    from bot.reports import print_status  # rich is not needed for --help

    settings = load(config, secrets=False)
    report = run_command(ask(settings, "status"))
    print_status(report, as_json=json)


@app.command()
def reload(json: JsonOption = False, config: ConfigOption = None) -> None:
    """Let the running service follow the servers of its configuration file, [mcp.*]; as SIGHUP does."""
    from bot.reports import print_reload  # as in `status`

    settings = load(config, secrets=False)
    print_reload(run_command(ask_running(settings, "reload")), as_json=json)


@app.command()
def tools(json: JsonOption = False, config: ConfigOption = None) -> None:
    """List the tools with risk, scope and status."""
    from bot.reports import print_tools  # as in `status`

    print_tools(run_command(ask(load(config, secrets=False), "tools")), as_json=json)


@app.command()
def sessions(json: JsonOption = False, config: ConfigOption = None) -> None:
    """List the conversations of all chats."""
    from bot.export import list_sessions  # as in `status`
    from bot.reports import print_sessions
    from bot.store.export import ExportScope

    settings = load(config, secrets=False)
    print_sessions(list_sessions(settings.bot.database, ExportScope(), settings.bot.zone), as_json=json)


@app.command()
def export(
    chat: Annotated[str, typer.Option("--chat", help="Only this chat: CHANNEL:CHAT[:THREAD].")] = "",
    session: Annotated[int | None, typer.Option("--session", help="Only this conversation.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also those of scheduled tasks and subagents.")] = False,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file; default: standard output.")] = None,
    config: ConfigOption = None,
) -> None:
    """Write conversations as JSON lines, beside a running service or without one."""
    from bot.export import export  # as in `status`
    from bot.store.export import ExportScope

    settings = load(config, secrets=False)
    scope = ExportScope(chat=chat, session_id=session, runs=everything)
    export(settings.bot.database, scope, output, settings.bot.zone)


def _model(settings: Config) -> str:
    return "offline (no model)" if settings.llm.provider == "offline" else settings.llm.model
