"""Options and arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", help="Configuration file; default: $DUTIFUL_CONFIG, ./dutiful.toml, ~/.config, /etc."
    ),
]
IdsArgument = Annotated[list[str], typer.Argument(help="Numbers of messages, or `all` for all dead letters.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
