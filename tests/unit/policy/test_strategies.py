"""Strategies: names, rates and the own ones that packages add."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jetq.errors import UsageError
from jetq.policy import strategies
from jetq.policy.boards import prior
from jetq.policy.strategies import Capacity


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed package that adds a strategy; the test may still change its files."""
    info = tmp_path / "coldest-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: coldest\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[jetq.strategies]\ncoldest = coldest_jetq:COLDEST\n")
    (tmp_path / "coldest_jetq.py").write_text(
        "from jetq.policy.strategies import Strategy\n"
        "COLDEST = Strategy('coldest', 'least', lambda node: 1.0 / node.trim ** 2)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    strategies.known.cache_clear()
    yield tmp_path
    strategies.known.cache_clear()
    sys.modules.pop("coldest_jetq", None)


def test_every_built_in_strategy_has_a_rate():
    rates = strategies.rates(4, 2.0, 0.5)

    assert rates == {"round_robin": 1.0, "least_connections": 0.25, "weighted": 0.125, "dynamic": 0.25}


def test_an_unknown_strategy_names_the_nearest():
    with pytest.raises(UsageError, match=r"did you mean round_robin"):
        strategies.get("roundrobin")


def test_a_strategy_of_another_package_is_known_by_its_name(package):
    assert strategies.get("coldest").mode == "least"
    assert strategies.rates(1, 1.0, 0.5)["coldest"] == 4.0


def test_a_strategy_that_cannot_be_loaded_is_named(package):
    (package / "coldest_jetq.py").write_text("import no_such_module_here\n")

    with pytest.raises(UsageError, match=r"'coldest'.*cannot be loaded.*no_such_module_here"):
        strategies.known()


def test_a_strategy_may_not_take_a_name_in_use(package):
    text = (package / "coldest_jetq.py").read_text()
    (package / "coldest_jetq.py").write_text(text.replace("'coldest'", "'dynamic'"))

    with pytest.raises(UsageError, match=r"'dynamic'.*exists already"):
        strategies.known()


def test_a_thing_that_is_no_strategy_is_refused(package):
    (package / "coldest_jetq.py").write_text("COLDEST = 7\n")

    with pytest.raises(UsageError, match=r"must be a jetq.policy.strategies.Strategy"):
        strategies.known()


@given(slots=st.integers(1, 1024), prior_=st.floats(0, 1e3), trim=st.floats(0, 1))
def test_rates_stay_finite_and_above_zero_whatever_comes_in(slots, prior_, trim):
    own = strategies.Strategy("own", "least", lambda node: 1.0 / max(node.weight * node.trim, 1e-300))

    assert 0 < strategies.sane_rate(own.rate(Capacity(slots, prior_, trim))) <= strategies.MAX_RATE


def test_only_dynamic_counts_net_and_the_learned_speed():
    assert strategies.get("dynamic").score(1, 2, 0.5, speed=2.0, net=0.1) == pytest.approx(1.05)
    assert strategies.get("least_connections").score(1, 2, 0.5, speed=2.0, net=0.1) == pytest.approx(1.0)
    assert {name: own.how for name, own in strategies.BUILT_IN.items()} == {
        "round_robin": "stride",
        "least_connections": "least",
        "weighted": "stride",
        "dynamic": "learned",
    }


def test_boards_are_ordered_by_generation_and_unknown_ones_count_as_a_pc():
    boards = [
        "Jetson Nano",
        "TX2",
        "Xavier NX",
        "AGX Xavier",
        "Orin Nano 8GB",
        "Orin NX 16GB",
        "AGX Orin 64GB",
        "AGX Thor",
    ]

    priors = [prior(b) for b in boards]

    assert priors == sorted(priors)
    assert prior("pc") == prior("") == 1.0
    assert prior("NVIDIA Jetson Orin NX Engineering Reference Developer Kit") == prior("orin-nx-16gb")
