"""What somebody asks for with a stream: one validated value that crosses the wire as JSON, and holds no secret."""

from __future__ import annotations

import difflib
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from itertools import islice, pairwise
from types import MappingProxyType
from typing import Any

from jetq import ids
from jetq.errors import PublishRefused, UsageError
from jetq.model.camera_uri import CameraUri, frame_rate, parse, picture_size
from jetq.model.credentials import Secret
from jetq.model.needs import ONNX_LABEL, VIDEO_LABEL, Needs

#: Analyzers that come with jetq; others are named ``module:Class``.
ANALYZERS = ("motion", "snapshot", "onnx")
#: Where results may go besides the ledger.
SINKS = ("jsonl", "mp4", "webhook")
#: A camera is stalled after so long without a frame (s); less than the first is noise, more than the last is no watch.
STALL_S, LEAST_STALL_S, MOST_STALL_S = 10.0, 1.0, 3600.0
#: An analyzer's options are a few numbers and names (bytes as JSON); a model travels as a blob.
MOST_OPTIONS_BYTES = 64 * 1024
#: Lists in lists of options are readable so deep.
MOST_DEPTH = 32
#: More steps, labels or sinks are a mistake: each sink has a thread on its node.
MOST_WORDS = 64
#: More slots on one node are a typo.
MOST_SLOTS = 1024
#: Secrets of a stream by the address, as it is shown, that they belong to.
Secrets = dict[str, Secret]
_TOO_DEEP = f"options are nested too deeply; {MOST_DEPTH} levels are the most"
_CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """One camera, what looks at it, and where results go. Make it with ``wish``, which takes credentials apart."""

    uri: str  # as it is shown
    analyzer: str = "motion"
    options: Mapping[str, Any] = field(default_factory=dict)  # keyword arguments of the analyzer
    fps: float | None = None  # frames that are analysed a second, at most; None: all that come
    hot_fps: tuple[float, ...] = ()  # what fps may go down to on a hot node, step by step; (): it never does
    cost: float | None = None  # slots that it holds; None: measured, and guessed before that
    size: str = ""  # WIDTHxHEIGHT to ask a local camera for; of another camera: a hint for its first placement
    labels: tuple[str, ...] = ()  # its node must carry them
    node: str = ""  # where a local camera hangs; "": any node
    gpu: int = 0  # 1: it holds its node's GPU
    mem_bytes: int = 0  # declared, not measured
    sinks: tuple[str, ...] = ()
    loop: bool = False  # files only: begin again at the end
    stall_s: float = STALL_S

    def __post_init__(self) -> None:
        set_ = object.__setattr__  # frozen
        camera, secret = parse(self.uri)
        if secret is not None:
            raise UsageError("credentials are kept apart from a stream; give its address to jetq.model.stream.wish")
        set_(self, "uri", camera.shown)
        _check_analyzer(self.analyzer)
        set_(self, "options", MappingProxyType(_options(self.options)))
        if self.fps is not None:
            set_(self, "fps", frame_rate(self.fps))
        set_(self, "hot_fps", _hot_fps(self.hot_fps, self.fps))
        if self.cost is not None and not (_is_number(self.cost) and 0 < self.cost <= MOST_SLOTS):
            raise UsageError(f"cost must be a number of slots above 0, up to {MOST_SLOTS}, not {self.cost!r:.80}")
        if not isinstance(self.size, str):
            raise UsageError(f"size must be WIDTHxHEIGHT, not {self.size!r:.80}")
        if self.size:
            set_(self, "size", "{}x{}".format(*picture_size(self.size)))
        set_(self, "labels", tuple(sorted({ids.label(label) for label in _words("labels", self.labels)})))
        if not isinstance(self.node, str):
            raise UsageError(f"node must be a node's name, not {self.node!r:.80}")
        if self.node:
            ids.node_name(self.node)
        if camera.local and not self.node:
            raise UsageError(f"{camera.shown} hangs on one machine: name it (--node NAME; see `jetq node list`)")
        if not _is_whole(self.gpu) or self.gpu not in (0, 1):
            raise UsageError(f"gpu must be 0 or 1, not {self.gpu!r:.80}")
        if not (_is_whole(self.mem_bytes) and 0 <= self.mem_bytes < 1 << 62):
            raise UsageError(f"mem_bytes must be a whole number, 0 or more, not {self.mem_bytes!r:.80}")
        set_(self, "sinks", _sinks(self.sinks))
        if not isinstance(self.loop, bool):
            raise UsageError(f"loop must be true or false, not {self.loop!r:.80}")
        if self.loop and camera.scheme != "file":
            raise UsageError(f"only a file has an end to begin again at: leave loop out for {camera.shown}")
        if not (_is_number(self.stall_s) and LEAST_STALL_S <= self.stall_s <= MOST_STALL_S):
            raise UsageError(
                f"stall_s must be from {LEAST_STALL_S:g} to {MOST_STALL_S:g} seconds, not {self.stall_s!r:.80}"
            )

    @property
    def camera(self) -> CameraUri:
        """The camera."""
        return _camera(self.uri)

    @property
    def required(self) -> tuple[str, ...]:
        """The labels that its node must carry: the node itself is one; video work and models have others."""
        more = [*([f"node={self.node}"] if self.node else []), *([ONNX_LABEL] if self.analyzer == "onnx" else [])]
        return tuple(sorted({*self.labels, VIDEO_LABEL, *more}))

    def needs(self, slots: float) -> Needs:
        """Return what it holds on a node where it costs so many slots."""
        return Needs(self.required, slots, self.gpu, self.mem_bytes)

    def as_json(self) -> dict[str, Any]:
        """Return the spec as plain values; ``from_json`` reads them."""
        plain = {f.name: getattr(self, f.name) for f in fields(self)}
        lists = {name: list(plain[name]) for name in ("hot_fps", "labels", "sinks")}
        return plain | lists | {"options": dict(self.options)}

    @classmethod
    def from_json(cls, plain: object) -> StreamSpec:
        """Read what ``as_json`` gave.

        Raises:
            UsageError: it is no object, a field is unknown or missing, or a value is bad.
        """
        return cls(**known_fields(plain))


