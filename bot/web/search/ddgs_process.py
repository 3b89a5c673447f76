"""The process of one search with `ddgs`: an order in JSON on standard input, the answer in JSON on standard output.

The answer is {"found": [[title, url, snippet], ...]} or {"failed": reason}. What the library may do to the process
(use up its memory, hang) is the caller's to notice.
"""

from __future__ import annotations

import json
import math
import os
import signal
import sys
from typing import Any
from urllib.parse import urlsplit

from ddgs import DDGS
from ddgs.engines.duckduckgo import Duckduckgo
from ddgs.exceptions import DDGSException, TimeoutException

from bot.security.confinement import end_with_parent, limit_memory

_LIBRARY_SHARE = 0.4  # of the time; the library may use its own limit twice
_FIELD_CHARS = 4_000
_NOTHING = "No results found."  # what the library raises then


def main() -> None:
    """Serve the one order. Ends without waiting for the library's threads."""
    end_with_parent()
    order = json.load(sys.stdin.buffer)
    signal.alarm(math.ceil(order["limit_s"]) + 1)
    limit_memory(order["memory_bytes"])
    sys.stdout.write(json.dumps(_answer(order)))
    sys.stdout.flush()
    os._exit(0)


def _answer(order: dict[str, Any]) -> dict[str, Any]:
    timeout_s = max(1, int(order["limit_s"] * _LIBRARY_SHARE))
    search = _at_address if order["base_url"] else _anywhere
    try:
        found = search(order, timeout_s)
    except TimeoutException:
        return {"failed": "no answer in time"}
    except DDGSException as exc:
        return {"found": []} if str(exc) == _NOTHING else {"failed": "no connection, or not the answer it expects"}
    except Exception:  # noqa: BLE001 - boundary: whatever a page makes of the library's parser
        return {"failed": "the library cannot read the answer"}
    return {"found": [[str(part)[:_FIELD_CHARS] for part in parts] for parts in found]}


def _at_address(order: dict[str, Any], timeout_s: int) -> list[tuple[str, str, str]]:
    engine = Duckduckgo(proxy=order["proxy"], timeout=timeout_s)
    engine.search_url = order["base_url"] + urlsplit(Duckduckgo.search_url).path
    results = engine.search(order["query"])
    if results is None:
        raise DDGSException("an HTTP error")
    return [(result.title, result.href, result.body) for result in results]


def _anywhere(order: dict[str, Any], timeout_s: int) -> list[tuple[str, str, str]]:
    results = DDGS(proxy=order["proxy"], timeout=timeout_s).text(order["query"], max_results=order["count"])
    return [(result.get("title", ""), result.get("href", ""), result.get("body", "")) for result in results]
