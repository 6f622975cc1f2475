"""Where mpirun's launch agents call (``jetq/_launch_shim.py``): the head passes on what they ask for and how it ended.

A caller sends its words, with a zero byte between two, and closes its side. It gets the exit code, a newline, and what
the daemon wrote, once that has ended. So an open connection is a daemon that runs, or soon will.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from jetq import process
from jetq.errors import BrokerDown, UsageError
from jetq.launch.exec import LaunchRequest
from jetq.log import Log
from jetq.store.ganging import Meeting

#: What mpirun calls. The variable names the folder of the socket.
AGENT = tuple(process.shim_argv("_launch_shim.py"))
LAUNCH, _NAME = "JETQ_LAUNCH", "launch"
#: Time between two looks at whether daemons have ended, while any runs (s).
LOOK_S = 0.2
#: Connections that may wait to be taken: mpirun calls for up to 128 machines at once.
_BACKLOG = 128
#: An answer has to find room in the socket's buffer, and the caller reads at once (s).
_ANSWER_S = 1.0

_log = Log("desk")


@dataclass(slots=True)
class _Call:
    """One caller."""

    line: socket.socket
    said: bytes = b""
    words: tuple[str, ...] = ()  # once all are there
    asked: str = ""  # the id of its request, once the ledger has that


class Desk:
    """Takes launch requests from its making to ``close``. Who still calls then is hung up on, which ends the caller."""

    def __init__(self, ledger: Meeting, token: str, folder: Path) -> None:
        """``token``: of the gang's start; ``folder``: private, holds the socket."""
        self._ledger, self._token = ledger, token
        self._listener = socket.socket(socket.AF_UNIX)
        place = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        try:
            self._listener.bind(f"/proc/self/fd/{place}/{_NAME}")  # its own path may be too long for a socket
        finally:
            os.close(place)
        self._listener.listen(_BACKLOG)
        self._closing, self._closer = socket.socketpair()
        self._calls: list[_Call] = []
        self._thread = threading.Thread(target=self._serve, name="desk", daemon=True)
        self._thread.start()

    def __enter__(self) -> Desk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Serve nobody any more."""
        self._closer.close()
        self._thread.join()

    # The thread that serves -----------------------------------------------------------------------------------------

    def _serve(self) -> None:
        with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
            for own in (self._listener, self._closing):
                stack.callback(own.close)
                selector.register(own, selectors.EVENT_READ)
            stack.callback(self._hang_up)
            while True:
                ready = [key for key, _ in selector.select(LOOK_S if self._calls else None)]
                if any(key.fileobj is self._closing for key in ready):
                    return
                for key in ready:
                    if isinstance(key.data, _Call):
                        if not self._hear(key.data):
                            selector.unregister(key.data.line)
                    else:
                        self._take(selector)
                with contextlib.suppress(BrokerDown):  # the next look asks again
                    self._pass_on()

    def _hang_up(self) -> None:
        for call in self._calls:
            call.line.close()

    def _take(self, selector: selectors.BaseSelector) -> None:
        try:
            line, _ = self._listener.accept()
        except OSError:  # the caller has gone
            return
        line.settimeout(_ANSWER_S)
        call = _Call(line)
        self._calls.append(call)
        selector.register(line, selectors.EVENT_READ, call)

    def _hear(self, call: _Call) -> bool:
        """Take what a caller says. False: it has said all."""
        try:
            piece = call.line.recv(65536)
        except OSError:
            piece = b""
        call.said += piece
        if not piece:
            call.words = tuple(word.decode(errors="surrogateescape") for word in call.said.split(b"\0"))
        return bool(piece)

    def _pass_on(self) -> None:
        for call in [call for call in self._calls if call.words]:
            if call.asked:
                ended = self._ledger.launched(call.asked)
                if ended is not None:
                    self._answer(call, *ended)
                continue
            try:
                request = LaunchRequest.parse(call.words)
            except UsageError as exc:
                self._answer(call, UsageError.exit_code, f"jetq: {exc}\n")
                continue
            call.asked = self._ledger.ask_launch(self._token, request.host, call.words)

    def _answer(self, call: _Call, code: int, output: str) -> None:
        self._calls.remove(call)
        try:
            call.line.sendall(f"{code}\n{output}".encode(errors="surrogateescape"))
        except OSError as exc:
            _log.warning("desk.unheard", why=exc)
        finally:
            call.line.close()
