"""What opens a camera or a webhook, kept apart from its address: shown nowhere, and taken out of any text."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from jetq.errors import UsageError

#: Stands where a secret was taken out.
HIDDEN = "***"
#: A secret shorter than this (characters) would be found in half of all words: it is hidden only where it stands in an
#: address, never by its text.
SHORTEST = 3
_WEB = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,24}://)([^/?#]*)@")
#: ``NAME=VALUE`` whose name says that the value is a secret, in a query or, as old recorders have it, in the path
#: (``/user=admin_password=x_channel=1``). Too many are harmless: what was taken out is put back to open the camera.
_NAMED = re.compile(
    r"((?<![A-Za-z])[A-Za-z_-]{0,24}(?:passw(?:or)?d|passwd|pass|pas|pwd|psw|pw|token|secret|key|auth|sig(?:nature)?|user(?:name)?"
    r"|usr|loginuse|login)=)((?:(?!_[A-Za-z]+=)[^&;/?#\s\"'<>])+)",
    re.IGNORECASE,
)
#: Greedy: a password that holds an ``@`` is gone whole.
_IN_TEXT = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,24}://)[^\s\"'<>]{0,2048}@")
_HEADER = re.compile(r"(authorization['\"]?\s*[:=]\s*['\"]?\w+)\s+[^\s'\"]+", re.IGNORECASE)


@dataclass(frozen=True, slots=True, repr=False)
class Secret:
    """What was taken out of one address."""

    user: str = ""
    password: str = ""
    values: tuple[str, ...] = ()  # of its parameters, in order, as they were written

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    def as_json(self) -> dict[str, Any]:
        """Return plain values, the secret among them: for the place where secrets are kept, and for nobody's eyes."""
        return {"user": self.user, "password": self.password, "values": list(self.values)}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Secret:
        """Read what ``as_json`` gave."""
        return cls(str(plain["user"]), str(plain["password"]), tuple(str(value) for value in plain["values"]))

    @property
    def forms(self) -> list[str]:
        """All ways in which texts spell it, the longest first."""
        words = {self.password, *self.values, *(unquote(value) for value in self.values)}
        spelt = {form for word in words for form in _spelt(word)}
        if self.password:
            spelt.add(base64.b64encode(f"{self.user}:{self.password}".encode()).decode())
        return sorted((form for form in spelt if len(form) >= SHORTEST), key=lambda form: (-len(form), form))


def take_apart(address: str) -> tuple[str, Secret | None]:
    """Return an address as it may be shown, and what was taken out of it (None: nothing, or it was hidden already).

    Raises:
        UsageError: some of its secrets are hidden and others are not.
    """
    found = _WEB.match(address)
    userinfo = found[2] if found else ""
    values = [match[2] for match in _NAMED.finditer(address[found.end() :] if found else address)]
    secrets = [text for text in (userinfo, *values) if text]
    hidden = secrets.count(HIDDEN)
    if hidden and hidden < len(secrets):
        raise UsageError(f"some secrets of an address are hidden ({HIDDEN}) and some are not: write all, or none")
    head, tail = (found[1], address[found.end() :]) if found else ("", address)
    shown = head + (f"{HIDDEN}@" if userinfo else "") + _NAMED.sub(rf"\g<1>{HIDDEN}", tail)
    if hidden or not secrets:
        return shown, None
    user, _, password = userinfo.partition(":")
    return shown, Secret(unquote(user), unquote(password), tuple(values))


def hides(shown: str) -> bool:
    """Tell whether an address cannot be opened without its secret."""
    found = _WEB.match(shown)
    tail = shown[found.end() :] if found else shown
    named = any(match[2] == HIDDEN for match in _NAMED.finditer(tail))
    return named or bool(found and found[2] == HIDDEN)


def put_together(shown: str, secret: Secret | None) -> str:
    """Return the address that opens the camera. Never show it.

    Raises:
        UsageError: the secret is missing, or belongs to another address.
    """
    found = _WEB.match(shown)
    head, tail = (found[1], shown[found.end() :]) if found else ("", shown)
    userinfo = bool(found and found[2] == HIDDEN)
    gaps = [match for match in _NAMED.finditer(tail) if match[2] == HIDDEN]
    held = secret or Secret()
    if userinfo != bool(held.user or held.password) or len(gaps) != len(held.values):
        raise UsageError(
            f"the credentials of {shown} are missing, or another address's: send the stream again with them"
        )
    if found:
        password = f":{quote(held.password, safe='')}" if held.password else ""
        head += f"{quote(held.user, safe='')}{password}@" if userinfo else f"{found[2]}@"
    values = iter(held.values)
    return head + _NAMED.sub(lambda match: match[1] + (next(values) if match[2] == HIDDEN else match[2]), tail)


def redact(text: str, secrets: Iterable[Secret] = ()) -> str:
    """Return a text (a log line, an error of a driver, a traceback) without the secrets, known ones and others."""
    for secret in secrets:
        for form in secret.forms:
            text = text.replace(form, HIDDEN)
    text = _IN_TEXT.sub(rf"\g<1>{HIDDEN}@", text)
    text = _NAMED.sub(rf"\g<1>{HIDDEN}", text)
    return _HEADER.sub(rf"\g<1> {HIDDEN}", text)


def _spelt(word: str) -> set[str]:
    return {word, quote(word), quote(word, safe=""), quote_plus(word), json.dumps(word)[1:-1], repr(word)[1:-1]}
