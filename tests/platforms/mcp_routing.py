"""The headers in which a client of MCP 2026-07-28 repeats its request for proxies, checked against its body."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping

from tests.platforms.mcp_engine import META_VERSION
from tests.platforms.mcp_script import Json

NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


def wrong_headers(headers: Mapping[str, str], message: Json) -> str | None:
    """Say which header contradicts the message, or return None."""
    params = message["params"]
    method = message["method"]
    expected = {"MCP-Protocol-Version": params["_meta"][META_VERSION], "Mcp-Method": method}
    if method in NAMED_BY:
        expected["Mcp-Name"] = params.get(NAMED_BY[method])
    for name, value in expected.items():
        if decode(headers.get(name, "")) != value:
            return f"{name} is {headers.get(name)!r} and not {value!r}"
    return None


def decode(value: str) -> str:
    """Return a header's text; what is no plain ASCII comes as `=?base64?...?=`."""
    wrapped = re.fullmatch(r"=\?base64\?(.*)\?=", value)
    return value if wrapped is None else base64.b64decode(wrapped.group(1)).decode()
