"""Logging: one line per event on stderr, JSON for machines and colours for people, never a secret.

Our own events and those of every library go through the same processors. Channel, session and turn are
bound once per task with `bind` and appear on each line. Text of messages belongs at DEBUG only; callers see
to that.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
from collections.abc import Collection, Mapping, MutableMapping
from types import TracebackType
from typing import Any, Literal, TextIO

from bot.imports import hidden
from bot.security.redaction import REDACTED, Redactor, redact

# structlog imports rich's tracebacks when it can, which we never use: 100 ms with it, 20 ms without.
with hidden("rich"):
    import structlog
    from structlog import stdlib as structlog_stdlib
    from structlog.contextvars import bound_contextvars as bind
    from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

__all__ = ["REDACTED", "bind", "get_logger", "redact", "setup_logging"]

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}

# Libraries that narrate each request at INFO, URL and all (a Telegram URL contains the token).
_CHATTY = (
    "httpx",
    "httpx2",
    "httpcore",
    "httpcore2",
    "aiohttp.access",
    "apscheduler",
    "openai",
    "tzlocal",
    "aiosqlite",
)

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_CONTROL_OR_BREAK = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_PLAIN = frozenset({int, float, bool, type(None)})
_MULTILINE = frozenset({"exception", "stack"})


_encode = json.JSONEncoder(ensure_ascii=False).encode  # `json.dumps` would build one for each line


def get_logger(name: str) -> FilteringBoundLogger:
    """Return a logger whose lines carry `logger=name`; usable before `setup_logging` and after it."""
    logger: FilteringBoundLogger = structlog.get_logger(name)
    return logger


def setup_logging(
    *,
    level: Literal["debug", "info", "warning", "error"] = "info",
    format: Literal["auto", "json", "pretty"] = "auto",  # noqa: A002  # the key's name
    secrets: Collection[str] = (),
    stream: TextIO | None = None,
) -> None:
    """Send all logging of the process to `stream` (stderr); may be called again, the last call counts.

    `auto` is pretty on a terminal and JSON elsewhere: under systemd stderr is the journal's socket.
    """
    target = sys.stderr if stream is None else stream
    pretty = format == "pretty" or (format == "auto" and target.isatty())
    colours = pretty and target.isatty()
    number = _LEVELS[level]
    final: list[Processor] = [
        _Redaction(Redactor(secrets), escape=pretty),
        _renderer(pretty=pretty, colours=colours),
    ]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog_stdlib.add_logger_name,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S" if pretty else "iso", utc=not pretty),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, *final],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda name: _Sink(name, target),
        # Cached loggers would keep the stream and the secrets of an earlier set-up.
        cache_logger_on_first_use=False,
    )
    formatter = structlog_stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog_stdlib.ProcessorFormatter.remove_processors_meta, *final],
    )
    _route_libraries(_Handler(target), formatter, number)
    sys.excepthook = _log_crash
    threading.excepthook = _log_thread_crash


def _renderer(*, pretty: bool, colours: bool) -> Processor:
    if not pretty:
        return structlog.processors.JSONRenderer(serializer=_to_json)
    return structlog.dev.ConsoleRenderer(colors=colours, exception_formatter=structlog.dev.plain_traceback)


def _to_json(event: EventDict, **_: Any) -> str:
    # Lone surrogates have no UTF-8 form and a strict stream would refuse the line.
    return _encode(event).encode("utf-8", "backslashreplace").decode()


class _Sink(structlog.WriteLogger):
    """Writes finished lines; knows the name that `get_logger` was given."""

    def __init__(self, name: str, stream: TextIO) -> None:
        super().__init__(stream)
        self.name = name


class _Redaction:
    """The last processor before rendering: secrets out of every string, wherever it hides."""

    def __init__(self, redactor: Redactor, *, escape: bool) -> None:
        self._redactor = redactor
        self._escape = escape  # JSON escapes control characters by itself

    def __call__(self, _logger: WrappedLogger, _method: str, event: MutableMapping[str, Any]) -> EventDict:
        return {key: self._clean(value, keep_lines=key in _MULTILINE) for key, value in event.items()}

    def _clean(self, value: Any, *, keep_lines: bool = False) -> Any:
        kind = type(value)  # exact types first: a line has half a dozen fields and nearly all are these
        if kind in _PLAIN:
            return value
        if kind is not str:
            if isinstance(value, Mapping):
                return {self._clean(str(key)): self._clean(item) for key, item in value.items()}
            if isinstance(value, list | tuple | set | frozenset):
                return [self._clean(item) for item in value]
        text = self._redactor(value if isinstance(value, str) else _safe_repr(value))
        if not self._escape:
            return text
        # A name with a line break or an escape sequence must not forge lines on somebody's terminal.
        pattern = _CONTROL if keep_lines else _CONTROL_OR_BREAK
        return pattern.sub(lambda match: ascii(match[0])[1:-1], text)


def _safe_repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  # a broken __repr__ of some library must not cost the line
        return f"<{type(value).__name__}>"


class _Handler(logging.StreamHandler[TextIO]):
    """Takes the records of libraries; a record that cannot be formatted is reported without its arguments."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802  # logging's own name
        # The base class prints a traceback with the arguments, past all redaction.
        get_logger(record.name).error("log record could not be formatted", source=record.pathname)


def _route_libraries(handler: _Handler, formatter: logging.Formatter, number: int) -> None:
    handler.setFormatter(formatter)
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old, _Handler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(number)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(number, logging.WARNING))


def _log_crash(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        sys.__excepthook__(kind, error, trace)
        return
    get_logger("dutiful").critical("unhandled error", exc_info=(kind, error, trace))


def _log_thread_crash(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None:
        _log_crash(args.exc_type, args.exc_value, args.exc_traceback)


# Without this, whatever is logged before `setup_logging` would go to stdout, among a command's own output.
structlog.configure(
    processors=[
        structlog.processors.add_log_level,
        structlog.processors.format_exc_info,
        _Redaction(Redactor(), escape=True),
        _renderer(pretty=True, colours=False),
    ],
    wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
    logger_factory=lambda name: _Sink(name, sys.stderr),
)
