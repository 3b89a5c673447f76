"""Journeys: the bot's token and the model's key show up nowhere, however much goes wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.platforms.bot_api import BotApi
from tests.platforms.bot_api_faults import Fault, bad_gateway
from tests.platforms.openai_api import OpenAIApi
from tests.platforms.openai_endpoint import Endpoint
from tests.platforms.openai_script import Reply
from tests.support.service import Service

ADA, BEN = 111, 222
TOKEN = "8123456789:AAF-q1w2e3r4t5y6u7i8o9p0a1s2d3f4g5h6"
KEY = "sk-proj-z9y8x7w6v5u4t3s2r1q0z9y8x7w6v5u4"


@pytest.mark.parametrize("level", ["info", "debug"])
async def test_token_and_key_are_shown_nowhere_whatever_fails_and_whoever_asks(tmp_path: Path, level: str) -> None:
    async with (
        BotApi(token=TOKEN) as telegram,
        OpenAIApi(endpoint=Endpoint(api_key=KEY)) as model,
        Service(tmp_path, telegram=telegram, model=model) as service,
    ):
        service.configure(
            service.sections,
            {"llm": {"api_key": KEY}, "log": {"level": level}, "access": {"owners": [f"telegram:{ADA}"]}},
        )
        shown = [await service.cli("check")]
        telegram.faults.add(bad_gateway("getMe"))
        telegram.faults.add(Fault(method="getUpdates", drop_before=True))
        telegram.faults.add(Fault(method="sendMessage", chat_id=ADA, drop_before=True))
        await service.start()

        # A model that cannot be reached, one that quotes the key back, and one whose answer is no answer.
        quoted = f"Incorrect API key provided: {KEY}. Authorization: Bearer {KEY}"
        failures = [Reply(drop_before=True)] * 3 + [Reply(status=400, body={"error": {"message": quoted}})]
        for number, failing in enumerate([failures[:3], failures[3:], [Reply(status=401, body=quoted)]]):
            model.when(f"trouble {number}", failing)
            telegram.user_says(ADA, f"trouble {number}")
            await telegram.wait_for(lambda n=number: len(telegram.texts(ADA)) == n + 1, timeout_s=40)  # type: ignore[misc]

        # A platform that refuses a message and quotes its address.
        description = f"Bad Request: https://api.telegram.org/bot{TOKEN}/sendMessage was refused"
        refused = telegram.faults.add(Fault(method="sendMessage", chat_id=BEN, status=400, description=description))
        telegram.user_says(BEN, "hello", user_id=BEN)
        await telegram.wait_for(lambda: telegram.faults.hits(refused))
        telegram.push_raw({"message": {"message_id": "no number", "text": f"my token is {TOKEN}", "chat": 7}})

        # An owner who lets the model look for it.
        paths = [str(service.config), "../../dutiful.toml", "shared/../../../dutiful.toml", "/proc/self/environ"]
        calls = [("read_file", {"path": path}) for path in paths]
        listing = [("list_dir", {"path": str(tmp_path)})]
        model.when("your config", [Reply(tool_calls=[*calls, *listing]), Reply(text="I cannot see it.")])
        telegram.user_says(ADA, "tell me your config")
        await telegram.wait_for(lambda: "I cannot see it." in telegram.texts(ADA), timeout_s=40)
        telegram.user_says(ADA, "/status")
        await telegram.wait_for(lambda: len(telegram.texts(ADA)) == 5)

        for arguments in (["status"], ["status", "--json"], ["jobs", "list"], ["chat", "-m", "hello"]):
            shown.append(await service.cli(*arguments))
        assert await service.stop() == 0
        shown.append(await service.cli("status", "--json"))
        service.config.write_text(service.config.read_text().replace("allow_from", "alow_from"))
        shown.append(await service.cli("run"))
        assert "refused" in shown[1].out  # the dead letter says what the platform said

        everything = {
            "log": service.log_text(),
            "output": "".join(done.out + done.err for done in shown),
            "chats": str([call.text for call in telegram.all_calls if call.text]),
            "model": str(model.requests),
        }
        assert f'"level": "{level}"' in everything["log"]
        for secret in (TOKEN, TOKEN.partition(":")[2], KEY, KEY.removeprefix("sk-proj-")):
            assert [place for place, text in everything.items() if secret in text] == []
