"""Measuring: cells against each other on one file, and what may be said about the difference."""
