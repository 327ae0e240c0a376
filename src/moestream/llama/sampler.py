"""llama.cpp's sampler chain, for everything but greedy decoding."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from moestream.config import SamplingConfig
from moestream.errors import PlatformError
from moestream.llama.context import Context
from moestream.llama.runtime import runtime

__all__ = ["PENALTY_WINDOW", "SamplerChain"]

#: Tokens that the repeat penalty looks back on.
PENALTY_WINDOW: Final = 64


class SamplerChain:
    """Penalties, top-k, top-p, min-p, temperature, and a seeded draw."""

    def __init__(
        self,
        config: SamplingConfig,
        *,
        seed: int,
        n_vocab: int,
        suppressed: frozenset[int] = frozenset(),
    ) -> None:
        """Build the chain for one generation."""
        lib = runtime().lib
        params = lib.llama_sampler_chain_default_params()
        params.no_perf = True
        chain = lib.llama_sampler_chain_init(params)
        if not chain:
            raise PlatformError("llama.cpp could not make a sampler chain")
        self._lib = lib
        self._chain: Any = chain
        if suppressed:
            biases = (lib.llama_logit_bias * len(suppressed))()
            for index, token in enumerate(sorted(suppressed)):
                biases[index].token = token
                biases[index].bias = float("-inf")
            self._add(lib.llama_sampler_init_logit_bias(n_vocab, len(suppressed), biases))
        if config.repeat_penalty != 1.0:
            self._add(
                lib.llama_sampler_init_penalties(
                    n_vocab, PENALTY_WINDOW, config.repeat_penalty, 0.0, 0.0
                )
            )
        if config.top_k > 0:
            self._add(lib.llama_sampler_init_top_k(config.top_k))
        if config.top_p < 1.0:
            self._add(lib.llama_sampler_init_top_p(config.top_p, 1))
        if config.min_p > 0.0:
            self._add(lib.llama_sampler_init_min_p(config.min_p, 1))
        self._add(lib.llama_sampler_init_temp(config.temperature))
        self._add(lib.llama_sampler_init_dist(seed))

    def accept(self, tokens: Iterable[int]) -> None:
        """Let the penalties know of tokens that stand in the context already."""
        for token in tokens:
            self._lib.llama_sampler_accept(self._chain, token)

    def sample(self, context: Context, row: int = -1) -> int:
        """Draw a token from a row of the last decode."""
        return int(self._lib.llama_sampler_sample(self._chain, context.pointer, row))

    def close(self) -> None:
        """Free the chain, once."""
        chain, self._chain = self._chain, None
        if chain is not None:
            self._lib.llama_sampler_free(chain)

    def _add(self, sampler: Any) -> None:
        self._lib.llama_sampler_chain_add(self._chain, sampler)
