"""Tests of the governor."""
