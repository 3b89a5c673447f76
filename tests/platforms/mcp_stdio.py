"""A scripted MCP server in a process of its own.

`python -m tests.platforms.mcp_stdio SCRIPT --log FILE [--control PORT]`, where SCRIPT is a JSON file
(`mcp_script.dump`), or a Python file with a function `script()`. The log has one event of `mcp_record` a line, and is
the server's memory: tickets and faults are counted over restarts. Over the control port, which `mcp_stage` listens on,
the same events go to the test while they happen, and its orders come back.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import runpy
import signal
import subprocess
import sys
import time
from asyncio import StreamReader, StreamWriter
from pathlib import Path

from tests.platforms.mcp_engine import Engine
from tests.platforms.mcp_peer import Misbehaviour, Peer, RequestId
from tests.platforms.mcp_record import Record, read_log
from tests.platforms.mcp_script import Fault, Json, Kind, ProcessFaults, Script, load

LINE_LIMIT_BYTES = 64 * 1024 * 1024
LEFTOVER_LIFE_S = 600  # what is left behind on purpose, and forgotten by a failed test, ends by itself
SLEEPER = f"import time; time.sleep({LEFTOVER_LIFE_S})"
STUBBORN_SLEEPER = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPER}"


class Pipe(Peer):
    """The one client at stdin and stdout."""

    def __init__(self) -> None:
        super().__init__()
        self._turn = asyncio.Lock()

    async def deliver(self, message: Json, *, about: RequestId | None) -> None:
        """Write one message on a line of its own."""
        await self.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    async def write(self, data: bytes) -> None:
        """Write bytes, whatever they are; a client that does not read makes this wait and not the protocol."""
        async with self._turn:
            await asyncio.to_thread(_write_all, data)


def _write_all(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


class Server:
    """The process: reads lines, answers them, carries out faults."""

    def __init__(self, script: Script, log: Path) -> None:
        self._log = log.open("a", buffering=1)
        self._control: StreamWriter | None = None
        self.record = Record(self._tell)
        self.record.events = read_log(log).events
        recall(script, self.record)
        self.script = script
        self.engine = Engine(script, self.record)
        self.pipe = Pipe()
        self.engine.peers.add(self.pipe)

    def _tell(self, event: Json) -> None:
        line = json.dumps(event) + "\n"
        self._log.write(line)
        if self._control is not None:
            self._control.write(line.encode())

    async def run(self, control_port: int | None) -> None:
        """Serve until stdin ends."""
        if control_port is not None:
            reader, self._control = await asyncio.open_connection("127.0.0.1", control_port, limit=LINE_LIMIT_BYTES)
            self.engine.own(self._obey(reader), "control")
        self.record.add("started", pid=os.getpid())
        self._start_grandchildren()
        if self.script.process.ignore_sigterm:
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGTERM, lambda: self.record.add("signal", number=int(signal.SIGTERM)))
        reader = StreamReader(limit=LINE_LIMIT_BYTES)
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            self.engine.own(self._take(line), "message")
        if self.script.process.ignore_stdin_end:
            self.record.add("ended", reason="stdin, ignored", pid=os.getpid())
            await asyncio.sleep(LEFTOVER_LIFE_S)
        await self._end("stdin", 0)

    async def _end(self, reason: str, code: int) -> None:
        """Leave at once, as a crash does, but with the record complete."""
        self.record.add("ended", reason=reason, pid=os.getpid())
        if self._control is not None:
            await self._control.drain()
            self._control.close()
            await self._control.wait_closed()
        os._exit(code)

    def _start_grandchildren(self) -> None:
        faults = self.script.process
        program = STUBBORN_SLEEPER if faults.grandchildren_ignore_sigterm else SLEEPER
        for _ in range(faults.grandchildren):
            child = subprocess.Popen([sys.executable, "-S", "-c", program])
            self.record.add("grandchild", pid=child.pid)

    async def _take(self, line: bytes) -> None:
        faults = self.script.process
        if faults.stderr_per_request:
            print(faults.stderr_per_request, file=sys.stderr, flush=True)
        if faults.stdout_per_request:
            await self.pipe.write(faults.stdout_per_request.encode() + b"\n")
        message = json.loads(line)
        try:
            response = await self.engine.serve(message, self.pipe, self.engine.admit(message))
        except Misbehaviour as misbehaviour:
            await self._misbehave(misbehaviour.fault, message)
            return
        if response is not None:
            await self.pipe.deliver(response, about=None)

    async def _misbehave(self, fault: Fault, message: Json) -> None:
        if fault.kind in {Kind.DIE_BEFORE, Kind.DIE_AFTER}:
            await self._end(fault.kind, fault.code or 1)
        elif fault.kind is Kind.GARBAGE:
            await self.pipe.write((fault.text.encode() or b"\x00\xff\xfe garbage \xc3\x28") + b"\n")
        elif fault.kind is Kind.INVALID_JSON:
            await self.pipe.write(f'{{"jsonrpc": "2.0", "id": {json.dumps(message["id"])}, "result": {{\n'.encode())
        else:
            print(f"a fault that exists only over HTTP: {fault.kind}", file=sys.stderr, flush=True)
            await self._end("wrong fault", 2)

    async def _obey(self, reader: StreamReader) -> None:
        """Carry out the test's orders."""
        while line := await reader.readline():
            order = json.loads(line)
            match order["do"]:
                case "apply":
                    self._apply(load(order["script"]))
                case "release":
                    self.engine.desk.release(order["tool"])
                case "changed":
                    await self.engine.changed(order["kind"])
                case "updated":
                    await self.engine.updated(order["uri"])
                case "exit":
                    await self._end("order", order["code"])
            self.record.add("obeyed", order=order["number"])
        os._exit(3)  # the test is over, however it ended

    def _apply(self, script: Script) -> None:
        recall(script, self.record)
        self.script = self.engine.script = script


def recall(script: Script, record: Record) -> None:
    """Let a script's faults know what they have already seen in earlier runs."""
    for fault in script.faults:
        fault.seen = sum(entry["fault"] == fault.key for entry in record.of("matched"))


def _behave_before(faults: ProcessFaults) -> None:
    """Do what a bad process does before it serves."""
    for line in faults.stdout_at_start:
        print(line, flush=True)
    for line in faults.stderr_at_start:
        print(line, file=sys.stderr, flush=True)
    if faults.exit_at_start is not None:
        sys.exit(faults.exit_at_start)
    time.sleep(faults.start_delay_s)


def _read_script(path: Path) -> Script:
    if path.suffix != ".py":
        return load(path.read_text())
    script = runpy.run_path(str(path))["script"]()
    assert isinstance(script, Script)
    return script


def main() -> None:
    """Run the server that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("script", type=Path)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--control", type=int)
    options = parser.parse_args()
    script = _read_script(options.script)
    if script.process.ignore_sigterm:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _behave_before(script.process)

    async def serve() -> None:
        await Server(script, options.log).run(options.control)

    asyncio.run(serve())


if __name__ == "__main__":
    main()
