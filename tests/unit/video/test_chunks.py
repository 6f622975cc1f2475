"""Cutting: every frame once, in order, from a key frame that can be sought."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetq.errors import UsageError
from jetq.video.chunks import MAX_CUTS_PER_GOP, Index, plan, whole


def index(n_frames: int, *keys: int) -> Index:
    pts = tuple(n * 512 + 1024 for n in range(n_frames))
    return Index(n_frames, keys, pts, tuple(k * 512 - 512 for k in keys))


@st.composite
def indexes(draw: st.DrawFn) -> Index:
    n_frames = draw(st.integers(1, 400))
    keys = draw(st.sets(st.integers(1, max(1, n_frames - 1)), max_size=20))
    stamped = draw(st.booleans())
    found = index(n_frames, 0, *sorted(k for k in keys if k < n_frames))
    return found if stamped else Index(n_frames, found.keys)


@given(indexes(), st.integers(1, 200), st.integers(0, 90))
def test_chunks_hold_every_frame_once_and_in_order(found: Index, chunk_frames: int, warmup: int):
    chunks = plan(found, chunk_frames=chunk_frames, warmup=warmup)

    held = [n for chunk in chunks for n in range(chunk.first_frame, chunk.first_frame + chunk.n_frames)]
    assert held == list(range(found.n_frames))
    assert [chunk.index for chunk in chunks] == list(range(len(chunks)))


@given(indexes(), st.integers(1, 200), st.integers(0, 90))
def test_a_chunk_decodes_from_a_key_frame_at_or_before_what_it_feeds(found: Index, chunk_frames: int, warmup: int):
    for chunk in plan(found, chunk_frames=chunk_frames, warmup=warmup):
        assert chunk.start_frame in found.keys
        assert chunk.lead_in >= 0
        assert chunk.warmup == min(warmup, chunk.first_frame)


def test_cuts_fall_on_key_frames_where_there_are_enough():
    chunks = plan(index(250, 0, 30, 76, 137, 187, 242), chunk_frames=60)

    assert [chunk.first_frame for chunk in chunks] == [0, 76, 137, 187]
    assert [chunk.lead_in for chunk in chunks] == [0, 0, 0, 0]


def test_a_clip_with_one_key_frame_is_cut_anywhere_and_decoded_from_its_start():
    chunks = plan(index(120, 0), chunk_frames=30)

    assert [chunk.first_frame for chunk in chunks] == [0, 30, 60, 90]
    assert [chunk.lead_in for chunk in chunks] == [0, 30, 60, 90]
    assert {chunk.start_pts for chunk in chunks} == {None}


def test_a_warmup_starts_at_the_key_frame_before_it():
    second = plan(index(100, 0, 40, 50), chunk_frames=50, warmup=8)[1]

    assert (second.first_frame, second.warmup, second.start_frame, second.lead_in) == (50, 8, 40, 2)
    assert second.first_pts == 42 * 512 + 1024


def test_a_long_stretch_without_key_frames_is_not_decoded_again_and_again():
    chunks = plan(index(90_000, 0), chunk_frames=250)

    assert len(chunks) == MAX_CUTS_PER_GOP


def test_a_file_without_time_stamps_is_counted_from_its_start():
    chunks = plan(Index(100, (0, 50)), chunk_frames=50, warmup=5)

    assert [(chunk.start_frame, chunk.first_pts, chunk.start_pts) for chunk in chunks] == [(0, None, None)] * 2


def test_a_whole_clip_is_one_chunk_to_its_end():
    chunk = whole(index(100, 0, 50))

    assert (chunk.first_frame, chunk.n_frames, chunk.end_pts, chunk.lead_in) == (0, 100, None, 0)


@pytest.mark.parametrize(("chunk_frames", "warmup"), [(0, 0), (10, -1)])
def test_a_cut_that_makes_no_sense_is_refused(chunk_frames: int, warmup: int):
    with pytest.raises(UsageError, match="chunk"):
        plan(index(100, 0), chunk_frames=chunk_frames, warmup=warmup)
