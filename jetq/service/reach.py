"""One kept connection to the broker that tells *broker down* from *cut off*, by what TCP knows of the other side.

The kernel of the broker's machine acknowledges what arrives, whatever its broker does. So a connection whose bytes are
acknowledged and not answered, or a port that refuses one, prove that the machine is there and nobody can use the
broker: no other node either. Silence proves nothing. The connection has to exist before the fault: a frozen broker
accepts no more once its queue is full, and that looks like a cut.
"""

from __future__ import annotations

import socket
import struct

from jetq.clock import Clock
from jetq.model.address import Address
from jetq.service import sentinels

#: struct tcp_info (linux/tcp.h) up to tcpi_last_ack_recv: milliseconds since the other side last acknowledged anything.
_LAST_ACK = struct.Struct("<56xI")
#: The kernel counts those in steps of up to 10 ms, and we ask a moment before it is acknowledged (s).
_STEP_S = 0.05
#: Unanswered questions at most: a broker that is frozen for hours shall not find a heap of them. From then on keepalive
#: probes (each second) get the acknowledgements.
_MOST_ASKED = 500
#: A connection that was not acknowledged for so many times ``within_s`` is given up: a new one is quicker to recover.
_GIVEN_UP = 5
#: Answers of a broker that serves nobody: it loads its file, runs one script for too long, or cannot write its disk.
_NO_SERVICE = (b"-LOADING", b"-BUSY", b"-MISCONF")
_OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)


class Reach:
    """The probe of one broker. Only one thread calls it; a look may take as long as a connect (and asking its name)."""

    def __init__(self, address: Address, *, within_s: float, clock: Clock) -> None:
        """``within_s``: a connect that takes longer has failed."""
        self._address = address
        self._within_s = within_s
        self._clock = clock
        self._at = address.endpoint
        self._socket: socket.socket | None = None
        self._open = 0  # questions without an answer
        self._asked_s = 0.0  # the first of them
        self._serves = True  # by the last answer
        self._unread = b""

    def look(self) -> float | None:
        """Return when the broker's machine was last seen while the broker served nobody (boot time, s); None: no proof.

        A broker behind a unix socket is on this machine, so never out of reach. One that speaks TLS is not asked
        anything: the answer is when its machine was last seen.
        """
        if self._address.scheme == "unix":
            return self._clock()
        if self._socket is None:
            return self._connect()
        try:
            return self._ask(self._socket)
        except OSError:  # closed, reset, or given up: a new connection tells which it is
            self.close()
            return self._connect()

    def close(self) -> None:
        """Let go of the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self) -> float | None:
        """Return the time if the machine refuses the connection: its broker is not there."""
        started_s = self._clock()
        if self._address.sentinels:
            self._at = sentinels.master(self._address, self._within_s) or self._at
        if self._at is None:
            return None
        try:
            kept = socket.create_connection((self._at.host, self._at.port), self._within_s)
        except (ConnectionRefusedError, ConnectionResetError):
            return started_s
        except OSError:  # no answer, no route, no such name
            return None
        kept.setblocking(False)
        for level, option, value in _OPTIONS:
            kept.setsockopt(level, option, value)
        self._socket, self._open, self._serves, self._unread = kept, 0, True, b""
        if not self._at.tls:
            self._send(kept, self._at.login())
        return None

    def _ask(self, kept: socket.socket) -> float | None:
        """Take the answers, judge, and ask again.

        Raises:
            OSError: the connection has ended, or will.
        """
        self._hear(kept)
        now_s = self._clock()
        info = kept.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_ACK.size)
        seen_s = now_s - int(_LAST_ACK.unpack(info)[0]) / 1000
        if now_s - seen_s > _GIVEN_UP * self._within_s:
            raise TimeoutError
        if self._at is not None and self._at.tls:
            return seen_s
        in_vain = self._open > 0 and seen_s + _STEP_S >= self._asked_s
        self._send(kept, b"PING\r\n")
        return seen_s if in_vain or not self._serves else None

    def _send(self, kept: socket.socket, question: bytes) -> None:
        if not question or self._open >= _MOST_ASKED:
            return
        if not self._open:
            self._asked_s = self._clock()
        try:
            kept.send(question)
        except BlockingIOError:
            return  # its kernel takes no more: it will not be acknowledged either
        self._open += 1

    def _hear(self, kept: socket.socket) -> None:
        while True:
            try:
                said = kept.recv(65536)
            except BlockingIOError:
                return
            if not said:
                raise ConnectionResetError
            *lines, self._unread = (self._unread + said).split(b"\n")
            if lines:
                self._open = max(0, self._open - len(lines))
                self._asked_s = self._clock()
                self._serves = not lines[-1].startswith(_NO_SERVICE)
