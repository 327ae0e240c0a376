"""The native core: bytes in the right place at the right time. See core/ for the C++ side.

Every call is cheap or releases the GIL. Nothing here raises for I/O: read errors are kept by the
store and handed out by :meth:`ExpertStore.error` after the decode that met them.
"""

from typing import Literal, TypedDict, final

LLAMA_CPP_PYTHON_VERSION: str
"""Version of llama-cpp-python whose headers the core was compiled against."""

PAGE_SIZE: int
"""Bytes of a memory page here."""

def why_no_overlap() -> str | None:
    """Why compute cannot run while bytes are read on this machine; ``None`` if it can."""

def platform_movers() -> list[str]:
    """Ways to make bytes present that work on this machine, best first.

    ``move`` and ``copy`` let compute run while bytes are read; ``inplace`` cannot.
    """

def check_abi(model_params_size: int, context_params_size: int) -> str | None:
    """Probe the loaded llama.cpp against the headers; the mismatch in words, or ``None``."""

def best_logit(address: int, n: int) -> tuple[int, float]:
    """Index (the lowest of equals) and value of the largest of ``n`` floats at ``address``.

    The value is NaN if any of them is.
    """

def best_probability(address: int, n: int, best: float) -> float:
    """Probability of the largest, ``best``, under a softmax over all; good to four digits."""

class Counters(TypedDict):
    """Running totals since the store was started; take differences."""

    hits: int
    """Routed experts that were resident (or on their way by prefetch), counted once a layer."""
    misses: int
    """Routed experts that had to be read."""
    dropped: int
    """Routings skipped by cold-expert dropping (one per token and slot)."""
    routed: int
    """Routings seen (one per token and slot)."""
    evictions: int
    rereads: int
    """Misses on experts that had been resident before."""
    prefetched: int
    prefetch_used: int
    read_bytes: int
    reads: int
    read_ns: int
    """Summed over lanes: time inside read calls."""
    install_ns: int
    """Summed over lanes: time spent making pages present or taking them away."""
    wait_ns: int
    """Time the routing callback waited for reads (serial mode)."""
    callback_ns: int
    """Time inside the routing callback, waiting included."""
    guard_loads: int
    """Reads that nobody had queued before compute touched them; zero unless something is wrong."""
    resident_bytes: int
    """Expert bytes present now, in whole pages."""
    pool_bytes: int
    """Memory held now for experts in all, free pages included; never above the budget."""
    decodes: int
    """Graph evaluations seen by the routing hook (one per micro-batch)."""

