"""What every HTTP server of ours does alike."""

from __future__ import annotations

import pytest

from jetq.serving import byte_span


@pytest.mark.parametrize(
    ("header", "span"),
    [
        (None, (0, 100)),
        ("bytes=0-0", (0, 1)),
        ("bytes=90-500", (90, 100)),
        ("bytes=-500", (0, 100)),
        ("bytes=-0", None),
        ("bytes=100-", None),
        ("bytes=-", (0, 100)),
        ("bytes=9-3", (0, 100)),
        ("bytes=0-1,5-6", (0, 100)),
        ("lines=1-2", (0, 100)),
    ],
)
def test_ranges_are_read_as_the_standard_has_it(header: str | None, span: tuple[int, int] | None):
    assert byte_span(header, 100) == span
