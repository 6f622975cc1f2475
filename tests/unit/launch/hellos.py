"""A member's hello as an ordinary board would say it."""

from __future__ import annotations

from jetq.launch.prepare import Hello
from jetq.model.nic import Nic


def hello(index: int, **facts) -> Hello:
    usual = {
        "node": f"node-{index}",
        "place": f"place-{index}",
        "nonce": f"{index:032x}",
        "ear_port": 20000 + index,
        "nics": (Nic("eth0", f"10.0.0.{index + 1}", "10.0.0.0/24"), Nic("docker0", "172.17.0.1", "172.17.0.0/16")),
        "rendezvous_port": 29400,
        "slots": 4.0,
        "gpus": 0,
        "folder": f"/var/m{index}",
        "open_mpi": 5,
        "torch": "2.5.1",
        "python": "3.10.12",
        "disk_free_bytes": 10 * 2**30,
        "mem_free_bytes": 4 * 2**30,
        "skew_s": 0.0,
        "refusals": (),
        "checkpoints": "",
    }
    return Hello(index=index, **{**usual, **facts})
