"""What commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from bot.screen import clean

_TABLE_CHARS = 72  # below this width columns become unreadable
_PIPE_CHARS = 240
_QUIET_STATES = ("ready", "off")  # of servers that need nobody's attention
_TITLE_CHARS, _ERROR_CHARS = 80, 120


def print_status(report: Mapping[str, Any], *, as_json: bool) -> None:
    """Print what the control command `status` returned."""
    if as_json:
        print(json.dumps(report, indent=2, ensure_ascii=False))
        return
    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    queues = report["queues"]
    if report["mode"] == "stopped":
        console.print(f"dutiful {report['version']}: not running; this is what is stored")
    else:
        up = f"up {report['uptime_s']} s, model {report['model']}"
        console.print(f"dutiful {report['version']} ({report['mode']}), {up}")
        console.print(f"healthy: {_yes(report['healthy'])}   ready: {_yes(report['ready'])}")
        for name, channel in report["channels"].items():
            problem = f" — {channel['problem']}" if channel["problem"] else ""
            console.print(clean(f"channel {name}: {channel['state']}{problem}"))
        for server in report.get("mcp", []):
            if server["state"] not in _QUIET_STATES:
                problem = f" — {server['problem']}" if server["problem"] else ""
                console.print(clean(f"mcp {server['name']}: {server['state']}{problem}"))
    console.print(f"sessions: {report['sessions']}")
    console.print(f"queues: {queues['inbox']} in, {queues['turns']} running, {queues['outbox']} out")
    if report["delayed_sends"]:
        console.print(f"delayed sends: {report['delayed_sends']} (`dutiful outbox list` says why)")
    console.print(f"uncertain sends: {report['uncertain_sends']}")
    console.print(f"dead letters: {report['dead_letter_count']}")
    for letter in report["dead_letters"]:
        line = f"  {letter['direction']} {letter['id']} {letter['at']} {letter['address']}: {letter['error']}"
        console.print(clean(line))
        console.print(Text(f"    {letter['text'][:200]!r}", style="dim"))
    if any(letter["direction"] == "out" for letter in report["dead_letters"]):
        console.print("  (`dutiful outbox list` shows those that go out, `retry` and `drop` settle them)")
    print_jobs(report["jobs"], as_json=False)


def print_jobs(jobs: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Print a list of jobs."""
    if as_json:
        print(json.dumps(jobs, indent=2, ensure_ascii=False))
        return
    console = Console(highlight=False, markup=False, emoji=False, width=_width())
    if not jobs:
        console.print("no jobs")
        return
    if console.width < _TABLE_CHARS:
        _print_stacked(jobs)
        return
    # Ids are there to be copied: they are never cut or broken.
    table = Table(Column("id", no_wrap=True), "chat", "kind", "next", "schedule", "text", box=None, pad_edge=False)
    for job in jobs:
        when = job["next_local"] or job["state"]
        title = clean(job["name"] or job["text"][:80]).replace("\n", " ")
        table.add_row(job["id"], job["chat"], job["kind"], when, job["schedule"], Text(title))
    console.print(table)


def print_outbox(messages: Sequence[Mapping[str, Any]], *, total: int, as_json: bool) -> None:
    """Print messages that wait or failed; `total` counts those that are not printed, too."""
    if as_json:
        print(json.dumps(messages, indent=2, ensure_ascii=False))
        return
    console = Console(highlight=False, markup=False, emoji=False, width=_width())
    if not messages:
        console.print("nothing waits, nothing failed")
        return
    if len(messages) < total:
        console.print(f"the newest {len(messages)} of {total}; --all shows the others")
    columns = (Column("id", no_wrap=True), Column("chat", no_wrap=True), "kind", "state", "age", "tries", "next")
    table = Table(*columns, "error", "text", box=None, pad_edge=False)
    for item in messages:
        state = item["state"] + (", uncertain" if item["uncertain"] and item["state"] != "uncertain" else "")
        when = "" if item["next"] is None else item["next"][:19].replace("T", " ")
        words = " ".join([item["text"], *(f"[{name}]" for name in item["files"])])
        table.add_row(
            str(item["id"]),
            Text(clean(item["chat"])),
            item["kind"],
            state,
            _span(item["age_s"]),
            str(item["attempts"]),
            when,
            Text(clean(item["error"]).replace("\n", " ")[:_ERROR_CHARS]),
            Text(clean(words).replace("\n", " ")[:_TITLE_CHARS]),
        )
    console.print(table)


