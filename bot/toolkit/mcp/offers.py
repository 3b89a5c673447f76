"""What a server offers, as the JSON of the protocol: kept so that tools exist before the server answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """Everything one server listed, all pages, in its order; keys are the protocol's own (`inputSchema`).

    `faults` says what was left out and why, one sentence for each, such as a tool whose entry cannot be read.
    """

    tools: tuple[Json, ...] = ()
    resources: tuple[Json, ...] = ()
    resource_templates: tuple[Json, ...] = ()
    prompts: tuple[Json, ...] = ()
    instructions: str = ""
    server_name: str = ""
    server_version: str = ""
    protocol_version: str = ""
    faults: tuple[str, ...] = ()
