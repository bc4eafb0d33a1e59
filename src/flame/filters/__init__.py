"""Classical methane filters in NumPy, one method per file: `score(radiance, bands, valid, settings)`."""

from flame.filters.background import BackgroundSettings
from flame.filters.columns import filter_layers, filter_scene
from flame.filters.errors import FilterError
from flame.filters.log_mf import LogMatchedFilter, LogMfSettings
from flame.filters.log_mf import fit as fit_log_mf
from flame.filters.mag1c import Mag1cSettings
from flame.filters.mag1c_sas import Mag1cSasSettings
from flame.filters.noise_aware import NoiseAwareResult, NoiseAwareSettings, noise_aware_fields
from flame.filters.registry import FILTERS, LINEAR, Filter, filter_named
from flame.filters.target import LinearSettings

__all__ = [
    "FILTERS",
    "LINEAR",
    "BackgroundSettings",
    "Filter",
    "FilterError",
    "LinearSettings",
    "LogMatchedFilter",
    "LogMfSettings",
    "Mag1cSasSettings",
    "Mag1cSettings",
    "NoiseAwareResult",
    "NoiseAwareSettings",
    "filter_layers",
    "filter_named",
    "filter_scene",
    "fit_log_mf",
    "noise_aware_fields",
]
