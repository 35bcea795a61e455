"""The program of an MCP server, and the lines of JSON by which it is spoken to."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import IO, Any

import anyio
import anyio.lowlevel
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from planrunner.capabilities.contract import Enclosed, Failure
from planrunner.capabilities.http.client import SLICE
from planrunner.capabilities.mcp.servers import LARGEST
from planrunner.jsontext import read_json

GRACE = 1.0
"""Seconds that a server has to end once its standard input is closed, and again after TERM."""
_TAIL = 1 << 12
_CHUNK = 1 << 16
_LOOK = 0.01


class Program:
    """The process of a server, in a group of its own. It has to be started in a thread that outlives it: a sandbox ends
    with the thread that started it."""

    def __init__(self, arguments: Sequence[str], env: Mapping[str, str], directory: str, shut: Enclosed | None) -> None:
        self._shut = shut
        self.printed = 0
        self.said = b""
        """The end of what it wrote to standard error."""
        try:
            self._process = subprocess.Popen(
                list(arguments if shut is None else shut.arguments),
                cwd=directory if shut is None else shut.directory,
                env=dict(env if shut is None else shut.env),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=() if shut is None else shut.descriptors,
            )
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise Failure(f"`{arguments[0]}` cannot be started: {why}") from None
        finally:
            if shut is not None:
                shut.started()
        for stream in self._streams():
            os.set_blocking(stream.fileno(), False)

    @property
    def pid(self) -> int:
        return self._process.pid

    def _streams(self) -> list[IO[bytes]]:
        streams = (self._process.stdin, self._process.stdout, self._process.stderr)
        return [stream for stream in streams if stream is not None]

    def has_ended(self) -> bool:
        """Whether it is over; its number stays its own until its exit code is taken."""
        if self._process.returncode is not None:
            return True
        try:
            return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def last_line(self) -> str:
        """What it said last, for a message."""
        lines = self.said.decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip()[:300] if lines else ""

    @contextlib.asynccontextmanager
    async def transport(self, closed: Callable[[], None]) -> AsyncIterator[Any]:
        """The streams by which a client speaks to it; their end ends the program. ``closed`` is called once it says
        nothing more."""
        taken, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, given = anyio.create_memory_object_stream[SessionMessage](0)
        stdin, stdout, stderr = self._streams()
        async with taken, incoming, outgoing, given, anyio.create_task_group() as tasks:
            tasks.start_soon(self._take, stdout.fileno(), taken, closed)
            tasks.start_soon(self._give, stdin.fileno(), given)
            tasks.start_soon(self._hear, stderr.fileno())
            tasks.start_soon(self._keep_to_limits)
            try:
                yield incoming, outgoing
            finally:
                tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await self._end()

    async def _take(self, descriptor: int, taken: Any, closed: Callable[[], None]) -> None:
        """Its messages, until it closes its standard output, which ends the connection."""
        line = bytearray()
        async with taken:
            while data := await _read(descriptor):
                self.printed += len(data)
                line += data
                if b"\n" in data:
                    *whole, line = line.split(b"\n")
                    for each in whole:
                        await taken.send(_message(each))
                if len(line) > LARGEST:
                    raise Failure(f"the server sent a message of more than {LARGEST >> 20} MiB")
        closed()

    async def _give(self, descriptor: int, given: Any) -> None:
        async for message in given:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            rest = memoryview(f"{text}\n".encode("utf-8", "replace"))
            while rest:
                await anyio.wait_writable(descriptor)
                try:
                    rest = rest[os.write(descriptor, rest[:_CHUNK]) :]
                except BlockingIOError:
                    continue
                except OSError:
                    return  # it has closed its standard input; its output tells the end

    async def _hear(self, descriptor: int) -> None:
        while data := await _read(descriptor):
            self.said = (self.said + data)[-_TAIL:]

    async def _keep_to_limits(self) -> None:
        """Raises Failure (policy) where it passes a limit of its sandbox."""
        while self._shut is not None:
            await anyio.sleep(SLICE)
            self._shut.check(self.pid, self.printed)

    async def _end(self) -> None:
        """End it as the protocol has it: its standard input is closed, then TERM, then KILL for what is left of its
        group."""
        await anyio.lowlevel.checkpoint()  # what waited for the pipes has let go of them
        self._streams()[0].close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            with anyio.move_on_after(GRACE):
                while not self.has_ended():
                    await anyio.sleep(_LOOK)
            if self.has_ended():
                break
            self._signal(number)
        self.kill()
        self._process.wait()
        for stream in self._streams():
            with contextlib.suppress(OSError):
                stream.close()
        if self._shut is not None:
            self._shut.over()

    def kill(self) -> None:
        """End all of its group at once."""
        if self._process.returncode is None:  # its number is still its own
            self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


async def _read(descriptor: int) -> bytes:
    """What there is to read; nothing at the end."""
    while True:
        await anyio.wait_readable(descriptor)
        try:
            return os.read(descriptor, _CHUNK)
        except BlockingIOError:
            continue
        except OSError:
            return b""


UNREADABLE = -32_700
"""The code of an answer in place of one that cannot be read, so that its call ends with it."""
_ID = re.compile(rb'"id"\s*:\s*(\d{1,15}|"[^"\\]{1,200}")')
_ENDS = 400
"""Bytes at either end of a line in which its id is looked for."""


def _message(line: bytearray) -> SessionMessage | Exception:
    """A line as the client takes it; one that is not a message of the protocol is passed over there. An answer that
    cannot be read, such as one that is nested too deeply, ends its call."""
    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(bytes(line), by_name=False))
    except ValueError as error:
        number = _ID.search(line[:_ENDS]) or _ID.search(line[-_ENDS:])
        if number is None or not line.lstrip().startswith(b"{") or b'"method"' in line[:_ENDS]:
            return error
        faults = getattr(error, "errors", None)  # of pydantic, whose text names its pages as well
        why = faults()[0]["msg"] if faults is not None else str(error)
        told = {"code": UNREADABLE, "message": f"{why} ({len(line):,} bytes)"}
        return SessionMessage(
            jsonrpc_message_adapter.validate_python(
                {"jsonrpc": "2.0", "id": read_json(number[1].decode()), "error": told}
            )
        )
