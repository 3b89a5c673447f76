"""Names of servers' tools as the model calls them: what every provider takes, one for each, the same in every run."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping

NAME_LIMIT = 64
"""Longest function name (https://platform.openai.com/docs/api-reference/chat/create, `tools`, read 2026-11-30)."""

_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")
_HASH_CHARS = 6

Origin = tuple[str, str]
"""A server's name in the configuration, and the tool's own name there."""


def model_names(tools: Mapping[str, Iterable[str]]) -> dict[Origin, str]:
    """Return the model's name for each tool of each server: `mcp_SERVER_TOOL`, cleaned and unique.

    The order of servers and tools plays no part. Of names that are the same after cleaning, one that needed no
    cleaning keeps it (that of the first server by name, should there be two); all others end in a hash of what they
    come from, as do names that are too long.
    """
    origins = sorted({(server, tool) for server, names in tools.items() for tool in names})
    plain = {origin: _plain(origin) for origin in origins}
    count = Counter(plain.values())
    kept: set[str] = set()
    found: dict[Origin, str] = {}
    for origin in origins:
        name = plain[origin]
        is_exact = name == f"mcp_{origin[0]}_{origin[1]}"
        if len(name) <= NAME_LIMIT and (count[name] == 1 or (is_exact and name not in kept)):
            kept.add(name)
            found[origin] = name
    taken = set(found.values())
    for origin in origins:
        if origin not in found:
            found[origin] = _hashed(plain[origin], origin, taken)
            taken.add(found[origin])
    return found


def _plain(origin: Origin) -> str:
    server, tool = origin
    return f"mcp_{_UNFIT.sub('_', server)}_{_UNFIT.sub('_', tool)}"


def _hashed(name: str, origin: Origin, taken: set[str]) -> str:
    """Return the name with a hash of its origin; a longer one in the very unlikely case that it is taken, too."""
    digest = hashlib.sha256("\0".join(origin).encode("utf-8", "surrogatepass")).hexdigest()
    for chars in range(_HASH_CHARS, len(digest)):
        candidate = f"{name[: NAME_LIMIT - chars - 1]}_{digest[:chars]}"
        if candidate not in taken:
            return candidate
    raise AssertionError("two tools of one name")  # origins are different, and so are their digests
