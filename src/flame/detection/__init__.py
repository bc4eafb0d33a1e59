"""Decision rule, morphology, tiling, plume objects and metrics. NumPy only."""
