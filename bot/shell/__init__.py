"""Commands as processes: where they may run, how they are started, and that all of them end.

`ctx.room.shell` is the one `Shell`. What a tool does with it:

    shell = ctx.room.shell
    launch = await shell.prepare(request, ["bash", "-c", command], cwd="src")   # LaunchRefused: text for the model
    process = await shell.start(launch)                       # pipes: stdin is empty, stdout and stderr are one
    process = await shell.start(launch, terminal=slave_fd)    # or: a pty's slave is its controlling terminal
    try:
        chunk = await process.read()                          # only with pipes; b"" at the end
        ending = await process.wait()                         # exit code; by then no descendant is alive
    finally:
        await process.end()                                   # kills whatever is left; idempotent, bounded

- `prepare` decides by configuration, role, chat and machine, makes the chat's folders, checks `cwd` (as file tools
  write it: "." or "src", or absolute within the chat's files) and gives a frozen `Launch`: the command, its
  environment and limits, and whether it is `sandboxed`. It may be used for several starts.
- With `terminal` the descriptor is the slave of a pty that the caller opened, and may be closed by the caller when
  `start` has returned. Window size and keys are the caller's, through the master. The command leads its own session on
  that terminal, so Ctrl-C written to the master is a signal for it alone. The pty is shared with nothing, so what a
  command pushes into its input (TIOCSTI) reaches only itself.
- Every command has a warden (`warden.py`), a process between it and the bot. It is the parent of everything that
  a command leaves behind, ends all of it when the command ends, on demand, and when the bot is gone (also kill -9),
  and watches the number of processes. `Process.end` closes the line to the warden: even if the caller is cancelled
  again while it waits, everything ends.
- `Shell.close` ends every process that is still there. Time limits are the caller's; `run.py` has the usual
  "run to the end or to the time limit and keep head and tail" for tools that want only that.
- `output.py` has `HeadTail`, the bounded buffer (bytes in, text out: `text()`; `take()` also empties it, for a poll),
  and `plain_text` (of `terminal_text.py`), which makes any bytes a text without terminal control.
- `ctx.room.sessions` (`sessions.py`) holds what goes on between the calls of a chat: programs on terminals
  (`terminal.py`) and commands that went on in the background (`background.py`), both made by `programs.py`. They are
  processes of the `Shell` like all others.

When nothing can ever work here (`[tools.exec] sandbox = "off"` without `unsandboxed`, no bubblewrap),
`shell.unavailable` has the reason for `Tool.unavailable`.
"""
