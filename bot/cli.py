"""The command line. Each command does its late imports itself: `--help` must not wait for the engine's."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from bot import __version__
from bot.errors import AlreadyRunning, ConfigError, DutifulError

if TYPE_CHECKING:
    from bot.config import Config

EXIT_FAILURE, EXIT_CONFIG = 1, 78
_ID_DIGITS = 18  # more than any row of the database has
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)

app = typer.Typer(
    name="dutiful",
    help="A self-hosted assistant that keeps its promises.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
jobs_app = typer.Typer(help="Reminders and tasks of all chats.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(jobs_app, name="jobs")
mcp_app = typer.Typer(help="MCP servers.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(mcp_app, name="mcp")
outbox_app = typer.Typer(
    help="Messages that wait, failed or may not have arrived.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(outbox_app, name="outbox")

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", help="Configuration file; default: $DUTIFUL_CONFIG, ./dutiful.toml, ~/.config, /etc."
    ),
]
IdsArgument = Annotated[list[str], typer.Argument(help="Numbers of messages, or `all` for all dead letters.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def main() -> None:
    """Entry point: errors of ours become one message and an exit code, never a traceback."""
    if sys.stdout is None or sys.stderr is None:  # started with >&- or 2>&-
        nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123  # lives as long as the process
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode still shows the rest
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except BrokenPipeError:
        # `dutiful status | head`: nobody reads on. Python flushes again at exit, and that must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(EXIT_FAILURE)
    except ConfigError as exc:
        _fail(exc, EXIT_CONFIG)
    except DutifulError as exc:
        _fail(exc, EXIT_FAILURE)
    except OSError as exc:
        if exc.errno not in _FULL:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        _fail(f"the output cannot be written: {exc.strerror}", EXIT_FAILURE)


def _fail(exc: DutifulError | str, code: int) -> NoReturn:
    print(f"dutiful: {exc}", file=sys.stderr)
    sys.exit(code)


@app.callback(invoke_without_command=True)
def _root(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        print(f"dutiful {__version__}")
        raise typer.Exit


@app.command()
def run(config: ConfigOption = None) -> None:
    """Run the service: all configured channels, until SIGTERM."""
    settings = _load(config)
    _set_up_logging(settings, quiet=False)
    # The engine's imports take half a second that --help and check need not pay.
    from bot.app import Engine

    async def serve() -> int:
        import asyncio  # as in `_run`

        engine = await Engine.open(settings)
        for number in _stop_signals():
            asyncio.get_running_loop().add_signal_handler(number, engine.stop)
        if not _ends_with_terminal():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, engine.reload_soon)
        return await engine.serve()

    sys.exit(_run(serve(), fast=True))


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
    settings = _load(config, secrets=False)  # a running service has read them
    _set_up_logging(settings, quiet=True)
    # As for `run`; the terminal's own libraries on top.
    from bot.terminal import chat as open_chat

    sys.exit(_run(open_chat(settings, message)))


@app.command()
def init(
    config: Annotated[Path, typer.Option("--config", "-c", help="Where to write it.")] = Path("dutiful.toml"),
) -> None:
    """Write a configuration file with every key explained, and the files that shape the assistant."""
    from bot.agent.bootstrap import write_templates  # pydantic is not needed for --help
    from bot.config import default_config_text  # as above

    made = _write_new(config, default_config_text)
    workspace = _load(config, secrets=False).bot.workspace
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
    settings = _load(config)
    from bot.config import find_config  # as in `init`

    source = find_config(config)
    print(f"{source or 'no configuration file (defaults)'}: OK")
    print(f"channels: {', '.join(sorted(settings.channels)) or 'none (terminal only)'}; model: {_model(settings)}")


@app.command()
def status(json: JsonOption = False, config: ConfigOption = None) -> None:
    """Show sessions, queues, dead letters, jobs and channels."""
    from bot.reports import print_status  # rich is not needed for --help

    settings = _load(config, secrets=False)
    report = _run(_ask(settings, "status"))
    print_status(report, as_json=json)


@app.command()
def reload(json: JsonOption = False, config: ConfigOption = None) -> None:
    """Let the running service follow the servers of its configuration file, [mcp.*]; as SIGHUP does."""
    from bot.reports import print_reload  # as in `status`

    settings = _load(config, secrets=False)
    print_reload(_run(_ask_running(settings, "reload")), as_json=json)


@app.command()
def tools(json: JsonOption = False, config: ConfigOption = None) -> None:
    """List the tools with risk, scope and status."""
    from bot.reports import print_tools  # as in `status`

    print_tools(_run(_ask(_load(config, secrets=False), "tools")), as_json=json)


@app.command()
def sessions(json: JsonOption = False, config: ConfigOption = None) -> None:
    """List the conversations of all chats."""
    from bot.export import list_sessions  # as in `status`
    from bot.reports import print_sessions
    from bot.store.export import ExportScope

    settings = _load(config, secrets=False)
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

    settings = _load(config, secrets=False)
    scope = ExportScope(chat=chat, session_id=session, runs=everything)
    export(settings.bot.database, scope, output, settings.bot.zone)


@jobs_app.command("list")
def jobs_list(json: JsonOption = False, config: ConfigOption = None) -> None:
    """List all jobs, soonest first."""
    from bot.reports import print_jobs  # as in `status`

    print_jobs(_run(_ask(_load(config, secrets=False), "jobs.list")), as_json=json)


@jobs_app.command("remove")
def jobs_remove(job_id: str, json: JsonOption = False, config: ConfigOption = None) -> None:
    """Remove a job."""
    from bot.reports import print_change  # as in `status`

    print_change("removed", _run(_ask(_load(config, secrets=False), "jobs.remove", id=job_id)), as_json=json)


@jobs_app.command("run")
def jobs_run(job_id: str, json: JsonOption = False, config: ConfigOption = None) -> None:
    """Fire a job now, beside its schedule."""
    from bot.reports import print_change  # as in `status`

    print_change("fired", _run(_ask(_load(config, secrets=False), "jobs.run", id=job_id)), as_json=json)


@mcp_app.command("list")
def mcp_list(json: JsonOption = False, config: ConfigOption = None) -> None:
    """List the servers of [mcp.*] and how they stand."""
    from bot.mcp_cli import list_servers, print_servers  # as in `status`

    print_servers(_run(list_servers(_load(config, secrets=False))), as_json=json)


@mcp_app.command("test")
def mcp_test(name: str, json: JsonOption = False, config: ConfigOption = None) -> None:
    """Connect to a server now and show what it offers; exit code 1 if it cannot be reached."""
    from bot.mcp_cli import print_offer, test_server  # as in `status`

    settings = _load(config)
    _set_up_logging(settings, quiet=True)
    print_offer(name, _run(test_server(settings, name)), as_json=json)


@mcp_app.command("login")
def mcp_login(name: str, config: ConfigOption = None) -> None:
    """Log in at a server with auth = "oauth", in a browser here or elsewhere."""
    from bot.mcp_cli import log_in, print_offer  # as in `status`

    settings = _load(config)
    _set_up_logging(settings, quiet=True)
    print_offer(name, _run(log_in(settings, name)), as_json=False)


@mcp_app.command("logout")
def mcp_logout(name: str, config: ConfigOption = None) -> None:
    """Forget the login at a server."""
    from bot.mcp_cli import log_out  # as in `status`

    was_there = _run(log_out(_load(config, secrets=False), name))
    print(f"the login at {name} is forgotten" if was_there else f"there was no login at {name}")


@outbox_app.command("list")
def outbox_list(
    everything: Annotated[bool, typer.Option("--all", help="Not only the newest 50.")] = False,
    json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """List messages that wait, are being sent, failed (dead) or may not have arrived (uncertain)."""
    from bot.reports import print_outbox  # as in `status`

    settings = _load(config, secrets=False)
    page = _run(_ask(settings, "outbox.list", limit=50))
    messages = page["messages"]
    while everything and len(messages) < page["total"]:
        older = _run(_ask(settings, "outbox.list", before=messages[0]["id"], limit=500))["messages"]
        if not older:
            break
        messages = older + messages
    print_outbox(messages, total=page["total"], as_json=json)


@outbox_app.command("retry")
def outbox_retry(ids: IdsArgument, json: JsonOption = False, config: ConfigOption = None) -> None:
    """Send messages again, in their old place; parts that are out stay out. An uncertain one may be there already."""
    from bot.reports import print_letters  # as in `status`

    wanted = _ids(ids)
    answer = _run(_ask(_load(config, secrets=False), "outbox.retry", ids=wanted))
    print_letters("queued", answer["messages"], as_json=json)
    if answer["messages"] and answer["mode"] != "run" and not json:
        print("the bot is not running; what is queued goes out when it does")


@outbox_app.command("drop")
def outbox_drop(ids: IdsArgument, json: JsonOption = False, config: ConfigOption = None) -> None:
    """Forget messages that are not being sent; nobody gets them any more."""
    from bot.reports import print_letters  # as in `status`

    wanted = _ids(ids)
    changed = _run(_ask(_load(config, secrets=False), "outbox.drop", ids=wanted))
    print_letters("dropped", changed, as_json=json)


# --- shared


def _ids(words: list[str]) -> list[int] | None:
    """Return the numbers of messages, None for all dead letters."""
    if words == ["all"]:
        return None
    wrong = [word for word in words if not (word.isascii() and word.isdecimal() and len(word) <= _ID_DIGITS)]
    if wrong:
        raise typer.BadParameter(f"{wrong[0]!r} is no number of a message, and not `all`", param_hint="IDS")
    return [int(word) for word in words]


def _load(path: Path | None, *, secrets: bool = True) -> Config:
    from bot.parts import load_settings  # pydantic is not needed for --help

    return load_settings(path, secrets=secrets)


def _set_up_logging(settings: Config, *, quiet: bool) -> None:
    from bot.log import setup_logging  # structlog is not needed for --help

    level = "error" if quiet and settings.log.level in ("info", "warning") else settings.log.level
    setup_logging(level=level, format=settings.log.format, secrets=settings.secrets())


def _model(settings: Config) -> str:
    return "offline (no model)" if settings.llm.provider == "offline" else settings.llm.model


def run_main(main: Coroutine[Any, Any, Any]) -> Any:
    """Run a service's main coroutine on uvloop, which halves the loop's own share of a turn."""
    import asyncio  # 100 ms that --help need not pay

    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)


def _run(main: Coroutine[Any, Any, Any], *, fast: bool = False) -> Any:
    """Run a command's coroutine; a signal cancels it, so that it puts everything back, and decides the exit code."""
    import asyncio  # 100 ms that --help need not pay

    caught: list[int] = []

    async def guarded() -> Any:
        task = asyncio.current_task()
        assert task is not None

        def stop(number: int) -> None:
            caught.append(number)
            if len(caught) == 1:  # a terminal that goes away sends several; the next would cut the clean-up short
                task.cancel()

        for number in _stop_signals():
            asyncio.get_running_loop().add_signal_handler(number, stop, number)
        return await main

    try:
        return run_main(guarded()) if fast else asyncio.run(guarded())
    except asyncio.CancelledError:
        sys.exit(128 + caught[0] if caught else EXIT_FAILURE)


