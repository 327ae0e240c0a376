"""Tests of moestream; they mirror the package."""
