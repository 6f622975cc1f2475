"""Ask runs to stop that are threads of one process: a signal would hit them all, and the process itself."""

from __future__ import annotations

from threading import Event, Lock


class Stops:
    """The runs of a lane of threads, each by its claimer, with what its body watches."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._runs: dict[str, tuple[str, Event]] = {}  # claimer -> job, asked to stop

    def open(self, claimer: str, job_id: str) -> Event:
        """Return the event of a run that begins, before its claim: a cancel may come before the claim's answer."""
        asked = Event()
        with self._lock:
            self._runs[claimer] = (job_id, asked)
        return asked

    def close(self, claimer: str) -> None:
        """Forget a run that has ended."""
        with self._lock:
            self._runs.pop(claimer, None)

    def ask(self, claimer: str) -> bool:
        """Ask one run to stop. False: there is none, or it was asked before."""
        with self._lock:
            found = self._runs.get(claimer)
        if found is None or found[1].is_set():
            return False
        found[1].set()
        return True

    def ask_job(self, job_id: str) -> None:
        """Ask whatever runs this job to stop."""
        with self._lock:
            found = [asked for job, asked in self._runs.values() if job == job_id]
        for asked in found:
            asked.set()
