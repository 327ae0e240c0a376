"""What the routes of ``/api`` work with: everything the server keeps and runs, put together."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import moestream
from moestream.config import EMBEDDED_MODEL, EngineConfig
from moestream.errors import MoestreamError
from moestream.server.api.broadcast import Broadcast
from moestream.server.api.catalog import Catalog, ListedModel
from moestream.server.api.planning import Planning
from moestream.server.api.pulling import Pulling
from moestream.server.api.replies import Replies
from moestream.server.api.run_view import summarize
from moestream.server.store import DataDir
from moestream.server.store.conversations import Conversations
from moestream.server.store.pulls import Pulls
from moestream.server.store.runs import Runs
from moestream.server.store.settings import StoredSettings
from moestream.server.worker import EngineClient
from moestream.settings.values import engine_config, reload_keys

__all__ = ["Services"]

#: How often to look whether the queue or the memory has changed, while somebody watches.
_LOOK_S: Final = 1.0
#: Memory that comes and goes without being worth telling.
_NOTABLE_MIB: Final = 64


class Services:
    """Everything behind ``/api``. Made before the server starts, so that it can refuse to."""

    def __init__(
        self,
        engine: EngineClient,
        *,
        data_dir: Path,
        models_dirs: Sequence[Path] = (),
        base: EngineConfig | None = None,
    ) -> None:
        """Open what is kept.

        Args:
            engine: the engine, whatever its state.
            data_dir: where everything is kept.
            models_dirs: folders of models.
            base: the configuration from the command line.

        Raises:
            ConfigError: the data directory cannot be used, or another server uses it.
            StoreError: what is kept in it cannot be read.
        """
        self.engine = engine
        self.data = DataDir(data_dir)
        try:
            database = self.data.database
            self.settings = StoredSettings(database, base or EngineConfig())
            self.conversations = Conversations(database)
            self.runs = Runs(database, self.data.runs, summarize)
            pulls = Pulls(database)
        except BaseException:
            self.data.close()
            raise
        self.events = Broadcast()
        self.catalog = Catalog(models_dirs, self.settings.base.model)
        self.planning = Planning()
        self.pulling = Pulling(pulls, self._tell_pull)
        self.replies = Replies(engine, self.conversations, self.settings, self.runs)
        self._tasks: set[asyncio.Task[None]] = set()

    # ---- life ------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to follow the engine."""
        for follow in (self._follow_state, self._follow_turns, self._follow_rest):
            self._keep(asyncio.create_task(follow()))

    def let_go(self) -> None:
        """End the streams that would go on for ever; a server that shuts down waits for them."""
        self.events.close()

    async def stop(self) -> None:
        """End what runs, and close what is open; what was said and fetched so far is kept."""
        self.let_go()
        await self.replies.close()
        await self.pulling.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await asyncio.to_thread(self.data.close)

    @contextlib.asynccontextmanager
    async def running(self, _app: Any = None) -> AsyncIterator[None]:
        """From :meth:`start` to :meth:`stop`; fits an application's lifespan."""
        await self.start()
        try:
            yield
        finally:
            await self.stop()

    # ---- the engine ------------------------------------------------------------------------------

    @property
    def wanted_config(self) -> EngineConfig:
        """What to load at the start: the model from the command line, with the settings."""
        return self._config(self.settings.base)

    def reload_config(self) -> EngineConfig:
        """The model that is open, or was meant to be, with the settings as they are now."""
        base, loaded = self.settings.base, self.engine.state.config
        return self._config(base if loaded is None else replace(base, model=loaded.model))

    async def find_model(self, name: str) -> ListedModel:
        """The listed model that ``name`` means.

        Raises:
            UnlistedModelError: there is none.
        """
        return await asyncio.to_thread(self.catalog.resolve, name)

    async def change_settings(self, changes: Mapping[str, Any]) -> None:
        """Take, keep and tell ``changes``.

        Raises:
            SettingError: one cannot be taken; nothing has changed.
            StoreError: they cannot be kept; nothing has changed.
        """
        self.settings.put(changes)
        self.tell_state()

    async def load(self, model: ListedModel | None, *, cancel: bool) -> None:
        """Load in the background; how it goes is told as an event.

        Raises:
            ConfigError: the settings do not go together.
        """
        config = self.reload_config()
        if model is not None:
            embedded = model.source == "embedded"
            # A template from the command line was meant for the model from there.
            same = model.path == Path(config.model)
            config = replace(
                config,
                model=EMBEDDED_MODEL if embedded else model.path,
                chat_template=config.chat_template if same else None,
            )
        config.validate()
        self._in_background(self.engine.load(config, cancel=cancel))
        await asyncio.sleep(0)  # so that the state says what is going on

    async def unload(self, *, cancel: bool) -> None:
        """Unload in the background."""
        self._in_background(self.engine.unload(cancel=cancel))
        await asyncio.sleep(0)

    def pending_reload(self) -> list[str]:
        """Settings whose change waits for a reload."""
        loaded = self.engine.state.config
        if loaded is None:
            return []
        return reload_keys(self.settings.values, loaded, self.settings.base)

    def state(self) -> dict[str, Any]:
        """``GET /api/state``, as JSON."""
        state, queue = self.engine.state, self.engine.queue
        return {
            "phase": state.phase,
            "progress": state.progress,
            "error": state.error,
            "model": self._model(),
            "settings": self.settings.values,
            "pending_reload": self.pending_reload(),
            "report": state.report,
            "queue": {"running": queue.running, "waiting": queue.waiting, "limit": queue.limit},
            "memory": dict(self.engine.memory()),
            "version": moestream.__version__,
        }

    @property
    def loaded_path(self) -> Path | None:
        """The file of the model that is open; of a split one the first shard."""
        report = self.engine.state.report
        paths = report.get("paths") if report else None
        return Path(paths[0]) if paths else None

    def _model(self) -> dict[str, Any] | None:
        state, path = self.engine.state, self.loaded_path
        if state.config is None:
            return None
        report = state.report or {}
        asked = state.config.model
        return {
            "name": state.model or Path(asked).stem,
            "path": str(path or asked),
            "arch": report.get("arch"),
            "size_bytes": sum(_size(Path(part)) for part in report.get("paths", ())) or None,
        }

    def _config(self, base: EngineConfig) -> EngineConfig:
        return replace(engine_config(self.settings.values, base), model=base.model)

    # ---- in the background -----------------------------------------------------------------------

    def tell_state(self) -> None:
        """Tell everybody who listens how things are."""
        if self.events.heard:
            self.events.tell("state", self.state())

    def _tell_pull(self, pull: Mapping[str, Any]) -> None:
        self.events.tell("pull", pull, about=pull["id"])

    async def _follow_state(self) -> None:
        async for _state in self.engine.subscribe():
            self.tell_state()

    async def _follow_turns(self) -> None:
        async for metrics in self.engine.watch():
            self.events.tell("turn", dict(metrics))

    async def _follow_rest(self) -> None:
        """The queue and the memory tell nobody when they change."""
        told: tuple[Any, ...] = ()
        while True:
            await asyncio.sleep(_LOOK_S)
            if not self.events.heard:
                continue
            queue, memory = self.engine.queue, self.engine.memory()
            rough = tuple(
                None if value is None else round(value / _NOTABLE_MIB) for value in memory.values()
            )
            now = (queue.running, queue.waiting, *rough)
            if now != told:
                told = now
                self.tell_state()

    def _in_background(self, work: Awaitable[None]) -> None:
        async def quietly() -> None:
            # What went wrong is in the engine's state, which everybody is told.
            with contextlib.suppress(MoestreamError):
                await work

        self._keep(asyncio.create_task(quietly()))

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
