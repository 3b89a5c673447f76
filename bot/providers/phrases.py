"""Understand a sentence about reminders without a model: English, German and Chinese, pure and bounded.

`understand` reads one message and returns what it asks for; it calls no tool, knows no store and words no
answer. How times are read where a person could mean two things is written in `phrases_when.py`; further
decisions, made here:

- "Remind me in 10 minutes" without a text is a nudge and gets a default text; a *repeating* reminder without
  a text is refused (NO_TEXT), since it would nag about nothing for ever.
- A repetition in front of an order is a reminder without being called one ("every weekday at 9 check the
  mail"); a single time is not ("tomorrow at 9 works for me").
- "Cancel all reminders" names every job; so do "pause all" and "resume all".
- A message with two requests for reminders is UNCLEAR: half of it must not be set silently.
- An hour to be woken at is one of the morning, unless it is said otherwise.
- Messages beyond 2,000 characters are not looked at.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any

from bot.providers.phrases_intents import (
    Add,
    Ambiguous,
    Intent,
    KnownJob,
    ListJobs,
    NeedJobs,
    NotFound,
    Pause,
    Refuse,
    RefuseReason,
    Remove,
    Resume,
)
from bot.providers.phrases_jobs import choose
from bot.providers.phrases_scan import (
    Cluster,
    Language,
    Segment,
    clean,
    find_clusters,
    read_segment,
    read_sentence,
)
from bot.providers.phrases_schedule import schedule
from bot.providers.phrases_when import Part, When

LIMIT_CHARS = 2_000
_ORDER_LIMIT_CHARS = 240  # who writes more than this is not just asking for a list or a cancellation
_BARE_LIMIT_CHARS = 300  # who writes more than this after "every day" tells a story
_WANTED_LIMIT_CHARS = 120  # a longer "cancel ..." is a story, not the name of a job
# A frame right behind an opening quote that has words in front: somebody talks about the phrase.
_WAKING = re.compile(r"wake me|get me up|weck|叫醒|我起")
_EARLIEST_WAKING = 5  # "wake me at 2" ends a nap
_QUOTED = re.compile(r"\w.*[\"'“„«「『‘]\s*$")
_SENTENCE_END = re.compile(r"[.!?;] |[。！？；]")
_CJK = re.compile(r"[\u3400-\u9fff]")
# Full-width forms and traditional signs have a twin of the same length; so spans stay valid.
_TWINS = str.maketrans(
    "０１２３４５６７８９：，／－．鐘後點週個兩時號開會鬧設創試顯現關間這們單暫復繼續禮來內嗎沒給為發無刪條項響請幾歲當麼",
    "0123456789:,/-.钟后点周个两时号开会闹设创试显现关间这们单暂复继续礼来内吗没给为发无删条项响请几岁当么",
)
_SINGLE_TWINS = str.maketrans({"’": "'", "‘": "'", "`": "'", "　": " ", "\u00a0": " ", "\u202f": " "})


def understand(
    text: str,
    *,
    now: datetime,
    language: str = "en",
    jobs: Sequence[KnownJob] | None = None,
) -> Intent | None:
    """Return what `text` asks for about reminders, or None when it is about something else.

    Args:
        text: the person's message, untrusted, any length.
        now: the current instant, aware, in the person's zone; local times refer to it.
        language: the person's language ("en", "de", "zh"); it is tried first, all three are understood.
        jobs: the chat's jobs in the order shown; None = not listed yet, so that a sentence that needs them
            answers `NeedJobs`.
    """
    if len(text) > LIMIT_CHARS:
        return None
    said = _visible(text)
    if not said:
        return None
    scan = _twin(said)
    weak: Intent | None = None
    for code in _order(scan, language):
        intent = _understand(_language(code), said, scan, now, jobs)
        if intent is not None and not isinstance(intent, Refuse | NotFound):
            return intent
        weak = weak or intent
    return weak


def _visible(text: str) -> str:
    """Return the text composed, on one line, without control, direction and other invisible characters."""
    composed = unicodedata.normalize("NFC", text)
    kept = (" " if c.isspace() else c for c in composed if c.isspace() or unicodedata.category(c) not in ("Cc", "Cs"))
    directed = "".join(c for c in kept if c not in "\u200b\u200e\u200f\u061c\ufeff" and not "\u202a" <= c <= "\u202e")
    return " ".join("".join(c for c in directed if not "\u2066" <= c <= "\u2069").split())


def _twin(text: str) -> str:
    """Return the lower-case twin of the same length that patterns run on."""
    folded = text.translate(_SINGLE_TWINS).translate(_TWINS)
    return "".join(low if len(low := c.lower()) == 1 else c for c in folded)


def _order(scan: str, language: str) -> list[str]:
    """Return the languages to try, best first."""
    codes = ["en", "de"]
    if language == "de":
        codes.reverse()
    if _CJK.search(scan):
        codes.insert(0, "zh")
    return codes


@cache
def _language(code: str) -> Language:
    """Return a language, loaded at its first use: compiling its patterns takes tens of milliseconds."""
    if code == "de":
        from bot.providers.phrases_de import GERMAN  # late: see above

        return GERMAN
    if code == "zh":
        from bot.providers.phrases_zh import CHINESE  # late: see above

        return CHINESE
    from bot.providers.phrases_en import ENGLISH  # late: see above

    return ENGLISH


def _understand(
    language: Language, text: str, scan: str, now: datetime, jobs: Sequence[KnownJob] | None
) -> Intent | None:
    about_jobs = len(scan) <= _ORDER_LIMIT_CHARS
    for patterns, act in ((language.cancels, Remove), (language.pauses, Pause), (language.resumes, Resume)):
        for pattern in patterns if about_jobs else ():
            if match := pattern.search(scan):
                intent = _about_job(language, match, act, jobs)
                if intent is not None:
                    return intent
    if about_jobs and language.lists.search(scan):
        return ListJobs()
    if about_jobs and language.changes.search(scan):
        return Refuse(reason=RefuseReason.UNCLEAR)
    return _add(language, text, scan, now)


def _about_job(
    language: Language,
    match: re.Match[str],
    act: type[Remove | Pause | Resume],
    jobs: Sequence[KnownJob] | None,
) -> Intent | None:
    said = clean(match["what"])
    certain = bool(language.nouns.search(match[0])) or bool(re.search(r"\bjob-\w|^\W*\d{1,3}\W*$", said))
    if len(said) > _WANTED_LIMIT_CHARS or not (said or certain):
        return None
    if jobs is None:
        return NeedJobs()
    chosen = choose(language, said, jobs, certain=certain)
    if chosen is None or isinstance(chosen, Ambiguous | NotFound):
        return chosen
    return act(job_ids=chosen)


def _add(language: Language, text: str, scan: str, now: datetime) -> Intent | None:
    if language.not_frames.search(scan):
        return None
    found = [match for frame in language.frames if (match := frame.search(scan))]
    if not found:
        return _bare(language, text, scan, now)
    frame = min(found, key=_place)
    if _QUOTED.search(scan, 0, frame.start()):
        return None
    if language.question.match(scan, frame.end()):
        return None
    if language.conditional.match(scan, frame.end()):
        return Refuse(reason=RefuseReason.UNCLEAR)
    if frame.re.search(scan, frame.end()):
        return Refuse(reason=RefuseReason.UNCLEAR)
    clusters = find_clusters(language, scan)
    own = [read_segment(language, scan, frame.end(), len(scan), clusters)]
    if frame.groupdict().get("mid"):
        own.insert(0, read_segment(language, scan, frame.start("mid"), frame.end("mid"), clusters))
    # When the request says what for, sentences before its own are only what led to it.
    start = _sentence_start(scan, frame.start(), clusters) if any(segment.start < segment.end for segment in own) else 0
    before = _before(language, scan, start, frame.start(), clusters)
    reading = read_sentence(language, text, scan, before, own)
    what = reading.text
    if reading.when is None and frame.groupdict().get("weak"):
        return None
    if not what:
        what = next((own for pattern, own in language.own_texts if pattern.search(frame[0])), "")
    when = reading.when
    if when is not None and _WAKING.search(frame[0]):
        when = _in_the_morning(when)
    return _intent(language, what, when, now)


def _in_the_morning(when: When) -> When:
    """Return a loose hour as that of a morning: nobody who says at ten "wake me at 7" means the evening."""
    bare = len(when.clocks) == 1 and when.clocks[0].loose and when.part is None
    return replace(when, part=Part.MORNING) if bare and when.clocks[0].hour >= _EARLIEST_WAKING else when


def _place(frame: re.Match[str]) -> int:
    """Return where a frame begins; one that is only a noun, with anything in front, where the noun does."""
    return frame.start("noun") if "noun" in frame.re.groupindex else frame.start()


def _sentence_start(scan: str, end: int, clusters: list[Cluster]) -> int:
    """Return where the sentence that holds `end` begins; the dots of "24.12. um 9" end none."""
    ends = [match.end() for match in _SENTENCE_END.finditer(scan, 0, end)]
    return max((at for at in ends if not any(c.start < at < c.end for c in clusters)), default=0)


def _before(language: Language, scan: str, start: int, end: int, clusters: list[Cluster]) -> Segment:
    """Return the stretch in front of the frame, polite openings and emoji left out."""
    while start < end:
        match = language.politeness.match(scan, start, end)
        if match and match.end() > start:
            start = match.end()
        elif not scan[start].isalnum():
            start += 1
        else:
            break
    return read_segment(language, scan, start, end, clusters)


def _intent(language: Language, what: str, when: When | None, now: datetime) -> Intent:
    if when is None:
        return Refuse(reason=RefuseReason.NO_TIME if what else RefuseReason.UNCLEAR)
    planned = schedule(when, now)
    if isinstance(planned, RefuseReason):
        return Refuse(reason=planned)
    if not what and when.every:
        return Refuse(reason=RefuseReason.NO_TEXT)
    what = what or language.default_text
    arguments: dict[str, Any] = {"action": "add", "kind": "reminder", "text": what, **planned}
    return Add(arguments=arguments, text=what)


def _bare(language: Language, text: str, scan: str, now: datetime) -> Intent | None:
    """Read a repetition in front of an order; a question or a statement is not for us."""
    if len(scan) > _BARE_LIMIT_CHARS or scan.endswith(("?", "？", "吗", "呢")):
        return None
    clusters = find_clusters(language, scan)
    segment = _before(language, scan, 0, len(scan), clusters)
    if segment.lead is None or segment.lead.when.every is None:
        return None
    if segment.start >= segment.end or not language.bare.match(scan, segment.start, segment.end):
        return None
    reading = read_sentence(language, text, scan, Segment(start=0, end=0), [segment])
    return _intent(language, reading.text, reading.when, now) if reading.text else None
