"""``moestream serve``: an OpenAI-compatible API, and the app, around one engine.

The engine runs in a process of its own (:mod:`moestream.server.worker`), so that a busy event loop
never delays a decode, and a crash of the engine is an error message and a restart.
"""