def print_letters(what: str, messages: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Print what happened to some messages."""
    if as_json:
        print(json.dumps({what: messages}, indent=2, ensure_ascii=False))
        return
    for item in messages:
        title = clean(item["text"]).replace("\n", " ")[:_TITLE_CHARS]
        print(f"{what} {item['id']} for {clean(item['chat'])}: {title}")
    if not messages:
        print("there are no dead letters")


def _span(seconds: int) -> str:
    """Return an age in the largest unit that fits."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def print_tools(tools: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Print a list of tools."""
    if as_json:
        print(json.dumps(tools, indent=2, ensure_ascii=False))
        return
    console = Console(highlight=False, markup=False, emoji=False, width=_width())
    table = Table(Column("tool", no_wrap=True), "risk", "scope", "status", "what it does", box=None, pad_edge=False)
    for tool in tools:
        origin = "" if tool["source"] == "built-in" else f" ({tool['source']})"
        summary = Text(clean(f"{tool['summary']}{origin}".strip()))
        table.add_row(tool["name"], tool["risk"], ", ".join(tool["scopes"]), Text(clean(tool["status"])), summary)
    console.print(table)


def print_sessions(sessions: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Print a list of conversations."""
    if as_json:
        print(json.dumps(sessions, indent=2, ensure_ascii=False))
        return
    console = Console(highlight=False, markup=False, emoji=False, width=_width())
    if not sessions:
        console.print("no conversations")
        return
    table = Table(Column("id", no_wrap=True), "chat", "used", "rows", "state", "title", box=None, pad_edge=False)
    for item in sessions:
        state = "current" if item["archived"] is None else "archived"
        used = item["used"][:16].replace("T", " ")
        title = Text(clean(item["title"]))
        table.add_row(str(item["session"]), clean(item["address"]), used, str(item["rows"]), state, title)
    console.print(table)


def _print_stacked(jobs: Sequence[Mapping[str, Any]]) -> None:
    """Print a list for a screen too narrow for columns."""
    for job in jobs:
        print(clean(f"{job['id']} {job['kind']} in {job['chat']}"))
        print(clean(f"  {job['next_local'] or job['state']}, {job['schedule']}"))
        print(clean(f"  {job['name'] or job['text'][:80]}").replace("\n", " "))


def _width() -> int | None:
    """Return the width to print in, None for what rich finds out: a pipe has none, and one line is one job."""
    return None if sys.stdout.isatty() or os.environ.get("COLUMNS") else _PIPE_CHARS


def print_change(what: str, job: Mapping[str, Any], *, as_json: bool) -> None:
    """Print what happened to one job."""
    if as_json:
        print(json.dumps({what: job}, indent=2, ensure_ascii=False))
    else:
        print(clean(f"{what} {job['id']}: {job['name'] or job['text']}"))


def print_reload(changes: Mapping[str, Any], *, as_json: bool) -> None:
    """Print what the control command `reload` did."""
    if as_json:
        print(json.dumps(changes, indent=2, ensure_ascii=False))
        return
    servers = changes["servers"]
    lines = [f"mcp {name}: {what}" for what in ("added", "changed", "removed") for name in servers[what]]
    lines += [f"[{name}] has changed and needs a restart" for name in changes["needs_restart"]]
    print(clean("\n".join(lines) or "nothing has changed"))


def _yes(value: bool) -> str:
    return "yes" if value else "no"
