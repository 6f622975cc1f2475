"""Tell Celery what the ledger decided: the final state, errbacks and chord, as its own worker would."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any

from celery import Celery
from celery.app.task import Context
from celery.exceptions import TaskRevokedError, WorkerLostError

from jetq.engine.results import drop_chord_claim
from jetq.log import Log
from jetq.model.claim import Ended

log = Log("delivery")


class CeleryDelivery:
    """The ``Delivery`` role on a Celery app."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    def settle(self, ended: Ended) -> None:
        """Store the final state in the result backend, call errbacks and chord."""
        request = _context(ended.envelope)
        stores = not request.ignore_result
        backend = self._app.backend
        drop_chord_claim(backend, request)
        if ended.state == "CANCELLED":
            backend.mark_as_revoked(ended.job_id, ended.reason, request=request, store_result=stores)
            if request.chord:
                backend.on_chord_part_return(request, "REVOKED", TaskRevokedError(ended.reason))
        else:
            backend.mark_as_failure(ended.job_id, WorkerLostError(ended.reason), request=request, store_result=stores)
        log.info("job.told", job=ended.job_id, state=ended.state, why=ended.reason)


def _context(envelope: str) -> Context:
    message = json.loads(envelope)
    body = message["body"]
    if message.get("properties", {}).get("body_encoding") == "base64":
        body = b64decode(body)
    args, kwargs, embed = json.loads(body)
    headers: dict[str, Any] = message["headers"]
    return Context({**headers, **(embed or {})}, args=args, kwargs=kwargs, called_directly=False)
