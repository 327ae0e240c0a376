"""Ways to run the server beyond one process: replicas behind Ray Serve."""

from __future__ import annotations

__all__: list[str] = []
