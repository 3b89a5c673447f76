"""What the SDK raises, in one sentence for the person. Imported only with the SDK."""

from __future__ import annotations

from http import HTTPStatus

import httpx2
from mcp.client.auth.exceptions import OAuthFlowError
from pydantic import ValidationError

from bot.errors import DutifulError
from bot.security.untrusted import on_one_line
from bot.toolkit.mcp.session import CallFailed, CallMark, SessionFailed, Signals

WORDS_CHARS = 500
"""Of a server's own words in a message of ours."""

_LOGIN_STATUSES = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})


def first_problem(error: ValidationError) -> str:
    """Return what is wrong with an answer first, without what the answer says."""
    found = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(step) for step in found["loc"])
    return on_one_line(f"{place}: {found['msg']}")[:200]


def as_failure(error: BaseException, signals: Signals, mark: CallMark) -> DutifulError:
    """Return why a session ended, in one sentence, out of the groups that the SDK's scopes make."""
    root = _root(error)
    if isinstance(root, SessionFailed | CallFailed):
        return root
    if isinstance(root, OAuthFlowError):  # says more than the status that led to it
        return SessionFailed(in_words(root), wants_login=True)
    status = root.response.status_code if isinstance(root, httpx2.HTTPStatusError) else mark.status
    if mark.is_unauthorized:  # what was tried after that, in the older protocol, may have failed for another reason
        status = HTTPStatus.UNAUTHORIZED
    if mark.problem and not status:
        return SessionFailed(mark.problem)
    if status:
        return SessionFailed(f"the server answers with HTTP {status}", wants_login=status in _LOGIN_STATUSES)
    return SessionFailed(signals.why or in_words(root))


def _root(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def in_words(error: BaseException) -> str:
    """Return an error on one short line; the first of a group."""
    root = _root(error)
    return on_one_line(str(root))[:WORDS_CHARS] or type(root).__name__
