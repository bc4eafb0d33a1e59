"""FLAME: methane plumes in imaging-spectrometer data, found by a physics-guided neural operator."""

__version__ = "0.1.0"
