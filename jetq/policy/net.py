"""What reaching a node costs, in service times: the last term of ``dynamic``."""

from __future__ import annotations

from jetq.policy.smooth import Smooth, sane

#: Round trips are judged over this long (s).
RTT_TAU_S = 10.0
#: A node that has not measured counts as one on a common Ethernet (s, bytes/s).
RTT_S, BANDWIDTH_BPS = 0.001, 110e6
#: A job of unknown length counts as this long (s).
SERVICE_S = 1.0
#: Steps of the answer (service times): differences below are noise, and ties between equal nodes must stay random.
GRAIN = 0.02
#: More than this (service times) is not believed.
LIMIT = 10.0


def smooth_rtt() -> Smooth:
    """Return an empty smoothed round-trip time; feed it with ``after(rtt_s, at_s)``."""
    return Smooth(RTT_TAU_S)


def net(
    rtt_s: float | None,
    *,
    payload_bytes: float | None = None,
    bandwidth_bps: float | None = None,
    service_s: float | None = None,
) -> float:
    """Return the cost of reaching a node in units of one service time; what is unknown gets a common value.

    Args:
        rtt_s: smoothed round trip to the broker.
        payload_bytes: what a job moves, usually.
        bandwidth_bps: measured, bytes per second.
        service_s: how long a job runs here, usually.
    """
    rtt, size, width, service = sane(rtt_s), sane(payload_bytes), sane(bandwidth_bps), sane(service_s)
    seconds = (RTT_S if rtt is None else rtt) + (size or 0.0) / (width or BANDWIDTH_BPS)
    cost = min(seconds / (service or SERVICE_S), LIMIT)
    return round(round(cost / GRAIN) * GRAIN, 6)
