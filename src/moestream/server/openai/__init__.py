"""``/v1``: what clients of OpenAI's API expect."""

from __future__ import annotations

from moestream.server.openai.routes import router

__all__ = ["router"]
