"""What commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bot.screen import clean


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
    console.print(f"sessions: {report['sessions']}")
    console.print(f"queues: {queues['inbox']} in, {queues['turns']} running, {queues['outbox']} out")
    console.print(f"uncertain sends: {report['uncertain_sends']}")
    console.print(f"dead letters: {report['dead_letter_count']}")
    for letter in report["dead_letters"]:
        line = f"  {letter['direction']} {letter['id']} {letter['at']} {letter['address']}: {letter['error']}"
        console.print(clean(line))
        console.print(Text(f"    {letter['text'][:200]!r}", style="dim"))
    print_jobs(report["jobs"], as_json=False)


def print_jobs(jobs: Sequence[Mapping[str, Any]], *, as_json: bool) -> None:
    """Print a list of jobs."""
    if as_json:
        print(json.dumps(jobs, indent=2, ensure_ascii=False))
        return
    console = Console(highlight=False, markup=False, emoji=False)
    if not jobs:
        console.print("no jobs")
        return
    table = Table("id", "chat", "kind", "next", "schedule", "text", box=None, pad_edge=False)
    for job in jobs:
        when = job["next_local"] or job["state"]
        title = clean(job["name"] or job["text"][:80]).replace("\n", " ")
        table.add_row(job["id"], job["chat"], job["kind"], when, job["schedule"], Text(title))
    console.print(table)


def print_change(what: str, job: Mapping[str, Any], *, as_json: bool) -> None:
    """Print what happened to one job."""
    if as_json:
        print(json.dumps({what: job}, indent=2, ensure_ascii=False))
    else:
        print(clean(f"{what} {job['id']}: {job['name'] or job['text']}"))


def _yes(value: bool) -> str:
    return "yes" if value else "no"
