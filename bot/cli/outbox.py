"""`dutiful outbox`."""

from __future__ import annotations

from typing import Annotated

import typer

from bot.cli.options import ConfigOption, IdsArgument, JsonOption
from bot.cli.process import ask, load, run_command

_ID_DIGITS = 18  # more than any row of the database has

app = typer.Typer(
    help="Messages that wait, failed or may not have arrived.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("list")
def outbox_list(
    everything: Annotated[bool, typer.Option("--all", help="Not only the newest 50.")] = False,
    json: JsonOption = False,
    config: ConfigOption = None,
) -> None:
    """List messages that wait, are being sent, failed (dead) or may not have arrived (uncertain)."""
    from bot.reports import print_outbox  # as in `status`

    settings = load(config, secrets=False)
    page = run_command(ask(settings, "outbox.list", limit=50))
    messages = page["messages"]
    while everything and len(messages) < page["total"]:
        older = run_command(ask(settings, "outbox.list", before=messages[0]["id"], limit=500))["messages"]
        if not older:
            break
        messages = older + messages
    print_outbox(messages, total=page["total"], as_json=json)


@app.command("retry")
def outbox_retry(ids: IdsArgument, json: JsonOption = False, config: ConfigOption = None) -> None:
    """Send messages again, in their old place; parts that are out stay out. An uncertain one may be there already."""
    from bot.reports import print_letters  # as in `status`

    wanted = _ids(ids)
    answer = run_command(ask(load(config, secrets=False), "outbox.retry", ids=wanted))
    print_letters("queued", answer["messages"], as_json=json)
    if answer["messages"] and answer["mode"] != "run" and not json:
        print("the bot is not running; what is queued goes out when it does")


@app.command("drop")
def outbox_drop(ids: IdsArgument, json: JsonOption = False, config: ConfigOption = None) -> None:
    """Forget messages that are not being sent; nobody gets them any more."""
    from bot.reports import print_letters  # as in `status`

    wanted = _ids(ids)
    changed = run_command(ask(load(config, secrets=False), "outbox.drop", ids=wanted))
    print_letters("dropped", changed, as_json=json)


def _ids(words: list[str]) -> list[int] | None:
    """Return the numbers of messages, None for all dead letters."""
    if words == ["all"]:
        return None
    wrong = [word for word in words if not (word.isascii() and word.isdecimal() and len(word) <= _ID_DIGITS)]
    if wrong:
        raise typer.BadParameter(f"{wrong[0]!r} is no number of a message, and not `all`", param_hint="IDS")
    return [int(word) for word in words]