def wish(plain: object) -> tuple[StreamSpec, Secrets]:
    """Return the stream that somebody's own words describe, and the credentials of its addresses apart from it.

    Raises:
        UsageError: a field is unknown or missing, or a value is bad; the message holds no secret.
    """
    given = known_fields(plain)
    camera, secret = parse(given["uri"])
    secrets = {} if secret is None else {camera.shown: secret}
    sinks = []
    for sink in _words("sinks", given.get("sinks", ())):
        shown, hidden = _webhook(sink)
        address = shown.partition(":")[2]
        if hidden is not None and secrets.setdefault(address, hidden) != hidden:
            raise UsageError(f"two addresses of a stream are {address}, with different credentials; keep one")
        sinks.append(shown)
    return StreamSpec(**(given | {"uri": camera.shown, "sinks": tuple(sinks)})), secrets


def known_fields(plain: object) -> dict[str, Any]:
    """Return the fields of a stream that an object holds; their values are not looked at.

    Raises:
        UsageError: it is no object, or a field is unknown or missing.
    """
    if not isinstance(plain, Mapping):
        raise UsageError("a stream's spec must be a JSON object")
    known = [f.name for f in fields(StreamSpec)]
    for key in plain:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, n=1, cutoff=0.0)
            raise UsageError(f"a stream has no field {str(key)[:40]!r}; did you mean {near[0]}?")
    if "uri" not in plain:
        raise UsageError("a stream needs the address of its camera: uri is missing")
    return dict(plain)


def changes(stream_id: str, before: StreamSpec, after: StreamSpec) -> list[str]:
    """Return what differs when a stream is sent again, each as ``fps 15 -> 10``; nothing: it is the same stream.

    Credentials are told by whoever keeps them: those of before stay where the new address hides its own.

    Raises:
        PublishRefused: it is another camera; a camera that is swapped under an id would mix two cameras' results.
    """
    if before.uri != after.uri:
        raise PublishRefused(
            stream_id, f"it is the stream of {before.uri}; give {after.uri} another id, or cancel this one first"
        )
    names = [f.name for f in fields(StreamSpec) if getattr(before, f.name) != getattr(after, f.name)]
    return [f"{name} {_said(getattr(before, name))} -> {_said(getattr(after, name))}" for name in names]