def _stop_signals() -> list[signal.Signals]:
    """Return the signals that mean "end in order", without those that whoever started us has us ignore (nohup)."""
    wanted = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    return [number for number in wanted if signal.getsignal(number) is not signal.SIG_IGN]


def _ends_with_terminal() -> bool:
    """Say whether this was started by hand in a terminal: SIGHUP means then that the terminal is gone."""
    return any(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


async def _ask(settings: Config, command: str, **arguments: Any) -> Any:
    """Ask the process that holds the data directory, or be it for a moment."""
    from bot.app import Engine  # as in `run`
    from bot.control import connect
    from bot.terminal import wait_for_engine

    connection = await connect(settings.bot.data_dir)
    if connection is not None:
        try:
            return await connection.request(command, **arguments)
        finally:
            await connection.close()
    _set_up_logging(settings, quiet=True)
    try:
        engine = await Engine.open(settings, console_only=True, delivers=False)
    except AlreadyRunning:
        connection = await wait_for_engine(settings)
        try:
            return await connection.request(command, **arguments)
        finally:
            await connection.close()
    try:
        return await engine.desk.handlers()[command](dict(arguments))
    finally:
        await engine.close()


async def _ask_running(settings: Config, command: str) -> Any:
    """Ask the running service; there is nothing to be asked of a stopped one."""
    from bot.control import ControlError, connect  # as in `run`

    connection = await connect(settings.bot.data_dir)
    if connection is None:
        raise ControlError("dutiful is not running; it reads its configuration when it starts")
    try:
        return await connection.request(command)
    finally:
        await connection.close()


if __name__ == "__main__":
    main()
