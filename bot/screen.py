"""What a conversation looks like: a prompt that stays usable while answers come, or plain lines for pipes.

A screen reads what is typed and shows what arrives. It knows nothing of connections: `bot/terminal.py` does.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

LINE_LIMIT_CHARS = 100_000
"""Longest line that is sent; far beyond what anybody types, far below what the control socket carries."""

STOP = "/stop"

_CONTROLS = {number: None for number in (*range(0x20), *range(0x7F, 0xA0)) if chr(number) not in "\n\t"}
_MARKDOWN = frozenset({"reply", "message"})
_DRAFT_TAIL_CHARS = 4_000  # more than a screen shows; the cost of a draft must not grow with the answer
_PIECE_BYTES = 65_536
_LINES_AHEAD = 100  # that are read before they can be sent

Event = dict[str, Any]


def clean(text: str) -> str:
    """Return text that a terminal can only show: control characters could move the cursor or forge lines."""
    return text.replace("\r\n", "\n").translate(_CONTROLS)


def typed(text: str) -> str:
    """Return typed text as valid Unicode: bytes that are no UTF-8 come in as lone surrogates."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class Screen(ABC):
    """One way of talking: in a terminal, or through a pipe."""

    waits_at_end: bool  # whether what was asked is still answered when the input ends

    @abstractmethod
    async def read(self) -> str | None:
        """Return the next line; None at the end of input."""

    @abstractmethod
    async def show(self, event: Event) -> None:
        """Show a message. When this returns, a person can read it.

        Raises:
            BrokenPipeError: nobody reads what is written.
        """

    @abstractmethod
    async def complain(self, text: str) -> None:
        """Say that something was refused or went wrong."""

    def greet(self, name: str, text: str) -> None:
        """Introduce the bot."""

    def draft(self, text: str) -> None:
        """Show how far an answer is."""

    def working(self, busy: bool) -> None:
        """Show whether an answer is being worked on."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class PipeScreen(Screen):
    """Lines in, plain text out: for scripts."""

    waits_at_end = True

    def __init__(self) -> None:
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._room = threading.Semaphore(_LINES_AHEAD)
        self._loop = asyncio.get_running_loop()
        # A thread because files cannot be waited for, a daemon because a read cannot be interrupted: the program
        # must be able to end while it waits.
        threading.Thread(target=self._read_input, name="stdin", daemon=True).start()

    async def read(self) -> str | None:
        """See `Screen.read`."""
        line = await self._lines.get()
        self._room.release()
        return line

    async def show(self, event: Event) -> None:
        """See `Screen.show`."""
        print(plain(event), flush=True)

    async def complain(self, text: str) -> None:
        """See `Screen.complain`."""
        print(text, file=sys.stderr, flush=True)

    def _read_input(self) -> None:
        # Not sys.stdin: its lock would be held when the program ends, and Python calls that fatal.
        descriptor = -1 if sys.stdin is None else sys.stdin.fileno()
        kept = bytearray()
        try:
            while descriptor >= 0 and (piece := _read_piece(descriptor)):
                *ends, rest = piece.split(b"\n")
                for end in ends:
                    self._put(kept + end)
                    kept.clear()
                # Of a line without end only so much is kept that it is seen to be too long.
                kept += rest[: max(0, 4 * LINE_LIMIT_CHARS + 4 - len(kept))]
            if kept:
                self._put(kept)
            self._put(None)
        except RuntimeError:
            return  # the program is ending

    def _put(self, line: bytearray | None) -> None:
        text = None if line is None else line.decode("utf-8", "replace").rstrip("\r")
        self._room.acquire()
        # No coroutine: one that the ending loop never ran would complain on standard error.
        self._loop.call_soon_threadsafe(self._lines.put_nowait, text)


class PromptScreen(Screen):
    """A prompt at the bottom; drafts grow above it and give way to the message; all else scrolls past."""

    waits_at_end = False

    def __init__(self) -> None:
        from prompt_toolkit import PromptSession  # 90 ms that scripts need not pay

        self._name = ""
        self._draft = ""
        self._note = ""
        self._busy = False
        # The real one: `patch_stdout` redirects what others print above the prompt.
        self._console = Console(file=sys.stdout, highlight=False, markup=False, emoji=False)
        self._session: PromptSession[str] = PromptSession(
            message=self._above_prompt,
            key_bindings=self._keys(),
            erase_when_done=True,  # or the draft above a typed line would stay on screen
            enable_suspend=True,
        )

    async def read(self) -> str | None:
        """See `Screen.read`."""
        from prompt_toolkit.patch_stdout import patch_stdout  # loaded by now

        try:
            with patch_stdout(raw=True):
                line = typed(await self._session.prompt_async(handle_sigint=False))
        except EOFError:
            return None
        self._note = ""
        if line.strip():
            await self._above(lambda: self._console.print(Text.assemble(("› ", "bold cyan"), clean(line))))
        return line

    async def show(self, event: Event) -> None:
        """See `Screen.show`."""
        self._draft = ""
        await self._above(lambda: self._print(event))

    async def complain(self, text: str) -> None:
        """See `Screen.complain`."""
        await self._above(lambda: self._console.print(Text(clean(text), style="red")))

    def greet(self, name: str, text: str) -> None:
        """See `Screen.greet`."""
        self._name = clean(name)
        self._console.print(Text.assemble((self._name, "bold"), (f" — {text}", "dim")))
        self._console.print()

    def draft(self, text: str) -> None:
        """See `Screen.draft`."""
        self._draft = clean(text[-_DRAFT_TAIL_CHARS:])
        self._session.app.invalidate()

    def working(self, busy: bool) -> None:
        """See `Screen.working`."""
        self._busy = busy
        if not busy:
            self._draft = ""
        self._session.app.invalidate()

    async def _above(self, write: Callable[[], None]) -> None:
        """Write where text scrolls past, above the prompt."""
        from prompt_toolkit.application import run_in_terminal  # loaded by now

        await run_in_terminal(write)

    def _print(self, event: Event) -> None:
        out = self._console
        reminder = event["kind"] == "reminder"
        style, label = ("bold yellow", " (reminder)") if reminder else ("bold green", "")
        out.print(Text(f"{self._name}{label}:", style=style))
        text = clean(event["text"])
        out.print(_markdown(text) if event["kind"] in _MARKDOWN else Text(text))
        for path in event.get("files", ()):
            out.print(Text(f"file: {clean(path)}", style="cyan"))
        for row in _button_rows(event):
            out.print(Text(clean(row), style="cyan"))
        out.print()
        if reminder:
            out.bell()

    def _above_prompt(self) -> StyleAndTextTuples:
        """Return the prompt, with the end of the draft or a note above it."""
        shown: list[str] = []
        size = self._session.output.get_size()
        if self._draft:
            lines = Text(self._draft.expandtabs(4)).wrap(self._console, max(size.columns - 1, 10))
            shown = [line.plain for line in lines][-max(size.rows // 2, 2) :]
        elif self._note:
            shown = [self._note]
        elif self._busy:
            shown = ["…"]
        return [*(("fg:ansibrightblack", f"{line}\n") for line in shown), ("bold fg:ansicyan", "› ")]

    def _keys(self) -> KeyBindings:
        from prompt_toolkit.key_binding import KeyBindings  # loaded by now

        keys = KeyBindings()

        @keys.add("c-c", eager=True)
        def interrupt(event: KeyPressEvent) -> None:
            """Clear the line; when it is empty, stop the running turn; when nothing runs, say how to end."""
            if event.app.current_buffer.text:
                event.app.current_buffer.reset()
            elif self._busy:
                event.app.exit(result=STOP)
            else:
                self._note = "Ctrl-D ends."

        return keys


def open_screen() -> Screen:
    """Return the screen that fits standard input and output."""
    if _is_terminal(sys.stdin) and _is_terminal(sys.stdout):
        return PromptScreen()
    return PipeScreen()


def is_interactive() -> bool:
    """Say whether a person sits at the other end of input and output."""
    return _is_terminal(sys.stdin) and _is_terminal(sys.stdout)


def plain(event: Event) -> str:
    """Return a message without any formatting; control characters only where no terminal obeys them."""
    files = [f"file: {path}" for path in event.get("files", ())]
    text = "\n".join([event["text"], *files, *_button_rows(event)])
    return clean(text) if _is_terminal(sys.stdout) else text


def _button_rows(event: Event) -> list[str]:
    """Return the buttons of a message in words, a line for each row; what one sends back is typed by hand here."""
    return [" ".join(f"[{' '.join(label.split())}]" for label in row) for row in event.get("buttons", ())]


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _read_piece(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _PIECE_BYTES)
    except OSError:
        return b""  # a terminal that hung up, or a folder: the end of input


def _markdown(text: str) -> Markdown:
    """Return text to render: each line on its own, as in every chat, though Markdown would join them."""
    # Links with their address in sight: a link that only shows its text could lead anywhere.
    rendered = Markdown(text, hyperlinks=False)
    for token in rendered.parsed:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"
    return rendered
