"""`dutiful jobs`."""

from __future__ import annotations

import typer

from bot.cli.options import ConfigOption, JsonOption
from bot.cli.process import ask, load, run_command

app = typer.Typer(help="Reminders and tasks of all chats.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def jobs_list(json: JsonOption = False, config: ConfigOption = None) -> None:
    """List all jobs, soonest first."""
    from bot.reports import print_jobs  # as in `status`

    print_jobs(run_command(ask(load(config, secrets=False), "jobs.list")), as_json=json)


@app.command("remove")
def jobs_remove(job_id: str, json: JsonOption = False, config: ConfigOption = None) -> None:
    """Remove a job."""
    from bot.reports import print_change  # as in `status`

    print_change("removed", run_command(ask(load(config, secrets=False), "jobs.remove", id=job_id)), as_json=json)


@app.command("run")
def jobs_run(job_id: str, json: JsonOption = False, config: ConfigOption = None) -> None:
    """Fire a job now, beside its schedule."""
    from bot.reports import print_change  # as in `status`

    print_change("fired", run_command(ask(load(config, secrets=False), "jobs.run", id=job_id)), as_json=json)
