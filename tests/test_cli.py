"""The command line over the real process: what is printed where, and with which exit code."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from bot import __version__
from bot.texts import say
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_script import Reply
from tests.support.program import COMMAND, WITHOUT_ROOT_POWERS, Program, finish

SLOW_TO_LOAD = ("aiohttp", "aiosqlite", "apscheduler", "asyncio", "openai", "pydantic", "rich", "structlog", "telegram")


@pytest.fixture
def program(tmp_path: Path) -> Program:
    made = Program(tmp_path)
    made.configure()
    return made


def with_model(api: OpenAIApi) -> str:
    return f'[llm]\nbase_url = "{api.url}"\nmodel = "scripted"\n'


# --- help, version, init, check


async def test_help_loads_nothing_slow(program: Program) -> None:
    code = (
        "import sys\nfrom bot.cli import main\nsys.argv = ['dutiful', '--help']\n"
        "try:\n    main()\nfinally:\n    print(sorted(sys.modules), file=sys.stderr)\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=program.environment(), cwd=program.home
    )
    result = await finish(process)
    assert result.code == 0
    assert "Talk in this terminal" in result.out
    loaded = set(json.loads(result.err.replace("'", '"')))
    assert loaded.isdisjoint(SLOW_TO_LOAD)


async def test_the_version_is_printed_alone(program: Program) -> None:
    assert (await program.run("--version")).out == f"dutiful {__version__}\n"


async def test_without_a_command_the_commands_are_listed(program: Program) -> None:
    result = await program.run()
    assert "jobs" in result.out + result.err
    assert "Traceback" not in result.err


async def test_init_writes_a_closed_file_that_passes_the_check(program: Program) -> None:
    program.config.unlink()
    assert (await program.run("init")).code == 0
    assert program.config.stat().st_mode & 0o777 == 0o600
    checked = await program.run("check")
    assert (checked.code, checked.err) == (0, "")
    assert checked.out == "dutiful.toml: OK\nchannels: none (terminal only); model: offline (no model)\n"


async def test_init_makes_the_files_that_shape_the_assistant_where_the_workspace_is(program: Program) -> None:
    program.configure(f'workspace = "{program.home}/desk"')
    before = program.config.read_text()
    (program.home / "desk").mkdir()
    (program.home / "desk/SOUL.md").write_text("Speak like a captain.")
    result = await program.run("init")
    assert (result.code, result.err) == (0, "")
    assert result.out == (
        "Kept dutiful.toml.\n"
        f"Wrote AGENTS.md, USER.md in {program.home}/desk: what every chat's assistant is told. "
        "Unchanged they are not used.\n"
    )
    assert program.config.read_text() == before
    assert (program.home / "desk/SOUL.md").read_text() == "Speak like a captain."
    for name in ("AGENTS.md", "USER.md"):
        assert (program.home / "desk" / name).stat().st_mode & 0o777 == 0o600
        assert "As long as this file is unchanged, it is not used." in (program.home / "desk" / name).read_text()


async def test_init_never_overwrites(program: Program) -> None:
    assert (await program.run("init", "--config", "other.toml")).code == 0
    before = (program.home / "other.toml").read_text()
    result = await program.run("init", "--config", "other.toml")
    assert (result.code, result.out) == (78, "")
    assert result.err.startswith("dutiful: other.toml and the files in /")
    assert result.err.endswith(" exist already; nothing was changed\n")
    assert (program.home / "other.toml").read_text() == before


async def test_init_says_which_part_it_could_not_write(program: Program) -> None:
    program.configure(f'workspace = "{program.home}/file"')
    (program.home / "file").write_text("in the way")
    result = await program.run("init")
    assert (result.code, result.out) == (78, "")
    assert result.err == f"dutiful: the workspace {program.home}/file cannot be written: File exists\n"


async def test_init_says_why_it_cannot_write(program: Program) -> None:
    result = await program.run("init", "--config", "missing/dutiful.toml")
    assert (result.code, result.err.count("\n")) == (78, 1)
    assert "missing/dutiful.toml cannot be written: No such file or directory" in result.err


async def test_check_names_channels_and_model(program: Program) -> None:
    program.configure('[llm]\nbase_url = "http://127.0.0.1:1/v1"\nmodel = "m-1"\n[channels.console]')
    result = await program.run("check")
    assert result.out == "dutiful.toml: OK\nchannels: console; model: m-1\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[limits]\nsteps_per_turns = 3", ("dutiful.toml", "limits.steps_per_turns", "'steps_per_turn'")),
        ("[jobs]\nmax_per_chat = 'many'", ("dutiful.toml", "jobs.max_per_chat")),
        ("[llm]\napi_key = ' '", ("dutiful.toml", "llm.api_key", "is empty")),
    ],
)
@pytest.mark.parametrize("command", [("check",), ("run",), ("chat", "-m", "hi"), ("status",), ("jobs", "list")])
async def test_a_mistake_in_the_configuration_is_one_message_and_exit_code_78(
    program: Program, command: tuple[str, ...], text: str, words: tuple[str, ...]
) -> None:
    program.configure(text)
    result = await program.run(*command)
    assert (result.code, result.out, result.err.count("\n")) == (78, "", 1)
    assert result.err.startswith("dutiful: ")
    assert [word for word in words if word not in result.err] == []
    assert not program.data.exists()


async def test_a_configuration_that_is_not_there_or_a_folder_is_said(program: Program) -> None:
    missing = await program.run("check", "--config", "nowhere.toml")
    assert (missing.code, missing.err.count("\n")) == (78, 1)
    assert "nowhere.toml" in missing.err
    folder = await program.run("check", "--config", str(program.home))
    assert (folder.code, folder.err.count("\n")) == (78, 1)
    assert str(program.home) in folder.err


# --- without a running service


async def test_status_of_a_stopped_bot_says_so_and_shows_what_is_stored(program: Program) -> None:
    shown = await program.run("status")
    assert (shown.code, shown.err) == (0, "")
    assert shown.out.startswith(f"dutiful {__version__}: not running")
    report = (await program.run("status", "--json")).json
    assert report["mode"] == "stopped"
    assert report["queues"] == {"inbox": 0, "turns": 0, "outbox": 0}
    assert (report["ready"], report["dead_letter_count"], report["jobs"]) == (False, 0, [])


async def test_a_reminder_of_a_one_shot_says_that_nobody_delivers_it(program: Program) -> None:
    result = await program.run("chat", "-m", "remind me in 10 minutes to stretch")
    assert (result.code, result.err) == (0, "")
    assert "stretch" in result.out
    assert say("en", "nobody_delivers") in result.out


async def test_a_reminder_can_be_listed_and_cancelled_in_words(program: Program) -> None:
    await program.run("chat", "-m", "remind me in 10 minutes to stretch")
    assert "stretch" in (await program.run("chat", "-m", "what are my reminders")).out
    assert "stretch" in (await program.run("chat", "-m", "cancel the stretch one")).out
    assert (await program.run("jobs", "list")).out == "no jobs\n"


async def test_jobs_are_listed_fired_and_removed(program: Program) -> None:
    await program.run("chat", "-m", "remind me every day at 9 to stretch")
    (job,) = (await program.run("jobs", "list", "--json")).json
    assert (job["chat"], job["kind"], job["state"], job["text"]) == ("console:local", "reminder", "active", "stretch")
    table = (await program.run("jobs", "list")).out
    assert job["id"] in table
    assert job["next_local"].split()[0] in table
    assert (await program.run("jobs", "run", job["id"])).out == f"fired {job['id']}: stretch\n"
    # Nobody was there to deliver it: the next conversation does.
    assert (await program.run("chat", "-m", "/help")).out.startswith("stretch\n")
    removed = await program.run("jobs", "remove", job["id"], "--json")
    assert removed.json["removed"]["id"] == job["id"]
    assert (await program.run("jobs", "list", "--json")).json == []


@pytest.mark.parametrize("command", ["remove", "run"])
async def test_a_job_that_does_not_exist_is_an_error(program: Program, command: str) -> None:
    result = await program.run("jobs", command, "job-nope")
    assert (result.code, result.out, result.err.count("\n")) == (1, "", 1)
    assert "job-nope" in result.err


async def test_an_empty_message_is_a_usage_error(program: Program) -> None:
    result = await program.run("chat", "-m", "  ")
    assert (result.code, result.out) == (2, "")
    assert "nothing to say" in result.err


async def test_one_message_prints_the_models_answer_and_nothing_else(program: Program) -> None:
    async with OpenAIApi() as api:
        api.when("hello", [Reply(text="Hello, **you**.\n\n- one")])
        program.configure(with_model(api))
        result = await program.run("chat", "-m", "hello")
    assert (result.code, result.out, result.err) == (0, "Hello, **you**.\n\n- one\n", "")
    assert api.violations == []


async def test_one_message_of_damaged_unicode_is_answered(program: Program) -> None:
    process = await asyncio.create_subprocess_exec(
        *COMMAND,
        "chat",
        "-m",
        b"caf\xe9",
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        cwd=program.home,
        env=program.environment(),
    )
    result = await finish(process)
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("No model is set up")


async def test_a_terminal_without_unicode_still_shows_the_rest(program: Program) -> None:
    program.env["PYTHONIOENCODING"] = "ascii"
    result = await program.run("chat", "-m", "hi")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("No model is set up, so I can only keep reminders: try ?remind me")


# --- lines through a pipe


async def test_lines_from_a_pipe_are_answered_in_order(program: Program) -> None:
    async with OpenAIApi() as api:
        program.configure(with_model(api))
        first = await program.run("chat", stdin=b"one")
        result = await program.run("chat", stdin=b"/timezone\n\n/timezone Asia/Tokyo\r\n")
    assert (first.code, first.out, first.err) == (0, "one\n", "")
    assert (result.code, result.err) == (0, "")
    before, after = result.out.splitlines()
    assert "Europe/Berlin" in before
    assert "Asia/Tokyo" in after


async def test_each_line_from_a_pipe_is_answered_in_order_without_a_model(program: Program) -> None:
    program.configure()
    lines = (
        "remind me in 10 minutes to stretch",
        "every weekday at 9 check the mail",
        "what are my reminders",
        "cancel the stretch one",
        "what is the capital of France?",
    )
    result = await program.run("chat", stdin="\n".join(lines).encode())
    beginnings = (
        "Reminder set: “stretch”",
        "Reminder set: “check the mail”",
        "Reminders and tasks:",
        "• stretch",
        "• check the mail",
        "Removed: “stretch”",
        "No model is set up",
    )
    said = [line for line in result.out.splitlines() if not line.startswith("Warning: nothing is running")]
    assert (result.code, result.err) == (0, "")
    assert [line[: len(beginning)] for line, beginning in zip(said, beginnings, strict=True)] == list(beginnings)


async def test_a_pipe_without_a_line_ends_at_once(program: Program) -> None:
    result = await program.run("chat")
    assert (result.code, result.out, result.err) == (0, "", "")


async def test_bytes_that_are_no_text_do_not_end_a_pipe(program: Program) -> None:
    result = await program.run("chat", stdin=b"\xff\xfe\x00\xed\xa0\x80\n/reminders\n")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("No model is set up")
    assert len(result.out.splitlines()) == 2


async def test_a_line_without_end_is_refused_and_the_next_one_answered(program: Program) -> None:
    result = await program.run("chat", stdin=b"x" * 3_000_000 + b"\n/reminders\n")
    assert (result.code, len(result.out.splitlines())) == (0, 1)
    assert result.err == "This line has more than 100,000 characters and was not sent.\n"


async def test_a_reader_that_goes_away_ends_the_chat_without_a_traceback(program: Program) -> None:
    """What was not shown is shown by the next terminal."""
    shell = f"{' '.join(COMMAND)} chat -m /timezone | true; echo ${{PIPESTATUS[0]}}"
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", shell, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=program.home, env=program.environment()
    )
    result = await finish(process)
    assert (result.out, result.err) == ("1\n", "")
    assert "Europe/Berlin" in (await program.run("chat", "-m", "/help")).out.splitlines()[0]


async def test_tables_end_quietly_when_nobody_reads_on(program: Program) -> None:
    shell = f"{' '.join(COMMAND)} status --json | true; echo ${{PIPESTATUS[0]}}"
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", shell, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=program.home, env=program.environment()
    )
    assert (await finish(process)).err == ""


async def test_one_line_is_one_job_where_nobody_gave_a_width(program: Program) -> None:
    await program.run("chat", "-m", "remind me in 2 hours to stretch both arms and legs")
    lines = (await program.run("jobs", "list")).out.splitlines()
    assert len(lines) == 2
    assert "stretch both arms and legs" in lines[1]


async def test_a_narrow_screen_shows_ids_that_can_be_used(program: Program) -> None:
    await program.run("chat", "-m", "remind me in 2 hours to stretch")
    program.env["COLUMNS"] = "20"
    lines = (await program.run("jobs", "list")).out.splitlines()
    removed = await program.run("jobs", "remove", lines[0].split()[0])
    assert (removed.code, removed.err) == (0, "")


@pytest.mark.parametrize("redirect", ["2>&-", ">&-"])
async def test_a_closed_stream_is_no_failure(program: Program, redirect: str) -> None:
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", f"{' '.join(COMMAND)} status {redirect}", stdin=PIPE, stdout=PIPE, stderr=PIPE,
        cwd=program.home, env=program.environment(),
    )  # fmt: skip
    result = await finish(process)
    assert (result.code, result.err) == (0, "")


async def test_a_full_disk_behind_the_output_is_one_message(program: Program) -> None:
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", f"{' '.join(COMMAND)} status > /dev/full", stdin=PIPE, stdout=PIPE, stderr=PIPE,
        cwd=program.home, env=program.environment(),
    )  # fmt: skip
    result = await finish(process)
    assert result.code == 1
    assert result.err == "dutiful: the output cannot be written: No space left on device\n"


async def test_conversations_are_readable_by_their_owner_only(program: Program, tmp_path: Path) -> None:
    await program.run("chat", "-m", "hi")
    stored = list(tmp_path.rglob("dutiful.db*"))
    assert stored
    assert {path.stat().st_mode & 0o077 for path in stored} == {0}


# --- signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_ends_a_waiting_one_shot_and_the_answer_is_not_lost(
    program: Program, number: signal.Signals
) -> None:
    async with OpenAIApi() as api:
        program.configure(with_model(api))
        api.when("hello", [Reply(text="never", hold=asyncio.Event()), Reply(text="Here I am.")])
        process = await program.start("chat", "-m", "hello")
        await api.wait_for(lambda: api.request_count == 1)
        process.send_signal(number)
        result = await finish(process)
        assert (result.code, result.out, result.err) == (128 + number, "", "")
        after = await program.run("chat", "-m", "/timezone")
    assert after.out.startswith("Here I am.\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_a_chat_that_waits_for_input(program: Program, number: signal.Signals) -> None:
    process = await program.start("chat")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"/timezone\n")
    await process.stdin.drain()
    assert b"Europe/Berlin" in await process.stdout.readline()
    process.send_signal(number)
    await process.wait()  # its input is still open
    result = await finish(process)
    assert (result.code, result.out, result.err) == (128 + number, "", "")
    assert not (program.data / "control.sock").exists()


async def test_a_burst_of_signals_ends_a_chat_as_one_does(program: Program) -> None:
    process = await program.start("chat")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"/timezone\n")
    await process.stdin.drain()
    assert b"Europe/Berlin" in await process.stdout.readline()
    for number in [signal.SIGHUP] * 20:
        process.send_signal(number)
    result = await finish(process)
    assert (result.code, result.out, result.err) == (128 + signal.SIGHUP, "", "")
    assert not (program.data / "control.sock").exists()


# --- folders and processes in the way


@pytest.mark.parametrize("command", [("chat", "-m", "hi"), ("status",), ("jobs", "list")])
async def test_a_data_folder_of_somebody_else_is_one_message(program: Program, command: tuple[str, ...]) -> None:
    program.data.mkdir(mode=0o000)
    program.prefix = WITHOUT_ROOT_POWERS
    result = await program.run(*command)
    program.data.chmod(0o700)
    assert (result.out, result.err.count("\n")) == ("", 1)
    assert result.code in (1, 78)
    assert str(program.data) in result.err


async def test_a_data_folder_that_cannot_be_written_is_one_message(program: Program) -> None:
    program.data.mkdir(mode=0o500)
    program.prefix = WITHOUT_ROOT_POWERS
    result = await program.run("chat", "-m", "hi")
    assert (result.code, result.out, result.err.count("\n")) == (78, "", 1)
    assert f"[bot] data_dir: {program.data} cannot be used: Permission denied" in result.err


async def test_a_data_folder_that_is_a_file_is_one_message(program: Program) -> None:
    program.data.write_text("")
    result = await program.run("chat", "-m", "hi")
    assert (result.code, result.out, result.err.count("\n")) == (78, "", 1)
    assert str(program.data) in result.err


async def test_running_without_any_channel_is_a_mistake_in_the_configuration(program: Program) -> None:
    result = await program.run("run")
    assert (result.code, result.err.count("\n")) == (78, 1)
    assert "no channel is configured" in result.err


@pytest.mark.journey
async def test_a_health_port_that_is_taken_is_a_mistake_in_the_configuration(program: Program) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        program.configure(f'[channels.console]\n[server]\nlisten = "127.0.0.1:{port}"')
        result = await program.run("run")
    assert (result.code, result.err.count("\n")) == (78, 1)
    assert f"[server] listen: cannot listen on 127.0.0.1:{port}" in result.err


@pytest.mark.journey
async def test_commands_work_beside_a_running_service(program: Program) -> None:
    program.configure('[channels.console]\n[server]\nlisten = "off"\n[log]\nformat = "json"')
    async with program.service() as service:
        receipt = await program.run("chat", "-m", "remind me every day at 9 to stretch")
        assert say("en", "nobody_delivers") not in receipt.out
        status = (await program.run("status", "--json")).json
        assert (status["mode"], status["healthy"], status["ready"]) == ("run", True, True)
        (job,) = status["jobs"]
        assert (await program.run("jobs", "run", job["id"], "--json")).json["fired"]["text"] == "stretch"
        assert (await program.run("jobs", "remove", job["id"])).code == 0
        second = await program.run("run")
        assert (second.code, second.err.count("\n")) == (1, 1)
        assert f"{program.data} is in use by another dutiful (process {service.pid})" in second.err
        service.terminate()
        assert (await finish(service)).code == 0


async def test_the_package_runs_like_the_command(program: Program) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "bot", "--version"),
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        env=program.environment(),
        cwd=program.home,
    )
    assert (await finish(process)).out == f"dutiful {__version__}\n"
