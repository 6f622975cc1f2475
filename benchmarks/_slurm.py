"""Slurm as a peer for gangs: its controller and four nodes on this machine (as root; slurm-wlm and munge of Debian)."""

from __future__ import annotations

import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks._boards import BOARDS, COMMAND, HELLO, LINE_S, clean, first_line
from benchmarks._workers import wait
from jetq import process

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "sinfo", "squeue")
#: Everything in one folder, nothing kept, no accounting, no limits by cgroups; all the rest as it comes.
_CONFIG = """
ClusterName=bench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
PartitionName=all Nodes=ALL Default=YES State=UP
"""
_NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 State=UNKNOWN\n"


def missing() -> list[str]:
    """Return the programs that are not installed here."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


class Slurm:
    """Launches the same command by Slurm."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._jobs = 0
        self.environment = {**clean(), "SLURM_CONF": str(folder / "slurm.conf")}

    def srun(self) -> float:
        """Return the time from the start of srun to a rank's first line on its screen (s)."""
        return first_line([["srun", "-N", str(BOARDS), *COMMAND]], self.environment)

    def sbatch(self) -> float:
        """Return the time from the start of sbatch to the first line in the job's file (s)."""
        self._jobs += 1
        said = self._folder / f"said-{self._jobs}"
        argv = ["sbatch", "-N", str(BOARDS), "-o", str(said), "--wrap", f"srun sh -c '{COMMAND[-1]}'"]
        begin_s = time.monotonic()
        subprocess.run(argv, env=self.environment, check=True, capture_output=True)
        wait(lambda: said.exists() and HELLO in said.read_text(), LINE_S, "a line of sbatch", every_s=0.01)
        took_s = time.monotonic() - begin_s
        wait(lambda: not self.ask("squeue", "-h"), LINE_S, "the job's end")
        return took_s

    def ask(self, *argv: str) -> str:
        """Return what a command says."""
        return subprocess.run(argv, env=self.environment, check=True, capture_output=True, text=True).stdout


@contextmanager
def slurm(folder: Path) -> Iterator[Slurm]:
    """Run Slurm in an empty folder; all its nodes are idle, and are gone at the end."""
    key = folder / "key"
    key.touch(0o400)
    key.write_bytes(secrets.token_bytes(128))
    host = socket.gethostname()
    ports = _free_ports(BOARDS + 1)
    names = [f"n{number}" for number in range(1, BOARDS + 1)]
    nodes = (_NODE.format(name=name, host=host, port=port) for name, port in zip(names, ports[1:], strict=True))
    (folder / "slurm.conf").write_text(_CONFIG.format(host=host, port=ports[0], folder=folder) + "".join(nodes))
    made = Slurm(folder)
    munge = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.sock"]
    munge += [f"--{what}-file={folder}/munge.{what}" for what in ("pid", "log", "seed")]
    with ExitStack() as stack, (folder / "said").open("wb") as out:

        def start(*argv: str) -> None:
            child = process.spawn(argv, env=made.environment, stdout=out, stderr=out)
            stack.callback(_stop, child)

        start(*munge)
        wait((folder / "munge.sock").exists, LINE_S, "munged")
        start("slurmctld", "-D")
        for name in names:
            (folder / f"spool-{name}").mkdir()
            start("slurmd", "-D", "-N", name)
        wait(lambda: _idle(made) == BOARDS, LINE_S, "Slurm's nodes to be idle", every_s=0.2)
        yield made


def _idle(made: Slurm) -> int:
    try:
        return int(made.ask("sinfo", "-h", "-t", "idle", "-o", "%D") or 0)
    except subprocess.CalledProcessError:  # the controller does not answer yet
        return 0


def _free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    try:
        return [int(one.getsockname()[1]) for one in held]
    finally:
        for one in held:
            one.close()


def _stop(child: process.Child) -> None:
    child.signal(15)
    if child.wait(20) is None:
        child.kill()
