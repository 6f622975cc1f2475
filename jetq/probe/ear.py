"""Who answers where: each member of a gang opens an ear, and its peers listen for its nonce at each of its addresses.

An address alone proves nothing. ``docker0`` has the same one on every board, so a connection to a peer's leads back to
oneself; networks that no cable joins may have equal numbers. Only the right nonce shows that it was the right peer.
"""

from __future__ import annotations

import contextlib
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from types import TracebackType

from jetq.probe import ports

#: One connection gets this long before it is tried again (s): a lost SYN is sent anew after 1 s.
TRY_S = 1.0
#: Once every peer was heard at its best address, the others may answer for so long (s).
SETTLE_S = 0.1
#: Rounds in which everything was refused at once are this far apart (s).
_PAUSE_S = 0.25
#: Connections that are open at once.
_MOST_OPEN = 128
#: A nonce is 32 characters and a newline; nobody is read for longer.
_MOST_BYTES = 64


@dataclass(frozen=True, slots=True)
class Peer:
    """Whom to listen for."""

    index: int
    nonce: str
    port: int  # of its ear
    addresses: tuple[str, ...]  # where it may be, best first


@dataclass(frozen=True, slots=True)
class Voice:
    """An address at which a peer was heard."""

    address: str
    local: str  # ours, on the way there


class Ear:
    """Tells everybody who connects to it its nonce. Listens from its making to ``close``, on all addresses."""

    def __init__(self, taken: Container[int] = ()) -> None:
        """``taken``: ports that somebody has been promised.

        Raises:
            JetqError: no port is free.
        """
        self.nonce = secrets.token_hex(16)
        self._listener = ports.listener(taken)
        self.port = int(self._listener.getsockname()[1])
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._answer, name="ear", daemon=True)
        self._thread.start()

    def __enter__(self) -> Ear:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Listen no more; the port is free again."""
        self._closing.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread
        self._thread.join()
        self._listener.close()

    def _answer(self) -> None:
        """Serve one after the other: the answer fits into any socket's buffer, so nobody holds up the next."""
        said = f"{self.nonce}\n".encode()
        while not self._closing.is_set():
            try:
                caller, _address = self._listener.accept()
            except OSError:  # closing; or the caller has gone, or no descriptor is left
                self._closing.wait(0.05)
                continue
            with caller:
                caller.setblocking(False)
                try:
                    caller.send(said)
                    caller.shutdown(socket.SHUT_WR)
                except OSError:
                    continue


def hear(peers: Sequence[Peer], within_s: float) -> dict[int, tuple[Voice, ...]]:
    """Return at which of its addresses each peer was heard, in the order of its addresses; () where at none.

    It takes a moment where all answer at their best address, up to ``TRY_S`` where some answer only elsewhere, and
    ``within_s`` where one is heard nowhere: it is tried again and again.
    """
    end_s = time.monotonic() + within_s
    heard: dict[int, dict[str, Voice]] = {peer.index: {} for peer in peers}
    missing = [peer for peer in peers if peer.addresses]
    while missing and (now_s := time.monotonic()) < end_s:
        with _Round(missing, heard) as trying:
            trying.run(min(now_s + TRY_S, end_s))
        missing = [peer for peer in missing if not heard[peer.index]]
        if missing:
            time.sleep(max(0.0, min(now_s + _PAUSE_S, end_s) - time.monotonic()))
    return {
        peer.index: tuple(heard[peer.index][where] for where in peer.addresses if where in heard[peer.index])
        for peer in peers
    }


@dataclass(slots=True)
class _Call:
    """One connection to a peer."""

    peer: Peer
    address: str
    said: bytes = b""


@dataclass(slots=True)
class _Round:
    """One try of all addresses of some peers, all at once. Never blocks on any of them."""

    peers: Sequence[Peer]
    heard: dict[int, dict[str, Voice]]
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def __enter__(self) -> _Round:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for key in list(self._selector.get_map().values()):
            self._end(key.fileobj)
        self._selector.close()

    def run(self, until_s: float) -> None:
        """Listen until all have answered or failed, or it is late."""
        todo = [_Call(peer, address) for peer in self.peers for address in peer.addresses]
        todo.sort(key=lambda call: call.peer.addresses.index(call.address))  # best ones first
        while (now_s := time.monotonic()) < until_s:
            while todo and len(self._selector.get_map()) < _MOST_OPEN:
                self._begin(todo.pop(0))
            if not self._selector.get_map():
                return
            for key, _events in self._selector.select(until_s - now_s):
                self._take(key)
            if self._are_best():
                until_s = min(until_s, now_s + SETTLE_S)

    def _are_best(self) -> bool:
        return all(peer.addresses[0] in self.heard[peer.index] for peer in self.peers)

    def _begin(self, call: _Call) -> None:
        try:
            made = socket.socket(socket.AF_INET6 if ":" in call.address else socket.AF_INET)
        except OSError:  # no IPv6 here, or no descriptor left
            return
        made.setblocking(False)
        made.connect_ex((call.address, call.peer.port))  # how it went shows when it is read
        self._selector.register(made, selectors.EVENT_READ, call)

    def _take(self, key: selectors.SelectorKey) -> None:
        made, call = key.fileobj, key.data
        assert isinstance(made, socket.socket)
        try:
            piece = made.recv(_MOST_BYTES)
            local = str(made.getsockname()[0])
        except BlockingIOError:
            return
        except OSError:  # refused, no route
            self._end(made)
            return
        call.said += piece
        if piece and b"\n" not in call.said and len(call.said) < _MOST_BYTES:
            return
        if call.said == f"{call.peer.nonce}\n".encode():
            self.heard[call.peer.index][call.address] = Voice(call.address, local)
        self._end(made)

    def _end(self, made: object) -> None:
        assert isinstance(made, socket.socket)
        self._selector.unregister(made)
        made.close()
