"""Make a Celery app a jetq app: transport, result backend, queue, consumer and the settings they rely on."""

from __future__ import annotations

from typing import Any

from celery import Celery, current_app, signals
from celery._state import get_current_worker_task
from celery.canvas import maybe_signature

from jetq.config import Settings
from jetq.engine import results, transport
from jetq.errors import UsageError
from jetq.model.address import Address
from jetq.model.needs import PRIORITIES, PRIORITY_STEPS, priority
from jetq.store import keys
from jetq.store.link import TIMEOUT_S

#: Imported by every process that runs tasks of the app, spawned children too: connects their hooks.
_CHILD = "jetq.engine.child"
#: Celery asks for these at every publish, and would find its own defaults last: 15 us a publish.
_ASKED = (
    "task_always_eager",
    "task_send_sent_event",
    "task_repr_maxlevels",
    "broker_pool_acquire_timeout",
)


def create_app(settings: Settings, url: str, *, stores: bool = True, current: bool = True) -> Celery:
    """Return a Celery app that publishes through the ledger of the broker at ``url``.

    Args:
        settings: the cluster's settings.
        url: of the broker, checked.
        stores: whether Celery's own results (``AsyncResult.get``) are stored, on the same server.
        current: whether it becomes the thread's current app, which ``shared_task`` binds to.
    """
    install_hooks()
    at = Address.parse(url)
    app = Celery("jetq", broker=at.celery_url, backend=at.celery_url if stores else None, set_as_current=current)
    configure(app, settings, url)
    return app


def install(app: Celery, settings: Settings, url: str) -> Celery:
    """Join an existing Celery app to the cluster. Call it before the app's first publish; calling twice is harmless.

    Raises:
        UsageError: the app has published already, through a connection that does not know the ledger.
    """
    if app.conf.get("jetq_url") is None and getattr(app, "_pool", None) is not None:
        raise UsageError("call jetq.install(app) before the app's first publish")
    install_hooks()
    configure(app, settings, url)
    return app


def install_hooks() -> None:
    """Put jetq's transports and backends behind Celery's names for Redis."""
    transport.install()
    results.install()
    signals.before_task_publish.connect(_before_publish, weak=False, dispatch_uid="jetq.publish")


def configure(app: Celery, settings: Settings, url: str) -> None:
    """Set what the ledger's protocol relies on; everything else stays the app's own."""
    prefix = keys.prefix(settings.cluster)
    options = {
        "global_keyprefix": prefix,
        "queue_order_strategy": "priority",
        "priority_steps": list(PRIORITY_STEPS),
        "ack_emulation": False,
        "socket_timeout": TIMEOUT_S,
        "socket_connect_timeout": TIMEOUT_S,
        "socket_keepalive": True,
        "jetq_strategy": settings.strategy,
        "jetq_max_arg_bytes": settings.max_arg_bytes,
    }
    at = Address.parse(url)
    named = {"master_name": at.master} if at.master else {}
    if at.scheme == "unix":  # it knows neither
        del options["socket_connect_timeout"], options["socket_keepalive"]
    conf = app.conf
    conf.broker_url = at.celery_url
    conf.broker_transport_options = {**(conf.broker_transport_options or {}), **options, **named}
    conf.result_backend_transport_options = {
        **(conf.result_backend_transport_options or {}),
        "global_keyprefix": prefix,
        **named,
    }
    conf.include = [*(conf.include or ()), *([] if _CHILD in (conf.include or ()) else [_CHILD])]
    conf.update(
        jetq_url=url,
        jetq_cluster=settings.cluster,
        jetq_ttl_s=settings.result_ttl_s,
        jetq_max_result_bytes=settings.max_result_bytes,
        jetq_quiet=settings.log_level != "debug",
        task_default_queue=keys.ROUTED,
        task_publish_retry=False,  # one retry of ours with the same id (engine.transport)
        worker_consumer="jetq.engine.consumer:Consumer",
        worker_prefetch_multiplier=1,
        worker_disable_prefetch=True,
        worker_proc_alive_timeout=120.0,  # stock kills a slow spawned child after 4 s, for ever
        task_acks_late=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        result_backend_thread_safe=True,
        redis_socket_timeout=TIMEOUT_S,
        redis_socket_connect_timeout=TIMEOUT_S,
        accept_content=["json"],
        task_serializer="json",
        result_serializer="json",
        worker_hijack_root_logger=False,
        **{name: conf[name] for name in _ASKED},
    )


def _before_publish(
    sender: str | None = None,
    body: Any = None,
    headers: Any = None,
    properties: Any = None,
    routing_key: str = "",
    declare: Any = None,
    **_rest: Any,
) -> None:
    """Gather a publish's jetq options (task, running generation, call) and give callbacks their ids."""
    if routing_key != keys.ROUTED or properties is None or "id" not in (headers or {}):
        return
    transport.will_publish()
    if isinstance(declare, list):  # no list of that name ever exists, and to find that out costs kombu 5 % of a publish
        declare[:] = [entity for entity in declare if entity.name != keys.ROUTED]
    _freeze(body[2])
    given = properties.pop("jetq", None)
    from_task, inherited = _declared(sender, headers["id"])
    if from_task or inherited or given:
        headers["jetq"] = {**(from_task or {}), **(inherited or {}), **(given or {})}
    number = properties.get("priority")
    if number is None:
        number = (headers.get("jetq") or {}).get("priority", PRIORITIES["normal"])
    properties["priority"] = priority(number)


def _freeze(embed: dict[str, Any]) -> None:
    """Give linked signatures their ids now: a body whose callbacks are dispatched twice then publishes one job each."""
    for kind in ("callbacks", "errbacks"):
        links = embed.get(kind)
        if links and not all(dict(link).get("options", {}).get("task_id") for link in links):
            embed[kind] = [_frozen(link) for link in links]


def _frozen(link: Any) -> Any:
    if dict(link).get("options", {}).get("task_id"):
        return link
    copy = maybe_signature(link, app=current_app).clone()
    copy.freeze()
    return copy


def _declared(name: str | None, job_id: str) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    task = current_app.tasks.get(name)
    running = get_current_worker_task()
    request = running.request if running is not None else None
    inherited = request.get("jetq") if request is not None and request.id == job_id else None
    return getattr(task, "jetq", None), inherited
