"""Loading and freeing a model."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from moestream.errors import ModelError
from moestream.llama.logs import LogBuffer
from moestream.llama.runtime import Runtime, runtime
from moestream.llama.vocab import Vocab

__all__ = ["LoadProgress", "Model", "ModelOptions", "TensorOverride"]

#: Told the loaded fraction (0 to 1); returning ``False`` stops the load.
LoadProgress = Callable[[float], "bool | None"]


class TensorOverride(NamedTuple):
    """Tensors whose name matches ``pattern`` go into the buffer type at ``buffer_type``."""

    pattern: str
    buffer_type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """How to load.

    Attributes:
        repack: let llama.cpp rearrange weights for its faster kernels.
        load_mtp: load the tensors of the next-token-prediction block, where there is one.
        overrides: where matching tensors go; the first match counts.
        metadata: integer metadata that replaces what the file says.
        vocab_only: load the tokenizer and nothing else.
    """

    repack: bool = False
    load_mtp: bool = False
    overrides: tuple[TensorOverride, ...] = ()
    metadata: Mapping[str, int] = field(default_factory=dict)
    vocab_only: bool = False


class _BufferOverride(ctypes.Structure):
    # llama_model_tensor_buft_override; the bindings declare it only as a bare pointer.
    _fields_ = [("pattern", ctypes.c_char_p), ("buft", ctypes.c_void_p)]


class Model:
    """A loaded model. Free it after its contexts and before the expert store."""

    def __init__(self, rt: Runtime, pointer: Any, path: Path) -> None:
        """Take over ``llama_model *``; use :meth:`load`."""
        lib = rt.lib
        self._rt = rt
        self._pointer = pointer
        self._free_lock = threading.Lock()
        self.path = path
        self.vocab = Vocab(rt, lib.llama_model_get_vocab(pointer))
        self.n_ctx_train = int(lib.llama_model_n_ctx_train(pointer))
        self.n_embd = int(lib.llama_model_n_embd(pointer))
        self.n_layer = int(lib.llama_model_n_layer(pointer))
        self.n_layer_nextn = int(lib.llama_model_n_layer_nextn(pointer))
        self.is_recurrent = bool(lib.llama_model_is_recurrent(pointer))
        self.is_hybrid = bool(lib.llama_model_is_hybrid(pointer))
        self.has_encoder = bool(lib.llama_model_has_encoder(pointer))

    @classmethod
    def load(
        cls,
        path: Path,
        options: ModelOptions,
        *,
        progress: LoadProgress | None = None,
    ) -> Model:
        """Load ``path`` (of a split model: its first shard).

        Raises:
            ModelError: llama.cpp refused; the message carries its own last errors.
        """
        rt = runtime()
        lib = rt.lib
        params = lib.llama_model_default_params()
        # Never llama.cpp's own mmap: it reads the whole file, experts included.
        params.load_mode = lib.LLAMA_LOAD_MODE_NONE
        params.use_extra_bufts = options.repack
        params.load_mtp = options.load_mtp
        params.vocab_only = options.vocab_only
        params.n_gpu_layers = 0
        keep_alive: list[object] = []
        if options.overrides:
            buffers = _buffer_overrides(options.overrides)
            keep_alive.append(buffers)
            params.tensor_buft_overrides = ctypes.cast(buffers, ctypes.c_void_p).value
        if options.metadata:
            pairs = _metadata_overrides(lib, options.metadata)
            keep_alive.append(pairs)
            params.kv_overrides = pairs
        failures: list[BaseException] = []
        callback = _progress_callback(lib, progress, failures, rt.log)
        keep_alive.append(callback)
        params.progress_callback = callback

        with rt.loading() as mark:
            pointer = lib.llama_model_load_from_file(str(path).encode(), params)
            complaint = rt.log.complaint(mark)
            if pointer and (failures or rt.log.interrupt is not None):
                lib.llama_model_free(pointer)
        if failures:
            raise failures[0]
        if not pointer:
            raise ModelError(f"llama.cpp could not load {path}: {complaint or 'no reason given'}")
        return cls(rt, pointer, path)

    @property
    def pointer(self) -> Any:
        """``llama_model *``."""
        if self._pointer is None:
            raise RuntimeError("the model has been freed")
        return self._pointer

    @property
    def keeps_state(self) -> bool:
        """Whether the past is folded into a state that cannot be trimmed token by token."""
        return self.is_recurrent or self.is_hybrid

    @property
    def description(self) -> str:
        """Architecture, size class and quantisation in a few words."""
        buffer = ctypes.create_string_buffer(256)
        self._rt.lib.llama_model_desc(self.pointer, buffer, len(buffer))
        return buffer.value.decode("utf-8", errors="replace")

    @property
    def chat_template(self) -> str | None:
        """The model's own Jinja chat template."""
        text: bytes | None = self._rt.lib.llama_model_chat_template(self.pointer, None)
        return None if text is None else text.decode("utf-8", errors="replace")

    def metadata(self, key: str) -> str | None:
        """A metadata value as text, or ``None``."""
        size = 4096
        for _ in range(2):
            buffer = ctypes.create_string_buffer(size)
            count = self._rt.lib.llama_model_meta_val_str(self.pointer, key.encode(), buffer, size)
            if count < 0:
                return None
            if count < size:
                return buffer.value.decode("utf-8", errors="replace")
            size = count + 1
        return None

    def close(self) -> None:
        """Free the model, once."""
        with self._free_lock:
            pointer, self._pointer = self._pointer, None
        if pointer is not None:
            self._rt.lib.llama_model_free(pointer)

    def __enter__(self) -> Model:
        """The model itself."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Free the model."""
        self.close()


def _buffer_overrides(overrides: tuple[TensorOverride, ...]) -> ctypes.Array[_BufferOverride]:
    array = (_BufferOverride * (len(overrides) + 1))()
    for index, override in enumerate(overrides):
        array[index].pattern = override.pattern.encode()
        array[index].buft = override.buffer_type
    return array


def _metadata_overrides(lib: Any, metadata: Mapping[str, int]) -> Any:
    array = (lib.llama_model_kv_override * (len(metadata) + 1))()
    for index, (key, value) in enumerate(metadata.items()):
        encoded = key.encode()
        if len(encoded) >= 128:
            raise ModelError(f"the metadata key {key!r} is too long to be overridden")
        array[index].tag = lib.LLAMA_KV_OVERRIDE_TYPE_INT
        array[index].key = encoded
        array[index].value.val_i64 = value
    return array


def _progress_callback(
    lib: Any, progress: LoadProgress | None, failures: list[BaseException], log: LogBuffer
) -> object:
    def report(fraction: float, _user_data: object) -> bool:
        # Exceptions stop at the C frames: keep it, end the load, raise it afterwards.
        try:
            if log.interrupt is not None:
                return False
            return progress is None or progress(float(fraction)) is not False
        except BaseException as err:
            failures.append(err)
            return False

    callback: object = lib.llama_progress_callback(report)
    return callback
