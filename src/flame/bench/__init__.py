"""The paper's tables and figures, the limit and the calibration, as runnable experiments."""
