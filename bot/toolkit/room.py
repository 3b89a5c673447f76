"""What the tools of one process share and somebody has to start and to end: processes, connections, journals.

Each part is built from configuration alone, costs next to nothing until it is used, and ends in `close`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

from bot.clock import Clock
from bot.config import LimitsSection, McpSection, ToolsConfig
from bot.documents.reading import Documents
from bot.edits.journal import ChangeJournal
from bot.shell.sessions import ExecSessions
from bot.shell.shell import Shell
from bot.shipped import SKILLS
from bot.spool import Spool
from bot.toolkit.catalogue import ToolCatalogue
from bot.toolkit.chat_files import ChatFiles
from bot.toolkit.file_changes import FileChanges
from bot.toolkit.idle import IdleSessions
from bot.toolkit.mcp.logins import LateLogins
from bot.toolkit.mcp.manager import McpManager
from bot.toolkit.mcp.server_asks import ServerAsks
from bot.toolkit.reads import ReadLedger
from bot.toolkit.settings import RuntimeSettings
from bot.toolkit.waits import WaitingTurns
from bot.web.client import GuardedClient
from bot.web.reader import PageReader
from bot.web.resolver import Resolver


class ToolRoom:
    """The shared parts. Built by the roof, handed to the tools in their ToolContext."""

    def __init__(
        self,
        config: ToolsConfig,
        *,
        workspace: Path,
        data_dir: Path,
        clock: Clock,
        limits: LimitsSection | None = None,
        resolver: Resolver | None = None,
        idle_minutes: int = 30,
        skill_paths: Sequence[Path] = (),
        servers: Mapping[str, McpSection] | None = None,
    ) -> None:
        self.files = ChatFiles(workspace, config.files, skills=(*skill_paths, SKILLS), memories=data_dir / "memory")
        self.shell = Shell(config, files=self.files, data_dir=data_dir)
        self.sessions = ExecSessions(clock)
        self.reads = ReadLedger()
        self.idle = IdleSessions(clock, idle_minutes=idle_minutes)
        self.idle.on_forget(self.reads.forget_session)
        self.changes = FileChanges(self.files, self.reads, ChangeJournal(data_dir / "changes", clock))
        self.spool = Spool(data_dir / "outgoing")
        self.documents = Documents()
        self.web = GuardedClient(config.web.networks, resolver=resolver)
        self.pages = PageReader()
        self.settings = RuntimeSettings(limits or LimitsSection())
        self.waits = WaitingTurns()
        self.asks = ServerAsks(data_dir / "mcp" / "waiting")
        self.mcp = McpManager(
            servers or {},
            workspace=workspace,
            data_dir=data_dir,
            resolver=resolver,
            elicit=self.asks.elicit,
            sample=self.asks.sample,
            oauth_of=LateLogins(data_dir, resolver),
        )
        self.catalogue: ToolCatalogue | None = None
        """What tools there are; set by whoever loads them."""

    async def start(self) -> None:
        """Mend what an earlier process left half done; before any turn runs."""
        await self.changes.recover()
        await self.asks.start()
        await self.mcp.start()

    async def close(self) -> None:
        """End everything, whatever one part's end fails with; idempotent."""
        async with AsyncExitStack() as parts:  # last in, first out
            parts.push_async_callback(self.documents.close)
            parts.push_async_callback(self.shell.close)
            parts.push_async_callback(self.sessions.close)
            parts.push_async_callback(self.pages.close)
            parts.callback(self.web.close)
            parts.push_async_callback(self.mcp.close)
            parts.push_async_callback(self.asks.close)
