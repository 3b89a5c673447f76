"""What an import leaves out: hidden modules, and what the Telegram SDK would bring along."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bot.imports import hidden


def test_a_hidden_module_cannot_be_imported_until_the_end() -> None:
    with hidden("colorsys", "json"):
        with pytest.raises(ImportError):
            import colorsys
        with pytest.raises(ImportError):
            import json
    import colorsys
    import json

    assert colorsys.rgb_to_hsv(0, 0, 0) == (0, 0, 0)
    assert json is sys.modules["json"]


def test_what_was_hidden_comes_back_after_an_error() -> None:
    before = sys.modules["json"]
    with pytest.raises(ValueError, match="broken"), hidden("json"):
        raise ValueError("broken")
    assert sys.modules["json"] is before


def test_telegram_comes_without_command_line_and_passport() -> None:
    unwanted = "{'rich', 'click', 'pygments', 'cryptography.hazmat.primitives'}"
    code = f"import sys, channels.telegram.api as _; print({unwanted} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "set()\n"
