"""Each module prints one table of ratios, measured here and now, and can save it under results/."""
