"""A gang that may move streams gets their room, on boards: they go on elsewhere, the new owner first."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from jetq.errors import NeverFits
from tests.fault.boards import Boards, wait
from tests.fault.streams import Streams, Witness

pytestmark = pytest.mark.xdist_group("stream-gangs")
THREE = ["cam0", "cam1", "cam2"]
#: The longest time without a result where a move was planned (s).
PLANNED_S = 2.5
RANK = 'echo "begins $RANK"; sleep 3; echo "ends $RANK"'


@pytest.fixture
def streams(cluster: Boards) -> Iterator[Streams]:
    """Give a stream on each of three boards."""
    found = Streams(cluster)
    for stream, node in zip(THREE, cluster.by_name, strict=True):
        found.want(stream, cost=0.5, labels=[f"node={node}"])
    found.wait_streaming(*THREE)
    for stream in THREE:
        found.want(stream, cost=0.5)
    yield found
    found.end_all()


def test_a_gang_that_may_not_move_streams_and_needs_their_room_is_refused_and_they_are_named(streams):
    with pytest.raises(NeverFits, match=r"streams.*--over-streams") as refused:
        streams.boards.gang("sh", "-c", RANK, nodes=2, slots=2)

    assert any(stream in str(refused.value) for stream in THREE), refused.value
    assert streams.homes() == dict(zip(THREE, streams.boards.by_name, strict=True))


def test_a_gang_that_may_move_streams_runs_where_they_were_and_they_go_on_without_a_gap(streams):
    with Witness(streams.boards.url, THREE) as witness:
        wait(lambda: all(tale.sights for tale in witness.tales.values()), 10, "their results")
        job = streams.boards.gang("sh", "-c", RANK, nodes=2, slots=2, over_streams=True)
        streams.boards.say(job, "begins", 2)
        nodes, homes = job.row().nodes, streams.homes()
        row = job.wait(30)

    assert row.state == "SUCCEEDED"
    assert not set(homes.values()) & set(nodes), (homes, nodes)
    assert max(witness.longest().values()) < PLANNED_S, witness.longest()
    assert witness.doubled == {}
    assert sorted(len(tale.owners) for tale in witness.tales.values()) == [1, 2, 2], "who need not has not moved"
    story = [entry["why"] for stream in THREE for entry in streams.ledger.job(stream).history]
    assert sum("makes room for the gang" in why for why in story) == 2, story
