"""Find the time expressions of a sentence, in any language, and cut the sentence around them.

A `Language` is data: rules that recognise expressions, frames that ask for something, words to drop. This
module knows how expressions stand in a sentence ("remind me EXPR to X", "X EXPR, remind me"); what they mean
is `phrases_when.py`, which words they are made of is `phrases_en.py`, `phrases_de.py`, `phrases_zh.py`.

Every pattern runs on `scan`, a lower-case twin of the sentence with the same length, so that spans found in
it cut the sentence itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from bot.providers.phrases_intents import RefuseReason
from bot.providers.phrases_when import Clock, Day, When, merge

_EDGE = " \t,:;.-–—!?…，、：；。！？"
_QUOTES = {
    '"': '"',
    "'": "'",
    "“": "”",
    "„": "“",
    "«": "»",
    "»": "«",
    "「": "」",
    "『": "』",
    "‘": "’",
    "《": "》",
}

_CLOSING = {close: {o for o, c in _QUOTES.items() if c == close} - {close} for close in _QUOTES.values()}


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of expression: where it stands, and what it means (None = not this one after all)."""

    pattern: re.Pattern[str]
    build: Callable[[re.Match[str]], When | None]


class Words:
    """Named pieces of patterns: a name in capitals stands for its piece.

    Patterns match lower-case text, so capitals are free; a piece may name others, defined before or after it.
    """

    def __init__(self, pieces: dict[str, str]) -> None:
        self._pieces = pieces
        self._name = re.compile("|".join(sorted(pieces, key=len, reverse=True)))

    def expand(self, text: str) -> str:
        """Return `text` as a plain regular expression."""
        while True:
            wider = self._name.sub(lambda m: self._pieces[m[0]], text)
            if wider == text:
                return text
            text = wider

    def compile(self, text: str) -> re.Pattern[str]:
        """Return the pattern that `text` stands for."""
        return re.compile(self.expand(text))

    def rule(self, text: str, build: When | Callable[[re.Match[str]], When | None]) -> Rule:
        """Return a rule that needs a word's beginning and a word's end around it where the words say so."""
        if isinstance(build, When):
            fixed = build
            return Rule(self.compile(f"BEGIN(?:{text})END"), lambda _: fixed)
        return Rule(self.compile(f"BEGIN(?:{text})END"), build)


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """All that the reader needs to know of one language. Patterns match lower-case text."""

    code: str
    rules: tuple[Rule, ...]
    glue: re.Pattern[str]  # what may stand between two expressions that belong together
    not_before: re.Pattern[str]  # ends the text before an expression that is part of the reminder's text
    lead: re.Pattern[str]  # small words between the frame and an expression
    frames: tuple[re.Pattern[str], ...]  # asks for a reminder; group "mid", if any, is inside the frame
    not_frames: re.Pattern[str]  # looks like a frame and is not ("you remind me of ...")
    question: re.Pattern[str]  # after the frame: a question to the model, not a reminder
    conditional: re.Pattern[str]  # after the frame: depends on something the bot cannot see
    bare: re.Pattern[str]  # without a frame: a repetition followed by an order, not by a statement
    connectors: re.Pattern[str]  # between frame and text: dropped
    clause: re.Pattern[str]  # connector whose text is a sentence of its own, time words included
    politeness: re.Pattern[str]  # before the frame: dropped
    thanks: re.Pattern[str]  # at the end: dropped
    unfinished: re.Pattern[str]  # a text that ends like this lost its end with the expression
    lead_rules: tuple[Rule, ...]  # right after the frame only: "10 minutes" alone, "alarm for 7"
    lists: re.Pattern[str]
    cancels: tuple[re.Pattern[str], ...]  # group "what" names the job
    pauses: tuple[re.Pattern[str], ...]
    resumes: tuple[re.Pattern[str], ...]
    changes: re.Pattern[str]  # changing a reminder: about reminders, not understood
    nouns: re.Pattern[str]  # says that a cancel phrase is about reminders
    fillers: re.Pattern[str]  # words that name no job
    everything: re.Pattern[str]
    ordinals: dict[str, int]
    default_text: str
    own_texts: tuple[tuple[re.Pattern[str], str], ...]  # frames that say what for: "wake me", "timer"
    joiner: str  # between two halves of a text


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Neighbouring expressions read as one."""

    start: int
    end: int
    when: When


def find_clusters(language: Language, scan: str) -> list[Cluster]:
    """Return the time expressions of `scan` in order, neighbours merged where they agree."""
    found: list[Cluster] = []
    for one in language.rules:
        for match in one.pattern.finditer(scan):
            when = one.build(match)
            if when is not None and match.end() > match.start():
                found.append(Cluster(start=match.start(), end=match.end(), when=when))
    found.sort(key=lambda c: (c.start, -c.end))
    clusters: list[Cluster] = []
    end = 0
    for cluster in found:
        if clusters and cluster.start < end:
            continue
        end = cluster.end
        if clusters and language.glue.fullmatch(scan, clusters[-1].end, cluster.start):
            both = merge(clusters[-1].when, cluster.when)
            if both is not None:
                clusters[-1] = Cluster(start=clusters[-1].start, end=cluster.end, when=both)
                continue
        clusters.append(cluster)
    return clusters


@dataclass(slots=True, kw_only=True)
class Segment:
    """A stretch of the sentence: [expression] text [expression], with `start`, `end` around the text."""

    start: int
    end: int
    clause: bool = False
    lead: Cluster | None = None
    trail: Cluster | None = None
    inner: tuple[Cluster, ...] = ()


def _skip(scan: str, start: int, end: int, pattern: re.Pattern[str] | None = None) -> int:
    """Return the first position in the stretch that is neither edge punctuation nor `pattern`."""
    while start < end:
        if scan[start] in _EDGE:
            start += 1
            continue
        match = pattern.match(scan, start, end) if pattern else None
        if match is None or match.end() == start:
            break
        start = match.end()
    return start


def _trim_end(scan: str, start: int, end: int) -> int:
    while end > start and scan[end - 1] in _EDGE:
        end -= 1
    return end


def _special_lead(language: Language, scan: str, start: int, end: int) -> Cluster | None:
    for one in language.lead_rules:
        match = one.pattern.match(scan, start, end)
        when = one.build(match) if match else None
        if match and when:
            return Cluster(start=start, end=match.end(), when=when)
    return None


def read_segment(language: Language, scan: str, start: int, end: int, clusters: Iterable[Cluster]) -> Segment:
    """Cut one stretch into leading expression, text and trailing expression."""
    inside = [c for c in clusters if c.start >= start and c.end <= end]
    end = _trim_end(scan, start, end)
    thanks = language.thanks.search(scan, start, end)
    if thanks and thanks.start() > start:
        end = _trim_end(scan, start, thanks.start())
    segment = Segment(start=start, end=end)
    at = _skip(scan, start, end)
    for _ in range(3):  # "daran, morgen um 9 Ann anzurufen": small words and expression in either order
        if segment.lead is None:
            first = _skip(scan, at, end, language.lead)
            lead = next((c for c in inside if c.start <= first < c.end and c.start >= at), None)
            lead = lead or _special_lead(language, scan, first, end)
            if lead is not None:
                segment.lead = lead
                at = _skip(scan, lead.end, end)
                continue
        match = language.connectors.match(scan, at, end)
        if match is None:
            break
        segment.clause = segment.clause or bool(language.clause.match(scan, at, end))
        at = _skip(scan, match.end(), end)
        if not match.groupdict().get("loose"):
            break
    segment.start = at
    usable = [c for c in inside if c.start >= at and not language.not_before.search(scan, at, c.start)]
    if usable and _skip(scan, usable[-1].end, end) >= end:
        segment.trail = usable.pop()
    segment.inner = tuple(usable)
    return segment


def clean(text: str) -> str:
    """Return a text without edge punctuation, doubled blanks and quotes around the whole."""
    text = " ".join(text.split()).strip(_EDGE)
    while len(text) > 1 and _QUOTES.get(text[0]) == text[-1] and text[0] not in text[1:-1]:
        text = text[1:-1].strip(_EDGE)
    if text and text[-1] in _CLOSING and text.count(text[-1]) == 1 and not _CLOSING[text[-1]].intersection(text[:-1]):
        text = text[:-1].strip(_EDGE)  # its opening twin stood in front of the frame
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What to remind of, and when; `when` None = the sentence names no time."""

    text: str
    when: When | None


