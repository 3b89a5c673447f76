"""What can go wrong between a request and its answer. Texts are for the model: they name no address."""

from __future__ import annotations

from bot.errors import DutifulError


class WebError(DutifulError):
    """No whole answer was received; `retryable` tells whether asking again may help."""

    def __init__(self, text: str, *, retryable: bool = False) -> None:
        super().__init__(text)
        self.retryable = retryable


class NoConnection(WebError):
    """Nobody was reached: nothing has been sent."""

    def __init__(self, text: str) -> None:
        super().__init__(text, retryable=True)


class WebTimeout(WebError):
    """It took longer than allowed."""

    def __init__(self, text: str) -> None:
        super().__init__(text, retryable=True)


class WebTooLarge(WebError):
    """The answer is larger than allowed, as sent or unpacked."""


class TooManyRedirects(WebError):
    """The answer only ever leads elsewhere."""
