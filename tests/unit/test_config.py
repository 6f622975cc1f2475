"""Settings from the environment."""

from __future__ import annotations

import pytest

from jetq.config import Settings
from jetq.errors import UsageError


def test_slots_of_several_nodes_are_only_jetq_ups_business():
    assert Settings.from_environ({"JETQ_SLOTS": "4,2,1"}).slots is None
    assert Settings.from_environ({"JETQ_SLOTS": "4"}).slots == 4


@pytest.mark.parametrize("text", ["many", "4,many", "4,"])
def test_slots_that_are_no_numbers_are_refused(text):
    with pytest.raises(UsageError, match="a number is needed"):
        Settings.from_environ({"JETQ_SLOTS": text})


@pytest.mark.parametrize("text", ["1e6", "1MiB", "0.5"])
def test_bytes_are_whole_numbers(text):
    with pytest.raises(UsageError, match=f"JETQ_MAX_RESULT_BYTES='{text}': a whole number is needed"):
        Settings.from_environ({"JETQ_MAX_RESULT_BYTES": text})


def test_commands_of_gangs_may_be_limited_by_patterns():
    settings = Settings.from_environ({"JETQ_GANG_ALLOW": "python train.py *, ./run.sh"})

    assert settings.gang_allow == ("python train.py *", "./run.sh")
    assert settings.as_environ() == {"JETQ_GANG_ALLOW": "python train.py *,./run.sh"}
