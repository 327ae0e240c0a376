"""A ``qwen35moe`` model in torch, written in ggml's own conventions.

Gated-delta-net layers with a full-attention layer every third, a mixture of experts with one
shared expert in each block, and one MTP ("nextn") block. Because the conventions are ggml's
(NeoX rotary, tiled value heads, norm weights stored as they are multiplied, query and gate
interleaved per head), exporting is nothing but renaming tensors.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from config import ModelConfig

Rotary = tuple[Tensor, Tensor]
KeyValue = tuple[Tensor, Tensor]


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMS norm over the last axis."""
    return F.rms_norm(x, (x.shape[-1],), weight, eps)


def l2_norm(x: Tensor, eps: float) -> Tensor:
    """Unit length over the last axis."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + eps)


def rotary_table(config: ModelConfig, length: int) -> Rotary:
    """Cosines and sines ``[length, rope_dim / 2]`` for positions ``0 .. length - 1``."""
    exponents = torch.arange(0, config.rope_dim, 2).float() / config.rope_dim
    angles = torch.arange(length).float()[:, None] * config.rope_base**-exponents
    return angles.cos(), angles.sin()


def apply_rotary(x: Tensor, rotary: Rotary, dims: int) -> Tensor:
    """Rotate the first ``dims`` of ``x [batch, heads, time, head_dim]``, in NeoX pairs."""
    cos, sin = rotary
    rotated, passed = x[..., :dims], x[..., dims:]
    a, b = rotated.chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin, passed], -1)


class Attention(nn.Module):
    """Grouped-query attention with a sigmoid output gate."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        c, width = config, config.embedding_length
        self.q = nn.Linear(width, c.head_count * c.head_dim * 2, bias=False)
        self.k = nn.Linear(width, c.head_count_kv * c.head_dim, bias=False)
        self.v = nn.Linear(width, c.head_count_kv * c.head_dim, bias=False)
        self.output = nn.Linear(c.head_count * c.head_dim, width, bias=False)
        self.q_norm = nn.Parameter(torch.ones(c.head_dim))
        self.k_norm = nn.Parameter(torch.ones(c.head_dim))

    def project(self, x: Tensor, rotary: Rotary) -> tuple[Tensor, Tensor, KeyValue]:
        """Query, output gate and (key, value); the keys and values repeated to all heads."""
        c = self.config
        batch, time, _ = x.shape
        query_gate = self.q(x).view(batch, time, c.head_count, 2 * c.head_dim)
        query, gate = query_gate.split(c.head_dim, -1)
        key = self.k(x).view(batch, time, c.head_count_kv, c.head_dim)
        value = self.v(x).view(batch, time, c.head_count_kv, c.head_dim).transpose(1, 2)
        query = rms_norm(query, self.q_norm, c.rms_eps).transpose(1, 2)
        key = rms_norm(key, self.k_norm, c.rms_eps).transpose(1, 2)
        query = apply_rotary(query, rotary, c.rope_dim)
        key = apply_rotary(key, rotary, c.rope_dim)
        repeat = c.head_count // c.head_count_kv
        shared = (key.repeat_interleave(repeat, 1), value.repeat_interleave(repeat, 1))
        return query, gate, shared

    def finish(self, attended: Tensor, gate: Tensor) -> Tensor:
        """Gate and project what the heads gathered ``[batch, heads, time, head_dim]``."""
        gated = attended.transpose(1, 2) * torch.sigmoid(gate)
        return self.output(gated.flatten(2))

    def forward(self, x: Tensor, rotary: Rotary) -> Tensor:
        """Causal attention."""
        query, gate, (key, value) = self.project(x, rotary)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.finish(attended, gate)


def delta_rule_recurrent(q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor) -> Tensor:
    """The gated delta rule one step at a time: the definition that the chunked form is tested on.

    ``q, k [B, H, T, K]`` (unit length), ``v [B, H, T, V]``, ``decay`` (a logarithm) and ``beta``
    ``[B, H, T]``; returns ``[B, H, T, V]``.
    """
    batch, heads, time, key_width = q.shape
    state = torch.zeros(batch, heads, key_width, v.shape[-1], dtype=q.dtype)
    outputs = []
    for t in range(time):
        state = state * decay[:, :, t, None, None].exp()
        predicted = (k[:, :, t, None] @ state)[..., 0, :]
        error = (v[:, :, t] - predicted) * beta[:, :, t, None]
        state = state + k[:, :, t, :, None] * error[..., None, :]
        outputs.append((q[:, :, t, None] * key_width**-0.5 @ state)[..., 0, :])
    return torch.stack(outputs, 2)


