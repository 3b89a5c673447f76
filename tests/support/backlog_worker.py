"""A process that accepts messages into a store as a service does, says so, and then waits to be killed.

Arguments: path of the database, path of a file of JSON lines: [channel, chat id, sender id, message id, text].
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from bot.clock import SystemClock
from bot.messages import Address
from bot.records import Acceptance
from tests.support.stores import inbound, opened

_AT_ONCE = 500  # commits are grouped; of one chat the messages come one after another all the same


async def _accept(database: Path, rows: list[list[str]]) -> None:
    async with opened(database, SystemClock(), exclusive=True, max_waiting=len(rows)) as store:
        for start in range(0, len(rows), _AT_ONCE):
            accepted = await asyncio.gather(
                *(
                    store.inbox.accept(inbound(text, number, Address(channel=channel, chat_id=chat), sender_id=sender))
                    for channel, chat, sender, number, text in rows[start : start + _AT_ONCE]
                )
            )
            assert set(accepted) == {Acceptance.ACCEPTED}
        print("accepted", flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Accept everything."""
    rows = [json.loads(line) for line in Path(sys.argv[2]).read_text().splitlines()]
    asyncio.run(_accept(Path(sys.argv[1]), rows))


if __name__ == "__main__":
    main()
