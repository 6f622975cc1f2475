"""What boards decode."""

from __future__ import annotations

from pathlib import Path

import pytest

from jetq.errors import UsageError
from jetq.policy.decode import HD_PIXELS_S, NONE, budget


@pytest.mark.parametrize(
    ("board", "h265", "h264"),
    [
        ("NVIDIA Jetson Nano Developer Kit", 8, 8),
        ("Jetson TX2", 14, 8),
        ("Xavier NX", 44, 22),
        ("NVIDIA Jetson AGX Xavier", 52, 32),
        ("Orin Nano 8GB", 11, 6),
        ("orin-nx-16gb", 18, 10),
        ("NVIDIA Jetson AGX Orin Developer Kit", 18, 10),
        ("Jetson AGX Orin 64GB", 22, 13),
        ("NVIDIA Jetson AGX Thor", 92, 55),
        ("pc", 0, 0),
        ("", 0, 0),
    ],
)
def test_each_board_has_its_budget(board, h265, h264):
    found = budget(board)

    assert (found.of("h265") / HD_PIXELS_S, found.of("h264") / HD_PIXELS_S, found.of("mjpeg")) == (h265, h264, 0)


def test_a_stream_takes_its_share_and_what_the_processor_decodes_takes_none():
    board = budget("Orin NX 16GB")

    assert board.share(HD_PIXELS_S, "h264") == 0.1
    assert board.share(HD_PIXELS_S, "mjpeg") == NONE.share(HD_PIXELS_S, "h264") == 0.0


def test_a_node_may_be_told_its_budget():
    assert budget("pc", "20").of("h264") == budget("pc", "20").of("h265") == 20 * HD_PIXELS_S
    assert budget("Orin NX", "h264=12, h265=18.5").of("h265") == 18.5 * HD_PIXELS_S
    assert budget("Orin NX", "h264=12").of("h265") == 0.0
    assert budget("Orin NX", "0") == NONE


@pytest.mark.parametrize("text", ["much", "h264=", "mp4=3", "20,h264=3", "h264=1,h264=2", "-1", "1e9", ","])
def test_what_is_no_budget_is_refused(text):
    with pytest.raises(UsageError, match="a decode budget is"):
        budget("pc", text)


def test_the_page_of_streams_has_the_same_numbers():
    page = (Path(__file__).resolve().parents[3] / "docs/streams.md").read_text()
    table = page.partition("| board | H.265 | H.264 |")[2].partition("\n\n")[0].splitlines()[2:]

    assert len(table) == 9
    for board, h265, h264 in ([cell.strip() for cell in row.strip("|").split("|")] for row in table):
        found = budget(board)
        assert (found.of("h265") / HD_PIXELS_S, found.of("h264") / HD_PIXELS_S) == (int(h265), int(h264)), board
