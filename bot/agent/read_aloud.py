"""What of an answer is read aloud: its words, without code, addresses and the signs of Markdown. Pure."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r"<?\b(?:https?://|www\.|mailto:)\S+", re.IGNORECASE)
_AFTER_ADDRESS = ".,;:!?)]>"  # belongs to the sentence, not to the address
_SENTENCE_END = re.compile(r"[.!?…][\"'”’)\]]*(?=\s)|[。！？]|\n")
_UNREAD = frozenset({"CodeBlock", "Image", "MetadataBlock", "HtmlBlock", "FootnoteDefinition"})
_BLOCKS = frozenset({"Paragraph", "Heading", "Item", "TableRow", "TableHead", "BlockQuote", "List"})
_MIN_PART = 0.5  # of the limit: a cut at an earlier end of a sentence would leave out too much
_BLANKS = re.compile(r"[ \t]+")


def words_to_read(markdown: str) -> str:
    """Return the words of a text, one paragraph, list entry or table row to a line; '' when it has none."""
    import pyromark  # only where answers are read aloud

    options = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_STRIKETHROUGH | pyromark.Options.ENABLE_TASKLISTS
    parts: list[str] = []
    unread = 0
    for event in pyromark.events(markdown, options=options):
        if isinstance(event, str):  # SoftBreak, HardBreak, Rule
            parts.append("\n" if event == "Rule" else " ")
            continue
        kind, value = next(iter(event.items()))
        tag = value if isinstance(value, str) else next(iter(value), "") if isinstance(value, dict) else ""
        if kind in {"Start", "End"}:
            unread += (tag in _UNREAD) * (1 if kind == "Start" else -1)
            if tag in _BLOCKS:
                parts.append("\n")
            elif tag == "TableCell" and kind == "End":
                parts.append(", ")
        elif kind in {"Text", "Code"} and not unread:
            parts.append(str(value))
    lines = (_BLANKS.sub(" ", _ADDRESS.sub(_rest, line)).strip(" ,") for line in "".join(parts).splitlines())
    return "\n".join(line for line in lines if re.search(r"\w", line))


def cut_at_sentence(text: str, limit_chars: int) -> str:
    """Return as many whole sentences of a text as fit; a sentence that alone is too long is cut at a space."""
    if len(text) <= limit_chars:
        return text
    head = text[: limit_chars + 1]  # a sentence that ends right at the limit is told by what follows
    least = int(limit_chars * _MIN_PART)
    ends = [match.end() for match in _SENTENCE_END.finditer(head) if least <= match.end() <= limit_chars]
    end = ends[-1] if ends else head.rfind(" ")
    return head[: end if end > 0 else limit_chars].rstrip()


def _rest(address: re.Match[str]) -> str:
    rest = address[0][len(address[0].rstrip(_AFTER_ADDRESS)) :]
    return rest.lstrip(")]>")
