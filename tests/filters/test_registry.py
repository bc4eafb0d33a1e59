"""Names, units and the canonical thresholds of the paper."""

import numpy as np
import pytest

from filters.simulated_tile import simulated_tile
from flame.filters import FILTERS, FilterError, filter_named


def test_canonical_thresholds_and_units():
    assert {name: (entry.threshold, entry.unit) for name, entry in FILTERS.items()} == {
        "cem": (0.004, "statistic"),
        "mf": (0.004, "statistic"),
        "ace": (0.03, "statistic"),
        "cem-additive": (0.004, "statistic"),
        "mf-additive": (0.004, "statistic"),
        "ace-additive": (0.03, "statistic"),
        "mag1c": (300.0, "ppm m"),
        "mag1c-sas": (300.0, "ppm m"),
        "log-mf": (None, "ppm m"),
        "noise-aware-mf": (None, "ppm m"),
    }


@pytest.mark.parametrize("name", FILTERS)
def test_thresholds_find_a_clear_plume(name):
    tile = simulated_tile(seed=9, peak_ppm_m=4000.0)
    score = filter_named(name).score(*tile.inputs)
    assert score.shape == tile.valid.shape
    assert score.dtype == np.float32
    threshold = FILTERS[name].threshold or 1000.0
    assert (score[tile.enhancement_ppm_m > 2000] > threshold).mean() > 0.95
    assert (score[tile.enhancement_ppm_m == 0] > threshold).mean() < 0.15


def test_names_do_not_mind_case_and_unknown_ones_are_answered_with_the_list():
    assert filter_named("MAG1C-SAS") is FILTERS["mag1c-sas"]
    with pytest.raises(FilterError, match=f"no filter 'ctmf'; known are {', '.join(FILTERS)}"):
        filter_named("ctmf")
