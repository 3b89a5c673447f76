"""What the control socket offers: status, jobs, and a terminal's conversation."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bot import __version__
from bot.clock import US_PER_S, from_us
from bot.control import Connection, ControlError, Handler, Json
from bot.errors import QueueFull, StoreUnavailable
from bot.interfaces import Topic
from bot.jobs import find_job
from bot.records import Job, OutboxChange, OutboxRow, SendState
from bot.scheduler import JobComposer
from bot.security.redaction import Redactor
from bot.texts import say
from bot.zones import local_text
from channels.console import Terminal

if TYPE_CHECKING:
    from bot.app import Engine

_OUTBOX_PAGE = 500  # messages in one answer, which has to fit into a line of the control socket
_EXCERPT_CHARS = 200


class ControlDesk:
    """Answers requests of one engine's control socket."""

    def __init__(self, engine: Engine, composer: JobComposer) -> None:
        self._engine = engine
        self._composer = composer

    def handlers(self) -> dict[str, Handler]:
        """Return the handler of each command."""
        return {
            "status": self.status,
            "jobs.list": self.list_jobs,
            "jobs.remove": self.remove_job,
            "jobs.run": self.run_job,
            "tools": self.list_tools,
            "reload": self.reload,
            "mcp.list": self.list_servers,
            "mcp.connect": self.connect_server,
            "outbox.list": self.list_outbox,
            "outbox.retry": self.retry_outbox,
            "outbox.drop": self.drop_outbox,
        }

    async def status(self, _request: Json) -> Json:
        """Return everything `dutiful status` shows."""
        engine = self._engine
        store = await engine.store.overview.status()
        jobs = await engine.store.jobs.list()
        well, health = engine.watch.health()
        ready, _ = engine.watch.readiness()
        # A dead letter repeats what people and platforms wrote, which may quote the configuration.
        hidden = Redactor(engine.config.secrets())
        return {
            "version": __version__,
            "uptime_s": (engine.clock.now_us() - engine.started_us) // US_PER_S,
            "mode": engine.mode,
            "model": "offline" if engine.config.llm.provider == "offline" else engine.config.llm.model,
            "healthy": well,
            "health": health,
            "ready": ready,
            "channels": engine.watch.channel_states(),
            "mcp": [asdict(server) for server in engine.room.mcp.statuses()],
            "sessions": store.sessions,
            "queues": {
                "inbox": store.inbox_queued,
                "turns": store.turns_running,
                "outbox": store.outbox_queued,
            },
            "delayed_sends": store.outbox_delayed,
            "uncertain_sends": store.outbox_uncertain,
            "dead_letter_count": store.dead_letter_count,
            "dead_letters": [
                {
                    **asdict(letter),
                    "address": letter.address.key,
                    "text": hidden(letter.text),
                    "error": hidden(letter.error),
                    "at": from_us(letter.at_us).isoformat(),
                }
                for letter in store.dead_letters
            ],
            "jobs": [self._job(job) for job in jobs],
        }

    async def list_jobs(self, _request: Json) -> list[Json]:
        """Return all jobs, soonest first."""
        return [self._job(job) for job in await self._engine.store.jobs.list()]

    async def remove_job(self, request: Json) -> Json:
        """Remove a job of any chat."""
        job = await self._find(str(request["id"]))
        await self._engine.store.jobs.remove(job.id)
        self._engine.signal.notify(Topic.JOBS)
        return self._job(job)

    async def run_job(self, request: Json) -> Json:
        """Fire a job now, beside its schedule."""
        job = await self._find(str(request["id"]))
        await self._engine.store.jobs.run_now(job.id, self._composer)
        self._engine.ring_all()
        return self._job(job)

    async def list_tools(self, _request: Json) -> list[Json]:
        """Return all tools by name, with risk, scopes and status."""
        catalogue = self._engine.room.catalogue
        return [] if catalogue is None else [asdict(row) for row in catalogue.listings()]

    async def list_servers(self, _request: Json) -> list[Json]:
        """Return all MCP servers by name and how they stand."""
        return [asdict(server) for server in self._engine.room.mcp.statuses()]

    async def connect_server(self, request: Json) -> Json:
        """Try now to connect to an MCP server, after somebody logged in there; without effect where it is off."""
        connection = self._engine.room.mcp.connection(str(request["name"]))
        if connection is not None:
            connection.poke()
        return {"name": str(request["name"]), "known": connection is not None}

    async def reload(self, _request: Json) -> Json:
        """Follow the configuration file. Raises `ConfigError`: it has problems, and nothing was changed."""
        return asdict(await self._engine.reload())

    # --- messages on their way out

    async def list_outbox(self, request: Json) -> Json:
        """Return a page of the messages that are not well sent, newest `limit` of those before an id."""
        before = request.get("before")
        limit = min(int(request.get("limit", _OUTBOX_PAGE)), _OUTBOX_PAGE)
        page = await self._engine.store.overview.outbox(before_id=before, limit=limit)
        return {"total": page.total, "messages": [self._letter(entry.row, entry.next_us) for entry in page.entries]}

    async def retry_outbox(self, request: Json) -> Json:
        """Queue dead letters again, and try now what waits; `ids` null: all dead letters."""
        letters = self._changed(await self._engine.store.overview.resend(request["ids"]), "sent again")
        return {"messages": letters, "mode": self._engine.mode}

    async def drop_outbox(self, request: Json) -> list[Json]:
        """Forget messages; `ids` null: all dead letters."""
        change = await self._engine.store.overview.drop(request["ids"])
        letters = self._changed(change, "dropped")
        files = [file for row in change.rows for file in row.message.attachments]
        await asyncio.to_thread(self._engine.room.spool.forget, files)
        return letters

    def _changed(self, change: OutboxChange, verb: str) -> list[Json]:
        if change.refused:
            reasons = [_refusal(number, state, verb) for number, state in change.refused.items()]
            raise ControlError(
                "; ".join([*reasons, *(["nothing was changed"] if len(reasons) > 1 or change.rows else [])])
            )
        self._engine.signal.notify(Topic.OUTBOUND)
        return [self._letter(row, None) for row in change.rows]

    def _letter(self, row: OutboxRow, next_us: int | None) -> Json:
        # People and platforms wrote the text and the error, which may quote the configuration.
        hidden = Redactor(self._engine.config.secrets())
        message = row.message
        return {
            "id": row.id,
            "chat": message.address.key,
            "kind": message.kind,
            "state": row.state,
            "age_s": max(0, self._engine.clock.now_us() - row.created_us) // US_PER_S,
            "attempts": row.attempts,
            "parts_sent": len([part for part in row.sent_ids if not part.startswith("?")]),
            "uncertain": row.uncertain > 0,
            "next": from_us(next_us).isoformat() if next_us else None,
            "error": hidden(row.error),
            "text": hidden(message.text)[:_EXCERPT_CHARS],
            "files": [hidden(file.name) for file in message.attachments],
        }

    async def _find(self, wanted: str) -> Job:
        job = find_job(await self._engine.store.jobs.list(), wanted)
        if job is None:
            raise ControlError(f"there is no job {wanted!r}; `dutiful jobs list` shows them")
        return job

    def _job(self, job: Job) -> Json:
        zone = self._engine.config.bot.zone
        return {
            "id": job.id,
            "chat": job.address.key,
            "kind": job.kind,
            "state": job.state,
            "name": job.name,
            "text": job.text,
            "schedule": job.schedule.describe(),
            "zone": job.schedule.zone,
            "next": None if job.next_us is None else from_us(job.next_us).isoformat(),
            "next_local": None if job.next_us is None else local_text(job.next_us, zone),
            "runs": job.runs,
            "last_state": job.last_state,
            "last_error": job.last_error,
        }

    # --- a terminal

    async def chat(self, connection: Connection) -> None:
        """Serve a terminal until it goes: lines in, events out."""
        engine = self._engine
        terminal = engine.console.attach()
        try:
            await connection.send({"ok": {"name": engine.config.bot.name, "delivers": not engine.stopping.is_set()}})
            async with asyncio.TaskGroup() as group:
                writer = group.create_task(self._events(connection, terminal), name="terminal events")
                try:
                    while (line := await connection.receive()) is not None:
                        await self._line(line, terminal)
                finally:
                    writer.cancel()
        except ExceptionGroup as exc:
            # The only error of either half is that the connection broke; the terminal is gone then.
            raise ControlError("the terminal went away") from exc
        finally:
            engine.console.detach(terminal)

    async def _events(self, connection: Connection, terminal: Terminal) -> None:
        while True:
            await connection.send(await terminal.events.get())

    async def _line(self, line: Json, terminal: Terminal) -> None:
        if "shown" in line:
            self._engine.console.confirm(int(line["shown"]))
        elif "say" in line:
            message_id = str(line.get("id", ""))
            try:
                acceptance: Any = await self._engine.console.say(str(line["say"]), message_id)
            except QueueFull:
                full = say(self._engine.config.bot.language, "queue_full")
                terminal.push({"event": "refused", "id": message_id, "text": full})
                return
            except StoreUnavailable as exc:
                terminal.push({"event": "refused", "id": message_id, "text": str(exc)})
                return
            terminal.push({"event": "accepted", "id": message_id, "state": acceptance})


def _refusal(number: int, state: SendState | None, verb: str) -> str:
    """Return why a message of the outbox cannot be changed so."""
    match state:
        case None:
            return f"there is no message {number} in the outbox (`dutiful outbox list` shows them)"
        case SendState.SENT:
            return f"message {number} was delivered"
        case SendState.SENDING:
            return f"message {number} is being sent"
        case _:
            return f"message {number} is {state} and cannot be {verb}"