def delta_rule_chunked(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor, *, chunk: int
) -> Tensor:
    """The gated delta rule in chunks (same arguments and result as the recurrent form).

    Inside a chunk the corrections depend on each other through a unit triangular matrix: one
    triangular solve yields all of them; only the state is carried from chunk to chunk.
    """
    batch, heads, time, key_width = q.shape
    value_width = v.shape[-1]
    rows, chunks = batch * heads, time // chunk
    q = (q * key_width**-0.5).reshape(rows, chunks, chunk, key_width)
    k = k.reshape(rows, chunks, chunk, key_width)
    v = v.reshape(rows, chunks, chunk, value_width)
    total = decay.reshape(rows, chunks, chunk).cumsum(-1)
    beta = beta.reshape(rows, chunks, chunk, 1)

    causal = torch.ones(chunk, chunk, dtype=torch.bool).tril()
    between = total[..., :, None] - total[..., None, :]
    between = between.masked_fill(~causal, -1e9).exp()
    since_start = total[..., None].exp()
    until_end = (total[..., -1:, None] - total[..., None]).exp()
    whole_chunk = total[..., -1].exp()[..., None, None]

    k_beta, k_t = k * beta, k.transpose(-1, -2)
    coupling = ((k_beta @ k_t) * between).tril(-1)
    wanted = torch.cat([v * beta, k_beta * since_start], -1)
    solved = torch.linalg.solve_triangular(
        coupling + torch.eye(chunk, dtype=q.dtype), wanted, upper=False, unitriangular=True
    )
    new_values, from_state = solved.split([value_width, key_width], -1)
    scores = (q @ k_t) * between
    q_state = q * since_start
    k_store = (k * until_end).transpose(-1, -2)

    state = torch.zeros(rows, key_width, value_width, dtype=q.dtype)
    outputs = []
    for i in range(chunks):
        values = new_values[:, i] - from_state[:, i] @ state
        outputs.append(q_state[:, i] @ state + scores[:, i] @ values)
        state = state * whole_chunk[:, i] + k_store[:, i] @ values
    return torch.stack(outputs, 1).reshape(batch, heads, time, value_width)


