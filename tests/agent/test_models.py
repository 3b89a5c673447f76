"""Which model answers: by chat, by task, by subagent, to the end of a turn; and what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from bot.agent.governor import GovernorLimits
from bot.agent.models import Model, ModelShelf, Prices
from bot.config import LlmSection
from bot.config.models import PresetSection
from bot.errors import ProviderError, ProviderErrorKind
from bot.interfaces import ModelReply, Provider
from bot.messages import Address, ChatType, Usage
from tests.support.engine import MEMBER, OWNER, Rig, again, calls, rig, said, tool_texts
from tests.support.providers import ScriptedProvider
from tests.support.tools import MadeTool

LIMITS = GovernorLimits(context_window_tokens=32_000, max_output_tokens=4_096)
PRESETS = {"strong": PresetSection(model="big-model"), "cheap": PresetSection(model="small-model")}
LLM = LlmSection(model="scripted", base_url="http://127.0.0.1:1/v1", presets=PRESETS)


def shelf_of(**providers: Provider) -> Mapping[str, Model]:
    return {
        name: Model(name=name, model=PRESETS[name].model, provider=provider, limits=LIMITS)
        for name, provider in providers.items()
    }


def options(strong: Provider, **more: Any) -> dict[str, Any]:
    cheap = ScriptedProvider(said("from the cheap one"))
    return {"presets": shelf_of(strong=strong, cheap=cheap), "sections": {"llm": LLM}, **more}


async def column(engine: Rig, sql: str) -> list[Any]:
    return await engine.store._database.read(lambda conn: [row[0] for row in conn.execute(sql)])


# --- /model


async def test_an_owner_sees_the_models_and_chooses_one_for_a_chat(tmp_path: Path) -> None:
    plain, strong = ScriptedProvider(said("from the default")), ScriptedProvider(said("from the strong one"))
    async with rig(tmp_path, plain, **options(strong)) as engine:
        assert await engine.asks("/model", sender=OWNER) == (
            "Models (→ is used in this chat):\n→ default: scripted\n• cheap: small-model\n• strong: big-model\n"
            "Choose one with /model NAME."
        )
        assert await engine.asks("/model Strong", sender=OWNER) == (
            "From the next message on, strong (big-model) answers in this chat."
        )
        assert await engine.asks("hi", sender=OWNER) == "from the strong one"
        assert "→ strong: big-model" in await engine.asks("/model", sender=OWNER)
        assert await engine.asks("hi", sender=OWNER, chat="c2") == "from the default"
        assert "default (scripted)" in await engine.asks("/model default", sender=OWNER)
        assert await engine.asks("hi", sender=OWNER) == "from the default"
        assert await column(engine, "SELECT model FROM turns WHERE state = 'done' ORDER BY id") == [
            *("", "", "strong", "strong", "", "strong", ""),
        ]


async def test_the_choice_survives_a_restart(tmp_path: Path) -> None:
    strong = ScriptedProvider(said("from the strong one"))
    async with rig(tmp_path, ScriptedProvider(said("from the default")), **options(strong)) as engine:
        await engine.asks("/model strong", sender=OWNER)
    async with again(engine.setup) as engine:
        assert await engine.asks("hi", sender=OWNER, message_id="later") == "from the strong one"


async def test_only_owners_choose_and_everybody_sees(tmp_path: Path) -> None:
    plain, strong = ScriptedProvider(said("from the default")), ScriptedProvider(said("from the strong one"))
    async with rig(tmp_path, plain, **options(strong)) as engine:
        assert "strong: big-model" in await engine.asks("/model", sender=MEMBER)
        refused = await engine.asks("/model strong", sender=MEMBER)
        assert "owner" in refused
        assert await engine.asks("hi", sender=MEMBER) == "from the default"
        await engine.asks("/model strong", sender=OWNER, chat="group", chat_type=ChatType.GROUP)
        answer = await engine.asks("hi", sender=MEMBER, chat="group", chat_type=ChatType.GROUP)
        assert answer == "from the strong one"


async def test_an_unknown_model_is_answered_with_the_closest_name(tmp_path: Path) -> None:
    async with rig(tmp_path, ScriptedProvider(said("x")), **options(ScriptedProvider(said("y")))) as engine:
        assert await engine.asks("/model stronk", sender=OWNER) == (
            "There is no model “stronk”. Did you mean strong? /model shows those there are."
        )


async def test_a_chosen_model_that_is_gone_leaves_the_default_and_says_so(tmp_path: Path) -> None:
    plain = ScriptedProvider(said("from the default"))
    async with rig(tmp_path, plain, **options(ScriptedProvider(said("from the strong one")))) as engine:
        await engine.asks("/model strong", sender=OWNER)
    engine.setup.presets = {}
    async with again(engine.setup) as engine:
        assert await engine.asks("hi", sender=OWNER, message_id="later") == "from the default"
        assert await engine.asks("/model", sender=OWNER) == (
            "“strong”, which was chosen here, is not configured any more; the default model answers.\n"
            "Model in this chat: scripted. No others are configured."
        )


async def test_a_turn_keeps_its_model_though_it_is_resumed_after_another_choice(tmp_path: Path) -> None:
    """The kill comes in the middle of the turn, the other choice before it is resumed."""

    async def dying(arguments: dict[str, Any]) -> str:
        if len(die.calls) == 1:
            await engine.die()
        return "alive"

    die = MadeTool("die", run=dying)
    plain = ScriptedProvider(said("from the default"))
    strong = ScriptedProvider(calls(("die", {})), said("from the strong one"))
    async with rig(tmp_path, plain, **options(strong, tools=[die])) as engine:
        await engine.asks("/model strong", sender=OWNER)
        await engine.says("go", sender=OWNER)
        await engine.crashed.wait()
    async with again(engine.setup, start=["delivery"]) as engine:
        address = Address(channel=engine.channel.name, chat_id="c1")
        await engine.store._database.write(
            lambda conn: conn.execute("UPDATE lanes SET model = 'cheap' WHERE key = ?", (address.key,)).close()
        )
        engine.start("loop")
        await engine.until(lambda: "from the strong one" in engine.channel.texts("c1"))
    assert plain.requests == []


# --- tasks and subagents


def task(**more: Any) -> ModelReply:
    order = {"action": "add", "kind": "task", "text": "look at the news", "in_seconds": 120, **more}
    return calls(("cron", order))


async def test_a_task_runs_with_its_own_model(tmp_path: Path) -> None:
    plain = ScriptedProvider(task(model="strong"), said("It is set."))
    strong = ScriptedProvider(said("The news, by the strong one."))
    async with rig(tmp_path, plain, **options(strong)) as engine:
        await engine.asks("news every day", sender=OWNER)
        (job,) = await engine.jobs()
        assert job.model == "strong"
        engine.advance(121)
        await engine.until(lambda: "The news, by the strong one." in engine.channel.texts("c1"))


async def test_a_task_without_a_model_takes_what_its_chat_has_chosen(tmp_path: Path) -> None:
    plain = ScriptedProvider(task(), said("It is set."))
    strong = ScriptedProvider(said("By the strong one."))
    async with rig(tmp_path, plain, **options(strong)) as engine:
        await engine.asks("news every day", sender=OWNER)
        await engine.asks("/model strong", sender=OWNER)
        engine.advance(121)
        await engine.until(lambda: "By the strong one." in engine.channel.texts("c1"))


@pytest.mark.parametrize(
    ("sender", "model", "words"),
    [(OWNER, "stronk", "did you mean 'strong'?"), (MEMBER, "strong", "only an owner may choose another model")],
)
async def test_a_task_with_a_model_that_cannot_be_had_is_not_stored(
    tmp_path: Path, sender: str, model: str, words: str
) -> None:
    plain = ScriptedProvider(task(model=model), said("Sorry."))
    async with rig(tmp_path, plain, **options(ScriptedProvider(said("x")))) as engine:
        await engine.asks("news every day", sender=sender)
        assert words in tool_texts(plain.requests[1])[0]
        assert await engine.jobs() == []


async def test_a_jobs_model_can_be_changed_and_taken_back(tmp_path: Path) -> None:
    plain = ScriptedProvider(task(model="strong"), said("Set."))
    async with rig(tmp_path, plain, **options(ScriptedProvider(said("x")))) as engine:
        await engine.asks("news", sender=OWNER)
        (job,) = await engine.jobs()
        for wanted, stored in (("cheap", "cheap"), ("default", "")):
            plain.outcomes[:] = [calls(("cron", {"action": "update", "job_id": job.id, "model": wanted})), said("Ok.")]
            await engine.asks("change it", sender=OWNER)
            assert (await engine.jobs())[0].model == stored


async def test_a_subagent_runs_with_the_model_it_was_given(tmp_path: Path) -> None:
    plain = ScriptedProvider(calls(("spawn", {"task": "dig", "model": "strong"})), said("Started."), said("Told."))
    strong = ScriptedProvider(said("Found by the strong one."))
    async with rig(tmp_path, plain, **options(strong)) as engine:
        await engine.asks("dig", sender=OWNER)
        await engine.until(lambda: "Told." in engine.channel.texts("c1"))
        assert len(strong.requests) == 1
        assert "Found by the strong one." in str(plain.requests[-1].messages)


async def test_the_my_tool_shows_and_chooses_the_model(tmp_path: Path) -> None:
    plain = ScriptedProvider(
        calls(("my", {"key": "model"})),
        said("So it is."),
        calls(("my", {"action": "set", "key": "model", "value": "strong"})),
        said("Chosen."),
    )
    strong = ScriptedProvider(said("from the strong one"))
    async with rig(tmp_path, plain, **options(strong)) as engine:
        await engine.asks("which model?", sender=OWNER)
        assert (
            "presets: default (scripted), strong (big-model), cheap (small-model); this chat has chosen default"
            in (tool_texts(plain.requests[1])[0])
        )
        await engine.asks("take the strong one", sender=OWNER)
        assert await engine.asks("hi", sender=OWNER) == "from the strong one"


# --- costs


def test_costs_are_whole_millionths() -> None:
    prices = Prices(input=0.25, cached=0.025, output=2.0)
    assert prices.cost_micros(Usage(input_tokens=1_000_000, output_tokens=1_000_000)) == 2_250_000
    assert prices.cost_micros(Usage(input_tokens=1_000, cached_tokens=800, output_tokens=10)) == 50 + 20 + 20
    assert Prices(input=0.25).cost_micros(Usage(input_tokens=1_000, cached_tokens=800)) == 250
    assert Prices(input=0.1).cost_micros(Usage(input_tokens=3)) == 0


async def test_each_reply_costs_what_the_model_that_gave_it_costs(tmp_path: Path) -> None:
    usage = Usage(input_tokens=1_000, output_tokens=100, cached_tokens=400)
    step = calls(("look", {}))
    provider = ScriptedProvider(
        ModelReply(text="", tool_calls=step.tool_calls, finish_reason="tool_calls", usage=usage, model="scripted"),
        said("Done.", usage=usage, model="fallback"),
    )
    prices = {"scripted": Prices(input=1, cached=0.5, output=10), "fallback": Prices(input=2, output=20)}
    async with rig(tmp_path, provider, prices=prices, tools=[MadeTool("look")]) as engine:
        await engine.asks("look")
        address = Address(channel=engine.channel.name, chat_id="c1")
        total = await engine.store.overview.usage(address, since_us=0)
    assert total == Usage(
        input_tokens=2_000, output_tokens=200, cached_tokens=800, cost_micros=(600 + 200 + 1_000) + (2_000 + 2_000)
    )


async def test_what_a_step_cost_before_a_crash_is_counted(tmp_path: Path) -> None:
    async def dying(arguments: dict[str, Any]) -> str:
        if len(die.calls) == 1:
            await engine.die()
        return "alive"

    die = MadeTool("die", run=dying)
    usage = Usage(input_tokens=1_000, output_tokens=100)
    step = calls(("die", {}))
    first = ModelReply(text="", tool_calls=step.tool_calls, finish_reason="tool_calls", usage=usage)
    provider = ScriptedProvider(first, said("Done.", usage=usage))
    prices = {"scripted": Prices(input=1, output=1)}
    async with rig(tmp_path, provider, prices=prices, tools=[die]) as engine:
        await engine.says("go")
        await engine.crashed.wait()
    async with again(engine.setup) as engine:
        await engine.reads("Done.")
        assert await column(engine, "SELECT cost_micros FROM turns") == [2_200]
        assert await column(engine, "SELECT input_tokens FROM turns") == [2_000]


# --- the shelf


def test_a_window_that_turned_out_smaller_is_remembered_for_that_model_only() -> None:
    one = Model(name="", model="m", provider=ScriptedProvider(said("x")), limits=LIMITS)
    chain = Model(name="chain", model="c", provider=ScriptedProvider(said("x")), limits=LIMITS, has_fallbacks=True)
    shelf = ModelShelf(one, {"chain": chain})
    shelf.learn_window(one, 8_192)
    shelf.learn_window(chain, 8_192)  # a fallback may have said it
    learned = shelf.get("").limits
    assert (learned.context_window_tokens, learned.max_output_tokens) == (8_192, 2_048)
    assert shelf.get("chain").limits == LIMITS


async def test_a_smaller_window_costs_one_refusal_and_not_one_each_turn(tmp_path: Path) -> None:
    named = ProviderError(ProviderErrorKind.CONTEXT_LENGTH, "maximum context length is 8192", window_tokens=8_192)
    provider = ScriptedProvider(*(said("word " * 3_000) for _ in range(6)), named, said("Fits."))
    async with rig(tmp_path, provider) as engine:
        for number in range(6):
            await engine.asks(f"a lot, part {number}")
        assert await engine.asks("and?") == "Fits."
        assert await engine.asks("and now?") == "Fits."
        assert len(orjson.dumps(list(provider.requests[-1].messages))) < 26_000
        assert len(provider.requests) == 9