def _without(language: Language, text: str, scan: str, segment: Segment, cut: Cluster | None) -> str:
    """Return the segment's text, without the expression in `cut` unless that tears a sentence apart."""
    whole = clean(text[segment.start : segment.end])
    if cut is None or not segment.start <= cut.start < segment.end:
        return whole
    if segment.clause and cut is not segment.trail:
        return whole
    head = clean(text[segment.start : cut.start])
    if language.unfinished.search(head.lower()):
        return whole
    connector = language.connectors.match(scan, _skip(scan, cut.end, segment.end), segment.end) if not head else None
    tail = clean(text[connector.end() if connector else cut.end : segment.end])
    return clean(head + language.joiner + tail) if head and tail else head or tail


def read_sentence(language: Language, text: str, scan: str, before: Segment, own: list[Segment]) -> Reading:
    """Put text and time together; `before` stands in front of the frame, `own` inside and behind it."""
    own_text = any(_left(segment, text) for segment in own)
    if _skip(scan, before.start, before.end, language.politeness) >= before.end:
        before = replace(before, end=before.start)  # "tomorrow, please, remind me"
    before_text = clean(text[before.start : before.end])
    source = own if own_text or not before_text else [before]
    leads = [s.lead for s in own] + ([before.lead] if source == [before] or not _left(before, text) else [])
    trails = [s.trail for s in own]
    if source == [before] or not _left(before, text):
        trails.append(before.trail)
    when: When | None = None
    used: list[Cluster] = []
    clause = any(s.clause for s in own)
    for cluster in [*leads, *trails]:
        if cluster is None or (when is not None and when.complete):
            continue
        if when is not None and clause and cluster in trails:
            continue
        both = cluster.when if when is None else merge(when, cluster.when)
        if both is not None:
            when = both
            used.append(cluster)
    if when is None:
        inner = [c for s in source for c in s.inner if c.when.reason is not RefuseReason.PAST]
        for cluster in inner[:1]:
            when = cluster.when
            used.append(cluster)
    halves = []
    for segment in source:
        cut = next((c for c in used if segment.start <= c.start < segment.end), None)
        halves.append(_without(language, text, scan, segment, cut))
    return Reading(text=clean(language.joiner.join(h for h in halves if h)), when=when)


def _left(segment: Segment, text: str) -> str:
    """Return what a segment says besides its expressions."""
    end = segment.trail.start if segment.trail else segment.end
    return clean(text[segment.start : end])


def _iso(match: re.Match[str]) -> When | None:
    day = Day(year=int(match["y"]), month=int(match["mo"]), day=int(match["d"]))
    clocks = (Clock(hour=int(match["h"]), minute=int(match["mi"])),) if match["h"] else ()
    return When(day=day, clocks=clocks)


# 2026-12-24, with its time when one follows: the same in every language.
ISO_DATE = Rule(
    re.compile(
        r"(?<![\w-])(?:(?:on|am)\s+)?(?P<y>\d{4})-(?P<mo>\d{1,2})-(?P<d>\d{1,2})"
        r"(?:(?:t|\s+(?:(?:at|um)\s+)?)(?P<h>\d{1,2}):(?P<mi>\d{2})(?::\d{2})?)?(?![\w-])"
    ),
    _iso,
)
