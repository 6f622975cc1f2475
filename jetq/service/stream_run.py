"""The body of one seat of a stream: watch over it on this node until it is over, has failed, or shall end here."""

from __future__ import annotations

import os
from collections import deque
from typing import Protocol

from jetq.errors import NoSuchJob, UsageError
from jetq.model.camera_uri import allowed
from jetq.model.charge import Charge, End
from jetq.service.cooling import Cooling
from jetq.service.courier import Courier
from jetq.service.jobfiles.outlet import output_of
from jetq.service.models import Depot
from jetq.service.patience import patiently
from jetq.service.post import Post
from jetq.service.runners import Runners
from jetq.service.watch import Watch
from jetq.store.streaming import Heard, SeatLedger

#: The last words of a seat may take so long (s).
LAST_S = 2.0


class Keeper(SeatLedger, Depot, Protocol):
    """What a seat asks of the ledger."""


class StreamRun:
    """One seat, run by one thread that lives as long as its runners may."""

    def __init__(self, ledger: Keeper, post: Post, runners: Runners, cooling: Cooling) -> None:
        self._ledger, self._post, self._runners, self._cooling = ledger, post, runners, cooling
        self._version = 0  # of the spec that was read last
        self._changes: deque[Charge] = deque(maxlen=1)  # it is another than it was

    def run(self) -> End:
        """Run it to its end: nothing of it is left when this returns.

        Raises:
            UsageError: this job is no seat of a stream.
        """
        try:
            charge = patiently(self._ledger.charge, self._post.job_id)
        except NoSuchJob as exc:
            raise UsageError("stream.run is sent by the leader alone; start a stream with `jetq stream`") from exc
        if why := self._why_not(charge):
            return End("refused", why)
        self._version = charge.version
        with output_of(charge.stream_id, charge.number - 1) as fd:
            courier = Courier(self._ledger, self._post.job_id, self._post.token, self._take_answer)
            watch = Watch(
                charge, self._post, self._ledger, self._runners, self._cooling, courier, 2 if fd is None else fd
            )
            try:
                return self._attend(watch, courier)
            finally:
                watch.close()
                courier.close(LAST_S)

    def _attend(self, watch: Watch, courier: Courier) -> End:
        while not (self._post.stop.is_set() or courier.over.is_set()):
            if self._changes:
                charge = self._changes.popleft()
                if why := self._why_not(charge):
                    return End("refused", why)
                watch.change(charge)
            end = watch.look()
            if end is not None:
                return end
        return End("refused", courier.fault) if courier.fault else End("stopped")

    def _take_answer(self, heard: Heard) -> None:
        """Read what has changed, in the courier's thread: who watches the camera does not wait for the broker.

        Raises:
            BrokerDown: no answer; the next one says it again.
        """
        self._cooling.heard(heard.metrics)
        if heard.version != self._version:
            try:
                charge = self._ledger.charge(self._post.job_id)
            except NoSuchJob:
                return  # it has just ended, and the next answer says so
            self._version = charge.version
            self._changes.append(charge)

    def _why_not(self, charge: Charge) -> str:
        camera = charge.spec.camera
        path = os.path.realpath(camera.place) if camera.scheme == "file" else None
        return allowed(camera, self._post.allowed, real_path=path)
