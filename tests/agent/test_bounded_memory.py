"""A process that talks to more and more chats: what it holds for each of them in memory is bounded."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

from bot.interfaces import ModelReply, ModelRequest, Provider
from bot.messages import ChatType
from bot.toolkit.idle import MAX_REMEMBERED
from tests.support.engine import MEMBER, OWNER, Rig, calls, rig, said

CHATS, TURNS = 300, 10
GROUP_SIZE = 50  # chats that talk at the same time
GROWTH_LIMIT_BYTES = 6 * 1024 * 1024
WORDS = "all work and no play " * 150  # 150 chats with ten turns of these are some 10 MB


class ForgetfulProvider(Provider):
    """Looks once, then answers at length; keeps nothing of what it is asked."""

    name: ClassVar[str] = "forgetful"
    needs_network: ClassVar[bool] = False

    async def complete(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelReply:
        """See `Provider.complete`."""
        last = request.messages[-1]
        if last["role"] == "user" and "look" in last["content"][:8]:
            return calls(("list_dir", {"path": "."}))
        return said(f"{len(request.messages)} {WORDS}")


def resident_bytes() -> int:
    """Return the memory this process has in RAM."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def sized_members(root: object) -> Iterator[tuple[str, int]]:
    """Yield every container that the engine's own objects hold, by its path from the root, with its length."""
    waiting: list[tuple[str, object]] = [("engine", root)]
    seen: set[int] = set()
    while waiting:
        path, item = waiting.pop()
        if id(item) in seen or path.count(".") > 8:
            continue
        seen.add(id(item))
        if isinstance(item, dict | list | set | frozenset | tuple) or hasattr(item, "popleft"):
            yield path, len(item)  # type: ignore[arg-type]
            continue
        if not type(item).__module__.startswith(("bot.", "channels.")):
            continue
        names = [
            *getattr(item, "__dict__", ()),
            *(n for cls in type(item).__mro__ for n in getattr(cls, "__slots__", ())),
        ]
        waiting += [(f"{path}.{name}", getattr(item, name)) for name in names if hasattr(item, name)]


async def talk(engine: Rig, first: int, last: int) -> None:
    """Let each of these chats have its turns, some chats at the same time; nothing said is kept by the test."""
    for start in range(first, last, GROUP_SIZE):
        for number in range(TURNS):
            for chat in range(start, start + GROUP_SIZE):
                where: dict[str, Any] = {"chat": f"c{chat}"}
                if chat % 3 == 0:
                    where |= {"chat_type": ChatType.GROUP, "thread": str(chat)}
                sender = OWNER if chat % 2 else MEMBER
                await engine.says(f"look {number} {WORDS}" if number % 4 == 0 else WORDS, sender=sender, **where)
            await engine.turns_end(GROUP_SIZE)
            await engine.until(lambda: len(engine.channel.arrived) == GROUP_SIZE)
            assert all(item.text.endswith(WORDS.strip()) for item in engine.channel.arrived)
            for kept in (engine.ended, engine.channel.arrived, engine.channel.attempts, engine.channel.typing_at):
                kept.clear()


async def test_memory_levels_off_however_many_chats_come(tmp_path: Path) -> None:
    async with rig(tmp_path, ForgetfulProvider()) as engine:
        await talk(engine, 0, CHATS // 2)
        before = resident_bytes()
        await talk(engine, CHATS // 2, CHATS)
        growth = resident_bytes() - before
        await engine.idle()
        parts = (engine.loop, engine.runner, engine.bus, engine.delivery, engine.scheduler, engine.registry)
        lengths = {path: size for part in (*parts, engine.store, engine.policy) for path, size in sized_members(part)}
        assert lengths["engine._running"] == 0
        assert 0 < lengths["engine.parts.governor._prefixes"] <= 64
        crowded = {path: size for path, size in lengths.items() if size >= CHATS // 2}
        assert crowded.pop("engine._idle_sessions._used_s", 0) <= MAX_REMEMBERED
        assert crowded == {}
        assert growth < GROWTH_LIMIT_BYTES, f"{growth / 2**20:.1f} MB more"
