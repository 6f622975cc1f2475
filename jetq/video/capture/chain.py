"""Open a camera: one library after the other, until one of them gives a frame."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from jetq.errors import CameraFault
from jetq.model.credentials import Secret, put_together, redact
from jetq.model.stream import StreamSpec
from jetq.video.capture.base import Capture, Source

#: What opens cameras of each kind, the best first. A module is loaded only when its turn comes: not every machine has
#: every library.
CHAINS: dict[str, tuple[str, ...]] = {"test": ("drawn",)}
#: Where each lives.
_HOME = {"drawn": "jetq.video.capture.drawn:DrawnCapture"}


def open_camera(spec: StreamSpec, secret: Secret | None) -> Capture:
    """Open the camera of a stream, and return it with its first frame at hand.

    Raises:
        CameraFault: nothing on this machine opens it; the message names what was tried and why it failed, without
            credentials.
    """
    source = Source(spec.camera, put_together(spec.uri, secret))
    why: list[str] = []
    for name in CHAINS.get(source.camera.scheme, ()):
        try:
            return _opener(name)(source)
        except CameraFault as exc:
            reason = redact(str(exc), [] if secret is None else [secret])
            if exc.hopeless:
                raise CameraFault(f"{source.camera.shown}: {reason}", hopeless=True) from exc
            why.append(f"{name}: {reason}")
    raise CameraFault(f"{source.camera.shown} cannot be opened ({'; '.join(why)})")


def _opener(name: str) -> Callable[[Source], Capture]:
    module, _, attribute = _HOME[name].partition(":")
    opener: Callable[[Source], Capture] = getattr(import_module(module), attribute)
    return opener