@final
class ExpertStore:
    """Arena, cache and read lanes for the experts of one model.

    Life: construct, :meth:`add_tensor` for every expert tensor, load the model with
    :meth:`buffer_type` as override, :meth:`finish_load`, :meth:`start`, decode with the
    callbacks, free contexts and model, :meth:`close`.
    """

    def __init__(
        self,
        files: list[str],
        *,
        o_direct: bool,
        routing_node: str = "ffn_moe_topk",
        weights_node: str = "ffn_moe_weights",
    ) -> None:
        """Open the shards. Raises ``OSError`` with the path if one cannot be opened.

        The nodes are those of the compute graph, without ``-<layer>``: the ids of the routed
        experts, and their weights before normalisation (looked at for dropping and for traces).
        """

    def add_tensor(
        self,
        name: str,
        *,
        layer: int,
        order: int,
        file: int,
        offset: int,
        n_expert: int,
        stride: int,
    ) -> None:
        """Declare an expert tensor. ``order`` ranks the tensors of a layer by use;
        ``offset`` is absolute in the file, ``stride`` the bytes of one expert's slice."""

    def buffer_type(self) -> int:
        """``ggml_backend_buffer_type_t`` for ``tensor_buft_overrides``."""

    def finish_load(self) -> None:
        """Give the tensors back their shape after the load.

        Raises ``RuntimeError`` if a declared tensor was not placed, or differs in shape from what
        was declared.
        """

    def start(
        self,
        *,
        budget_bytes: int,
        retain: bool,
        lanes: int,
        overlap: bool,
        mover: Literal["auto", "move", "copy", "inplace"],
        prefetch: int,
        n_ubatch: int,
        n_expert_used: int,
    ) -> None:
        """Start lanes and guard.

        Args:
            budget_bytes: bound on all memory held for experts.
            retain: keep experts for later tokens; ``False`` forgets a layer's at the next one.
            n_ubatch, n_expert_used: bound the experts one layer can need at once.

        Raises:
            RuntimeError: the budget cannot hold one layer's experts (see :meth:`floor_bytes`), or
                the mover is not available here.
        """

    def floor_bytes(self, *, lanes: int, n_ubatch: int, n_expert_used: int) -> int:
        """The least ``budget_bytes`` that :meth:`start` accepts."""

    def set_cold_drop(self, *, fraction: float, in_prefill: bool) -> None:
        """Lossy: skip missing experts weighted below ``fraction / n_expert_used``; 0 is off."""

    def set_route_trace(self, enabled: bool) -> None:
        """Begin to keep what is routed, or stop and throw it away. Call after :meth:`start`.

        A traced decode also waits for the routing weights of each layer (but only after its reads
        have been queued), which costs time; without a trace nothing does.
        """

    def take_route_trace(self) -> tuple[bytes, int]:
        """What was routed since the last call, and how many entries there was no room for.

        There is room for at least the widest decode. Entries are 32 bytes each, little-endian, in
        order of the decodes, of layers in the graph, of rows and of slots::

            uint64   bytes of the expert that must be read for this (slices, not whole pages)
            uint32   running number of the decode, the ``decodes`` of :meth:`counters`
            uint32   row, of those that the layer evaluates (its last ones, if not all)
            uint32   expert
            float32  the router's weight (the weights node); NaN if it was not seen
            uint16   layer
            uint16   slot: rank that the router gave the expert
            uint8    residency: 0 a miss, 1 a hit, 2 first use of what prefetch reads
            uint8    whether it was dropped; it is a miss without bytes then
            uint16   unused

        Of several rows that share an expert the first carries miss and bytes. So misses that were
        not dropped add up to the counter of that name.
        """

    def eval_callback(self) -> tuple[int, int]:
        """Addresses of the function and of its user data for ``cb_eval``."""

    def abort_callback(self) -> tuple[int, int]:
        """Addresses of the function and of its user data for ``abort_callback``."""

    def begin_decode(self, *, prefill: bool = False) -> None:
        """Call before each ``llama_decode`` (forgets an earlier cancel)."""

    def end_decode(self) -> str | None:
        """Call after each ``llama_decode``, whatever it returned.

        Drops reads nobody needs any more and returns the first error met by a read lane or by the
        hook's self-checks since :meth:`begin_decode`, in words. After an error the logits are
        meaningless; the store itself stays usable (what failed is read again when next routed).
        """

    def cancel(self) -> None:
        """Make a running decode return early; safe from any thread, at any time.

        The decode may even report success: its logits are meaningless all the same, see
        :attr:`halted`.
        """

    @property
    def halted(self) -> bool:
        """Whether the decode since :meth:`begin_decode` was cancelled or met an error."""

    def counters(self) -> Counters: ...
    @property
    def mover(self) -> str:
        """The way in use: ``move``, ``copy`` or ``inplace``; empty before :meth:`start`."""

    @property
    def direct_io(self) -> bool:
        """Whether reads bypass the page cache (after the self-check of the first bytes)."""

    @property
    def notes(self) -> list[str]:
        """What was decided on the way, in words (for example why direct I/O is off)."""

    def wait_idle(self) -> None:
        """Wait until no read is queued or running (and pre-faulting is done)."""

    def present_pages(self) -> int:
        """Pages of the arena that the kernel says are present (for tests; slow)."""

    def inject_read_error(self, *, after_reads: int) -> None:
        """Testing: let the read after the next ``after_reads`` fail with EIO. Negative: off."""

    def place_standalone(self) -> None:
        """Testing: place all tensors in memory of the store's own, instead of a load and
        :meth:`finish_load`."""

    def route(self, layer: int, ids: list[list[int]]) -> None:
        """Testing: what the graph's routing of one micro-batch (tokens x slots) causes."""

    def slice(self, tensor: str, expert: int) -> bytes:
        """Testing: one expert's bytes as compute would see them, waiting where it would."""

    def close(self) -> None:
        """Stop the threads. The model must have been freed before."""

@final
class DenseMapping:
    """Buffer type whose tensors are mapped from the file (dense weights ``mmap`` and ``warm``)."""

    def __init__(self, files: list[str]) -> None: ...
    def add_tensor(self, name: str, *, file: int, offset: int, nbytes: int) -> None: ...
    def buffer_type(self) -> int: ...
    def finish_load(self) -> None: ...
    @property
    def lost_pages(self) -> int:
        """Mapped pages that could not be read because a file got shorter; they read as zeros, so
        whatever was computed with them is meaningless."""

    def warm(self) -> int:
        """Read every mapped tensor into the page cache; bytes touched. Releases the GIL."""
