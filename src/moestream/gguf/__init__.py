"""Reading and writing GGUF files. Hostile input ends here, as one clear GGUFError."""

from moestream.gguf.check import check_model
from moestream.gguf.model import GGUFModel, TensorInfo
from moestream.gguf.reader import read_model
from moestream.gguf.types import GGMLType, MetaValue, ValueType
from moestream.gguf.writer import TensorSpec, Typed, shard_path, write_model

__all__ = [
    "GGMLType",
    "GGUFModel",
    "MetaValue",
    "TensorInfo",
    "TensorSpec",
    "Typed",
    "ValueType",
    "check_model",
    "read_model",
    "shard_path",
    "write_model",
]
