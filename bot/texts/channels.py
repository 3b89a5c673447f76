"""Sentences of the channels themselves: about buttons."""

from __future__ import annotations

from collections.abc import Mapping

SENTENCES: Mapping[str, tuple[str, str, str]] = {
    "button.answered": (
        "This was answered already: {label}",
        "Das wurde schon beantwortet: {label}",
        "这已经回答过了: {label}",
    ),
    "button.unknown": (
        "This button is not valid any more.",
        "Diese Schaltfläche gilt nicht mehr.",
        "这个按钮已失效。",
    ),
}