class GatedDeltaNet(nn.Module):
    """Linear attention: short convolution, gated delta rule, gated norm."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        c, width = config, config.embedding_length
        channels = 2 * c.ssm_key_width + c.ssm_inner
        self.qkv = nn.Linear(width, channels, bias=False)
        self.gate = nn.Linear(width, c.ssm_inner, bias=False)
        self.conv = nn.Parameter(torch.randn(channels, c.ssm_conv) * 0.3)
        self.beta = nn.Linear(width, c.ssm_value_heads, bias=False)
        self.alpha = nn.Linear(width, c.ssm_value_heads, bias=False)
        self.a_log = nn.Parameter(torch.linspace(1, 8, c.ssm_value_heads).log())
        step = torch.linspace(math.log(0.003), math.log(0.1), c.ssm_value_heads).exp()
        self.dt_bias = nn.Parameter(step + torch.log(-torch.expm1(-step)))
        self.norm = nn.Parameter(torch.ones(c.ssm_state))
        self.output = nn.Linear(c.ssm_inner, width, bias=False)

    def convolve(self, x: Tensor) -> Tensor:
        """Causal depth-wise convolution over time and SiLU, ``x [batch, time, channels]``."""
        taps, time = self.config.ssm_conv, x.shape[1]
        padded = F.pad(x, (0, 0, taps - 1, 0))
        mixed = padded[:, :time] * self.conv[:, 0]
        for tap in range(1, taps):
            mixed = torch.addcmul(mixed, padded[:, tap : tap + time], self.conv[:, tap])
        return F.silu(mixed)

    def forward(self, x: Tensor, rotary: Rotary) -> Tensor:
        """Mix over time (``rotary`` is unused: the order of the tokens is in the recurrence)."""
        del rotary
        c = self.config
        batch, time, _ = x.shape
        q, k, v = self.convolve(self.qkv(x)).split(
            [c.ssm_key_width, c.ssm_key_width, c.ssm_inner], -1
        )
        q = l2_norm(q.view(batch, time, c.ssm_key_heads, -1), c.rms_eps)
        k = l2_norm(k.view(batch, time, c.ssm_key_heads, -1), c.rms_eps)
        v = v.view(batch, time, c.ssm_value_heads, -1).transpose(1, 2)
        tiles = c.ssm_value_heads // c.ssm_key_heads  # value head i uses key head i mod n_key
        q = q.repeat(1, 1, tiles, 1).transpose(1, 2)
        k = k.repeat(1, 1, tiles, 1).transpose(1, 2)
        beta = torch.sigmoid(self.beta(x)).transpose(1, 2)
        decay = (-self.a_log.exp() * F.softplus(self.alpha(x) + self.dt_bias)).transpose(1, 2)
        if padding := -time % c.ssm_chunk:
            q, k, v = (F.pad(t, (0, 0, 0, padding)) for t in (q, k, v))
            beta, decay = F.pad(beta, (0, padding)), F.pad(decay, (0, padding))
        mixed = delta_rule_chunked(q, k, v, decay, beta, chunk=c.ssm_chunk)
        mixed = rms_norm(mixed[:, :, :time].transpose(1, 2), self.norm, c.rms_eps)
        mixed = mixed * F.silu(self.gate(x).view(batch, time, c.ssm_value_heads, -1))
        return self.output(mixed.flatten(2))


class MixtureOfExperts(nn.Module):
    """Softmax router, top-k renormalised, SwiGLU experts, plus one gated shared expert."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        c, width = config, config.embedding_length
        self.router = nn.Linear(width, c.expert_count, bias=False)
        self.expert_gate = nn.Parameter(torch.empty(c.expert_count, c.expert_ff, width))
        self.expert_up = nn.Parameter(torch.empty(c.expert_count, c.expert_ff, width))
        self.expert_down = nn.Parameter(torch.empty(c.expert_count, width, c.expert_ff))
        self.shared_gate_up = nn.Linear(width, 2 * c.shared_ff, bias=False)
        self.shared_down = nn.Linear(c.shared_ff, width, bias=False)
        self.shared_switch = nn.Linear(width, 1, bias=False)
        self.balance_loss = torch.zeros(())
        self.load = torch.zeros(c.expert_count)
        for weight in (self.expert_gate, self.expert_up, self.expert_down):
            nn.init.normal_(weight, std=weight.shape[-1] ** -0.5)

    def forward(self, x: Tensor) -> Tensor:
        """Route every row of ``x [batch, time, width]``; leaves the balance loss behind."""
        c, shape = self.config, x.shape
        x = x.reshape(-1, c.embedding_length)
        probabilities = self.router(x).softmax(-1)
        weights, chosen = probabilities.topk(c.expert_used_count, -1)
        weights = weights / weights.sum(-1, keepdim=True)

        flat = chosen.reshape(-1)
        order = flat.argsort(stable=True)
        self.load = torch.bincount(flat, minlength=c.expert_count)
        share = self.load / flat.numel()
        self.balance_loss = c.expert_count * (share * probabilities.mean(0)).sum()

        rows = order // c.expert_used_count
        # unbind once: indexing a parameter per expert costs a full-size gradient for each.
        gates, ups, downs = (
            w.unbind(0) for w in (self.expert_gate, self.expert_up, self.expert_down)
        )
        results = []
        for expert, inputs in enumerate(x.index_select(0, rows).split(self.load.tolist())):
            if inputs.shape[0]:
                hidden = F.silu(F.linear(inputs, gates[expert])) * F.linear(inputs, ups[expert])
                results.append(F.linear(hidden, downs[expert]))
        routed = torch.cat(results) * weights.reshape(-1)[order][:, None]
        mixed = torch.zeros_like(x).index_add(0, rows, routed)

        gate, up = self.shared_gate_up(x).chunk(2, -1)
        shared = self.shared_down(F.silu(gate) * up) * torch.sigmoid(self.shared_switch(x))
        return (mixed + shared).view(shape)


