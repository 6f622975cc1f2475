"""Another machine on this one: a network namespace at the other end of a cable. It takes root and iproute2."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence


def can_build() -> bool:
    """Whether this process may make one."""
    return os.geteuid() == 0 and shutil.which("ip") is not None


class Host:
    """A network namespace joined to ours by a cable (veth), as another machine would be."""

    def __init__(self, number: int) -> None:
        """``number``: tells it from others that live at the same time, 0 to 16383."""
        self.name = f"jetq-{number}"
        self._far, self._near = f"jqf{number}", f"jqn{number}"
        third, fourth = divmod(number, 64)
        self.ours, self.its = (f"10.77.{third}.{fourth * 4 + n}" for n in (1, 2))

    @property
    def network(self) -> str:
        """What its processes see as their network."""
        return f"net:[{os.stat(f'/run/netns/{self.name}').st_ino}]"

    def build(self) -> Host:
        """Make it."""
        ip("netns", "add", self.name)
        ip("link", "add", self._near, "type", "veth", "peer", "name", self._far, "netns", self.name)
        ip("address", "add", f"{self.ours}/30", "dev", self._near)
        ip("-n", self.name, "address", "add", f"{self.its}/30", "dev", self._far)
        ip("-n", self.name, "link", "set", "lo", "up")
        self.plug("near")
        self.plug("far")
        return self

    def command(self, argv: Sequence[str]) -> list[str]:
        """Return the command line that runs ``argv`` there."""
        return ["ip", "netns", "exec", self.name, *argv]

    def pull(self, end: str) -> None:
        """Cut it off: at its own end of the cable (``far``) its system knows it, at ours nobody does."""
        self._set(end, "down")

    def plug(self, end: str) -> None:
        """Join it again."""
        self._set(end, "up")

    def remove(self) -> None:
        """Leave nothing of it."""
        subprocess.run(["ip", "link", "delete", self._near], check=False, stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "netns", "delete", self.name], check=False, stderr=subprocess.DEVNULL)

    def _set(self, end: str, state: str) -> None:
        where = ["-n", self.name] if end == "far" else []
        ip(*where, "link", "set", self._far if end == "far" else self._near, state)


def ip(*words: str) -> None:
    """Change the network."""
    subprocess.run(["ip", *words], check=True)
