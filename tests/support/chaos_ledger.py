"""The auditor of a chaos run: reads what the platform saw, and says what is wrong with it.

Allowed is what the promises allow: a message may be answered together with its neighbours or by a failure
notice; a text may be there twice in a row when its send was uncertain; it may be missing when two sends of it
were lost on their way, since a third would break the rule of one extra copy.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from tests.platforms.bot_api import BotApi
from tests.support.chaos import EXCUSE, PARTS, Model, People, Place, Said, Wish, tokens


@dataclass(slots=True)
class Audit:
    """What was found."""

    problems: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)  # what may still come
    extra_copies: int = 0


def audit(telegram: BotApi, people: People, model: Model) -> Audit:
    """Read all chats."""
    result = Audit(problems=list(model.strays))
    arrived: dict[Place, list[str]] = {}
    for call in telegram.sent:
        assert call.chat_id is not None
        arrived.setdefault((call.chat_id, call.thread_id), []).append(call.text)
    lost = Counter(call.text for call in telegram.calls("sendMessage") if call.error == "dropped")
    for place in arrived.keys() | {said.place for said in people.said}:
        texts = _without_copies(arrived.get(place, []), result)
        said = [item for item in people.said if item.place == place]
        foreign = [text for text in texts if _foreign(text, place, people)]
        result.problems += [f"in {place} a text of another chat: {text[:80]}" for text in foreign]
        _conversation(place, [item for item in said if item.wish is not Wish.STATUS], texts, result, lost)
        _consequences(place, said, texts, model, result, lost)
    return result


def _without_copies(texts: list[str], result: Audit) -> list[str]:
    """Drop a text that repeats the one before it. Only the bot's own sentences may be equal by themselves."""
    kept: list[str] = []
    run = 1
    for text in texts:
        if kept and kept[-1] == text and (_named(text) or text.startswith(EXCUSE)):
            run += 1
            result.extra_copies += 1
            if run > 2:
                result.problems.append(f"more than one extra copy of {text[:60]!r}")
            continue
        kept.append(text)
        run = 1
    return kept


def _named(text: str) -> bool:
    return any(tokens(text, kind) for kind in "mrtns")


def _foreign(text: str, place: Place, people: People) -> bool:
    return any(people.by_number(number).place != place for kind in "mrtns" for number in tokens(text, kind))


def _is_notice(text: str) -> bool:
    """Say whether the bot tells that it could not answer a message."""
    return not _named(text) and not text.startswith("Dutiful ")


def _conversation(place: Place, said: list[Said], texts: list[str], result: Audit, lost: Counter[str]) -> None:
    """Answers in order, each message once; notices account for messages that no answer names."""
    numbers = [item.number for item in said]
    position = notices = 0
    expected_part = 1
    for text in texts:
        if "attempts" in text and tokens(text, "m"):  # a burial names its message
            notices += 1
            continue
        if _is_notice(text):
            notices += 1
            continue
        if not text.startswith("re: "):
            continue
        named = tokens(text, "m")
        if " part " in text:
            part = int(text.partition(" part ")[2].split()[0])
            if part != expected_part and not any(_is_part_before(other, text) for other in lost):
                result.problems.append(f"in {place} part {part} instead of {expected_part}: {text[:50]}")
            expected_part = part % PARTS + 1
            if part > 1:
                continue
        end = numbers.index(named[-1]) + 1
        if end <= position:
            result.problems.append(f"in {place} answered again or out of order: {text[:60]}")
            continue
        skipped = [number for number in numbers[position:end] if number not in named]
        if skipped and not notices:
            if all(_lost_answer(number, lost) for number in skipped):
                skipped = []
            else:
                result.problems.append(f"in {place} no answer to {skipped} before {text[:60]}")
        if notices + 1 > end - position:
            result.problems.append(f"in {place} {notices} notices and {text[:40]!r} for {numbers[position:end]}")
        position, notices = end, 0
    left = numbers[position:]
    if left and not notices and not all(_lost_answer(number, lost) for number in left):
        result.waiting.append(f"in {place} no answer to {left}")
    if notices > len(left):
        result.problems.append(f"in {place} {notices} notices for {left} at the end")


def _is_part_before(lost: str, text: str) -> bool:
    """Say whether a lost text is another part of the same answer."""
    return " part " in lost and lost.partition(" part ")[0] == text.partition(" part ")[0]


def _lost_answer(number: int, lost: Counter[str]) -> bool:
    return any(number in tokens(text, "m") for text in lost)


def _consequences(  # noqa: PLR0917 - what it reads and where it writes
    place: Place, said: list[Said], texts: list[str], model: Model, result: Audit, lost: Counter[str]
) -> None:
    """What a message set off: each thing once, and surely when the model was told that it will come."""
    marks = {Wish.NOTE: ("note n",), Wish.REMIND: ("ring r",), Wish.TASK: ("report t", "do t")}
    marks[Wish.SPAWN] = ("heard s", "finished s", "“s")
    for item in said:
        if item.wish not in marks:
            continue
        kind = {"note n": "n", "ring r": "r", "report t": "t"}.get(marks[item.wish][0], "s")
        about = [text for text in texts if item.number in tokens(text, kind) and not text.startswith("re: ")]
        if len(about) > 1:
            result.problems.append(f"in {place} {len(about)} times {kind}{item.number}: {about}")
        was_lost = any(item.number in tokens(text, kind) for text in lost)
        if not about and item.number in model.promised and not was_lost:
            result.waiting.append(f"in {place} {kind}{item.number} was promised")
    commands = sum(item.wish is Wish.STATUS for item in said)
    answers = sum(text.startswith("Dutiful ") for text in texts)
    if answers < commands and not any(text.startswith("Dutiful ") for text in lost):
        result.waiting.append(f"in {place} {answers} of {commands} answers to /status")
