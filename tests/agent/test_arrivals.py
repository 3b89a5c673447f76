"""What a message needs before its turn: a platform that does not give it costs the turn nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from bot.agent.arrivals import Arrivals
from bot.messages import Address, Attachment
from bot.records import QueuedMessage
from tests.support.clock import FakeClock
from tests.support.memory_channel import MemoryChannel
from tests.support.stores import inbound, opened


class Dripping(MemoryChannel):
    """Its downloads of some files go on for ever, a byte now and then."""

    async def fetch(self, attachment: Attachment, address: Address) -> Attachment:
        """See `Channel.fetch`."""
        if attachment.ref == "endless":
            await asyncio.Event().wait()
        return await super().fetch(attachment, address)


async def test_a_download_that_never_ends_is_given_up_and_the_other_files_arrive(tmp_path: Path) -> None:
    channel = Dripping()
    channel.fetched["small"] = "inbox/b.txt"
    files = [Attachment(kind="document", name=f"{ref}.txt", ref=ref) for ref in ("endless", "small")]
    item = QueuedMessage(id=1, message=replace(inbound(), attachments=tuple(files)), received_us=0)
    async with opened(tmp_path / "db", FakeClock()) as store, asyncio.timeout(10):
        arrivals = Arrivals({"memory": channel}, store.outbox, fetch_limit_s=0.01)
        endless, small = (await arrivals.completed(item, begins=False)).message.attachments
    assert endless.error == "the download did not end in time"
    assert (small.path, small.error) == ("inbox/b.txt", "")
