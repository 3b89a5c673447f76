"""Which of the configured models may be named by whom: presets, as tools and commands speak of them.

Switching a model spends the owner's money, so that only owners do it; everybody may see which ones there are.
"""

from __future__ import annotations

from difflib import get_close_matches

from bot.config import LlmSection
from bot.config.models import DEFAULT_PRESET
from bot.messages import Role
from bot.toolkit.context import RequestContext


def preset_of(name: str) -> str:
    """Return a preset's name as it is stored: "" for the model of `[llm]` itself."""
    return "" if name in ("", DEFAULT_PRESET) else name


def preset_problem(llm: LlmSection, name: str, request: RequestContext) -> str:
    """Return why the sender cannot have this model, as a sentence for the model that asks; "" if they can."""
    if request.role is not Role.OWNER:
        return "model: only an owner may choose another model"
    if preset_of(name) and name not in llm.presets:
        close = get_close_matches(name.lower(), llm.presets, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join((DEFAULT_PRESET, *llm.presets))}"
        return f"model: there is no {name[:64]!r}; {hint}"
    return ""
