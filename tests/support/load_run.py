"""A load run over several platforms: people who write, a model that answers, an auditor who reads every chat.

Every message of a person is a token of its own (`m7`); an answer names the tokens it answers. So whoever reads
the chats afterwards can tell what was answered, in which order, and how often.

One answer may be lost: where the platform cannot be asked what arrived and the requests of both tries were lost,
since a third try would break the rule of one extra copy. A kill may stand for one of the two.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.platforms.openai_script import CONTEXT_MARK, Reply, text_of
from tests.support.load_platforms import Platform

Json = dict[str, Any]
Place = tuple[str, int]  # platform and chat

_TOKEN = re.compile(r"\bm(\d+)\b")


def numbers(text: str) -> list[int]:
    """Return the numbers of the tokens in a text, in order, without repetition."""
    return list(dict.fromkeys(map(int, _TOKEN.findall(text))))


class Crowd:
    """The people of all chats; remembers what was said where."""

    def __init__(self, platforms: Sequence[Platform[Any]], chats: int, chance: random.Random) -> None:
        self.platforms = platforms
        self.said: dict[Place, list[int]] = {}
        self._chance = chance
        self._chats = [(platforms[number % len(platforms)], number // len(platforms)) for number in range(chats)]
        self._last = 0

    @property
    def count(self) -> int:
        """How many messages people wrote so far."""
        return self._last

    def everybody_speaks(self) -> None:
        """Let one message be written in every chat."""
        for platform, chat in self._chats:
            self._speak(platform, chat)

    def somebody_speaks(self) -> None:
        """Let a message be written in any chat."""
        self._speak(*self._chance.choice(self._chats))

    def _speak(self, platform: Platform[Any], chat: int) -> None:
        self._last += 1
        self.said.setdefault((platform.name, chat), []).append(self._last)
        platform.say(chat, f"m{self._last}")

    def swallowed(self) -> dict[Place, Counter[int]]:
        """Return the messages of each chat whose answer may be lost, and how many requests with it were."""
        return {
            (p.name, chat): Counter(n for text in p.swallowed(chat) for n in numbers(text)) for p, chat in self._chats
        }

    def texts(self) -> dict[Place, list[str]]:
        """Return what the bot's messages say in each chat that was written in, in order."""
        return {(p.name, chat): p.texts(chat) for p, chat in self._chats if (p.name, chat) in self.said}


def answer(request: Json) -> Reply:
    """Answer every token of the conversation that no answer before has named."""
    open_ones: list[int] = []
    for row in request["messages"]:
        named = numbers(text_of(row).partition(CONTEXT_MARK)[0])
        if row["role"] == "user":
            open_ones += named
        elif row["role"] == "assistant":
            open_ones = [number for number in open_ones if number not in named]
    return Reply(text="re " + " ".join(f"m{number}" for number in dict.fromkeys(open_ones)))


@dataclass(slots=True)
class Audit:
    """What was found. `extra_copies` by platform; `missing` may still come; `lost` are messages whose answer is.

    Of those in `lost_by_kill` one request was lost only: the other try must have met a kill.
    """

    problems: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    lost_by_kill: list[int] = field(default_factory=list)
    extra_copies: Counter[str] = field(default_factory=Counter)
    answers: int = 0


def audit(crowd: Crowd) -> Audit:
    """Read all chats: every message answered once, in order, at most one extra copy of an answer."""
    result = Audit()
    swallowed = crowd.swallowed()
    for place, texts in crowd.texts().items():
        arrived = {number for text in texts for number in numbers(text)}
        lost = [number for number in crowd.said[place] if number in swallowed[place] and number not in arrived]
        said = [number for number in crowd.said[place] if number not in lost]
        result.lost += lost
        result.lost_by_kill += [number for number in lost if swallowed[place][number] == 1]
        position, before, copies = 0, "", 0
        for text in texts:
            if text == before:
                copies += 1
                result.extra_copies[place[0]] += 1
                if copies > 1:
                    result.problems.append(f"{place}: more than one extra copy of {text!r}")
                continue
            before, copies = text, 0
            result.answers += 1
            named = numbers(text)
            if not text.startswith("re ") or not named:
                result.problems.append(f"{place}: not an answer: {text[:80]!r}")
            elif named != said[position : position + len(named)]:
                expected = said[position : position + 3]
                result.problems.append(f"{place}: {text!r} where an answer to {expected} should be")
            else:
                position += len(named)
        if position < len(said):
            result.missing.append(f"{place}: {said[position:]}")
    return result
