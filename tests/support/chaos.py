"""Random people, random weather: what a seed does to a running service, and what its model says.

Every message carries a token (`m7`) that says what it wants, and everything that follows from it carries the
same number: `r7` a reminder, `t7` the report of a task, `n7` a note on the way, `s7` a subagent. So whoever
reads the chats afterwards knows where each text came from. What must be true then is `chaos_ledger`'s part.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tests.platforms.bot_api import BotApi
from tests.platforms.bot_api_faults import Fault, bad_gateway, conflict, too_many_requests
from tests.platforms.openai_script import CONTEXT_MARK, Call, Reply, text_of

Json = dict[str, Any]
Place = tuple[int, int | None]  # chat and topic

GROUP = -1001
ADA, BEN = 111, 222
PLACES: Sequence[Place] = ((ADA, None), (BEN, None), (333, None), (GROUP, None), (GROUP, 5), (GROUP, 6))
PARTS = 3
EXCUSE = "I lost the thread"
_PART_CHARS = 3_900  # each part is a message of its own in Telegram

_TOKEN = re.compile(r"\b([mrtns])(\d+)\b")


class Wish(StrEnum):
    """What a message asks for."""

    SAY = "say"  # an answer
    LOOK = "look"  # a tool, then an answer
    NOTE = "note"  # a message on the way, then an answer
    LONG = "long"  # an answer of several messages
    REMIND = "remind"  # a reminder
    TASK = "task"  # a task that reports
    SPAWN = "spawn"  # a subagent whose result comes to the chat
    STATUS = "status"  # a command that waits for nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One message of a person."""

    number: int
    place: Place
    sender: int
    wish: Wish
    update_id: int


def tokens(text: str, kind: str) -> list[int]:
    """Return the numbers of a kind of token in a text, in order, without repetition."""
    return list(dict.fromkeys(int(number) for found, number in _TOKEN.findall(text) if found == kind))


class People:
    """Who says what where; remembers all of it."""

    def __init__(self, telegram: BotApi, chance: random.Random) -> None:
        self.said: list[Said] = []
        self._telegram = telegram
        self._chance = chance
        telegram.add_chat(GROUP, chat_type="supergroup", name="Club", is_forum=True, topics=(5, 6))

    def speak(self) -> None:
        """Let somebody say something somewhere."""
        place = self._chance.choice(PLACES)
        chat, thread = place
        sender = chat if chat > 0 else self._chance.choice((ADA, BEN))
        number = len(self.said) + 1
        wish = self._wish(sender=sender, private=chat > 0)
        text = "/status" if wish is Wish.STATUS else f"m{number} {wish}"
        update_id = self._telegram.user_says(
            chat, text, user_id=sender, thread_id=thread, chat_type="private" if chat > 0 else "supergroup"
        )
        self.said.append(Said(number=number, place=place, sender=sender, wish=wish, update_id=update_id))

    def _wish(self, *, sender: int, private: bool) -> Wish:
        wishes = {Wish.SAY: 8, Wish.LOOK: 3, Wish.NOTE: 2, Wish.LONG: 1, Wish.REMIND: 4, Wish.STATUS: 1}
        if sender == ADA:
            wishes[Wish.SPAWN] = 2
        if private:
            wishes[Wish.TASK] = 2
        return self._chance.choices(list(wishes), list(wishes.values()))[0]

    def by_number(self, number: int) -> Said:
        """Return a message by the number in its token."""
        return self.said[number - 1]


