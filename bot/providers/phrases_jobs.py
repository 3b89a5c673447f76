"""Which of the known jobs a person means: by id, place in the list, or words of its name or text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bot.providers.phrases_intents import Ambiguous, KnownJob, NotFound
from bot.providers.phrases_scan import Language, clean

_ID = re.compile(r"\bjob-\w+")
_NUMBER = re.compile(r"^\D{0,12}(\d{1,4})\D{0,12}$")
_WORD = re.compile(r"\w+")
_CJK = re.compile(r"[\u3400-\u9fff]")
_ENOUGH = 0.5  # the share of the words said that a job must hold
_STEM = 4  # letters that two words must share at the front to count as forms of one ("stretch", "stretching")

Choice = tuple[str, ...] | Ambiguous | NotFound | None


def choose(language: Language, said: str, jobs: Sequence[KnownJob], *, certain: bool) -> Choice:
    """Return the ids that `said` (lower case, without the verb) names.

    `certain` tells whether the sentence is about reminders at all; when it is not and nothing fits, the
    answer is None: "delete the file" is for someone else.
    """
    by_id = [job.id for job in jobs if re.search(rf"(?<!\w){re.escape(job.id.lower())}(?!\w)", said)]
    if by_id:
        return tuple(by_id)
    if match := _ID.search(said):
        return NotFound(wanted=match[0])
    if certain and language.everything.search(said) and not _words(language, language.everything.sub(" ", said)):
        return tuple(job.id for job in jobs) or NotFound(wanted="")
    wanted = clean(language.fillers.sub(" ", said))
    place = _place(language, wanted)
    if place is not None:
        try:
            return (jobs[place - 1 if place > 0 else place].id,)
        except IndexError:
            return NotFound(wanted=wanted)
    if not wanted:
        if len(jobs) == 1 and certain:
            return (jobs[0].id,)
        return Ambiguous(candidates=tuple(jobs)) if jobs else NotFound(wanted="")
    best = _best(language, wanted, jobs)
    if len(best) == 1:
        return (best[0].id,)
    if best:
        return Ambiguous(candidates=tuple(best))
    return NotFound(wanted=wanted) if certain else None


def _place(language: Language, wanted: str) -> int | None:
    """Return the 1-based place that "2", "#2", "the second" name, -1 for the last."""
    if match := _NUMBER.match(wanted):
        rest = wanted.replace(match[1], "", 1).strip(" #.()")
        if not rest or rest in ("第", "号", "条", "个", "nr", "nummer"):
            return int(match[1]) or None
    return language.ordinals.get(wanted)


def _words(language: Language, text: str) -> list[str]:
    return _WORD.findall(language.fillers.sub(" ", text.lower()))


def _alike(a: str, b: str) -> bool:
    if a == b:
        return True
    short, long = sorted((a, b), key=len)
    return len(short) >= _STEM and (long.startswith(short) or short[:-1] == long[: len(short) - 1])


def _best(language: Language, wanted: str, jobs: Sequence[KnownJob]) -> list[KnownJob]:
    """Return the jobs that fit best: the same text, else most of the words, at least half of them."""
    same = [job for job in jobs if wanted in (clean(job.name).lower(), clean(job.text).lower())]
    if same:
        return same
    scores = [(_score(language, wanted, job), job) for job in jobs]
    top = max((score for score, _ in scores), default=0.0)
    return [job for score, job in scores if score == top] if top >= _ENOUGH else []


def _score(language: Language, wanted: str, job: KnownJob) -> float:
    """Return the share of what was said that the job's name and text hold, 0 to 1."""
    theirs = f"{job.name} {job.text}".lower()
    if _CJK.search(wanted):
        signs = [c for c in wanted if c.isalnum()]
        return 1.0 if "".join(signs) in theirs else sum(c in theirs for c in signs) / (len(signs) + 1)
    said = _words(language, wanted)
    known = _WORD.findall(theirs)
    return sum(any(_alike(word, other) for other in known) for word in said) / len(said) if said else 0.0
