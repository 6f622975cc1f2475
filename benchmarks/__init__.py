"""The budget, measured: one runnable file per row, as ratios within one run."""
