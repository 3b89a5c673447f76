"""Journeys: starts that must fail with one clear error, and starts that must not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.platforms.bot_api import BotApi
from tests.platforms.openai_api import OpenAIApi
from tests.support.service import Service, free_port

ADA = 111


def folder(path: Path) -> str:
    path.unlink()
    path.mkdir()
    return "folder"


def enormous(path: Path) -> str:
    with path.open("ab") as file:
        file.truncate(50 * 1024 * 1024)
    return "bytes"


def not_text(path: Path) -> str:
    path.write_bytes(b'[bot]\nname = "\xff\xfe"\n')
    return "UTF-8"


def trailing_comma(path: Path) -> str:
    path.write_text(path.read_text() + "\n[access]\nowners = [1,,]\n")
    return "line"


def misspelt_key(path: Path) -> str:
    path.write_text(path.read_text().replace("allow_from", "alow_from"))
    return "allow_from"


def wrong_type_elsewhere(path: Path) -> str:
    path.write_text(path.read_text() + '\n[jobs]\nmax_per_chat = "many"\n')
    return "max_per_chat"


def missing_secret(path: Path) -> str:
    path.write_text(path.read_text().replace('"123:ABC"', '"env:NOBODY_SET_THIS"'))
    return "NOBODY_SET_THIS"


BREAKAGES: list[Callable[[Path], str]] = [
    *(folder, enormous, not_text, trailing_comma, misspelt_key, wrong_type_elsewhere, missing_secret)
]


@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.__name__)
async def test_a_broken_configuration_ends_the_start_with_one_error_before_any_network_use(
    breakage: Callable[[Path], str], telegram: BotApi, service: Service
) -> None:
    problem = breakage(service.config)
    done = await service.cli("run")
    assert done.code == 78
    (line,) = done.err.splitlines()
    assert line.startswith("dutiful: ")
    assert str(service.config) in line
    assert problem in line
    assert telegram.all_calls == []
    assert (await service.cli("check")).err.splitlines() == [line]


async def test_a_data_folder_that_cannot_be_written_ends_the_start_with_one_error(
    telegram: BotApi, service: Service
) -> None:
    if os.geteuid() == 0:  # root writes everywhere, unless it gives that up
        if shutil.which("setpriv") is None:
            pytest.skip("run as root without setpriv: nothing is read-only")
        service.wrapper = ("setpriv", "--bounding-set", "-dac_override", "--")
    service.data_dir.mkdir(mode=0o555)
    done = await service.cli("run")
    assert done.code == 78
    (line,) = done.err.splitlines()
    assert "data_dir" in line
    assert str(service.data_dir) in line
    assert telegram.all_calls == []


async def test_no_channel_at_all_is_a_configuration_error(tmp_path: Path, model: OpenAIApi) -> None:
    async with Service(tmp_path, model=model) as service:
        done = await service.cli("run")
    assert done.code == 78
    (line,) = done.err.splitlines()
    assert "[channels.telegram]" in line


async def test_a_refused_token_ends_a_service_that_has_nothing_else(telegram: BotApi, service: Service) -> None:
    service.configure(service.sections, {"channels.telegram": {"token": "999:refused"}})
    await service.launch()
    assert await service.wait_exit() == 78
    assert "Telegram refuses the token" in service.log_text()
    assert "999:refused" not in service.log_text()


async def test_a_refused_token_leaves_the_terminal_running_and_the_service_unready(
    telegram: BotApi, model: OpenAIApi, service: Service
) -> None:
    listen = {"listen": f"127.0.0.1:{free_port()}"}
    token = {"token": "999:refused"}
    service.configure(service.sections, {"channels.telegram": token, "channels.console": {}, "server": listen})
    await service.start()
    answer = await service.cli("chat", "-m", "hello")
    assert (answer.code, answer.out) == (0, "hello\n")
    status = await service.status()
    assert status["channels"]["telegram"]["state"] == "failed"
    assert "token" in status["channels"]["telegram"]["problem"]
    assert (await service.health("/readyz"))[0] == 503
    assert (await service.health("/healthz"))[0] == 200
    assert await service.stop() == 0


async def test_a_damaged_database_is_one_clear_error(telegram: BotApi, service: Service) -> None:
    service.data_dir.mkdir()
    (service.data_dir / "dutiful.db").write_bytes(b"this is no database at all, " * 400)
    done = await service.cli("run")
    assert done.code != 0
    (line,) = done.err.splitlines()
    assert str(service.data_dir / "dutiful.db") in line
    assert telegram.all_calls == []
