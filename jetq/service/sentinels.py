"""Ask the sentinels where the broker is, over plain sockets with short waits."""

from __future__ import annotations

import socket

from jetq.model.address import Address, Endpoint


def master(address: Address, within_s: float) -> Endpoint | None:
    """Return where the first sentinel that answers says the broker is; None: none knows.

    Args:
        address: of the sentinels, with the broker's name and login.
        within_s: time for each wait.
    """
    for place in address.sentinels:
        try:
            with socket.create_connection(place, within_s) as asked, asked.makefile("rb") as said:
                asked.sendall(f"SENTINEL get-master-addr-by-name {address.master}\r\n".encode())
                if said.readline().strip() == b"*2":  # else: unknown name, or an error
                    _, host, _, port = (said.readline().strip().decode() for _ in range(4))
                    return Endpoint(host, int(port), username=address.username, password=address.password)
        except OSError:
            continue
    return None
