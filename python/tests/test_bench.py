"""Experiments: the program `atoll` as a function."""

import pytest

import atoll
from atoll._bench import arguments


def test_options_become_a_command_line():
    line = arguments("micro", {"islands": [1, 2], "multisite": range(0, 3), "profile": True, "skew": None, "hot": False})
    assert line == ["bench", "micro", "--islands", "1,2", "--multisite", "0,1,2", "--profile", "--json"]
    assert arguments("tpcb", {"no_pin": True, "op": "update"}) == ["bench", "tpcb", "--no-pin", "--op", "update", "--json"]


def test_a_sweep_is_a_frame_with_a_line_for_each_row():
    frame = atoll.bench(
        "micro", islands=[1, 2], workers=2, multisite=50, dataset=2000, duration="100ms", warmup="50ms", repeat=1
    )
    assert frame.islands.tolist() == [1, 2]
    assert (frame.tps > 0).all()


def test_a_wrong_option_is_told_in_the_program_s_words():
    with pytest.raises(atoll.BenchError, match="no-such-option"):
        atoll.bench("micro", no_such_option=1)


def test_a_missing_program_is_named(monkeypatch):
    monkeypatch.setenv("ATOLL", "/nowhere/atoll")
    with pytest.raises(atoll.BenchError, match="/nowhere/atoll"):
        atoll.bench("micro")
