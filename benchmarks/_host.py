"""Other machines on this one: network namespaces, at the other end of a cable or on one switch.

It takes root and iproute2.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from typing import ClassVar

#: The kernel clears up a network some time after it was removed, so the next one has another name.
_numbers = itertools.count()


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


class Lan:
    """Boards on one switch, as they are: each interface has another name, and bridges inside have one equal address."""

    #: Inside each board.
    bridges: ClassVar = {"docker0": "172.17.0.1/16", "l4tbr0": "192.168.55.1/24"}

    def __init__(self, interfaces: Sequence[str], *, joined: bool = False) -> None:
        """Describe one.

        Args:
            interfaces: the name of the cable's end in each board; boards are numbered from 1.
            joined: this machine is on the switch, too, with an address. Of the others, which are all alike, any number
                live side by side.
        """
        self.interfaces = dict(enumerate(interfaces, start=1))
        self._third = _free_third() if joined else 0
        self._switch = f"jql{os.getpid()}{chr(ord('a') + next(_numbers) % 26)}"

    def name(self, board: int) -> str:
        """Return the name of its network namespace."""
        return f"{self._switch}-{board}"

    @property
    def network(self) -> str:
        """What is on the switch."""
        return f"10.79.{self._third}.0/24"

    @property
    def ours(self) -> str:
        """The address of this machine on the switch, where it is joined."""
        return f"10.79.{self._third}.254"

    def address(self, board: int) -> str:
        """Return its address on the switch."""
        return f"10.79.{self._third}.{board}"

    def build(self) -> Lan:
        """Make them."""
        self.remove()  # of a run that was killed, under this pid
        _sweep()
        ip("link", "add", self._switch, "type", "bridge")
        if self._third:
            ip("address", "add", f"{self.ours}/24", "dev", self._switch)
        ip("link", "set", self._switch, "up")
        for board, interface in self.interfaces.items():
            inside, near = ("-n", self.name(board)), f"{self._switch}v{board}"
            ip("netns", "add", self.name(board))
            ip("link", "add", near, "type", "veth", "peer", "name", interface, "netns", self.name(board))
            ip(*inside, "address", "add", f"{self.address(board)}/24", "dev", interface)
            for number, (bridge, address) in enumerate(self.bridges.items()):
                ip(*inside, "link", "add", bridge, "type", "bridge")
                ip(*inside, "address", "add", address, "dev", bridge)
                # a bridge without a port has no carrier, and would not count as up
                ip(*inside, "link", "add", f"veth{number}a", "type", "veth", "peer", "name", f"veth{number}b")
                ip(*inside, "link", "set", f"veth{number}a", "master", bridge, "up")
                ip(*inside, "link", "set", f"veth{number}b", "up")
            for up in ("lo", *self.bridges, interface):
                ip(*inside, "link", "set", up, "up")
            ip("link", "set", near, "master", self._switch, "up")
        self._wait_up()
        return self

    def command(self, board: int, argv: Sequence[str], *, hostname: str = "board") -> list[str]:
        """Return the command line that runs ``argv`` there; the host's name leads to 127.0.1.1, as Debian has it."""
        hosts = f'printf "127.0.0.1 localhost\\n127.0.1.1 {hostname}\\n"'
        setting = f'hostname {hostname} && {hosts} > "$H" && mount --bind "$H" /etc/hosts && rm "$H" && exec "$@"'
        return [
            *("ip", "netns", "exec", self.name(board), "unshare", "-mu", "sh", "-c"),
            f"H=$(mktemp); {setting}",
            "sh",
            *argv,
        ]

    def pull(self, board: int) -> None:
        """Pull its cable out of the switch; the board itself does not see that."""
        ip("link", "set", f"{self._switch}v{board}", "nomaster")

    def plug(self, board: int) -> None:
        """Plug it in again."""
        ip("link", "set", f"{self._switch}v{board}", "master", self._switch)

    def remove(self) -> None:
        """Leave nothing of them."""
        for words in (
            *(["netns", "delete", self.name(board)] for board in self.interfaces),
            ["link", "delete", self._switch],
        ):
            subprocess.run(["ip", *words], check=False, stderr=subprocess.DEVNULL)

    def _wait_up(self) -> None:
        """Wait until each interface has a carrier; the kernel says so a moment later."""
        end_s = time.monotonic() + 10
        for board, interface in self.interfaces.items():
            for name in (interface, *self.bridges):
                look = ["ip", "-n", self.name(board), "link", "show", "dev", name, "up"]
                while "LOWER_UP" not in subprocess.run(look, capture_output=True, text=True, check=True).stdout:
                    if time.monotonic() > end_s:
                        raise TimeoutError(f"{name} of {self.name(board)} has no carrier")


def _sweep() -> None:
    """Remove the networks of processes that were killed."""
    for kind, remove in (("/sys/class/net", ["link"]), ("/run/netns", ["netns"])):
        for name in os.listdir(kind) if os.path.isdir(kind) else []:
            owner = re.fullmatch(r"jql(\d+)[a-z](-\d+)?", name)
            if owner and not os.path.exists(f"/proc/{owner[1]}"):
                subprocess.run(["ip", *remove, "delete", name], check=False, stderr=subprocess.DEVNULL)


def _free_third() -> int:
    """Return the third number of a network of 256 addresses that this machine is not in."""
    said = subprocess.run(["ip", "-o", "-4", "address"], capture_output=True, text=True, check=True).stdout
    first = os.getpid() % 254
    return next(third for third in (1 + (first + n) % 254 for n in range(254)) if f" 10.79.{third}." not in said)


def ip(*words: str) -> None:
    """Change the network."""
    subprocess.run(["ip", *words], check=True)
