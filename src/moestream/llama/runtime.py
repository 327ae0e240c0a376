"""Loads llama.cpp once, the way a streamed decode needs it, and checks that it is the right one."""

from __future__ import annotations

import ctypes
import functools
import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from moestream.errors import AbiError
from moestream.llama.logs import LogBuffer

__all__ = ["Runtime", "returning_address", "runtime"]

# An OpenMP thread that spins while it waits takes the core from whoever it waits for. With one
# busy neighbour that is the difference between milliseconds and seconds a token. A short spin
# keeps the barrier between two nodes cheap where all threads do have a core.
_SPIN_DEFAULT: Final = ("GOMP_SPINCOUNT", "100")
_SPIN_SETTINGS: Final = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")

_lock = threading.RLock()


@dataclass(frozen=True, slots=True)
class Runtime:
    """The loaded llama.cpp.

    Attributes:
        lib: the ``llama_cpp.llama_cpp`` module, untyped on purpose.
        core: the ``moestream._core`` module.
        log: everything llama.cpp has said lately.
        notes: what was decided while loading, in words.
    """

    lib: Any
    core: Any
    log: LogBuffer
    notes: tuple[str, ...]
    _keep_alive: tuple[object, ...]

    @contextmanager
    def loading(self) -> Iterator[int]:
        """Hold while loading a model or making a context; yields a mark of the log.

        One at a time: the sizes of buffers and the reasons of failures are read from the log,
        and two loads at once would mix theirs.
        """
        with _lock:
            yield self.log.mark()
            self.raise_interrupt()

    @property
    def nextn(self) -> Any:
        """Functions for hidden states, which llama.cpp exports but does not call stable.

        Raises:
            AbiError: this build does not have them.
        """
        return _load_nextn()

    def raise_interrupt(self) -> None:
        """Raise what a callback had to keep back, such as a Ctrl-C."""
        interrupt, self.log.interrupt = self.log.interrupt, None
        if interrupt is not None:
            raise interrupt


def runtime() -> Runtime:
    """The runtime, loaded at the first call.

    Raises:
        AbiError: llama.cpp or the native core is missing, or they do not match.
    """
    with _lock:
        return _load()


def returning_address(function: Any, *argtypes: type[Any]) -> Callable[..., int | None]:
    """``function`` of llama.cpp, whose pointer comes back as a number: wrapping it costs time."""
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return ctypes.CFUNCTYPE(ctypes.c_void_p, *argtypes)(address)


@functools.cache
def _load() -> Runtime:
    notes: list[str] = []
    restore = _set_openmp_default(notes)
    # Should ggml ever abort: one line on stderr, and no debugger writing to the answer's stream.
    os.environ.setdefault("GGML_NO_BACKTRACE", "1")
    try:
        package = importlib.import_module("llama_cpp")
        lib: Any = importlib.import_module("llama_cpp.llama_cpp")
    except (ImportError, OSError, RuntimeError) as err:
        raise AbiError(
            f"llama.cpp could not be loaded ({err}); reinstall it with "
            "`pip install --force-reinstall llama-cpp-python`"
        ) from err
    finally:
        # libgomp has read its settings by now; child processes need not inherit ours.
        if restore is not None:
            os.environ.pop(restore, None)

    log = LogBuffer()
    callback = _install_log(lib, log)
    core = _load_core(str(getattr(package, "__version__", "unknown")), lib)
    lib.llama_backend_init()
    return Runtime(lib=lib, core=core, log=log, notes=tuple(notes), _keep_alive=(callback,))


@functools.cache
def _load_nextn() -> Any:
    try:
        return importlib.import_module("llama_cpp.llama_cpp_ext")
    except (ImportError, AttributeError) as err:
        raise AbiError(
            "the installed llama.cpp does not export the functions that drafting with the MTP "
            f"block needs ({err}); reinstall llama-cpp-python, or speculate with --ngram"
        ) from err


def _set_openmp_default(notes: list[str]) -> str | None:
    """Set the spin default unless the user has chosen; the name of what was set."""
    if any(name in os.environ for name in _SPIN_SETTINGS):
        return None
    if _libgomp_loaded():
        notes.append(
            "OpenMP was loaded before moestream, so its spin setting stands; if decoding is slow "
            "on a busy machine, start Python with GOMP_SPINCOUNT=100"
        )
        return None
    name, value = _SPIN_DEFAULT
    os.environ[name] = value
    return name


def _libgomp_loaded() -> bool:
    if sys.platform != "linux":
        return False
    try:
        return "libgomp" in Path("/proc/self/maps").read_text(errors="replace")
    except OSError:
        return False


def _install_log(lib: Any, log: LogBuffer) -> object:
    def receive(level: int, text: bytes | None, _user_data: object) -> None:
        # An exception must not cross the C frames above; there is nobody to tell it to.
        try:
            log.append(int(level), (text or b"").decode("utf-8", errors="replace"))
        except Exception:
            return
        except BaseException as err:
            log.interrupt = err

    callback: object = lib.llama_log_callback(receive)
    lib.llama_log_set(callback, ctypes.c_void_p(0))
    return callback


def _load_core(version: str, lib: Any) -> Any:
    # After llama_cpp: the core's libraries then resolve to the copies already loaded.
    try:
        core = importlib.import_module("moestream._core")
    except ImportError as err:
        raise AbiError(
            f"the native core could not be loaded with llama-cpp-python {version} ({err}); "
            "reinstall moestream"
        ) from err
    wanted = core.LLAMA_CPP_PYTHON_VERSION
    if version != wanted:
        raise AbiError(
            f"moestream was built for llama-cpp-python {wanted}, but {version} is installed; "
            f"run `pip install llama-cpp-python=={wanted}`, or rebuild moestream"
        )
    mismatch = core.check_abi(
        ctypes.sizeof(lib.llama_model_params), ctypes.sizeof(lib.llama_context_params)
    )
    if mismatch is not None:
        raise AbiError(
            f"the installed llama.cpp does not match the native core: {mismatch}; "
            "reinstall llama-cpp-python and moestream together"
        )
    return core
