"""Tests of reading and writing GGUF files."""
