"""Writing a giant: what tensors there are, and where their bytes come from."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from moestream.errors import ConfigError
from moestream.gguf.blocks import encode, random_blocks
from moestream.gguf.model import shown
from moestream.gguf.types import GGMLType, MetaValue
from moestream.gguf.writer import Chunks, TensorSpec, Typed, write_model
from moestream.models.synth.planted import PlantedTokens, shared_variance_for
from moestream.models.synth.shapes import GiantShape
from moestream.models.synth.vocabulary import vocabulary_metadata

__all__ = ["DEFAULT_OVERLAP", "DEFAULT_SKEW", "giant_bytes", "make_giant"]

DEFAULT_OVERLAP: Final = 0.40
DEFAULT_SKEW: Final = 0.30

#: Neighbouring tokens' overlap that can be asked for.
OVERLAP_RANGE: Final = (0.05, 0.60)

# The whole trunk adds this much (root mean square) to an embedding of one: enough to matter for
# the routing of later layers, little enough for the planted structure to survive.
_TRUNK: Final = 0.5
# What it adds is different for each token, so neighbours are less alike in late layers. Measured:
# variance added on average over the layers, and the part of it that neighbours have in common.
_TRUNK_VARIANCE: Final = 0.16
_TRUNK_SHARED: Final = 0.4
_HEADROOM: Final = 64 << 20
_POOL_BYTES: Final = 64 << 20

# Root mean squares, found by measuring, of what goes into the last matrix of a block's parts.
_RMS_DELTA_NET: Final = 0.55
_RMS_ATTENTION: Final = 0.42
_RMS_EXPERTS: Final = 0.33
_RMS_SHARED: Final = 0.35


def make_giant(
    shape: GiantShape,
    path: Path,
    *,
    overlap: float = DEFAULT_OVERLAP,
    skew: float = DEFAULT_SKEW,
    seed: int = 1,
    on_bytes: Callable[[int], None] | None = None,
) -> Path:
    """Write a giant of ``shape`` to ``path``; it appears there when it is complete.

    Measured in llama.cpp, greedy decoding, six to eight layers of the 35B shape: asked for an
    overlap of 0.20, 0.40 and 0.55, got 0.20, 0.42 to 0.44 and 0.62. At 0.40 the most popular tenth
    of a layer's experts takes 83 % of the routings of 64 tokens, and the nextn head's drafts are
    accepted in 81 % of the cases at width 1 and 69 % at width 3. The overlap holds within a topic,
    which is what a model walks through when it decodes; a prompt of unrelated words has less.

    Args:
        overlap: share of a token's experts that the token before it used too.
        skew: width of the lognormal distribution of the router rows' norms; 0 makes all experts
            about equally popular.
        seed: of all random numbers.
        on_bytes: called with the number of tensor bytes just written.

    Raises:
        ConfigError: if a setting is out of range or the disk has too little space.
    """
    low, high = OVERLAP_RANGE
    if not low <= overlap <= high:
        raise ConfigError(f"the overlap must lie in {low}..{high}, got {overlap}")
    if not 0 <= skew <= 2:
        raise ConfigError(f"the skew must lie in 0..2, got {skew}")
    _check_layers(shape)
    if not path.parent.is_dir():
        raise ConfigError(f"there is no directory {shown(path.parent)} to write the model into")
    if path.is_dir():
        raise ConfigError(f"{shown(path)} is a directory; give the name of the file to write")
    needed = giant_bytes(shape) + _HEADROOM
    free = shutil.disk_usage(path.parent).free
    if free < needed:
        raise ConfigError(
            f"the model takes {needed / 1e9:.1f} GB, but {shown(path.parent)} has only "
            f"{free / 1e9:.1f} GB free; write it elsewhere or make it with fewer layers"
        )
    maker = _Maker(shape, overlap, skew, seed)
    write_model(path, maker.metadata(), maker.tensors(), on_bytes=on_bytes)
    return path


def giant_bytes(shape: GiantShape) -> int:
    """Return the bytes of all tensors of a giant.

    Raises:
        ConfigError: it has too many layers, or none.
    """
    _check_layers(shape)
    # The maker plans its matrices when they are written, so this costs nothing.
    return sum(tensor.nbytes for tensor in _Maker(shape, DEFAULT_OVERLAP, 0.0, 0).tensors())


def _check_layers(shape: GiantShape) -> None:
    if not 1 <= shape.layers <= 500:
        raise ConfigError(f"a giant has 1 to 500 layers, not {shape.layers}")


class _Maker:
    """The tensors of one giant; their random numbers are drawn when they are written."""

    def __init__(self, shape: GiantShape, overlap: float, skew: float, seed: int) -> None:
        self._shape = shape
        self._overlap = overlap
        self._skew = skew
        self._rng = np.random.Generator(np.random.SFC64(seed))
        self._seed = seed
        self._pools: dict[float, npt.NDArray[np.uint8]] = {}
        self._planted: PlantedTokens | None = None
        self._list: list[TensorSpec] = []

    def metadata(self) -> dict[str, MetaValue | Typed]:
        """Everything the header says besides the tensors."""
        s = self._shape
        values: dict[str, MetaValue | Typed] = {
            "block_count": s.layers + 1,
            "nextn_predict_layers": 1,
            "context_length": s.context,
            "embedding_length": s.n_embd,
            "feed_forward_length": s.n_ff,
            "attention.head_count": s.heads,
            "attention.head_count_kv": s.kv_heads,
            "attention.key_length": s.head_dim,
            "attention.value_length": s.head_dim,
            "attention.layer_norm_rms_epsilon": 1e-6,
            "rope.dimension_count": s.rotary,
            "rope.dimension_sections": list(s.rope_sections),
            "rope.freq_base": 1e7,
            "expert_count": s.n_expert,
            "expert_used_count": s.n_expert_used,
            "expert_feed_forward_length": s.n_ff,
            "expert_shared_feed_forward_length": s.n_ff,
            "ssm.conv_kernel": s.conv,
            "ssm.state_size": s.state,
            "ssm.group_count": s.key_heads,
            "ssm.time_step_rank": s.value_heads,
            "ssm.inner_size": s.state * s.value_heads,
            "full_attention_interval": s.attention_interval,
        }
        head: dict[str, MetaValue | Typed] = {
            "general.architecture": "qwen35moe",
            "general.type": "model",
            "general.name": f"synthetic {s.name}, {s.layers} layers",
            "general.description": (
                "Random weights in the exact shape of a real model, for measuring. "
                f"Overlap {self._overlap}, skew {self._skew}, seed {self._seed}."
            ),
            "general.file_type": 15,
        }
        head.update({f"qwen35moe.{key}": value for key, value in values.items()})
        head.update(vocabulary_metadata(s.n_vocab))
        return head

    def tensors(self) -> list[TensorSpec]:
        """All tensors in file order."""
        s = self._shape
        self._list = []
        self._add("token_embd.weight", s.embedding_type, (s.n_embd, s.n_vocab), self._embedding)
        self._ones("output_norm.weight", s.n_embd)
        self._add("output.weight", s.embedding_type, (s.n_embd, s.n_vocab), self._output)
        for layer in range(s.layers):
            recurrent = (layer + 1) % s.attention_interval != 0
            self._block(f"blk.{layer}.", recurrent, _TRUNK / math.sqrt(2 * s.layers))
        prefix = f"blk.{s.layers}."
        self._block(prefix, False, 0.15)
        self._add(
            prefix + "nextn.eh_proj.weight", GGMLType.Q8_0, (2 * s.n_embd, s.n_embd), self._eh_proj
        )
        for name in ("enorm", "hnorm", "shared_head_norm"):
            self._ones(f"{prefix}nextn.{name}.weight", s.n_embd)
        return self._list

    # -- layers -----------------------------------------------------------------------------

    def _block(self, prefix: str, recurrent: bool, gain: float) -> None:
        s = self._shape
        self._ones(prefix + "attn_norm.weight", s.n_embd)
        self._ones(prefix + "post_attention_norm.weight", s.n_embd)
        if recurrent:
            self._delta_net(prefix, gain)
        else:
            self._attention(prefix, gain)
        self._f32(prefix + "ffn_gate_inp.weight", (s.n_embd, s.n_expert), self._router)
        experts = (s.n_embd, s.n_ff, s.n_expert)
        plain = 1 / math.sqrt(s.n_embd)
        self._experts(prefix + "ffn_gate_exps.weight", experts, plain)
        self._experts(prefix + "ffn_up_exps.weight", experts, plain)
        down = gain / (math.sqrt(s.n_ff) * _RMS_EXPERTS)
        self._experts(prefix + "ffn_down_exps.weight", (s.n_ff, s.n_embd, s.n_expert), down)
        self._f32(prefix + "ffn_gate_inp_shexp.weight", (s.n_embd,), self._normal(plain))
        self._dense(prefix + "ffn_gate_shexp.weight", s.n_embd, s.n_ff)
        self._dense(prefix + "ffn_up_shexp.weight", s.n_embd, s.n_ff)
        self._dense(prefix + "ffn_down_shexp.weight", s.n_ff, s.n_embd, gain / _RMS_SHARED)

    def _delta_net(self, prefix: str, gain: float) -> None:
        s = self._shape
        inner, convolved = s.state * s.value_heads, s.state * (2 * s.key_heads + s.value_heads)
        heads = s.value_heads
        self._dense(prefix + "attn_qkv.weight", s.n_embd, convolved)
        self._dense(prefix + "attn_gate.weight", s.n_embd, inner)
        self._f32(prefix + "ssm_conv1d.weight", (s.conv, convolved), self._normal(0.5))
        self._f32(prefix + "ssm_dt.bias", (heads,), lambda _: self._rng.uniform(-4, -1, heads))
        self._f32(prefix + "ssm_a", (heads,), lambda _: -self._rng.uniform(0.05, 2, heads))
        plain = 1 / math.sqrt(s.n_embd)
        self._f32(prefix + "ssm_beta.weight", (s.n_embd, heads), self._normal(plain))
        self._f32(prefix + "ssm_alpha.weight", (s.n_embd, heads), self._normal(plain))
        self._ones(prefix + "ssm_norm.weight", s.state)
        self._dense(prefix + "ssm_out.weight", inner, s.n_embd, gain / _RMS_DELTA_NET)

    def _attention(self, prefix: str, gain: float) -> None:
        s = self._shape
        inner = s.heads * s.head_dim
        self._dense(prefix + "attn_q.weight", s.n_embd, 2 * inner)  # queries and gates
        self._dense(prefix + "attn_k.weight", s.n_embd, s.kv_heads * s.head_dim)
        self._dense(prefix + "attn_v.weight", s.n_embd, s.kv_heads * s.head_dim)
        self._dense(prefix + "attn_output.weight", inner, s.n_embd, gain / _RMS_ATTENTION)
        self._ones(prefix + "attn_q_norm.weight", s.head_dim)
        self._ones(prefix + "attn_k_norm.weight", s.head_dim)

    # -- kinds of tensors -------------------------------------------------------------------

    def _add(
        self, name: str, kind: GGMLType, shape: tuple[int, ...], chunks: Callable[[], Chunks]
    ) -> None:
        self._list.append(TensorSpec(name, kind, shape, chunks))

    def _f32(
        self,
        name: str,
        shape: tuple[int, ...],
        values: Callable[[tuple[int, ...]], npt.ArrayLike],
    ) -> None:
        self._add(name, GGMLType.F32, shape, lambda: [encode(GGMLType.F32, values(shape)).data])

    def _ones(self, name: str, n: int) -> None:
        self._f32(name, (n,), np.ones)

    def _normal(self, sigma: float) -> Callable[[tuple[int, ...]], npt.ArrayLike]:
        return lambda shape: self._rng.standard_normal(shape[::-1]) * sigma

    def _dense(self, name: str, columns: int, rows: int, gain: float = 1.0) -> None:
        kind, sigma = self._shape.dense_type, gain / math.sqrt(columns)
        self._add(
            name,
            kind,
            (columns, rows),
            lambda: [random_blocks(kind, columns * rows, sigma, self._rng).data],
        )

    def _experts(self, name: str, shape: tuple[int, int, int], sigma: float) -> None:
        self._add(name, self._shape.expert_type, shape, lambda: self._expert_slices(shape, sigma))

    def _expert_slices(self, shape: tuple[int, int, int], sigma: float) -> Iterator[memoryview]:
        """Yield one expert after the other, each another window of a pool of random blocks.

        Drawing 18 GB of random numbers would take longer than writing them. Windows begin at
        random blocks, so no two experts have a row in common but for a rare coincidence.
        """
        kind = self._shape.expert_type
        pool = self._pools.get(sigma)
        nbytes = shape[0] * shape[1] // kind.block_size * kind.type_size
        if pool is None:
            size = max(4 * nbytes, min(_POOL_BYTES, shape[2] * nbytes))
            blocks = size // kind.type_size
            pool = random_blocks(kind, blocks * kind.block_size, sigma, self._rng)
            self._pools[sigma] = pool
        starts = self._rng.integers(0, (len(pool) - nbytes) // kind.type_size, shape[2])
        for start in starts * kind.type_size:
            yield pool[start : start + nbytes].data

    # -- tensors with a structure -----------------------------------------------------------

    def _tokens(self) -> PlantedTokens:
        if self._planted is None:
            s = self._shape
            routed = shared_variance_for(self._overlap, s.n_expert, s.n_expert_used, self._skew)
            shared = (1 + _TRUNK_VARIANCE) * routed - _TRUNK_VARIANCE * _TRUNK_SHARED
            shared = min(max(shared, 0.0), 0.96)
            self._planted = PlantedTokens(s.n_vocab, s.n_embd, shared, self._rng)
        return self._planted

    def _embedding(self) -> Iterator[memoryview]:
        return self._tokens().embedding()

    def _output(self) -> Iterator[memoryview]:
        yield from self._tokens().output()
        self._planted = None  # half a gigabyte that nothing needs any more

    def _router(self, shape: tuple[int, ...]) -> npt.ArrayLike:
        n_embd, n_expert = shape
        rows = self._rng.standard_normal((n_expert, n_embd)) * (1.5 / math.sqrt(n_embd))
        norms = np.exp(self._skew * self._rng.standard_normal((n_expert, 1)))
        return rows * norms

    def _eh_proj(self) -> Iterator[memoryview]:
        """The identity on the embedding half, and a little noise: the head is often right."""
        n = self._shape.n_embd
        values = self._rng.standard_normal((n, 2 * n), np.float32)
        values *= np.float32(0.2 / math.sqrt(2 * n))
        values[:, :n] += np.eye(n, dtype=np.float32)
        yield encode(GGMLType.Q8_0, values).data
