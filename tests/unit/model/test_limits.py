"""An error is kept whole up to its limit, and cut with a mark beyond it."""

from __future__ import annotations

import pytest

from jetq.model.limits import ERROR_BYTES, cut


@pytest.mark.parametrize("text", ["", "boom", "x" * ERROR_BYTES])
def test_a_short_error_is_kept_as_it_is(text):
    assert cut(text) == text


def test_a_long_error_is_cut_between_characters_and_says_so():
    kept = cut("x" + "é" * ERROR_BYTES)

    assert kept.startswith("xé")
    assert kept.endswith(f"é … (cut: it has {2 * ERROR_BYTES + 1} bytes)")


def test_an_error_that_is_no_text_at_all_is_kept_readable():
    assert cut("a\ud800") == "a?"
    assert cut("\ud800" * ERROR_BYTES * 2).startswith("???")
