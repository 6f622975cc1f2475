"""Names and ids: what is allowed, and how fresh ones are made."""

from __future__ import annotations

import re
import secrets
import uuid

from jetq.errors import UsageError

#: The longest id that a publish takes from Celery's side (bytes): it has to fit in a lane's page.
LONGEST_ID = 255
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(=[A-Za-z0-9_.-]+)?")
_JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")


def new_job_id() -> str:
    """Return a fresh job id (a UUID, as Celery makes them)."""
    return str(uuid.uuid4())


def random64() -> str:
    """Return 64 random bits as 16 hex digits: pub, epoch, claimer and the random part of a token."""
    return secrets.token_hex(8)


def node_name(text: str) -> str:
    """Return ``text`` if it may name a node.

    Raises:
        UsageError: it is empty, too long or holds other characters.
    """
    if not _NODE.fullmatch(text):
        raise UsageError(f"{text!r} cannot name a node: use 1-63 letters, digits, dots, dashes and underscores")
    return text


def label(text: str) -> str:
    """Return ``text`` if it may be a label (``word`` or ``key=value``).

    Raises:
        UsageError: it holds other characters.
    """
    if not _LABEL.fullmatch(text):
        raise UsageError(f"{text!r} is no label: write WORD or KEY=VALUE with letters, digits, dots and dashes")
    return text


def job_id(text: str) -> str:
    """Return ``text`` if it may be a job id.

    Raises:
        UsageError: it is empty, too long or holds other characters.
    """
    if not _JOB.fullmatch(text):
        raise UsageError(f"{text!r} is no job id: use up to 128 letters, digits, dots, colons and dashes")
    return text