class Model:
    """The scripted model. Its faults come from a chance of its own, so that asking more often changes nothing else."""

    def __init__(self, people: People, chance: random.Random) -> None:
        self.faulty = False
        self.promised: set[int] = set()  # numbers of jobs whose receipt the model has seen
        self.strays: list[str] = []  # words of one chat that were shown in another
        self._people = people
        self._chance = chance
        self._excuses = 0

    def reply(self, request: Json) -> Reply:
        """Answer a request, or fail to."""
        calls, text = self._answer(request["messages"])
        if self.faulty and self._chance.random() < 0.2:
            return self._failure(text)
        return Reply(text=text, tool_calls=calls, drip_s=self._chance.choice((0, 0, 0, 0.01)))

    def _answer(self, messages: list[Json]) -> tuple[list[Call], str]:
        users = [text_of(row).partition(CONTEXT_MARK)[0] for row in messages if row["role"] == "user"]
        users = [text for text in users if _TOKEN.search(text)]
        if not users:
            return [], "I see nothing to answer."
        last = users[-1]
        if "Background task" in last:
            return [], f"heard s{tokens(last, 's')[0]}"
        if found := tokens(last, "s"):
            return [], f"finished s{found[0]}"
        if "Scheduled task" in last and (found := tokens(last, "t")):
            return [], f"report t{found[0]}"
        asked = self._open(messages)
        self._check_place(messages, asked)
        results = {row["tool_call_id"]: text_of(row) for row in messages if row["role"] == "tool"}
        calls = [call for number in asked for call in self._calls(number) if str(call[-1]) not in results]
        for call_id, result in results.items():
            if "Reminder set" in result or "Task scheduled" in result or "is at work" in result:
                self.promised.add(int(call_id.removeprefix("call")))
        return calls, "" if calls else self._words(asked)

    @staticmethod
    def _open(messages: list[Json]) -> list[int]:
        """Return the numbers that no answer in this history has named."""
        asked: list[int] = []
        for row in messages:
            if row["role"] == "user":
                asked += tokens(text_of(row).partition(CONTEXT_MARK)[0], "m")
            elif row["role"] == "assistant" and not row.get("tool_calls"):
                answered = tokens(text_of(row), "m")
                asked = [number for number in asked if number not in answered] if answered else asked
        return list(dict.fromkeys(asked))

    def _check_place(self, messages: list[Json], asked: list[int]) -> None:
        if not asked:
            return
        here = self._people.by_number(asked[-1]).place
        for row in messages:
            for kind, number in _TOKEN.findall(text_of(row)):
                if self._people.by_number(int(number)).place != here:
                    self.strays.append(f"{kind}{number} was shown in {here}")

    def _calls(self, number: int) -> list[Call]:
        wish, call_id = self._people.by_number(number).wish, f"call{number}"
        soon_s = 0.5 + number % 5
        match wish:
            case Wish.LOOK:
                return [("list_dir", {"path": "."}, call_id)]
            case Wish.NOTE:
                return [("message", {"content": f"note n{number}", "progress": True}, call_id)]
            case Wish.REMIND:
                return [("cron", {"action": "add", "in_seconds": soon_s, "text": f"ring r{number}"}, call_id)]
            case Wish.TASK:
                order = {"action": "add", "in_seconds": soon_s, "text": f"do t{number}", "kind": "task"}
                return [("cron", order, call_id)]
            case Wish.SPAWN:
                return [("spawn", {"task": f"work on s{number}", "label": f"s{number}"}, call_id)]
            case _:
                return []

    def _words(self, asked: list[int]) -> str:
        names = " ".join(f"m{number}" for number in asked)
        if any(self._people.by_number(number).wish is Wish.LONG for number in asked):
            return "\n\n".join(f"re: {names} part {part} " + "x" * _PART_CHARS for part in range(1, PARTS + 1))
        return f"re: {names}"

    def _failure(self, text: str) -> Reply:
        kind = self._chance.choice(("500", "429", "drop", "cut", "open end", "broken", "stall", "slow"))
        self._excuses += 1
        words = text or f"{EXCUSE} {self._excuses}, {kind}"  # where calls should be: a model that answers instead
        match kind:
            case "500":
                return Reply(status=500)
            case "429":
                return Reply(status=429, headers={"Retry-After": "1"})
            case "drop":
                return Reply(drop_before=True)
            case "cut":
                return Reply(text=words, cut_after=self._chance.randrange(3))
            case "open end":
                return Reply(text=words, end_without_finish=True)
            case "broken":
                return Reply(text=words, broken_json=True)
            case "stall":
                return Reply(text=words, stall_after=1, stall_until=self._after(0.7))
            case _:
                return Reply(text=words, drip_s=0.1 if len(words) < 1_000 else 0)

    def _after(self, seconds: float) -> asyncio.Event:
        event = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, event.set)
        return event


class Weather:
    """What goes wrong at the platform, one thing after the other."""

    def __init__(self, telegram: BotApi, people: People, chance: random.Random) -> None:
        self._telegram = telegram
        self._people = people
        self._chance = chance

    def strike(self) -> None:
        """Arm one fault that strikes once."""
        telegram, chance = self._telegram, self._chance
        kind = chance.choice(
            (
                *("429", "429", "drop after", "drop after", "drop before", "502", "502 poll", "slow", "slow send"),
                *("garbage", "cut poll", "repeat", "repeat all", "conflict", "typing"),
            )
        )
        match kind:
            case "429":
                telegram.faults.add(too_many_requests("sendMessage", 1))
            case "drop after":
                telegram.faults.add(Fault(method="sendMessage", drop_after=True))
            case "drop before":
                telegram.faults.add(Fault(method="sendMessage", drop_before=True))
            case "502":
                telegram.faults.add(bad_gateway("sendMessage"))
            case "502 poll":
                telegram.faults.add(bad_gateway("getUpdates"))
            case "slow":
                telegram.faults.add(Fault(delay_s=chance.uniform(0.1, 0.6)))
            case "slow send":
                telegram.faults.add(Fault(method="sendMessage", delay_s=chance.uniform(0.1, 0.6)))
            case "garbage":
                page = chance.choice((b"<html>oops</html>", b'{"ok":true,"resu', b'{"ok":true,"result":{"a":1}}'))
                telegram.faults.add(Fault(method="getUpdates", garbage=page))
            case "cut poll":
                telegram.faults.add(Fault(method="getUpdates", drop_after=True))
            case "repeat all":
                telegram.faults.add(Fault(method="getUpdates", ignore_offset=True))
            case "conflict":
                telegram.faults.add(conflict())
            case "typing":
                telegram.faults.add(Fault(method="sendChatAction", drop_before=True))
            case _:
                # Only what was confirmed: the platform never hands out a later message before an earlier one.
                if seen := [said for said in self._people.said if said.update_id < telegram.confirmed_offset]:
                    telegram.redeliver(chance.choice(seen).update_id)