class Block(nn.Module):
    """Pre-norm block: a mixer over time, then a mixture of experts."""

    def __init__(self, config: ModelConfig, full_attention: bool) -> None:
        super().__init__()
        self.config = config
        self.mixer_norm = nn.Parameter(torch.ones(config.embedding_length))
        self.moe_norm = nn.Parameter(torch.ones(config.embedding_length))
        self.mixer: Attention | GatedDeltaNet = (
            Attention(config) if full_attention else GatedDeltaNet(config)
        )
        self.moe = MixtureOfExperts(config)

    def feed_forward(self, x: Tensor) -> Tensor:
        """The second half of the block, with its residual."""
        return x + self.moe(rms_norm(x, self.moe_norm, self.config.rms_eps))

    def forward(self, x: Tensor, rotary: Rotary) -> Tensor:
        """Both halves."""
        x = x + self.mixer(rms_norm(x, self.mixer_norm, self.config.rms_eps), rotary)
        return self.feed_forward(x)


class MtpBlock(nn.Module):
    """The nextn head: row p joins token x_p with hidden h_{p-1} and predicts x_{p+1}."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        width = config.embedding_length
        self.embedding_norm = nn.Parameter(torch.ones(width))
        self.hidden_norm = nn.Parameter(torch.ones(width))
        self.eh_proj = nn.Linear(2 * width, width, bias=False)
        self.block = Block(config, full_attention=True)
        self.head_norm = nn.Parameter(torch.ones(width))

    def join(self, embedding: Tensor, previous_hidden: Tensor) -> Tensor:
        """The block's input: normed embedding first, normed hidden second."""
        eps = self.config.rms_eps
        left = rms_norm(embedding, self.embedding_norm, eps)
        right = rms_norm(previous_hidden, self.hidden_norm, eps)
        return self.eh_proj(torch.cat([left, right], -1))

    def forward(self, embedding: Tensor, previous_hidden: Tensor, rotary: Rotary) -> Tensor:
        """The hidden row that the shared output head reads (and that a draft chain feeds back)."""
        x = self.block(self.join(embedding, previous_hidden), rotary)
        return rms_norm(x, self.head_norm, self.config.rms_eps)


class NanoModel(nn.Module):
    """Trunk, output head and MTP block."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.embedding_length)
        self.blocks = nn.ModuleList(
            Block(config, config.is_full_attention(layer)) for layer in range(config.block_count)
        )
        self.output_norm = nn.Parameter(torch.ones(config.embedding_length))
        self.head = nn.Linear(config.embedding_length, config.vocab_size, bias=False)
        self.mtp = MtpBlock(config)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Scaled normal matrices; what writes to the residual stream starts smaller."""
        residual_scale = (2 * self.config.block_count) ** -0.5
        for name, weight in self.named_parameters():
            if weight.ndim == 2 and not name.endswith("conv"):
                nn.init.normal_(weight, std=0.8 * weight.shape[1] ** -0.5)
            if name.endswith(("mixer.output.weight", "shared_down.weight", "expert_down")):
                weight.data.mul_(residual_scale)
        nn.init.normal_(self.embedding.weight, std=0.5)
        nn.init.normal_(self.head.weight, std=0.02)

    def trunk(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings and hidden rows (after the output norm) of ``tokens [batch, time]``."""
        rotary = rotary_table(self.config, tokens.shape[1])
        embedding = self.embedding(tokens)
        x = embedding
        for block in self.blocks:
            x = block(x, rotary)
        return embedding, rms_norm(x, self.output_norm, self.config.rms_eps)

    def balance_loss(self) -> Tensor:
        """Sum of the trunk's router balance losses of the last forward pass."""
        losses = [m.balance_loss for m in self.blocks.modules() if isinstance(m, MixtureOfExperts)]
        return torch.stack(losses).sum()


def shift_right(hidden: Tensor) -> Tensor:
    """Row p becomes row p - 1; zeros at p = 0."""
    return F.pad(hidden[:, :-1], (0, 0, 1, 0))


def kl_to_trunk(logits: Tensor, trunk_logits: Tensor) -> Tensor:
    """Mean KL divergence from the (detached) trunk's distribution to ``logits``."""
    log_target = trunk_logits.detach().log_softmax(-1)
    return F.kl_div(
        logits.log_softmax(-1).flatten(0, 1),
        log_target.flatten(0, 1),
        reduction="batchmean",
        log_target=True,
    )
