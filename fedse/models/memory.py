"""How much memory a base model needs to play and to train. All figures are in bytes.

What torch, transformers and the Python process take is not in these figures: 0.4 GB on a CPU. Nor
is what an allocator keeps of freed memory: with glibc up to 0.7 times the figures on top, next to
nothing with MALLOC_MMAP_THRESHOLD_=65536 (research/measure_memory.py compares).
"""

from typing import NamedTuple

from fedse.models.shape import ModelShape

FORMATS = {"float32": 4, "bfloat16": 2}
"""Bytes per number. The adapter, its gradient and the optimiser are float32 in both cases."""
FLOAT32 = 4
LABEL_SHARE = 4
"""One token in so many is the agent's own: an assumption that depends on the environment."""


class EngineNeed(NamedTuple):
    weights: int
    keys_values: int

    @property
    def total(self) -> int:
        return sum(self)


class TrainerNeed(NamedTuple):
    weights: int
    adapter: int
    activations: int
    """For one piece, kept from the forward to the backward pass."""
    checkpointed: int
    """The same with gradient checkpointing, instead of `activations`."""
    logits: int

    @property
    def total(self) -> int:
        return self.weights + self.adapter + self.activations + self.logits

    @property
    def total_checkpointed(self) -> int:
        return self.weights + self.adapter + self.checkpointed + self.logits


def engine_need(shape: ModelShape, each: int, *, context: int, in_flight: int) -> EngineNeed:
    """Weights, and keys and values of `in_flight` episodes of `context` tokens.

    weights [bytes] = parameters x bytes each
    keys and values [bytes] = bytes per token x context x episodes

    Exact if every episode fills its context; models with a sliding window need less.
    """
    cache = kv_bytes_per_token(shape, each) * context * in_flight
    return EngineNeed(shape.parameters * each, cache)


def kv_bytes_per_token(shape: ModelShape, each: int) -> int:
    """2 (key and value) x layers x heads that have keys x size of a head x bytes each."""
    return 2 * shape.layers * shape.kv_heads * shape.head_size * each


def trainer_need(shape: ModelShape, each: int, *, rank: int, tokens: int) -> TrainerNeed:
    """What one training step on one piece of `tokens` tokens takes; an estimate.

    adapter [bytes] = parameters x 4 (itself, its gradient, two moments of Adam) x 4 bytes
    checkpointed [bytes] = layers x tokens x hidden x bytes each (the input of every layer)
        + the activations of one layer, which is computed again

    Temporary results within one operation are not counted.
    """
    kept = activation_bytes(shape, each, rank=rank, tokens=tokens)
    inputs = shape.layers * tokens * shape.hidden * each
    return TrainerNeed(
        weights=shape.parameters * each,
        adapter=shape.adapter_size(rank) * 4 * FLOAT32,
        activations=kept,
        checkpointed=inputs + kept // shape.layers,
        logits=logit_bytes(shape, each, labels=labels_of(tokens)),
    )


def labels_of(tokens: int) -> int:
    """Tokens of a piece that the agent wrote itself and learns from."""
    return -(-tokens // LABEL_SHARE)


def activation_bytes(shape: ModelShape, each: int, *, rank: int, tokens: int) -> int:
    """What autograd keeps of a Llama-like model with adapters on all linear layers.

    Per token and layer, with a = heads x head size and k = key heads x head size:
        2 x (hidden + 1) x 4        both norms compute in float32, and keep a scale
        (2a + 2k) x bytes + heads x 4   query, key, value and result of attention, its log-sum
        3 x inner x bytes           gate, activated gate, up
        inputs of the adapters x 4  PEFT casts each to float32; what is float32 already is shared
        adapters x rank x 4         their inner results
    and once per token 2 x head size x bytes for the rotary angles. Exact for Llama in transformers
    5.22 with fused attention (a test counts them), an estimate for others.
    """
    attention, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    per_layer = 2 * (shape.hidden + 1) * FLOAT32
    per_layer += (2 * attention + 2 * keys) * each + shape.heads * FLOAT32
    per_layer += 3 * shape.inner * each
    everywhere = 2 * shape.head_size * each
    if each == FLOAT32:
        # Query, key and value share one input, gate and up another; the output projection reads
        # what attention keeps.
        inputs = shape.layers * (2 * shape.hidden + shape.inner)
    else:
        inputs = sum(columns for _, columns in shape.linear.values())
    adapters = (inputs + len(shape.linear) * rank) * FLOAT32
    return tokens * (shape.layers * per_layer + adapters + everywhere)


def logit_bytes(shape: ModelShape, each: int, *, labels: int) -> int:
    """Logits, log-probabilities and gradient, where there is a label: labels x vocabulary x bytes.

    All three are float32; in bfloat16 the head's own result and its gradient come on top.
    """
    own = 0 if each == FLOAT32 else 2 * each
    return labels * shape.vocabulary * (3 * FLOAT32 + own)