@lru_cache(maxsize=1024)
def _camera(shown: str) -> CameraUri:
    return parse(shown)[0]


def _said(value: object) -> str:
    if isinstance(value, Mapping):
        value = dict(value)
    elif isinstance(value, tuple):
        value = list(value)
    return (
        "none" if value in (None, "", [], {}) else json.dumps(value) if isinstance(value, dict | list) else str(value)
    )


def _check_analyzer(name: object) -> None:
    if not isinstance(name, str) or not (name in ANALYZERS or _CLASS.fullmatch(name)):
        near = difflib.get_close_matches(str(name), ANALYZERS, n=1, cutoff=0.0)
        raise UsageError(
            f"no analyzer is called {name!r:.80}; did you mean {near[0]!r}? Own ones are named module:Class"
        )


def _options(options: object) -> dict[str, Any]:
    if not isinstance(options, Mapping) or not all(isinstance(key, str) for key in options):
        raise UsageError(f"options must map names to values, not {options!r:.80}")
    try:
        text = json.dumps(dict(options), allow_nan=False)
        json.dumps(dict(options), ensure_ascii=False).encode()
    except (TypeError, ValueError) as exc:
        raise UsageError(f"options must be values that JSON has: {exc}") from exc
    except RecursionError:
        raise UsageError(_TOO_DEEP) from None
    if len(text) > MOST_OPTIONS_BYTES:
        raise UsageError(f"options have {len(text)} bytes; {MOST_OPTIONS_BYTES} is the most")
    plain: dict[str, Any] = json.loads(text)
    if _is_deep(plain, MOST_DEPTH):
        raise UsageError(_TOO_DEEP)
    return plain


def _is_deep(value: object, most: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    return most == 0 or any(_is_deep(item, most - 1) for item in (value.values() if isinstance(value, dict) else value))


def _hot_fps(steps: object, fps: float | None) -> tuple[float, ...]:
    if isinstance(steps, str) or not isinstance(steps, Iterable):
        raise UsageError(f"hot_fps must be a list of numbers, not {steps!r:.80}")
    given = list(islice(steps, MOST_WORDS + 1))
    if len(given) > MOST_WORDS:
        raise UsageError(f"hot_fps has more than {MOST_WORDS} steps")
    numbers = tuple(frame_rate(step) for step in given)
    whole = [*([] if fps is None else [fps]), *numbers]
    if any(later >= earlier for earlier, later in pairwise(whole)):
        raise UsageError(f"hot_fps goes down from fps, step by step, for example 10, 5, 2; not {list(numbers)}")
    return numbers


def _sinks(sinks: object) -> tuple[str, ...]:
    given = tuple(dict.fromkeys(_words("sinks", sinks)))
    for sink in given:
        kind, _, rest = sink.partition(":")
        if kind not in SINKS:
            raise UsageError(f"a sink is {', '.join(SINKS[:-1])} or {SINKS[-1]}:URL, not {kind!r:.40}")
        if kind == "webhook":
            if _webhook(sink) != (sink, None):
                raise UsageError("credentials are kept apart from a stream; give its sinks to jetq.model.stream.wish")
        elif rest:
            raise UsageError(f"the sink {kind} takes nothing after it")
    return given


def _webhook(sink: str) -> tuple[str, Secret | None]:
    """Return a sink as it may be shown, and its credentials; only webhooks have some."""
    kind, _, address = sink.partition(":")
    if kind != "webhook":
        return sink, None
    if not address.startswith(("http://", "https://")):
        raise UsageError("a webhook needs an address: webhook:https://HOST/PATH")
    camera, secret = parse(address)
    return f"webhook:{camera.shown}", secret


def _words(what: str, words: object) -> list[str]:
    if isinstance(words, str) or not isinstance(words, Iterable):
        raise UsageError(f"{what} must be a list of words, not one text or number")
    given = list(islice(words, MOST_WORDS + 1))
    if len(given) > MOST_WORDS:
        raise UsageError(f"{what} are more than {MOST_WORDS}")
    if not all(isinstance(word, str) and word for word in given):
        raise UsageError(f"{what} must be a list of words")
    return given


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -math.inf < value < math.inf
