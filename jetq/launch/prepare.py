"""What the members of a gang say to each other before they start, and what follows from it. Pure.

Each says ``Hello``: what its node has, and where it may be reached. Once all have, each listens for its peers and says
``Reach``. From these every member computes the same: who cannot take part and why (``fitness``), or under which address
each is known (``meeting``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from jetq.errors import MembersUnfit
from jetq.model.nic import Nic

#: In gangs of up to so many members each listens for all others; in larger ones for its neighbours and the head.
MOST_ALL = 16


@dataclass(frozen=True, slots=True)
class Hello:
    """What one member says first."""

    node: str
    index: int  # 0: the head
    place: str  # equal: on one machine, with one set of interfaces (``process.place``)
    nonce: str  # what its ear says
    ear_port: int
    nics: tuple[Nic, ...]  # where it may be reached, best first
    rendezvous_port: int  # free there; the head's is used
    slots: float
    gpus: int
    folder: str  # absolute, private to this member
    open_mpi: int | None  # major version; None: not installed
    torch: str | None  # version; None: not installed
    python: str  # version
    disk_free_bytes: int | None  # where its folder is; None: unknown
    mem_free_bytes: int | None
    skew_s: float  # how far its clock is ahead of the broker's
    refusals: tuple[str, ...]  # why it cannot take part; () if it can
    checkpoints: str  # the gang's folder on the storage it shares with others (JETQ_SHARED); "": it has none

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self) | {"nics": [nic.as_json() for nic in self.nics], "refusals": list(self.refusals)}

    @classmethod
    def from_json(cls, plain: object) -> Hello:
        """Read what ``as_json`` gave; a field that only a newer version knows is ignored.

        Raises:
            MembersUnfit: a field is missing or makes no sense.
        """
        return cls(**_values(cls, plain))


@dataclass(frozen=True, slots=True)
class Reach:
    """What one member says once it has listened."""

    index: int
    heard: Mapping[int, tuple[str, ...]] = field(default_factory=dict)  # peer -> addresses where it answered
    shared: bool = False  # it has read what the head wrote into the folder of the checkpoints

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        heard = {str(index): list(addresses) for index, addresses in self.heard.items()}
        return {"index": self.index, "heard": heard, "shared": self.shared}

    @classmethod
    def from_json(cls, plain: object) -> Reach:
        """Read what ``as_json`` gave; a field that only a newer version knows is ignored.

        Raises:
            MembersUnfit: a field is missing or makes no sense.
        """
        return cls(**_values(cls, plain))


def in_order(hellos: Sequence[Hello]) -> list[Hello]:
    """Return the hellos by index.

    Raises:
        MembersUnfit: they are not those of members 0, 1, 2 ...
    """
    ordered = sorted(hellos, key=lambda hello: hello.index)
    if not ordered or [hello.index for hello in ordered] != list(range(len(ordered))):
        raise MembersUnfit(f"members {[hello.index for hello in ordered]} said hello; that is no whole gang")
    return ordered


def peers_of(index: int, count: int) -> tuple[int, ...]:
    """Return for whom a member of so many listens; everybody is listened for by somebody."""
    others = set(range(count)) if count <= MOST_ALL else {(index - 1) % count, (index + 1) % count, 0}
    return tuple(sorted(others - {index}))


def listened_for(index: int, hellos: Sequence[Hello]) -> list[Hello]:
    """Return the hellos of those that member ``index`` listens for: its peers on other machines.

    Raises:
        MembersUnfit: this is no whole gang.
    """
    ordered = in_order(hellos)
    peers = (ordered[peer] for peer in peers_of(index, len(ordered)))
    return [peer for peer in peers if peer.place != ordered[index].place]


def shared(reaches: Sequence[Reach]) -> bool:
    """Tell whether the checkpoints are on storage that all members have."""
    return bool(reaches) and all(reach.shared for reach in reaches)


def _values(kind: type[Hello] | type[Reach], plain: object) -> dict[str, Any]:
    """Return the fields of a value from its JSON form."""
    who = kind.__name__
    if not isinstance(plain, Mapping):
        raise MembersUnfit(f"a member's {who} is no JSON object: {plain!r:.80}")
    found = {}
    for one in fields(kind):
        if one.name not in plain:
            raise MembersUnfit(f"a member's {who} has no {one.name}; run one version of jetq on all nodes")
        try:
            found[one.name] = _read(str(one.type), plain[one.name])
        except (TypeError, ValueError, KeyError) as exc:
            raise MembersUnfit(f"a member's {who} has a bad {one.name}: {plain[one.name]!r:.80}") from exc
    return found


def _read(form: str, value: Any) -> Any:
    """Return a value of the form that a field's annotation names.

    Raises:
        TypeError, ValueError, KeyError: it has another one.
    """
    if form.endswith(" | None"):
        return None if value is None else _read(form[: -len(" | None")], value)
    if form == "tuple[Nic, ...]":
        return tuple(
            Nic(**{one.name: _read(str(one.type), entry[one.name]) for one in fields(Nic)})
            for entry in _of(list, value)
        )
    if form == "tuple[str, ...]":
        return tuple(_of(str, entry) for entry in _of(list, value))
    if form.startswith("Mapping"):
        return {int(key): _read("tuple[str, ...]", entry) for key, entry in _of(dict, value).items()}
    if form == "float":
        return float(_of(int | float, value))
    return _of({"str": str, "int": int, "bool": bool}[form], value)


def _of(kind: Any, value: Any) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError
    return value
