"""One receiver of posts over HTTP: each answer as a value, nothing that it does is raised, no secret in any text."""

from __future__ import annotations

import base64
import contextlib
import http.client
import socket
import ssl
from dataclasses import dataclass
from urllib.parse import quote, unquote, urlsplit

from jetq import __version__
from jetq.model.credentials import Secret, put_together, redact, take_apart

#: Time to connect, and for each further part of an answer (s).
CONNECT_S, ANSWER_S = 5.0, 10.0
#: An answer's body is read in so many parts of so many bytes at most, so that its connection can be used again.
_PARTS, _PART_BYTES = 4, 16 * 1024
#: What may stand in a path or a query as it is.
_WRITTEN = "/%:@!$&'()*+,;=~?[]"
#: Answers that are not the last word: the receiver was slow, busy, or has a fault of its own.
_AGAIN = frozenset({408, 425, 429})


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a post."""

    fault: str = ""  # "": it was taken
    again: bool = False  # another try may help
    pause_s: float = 0.0  # that the receiver asks for


class Receiver:
    """Posts to one address and to no other: redirects are not followed, credentials go nowhere else."""

    def __init__(self, shown: str, secret: Secret | None) -> None:
        """Connect to nothing yet. ``shown``: the address without its credentials.

        Raises:
            UsageError: its credentials are missing.
        """
        url = urlsplit(put_together(shown, secret))
        self._shown, self._secrets = shown, [secret] if secret else []
        self._host, self._port, self._tls = url.hostname or "", url.port, url.scheme == "https"
        query = f"?{quote(url.query, safe=_WRITTEN)}" if url.query else ""
        self._path = quote(url.path or "/", safe=_WRITTEN) + query
        self._headers = {"Content-Type": "application/json", "User-Agent": f"jetq/{__version__}"}
        if url.username is not None:
            word = f"{unquote(url.username)}:{unquote(url.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(word.encode()).decode()}"
        self._connection: http.client.HTTPConnection | None = None
        self._socket: socket.socket | None = None

    def post(self, body: bytes) -> Answer:
        """Post one body, over the connection of the last one where that still stands."""
        try:
            if self._connection is not None:
                with contextlib.suppress(ConnectionError):  # it was idle for too long
                    return self._post(self._connection, body)
                self.close()
            return self._post(self._connect(), body)
        except (OSError, http.client.HTTPException, ValueError) as exc:
            self.close()
            return Answer(f"{self._shown} cannot be reached ({self._said(exc)})", again=True)

    def close(self) -> None:
        """Let go of the connection."""
        connection, self._connection, self._socket = self._connection, None, None
        if connection is not None:
            connection.close()

    def abort(self) -> None:
        """Break off a post that another thread waits for."""
        held = self._socket
        if held is not None:
            with contextlib.suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)

    def _connect(self) -> http.client.HTTPConnection:
        if self._tls:
            context = ssl.create_default_context()
            self._connection = http.client.HTTPSConnection(self._host, self._port, timeout=CONNECT_S, context=context)
        else:
            self._connection = http.client.HTTPConnection(self._host, self._port, timeout=CONNECT_S)
        self._connection.connect()
        self._socket = self._connection.sock
        self._socket.settimeout(ANSWER_S)
        return self._connection

    def _post(self, connection: http.client.HTTPConnection, body: bytes) -> Answer:
        connection.request("POST", self._path, body, self._headers)
        answer = connection.getresponse()
        for _ in range(_PARTS):
            if not answer.isclosed():
                answer.read1(_PART_BYTES)
        if not answer.isclosed():  # it has more to say than anybody wants to hear
            self.close()
        if 200 <= answer.status < 300:
            return Answer()
        said = f"{answer.status} {answer.reason}".strip()
        if 300 <= answer.status < 400:
            to, _ = take_apart(answer.getheader("Location") or "nowhere")
            return Answer(f"{self._shown} answers {self._said(said)}, to {self._said(to)}: redirects are not followed")
        again = answer.status >= 500 or answer.status in _AGAIN
        asked = answer.getheader("Retry-After") or ""
        pause = float(asked) if asked.isascii() and asked.isdecimal() and len(asked) < 9 else 0.0
        return Answer(f"{self._shown} answers {self._said(said)}", again, pause)

    def _said(self, what: Exception | str) -> str:
        """Return what may be shown of a text from elsewhere: one short line, without credentials."""
        text = "it timed out" if isinstance(what, TimeoutError) else str(what) or type(what).__name__
        return " ".join(redact(text, self._secrets).split())[:200]
