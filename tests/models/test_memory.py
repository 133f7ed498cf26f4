"""The estimates are what the model really has and keeps, counted on the tiny one."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tests.needs import needs

needs("torch", "transformers", "peft")

import torch
from peft import get_peft_model
from transformers import AutoModelForCausalLM

from fedse.adapters.base import SHIPPED, adapter_spec, linear_layers, weight_shapes
from fedse.errors import MachineError
from fedse.models.memory import (
    FORMATS,
    activation_bytes,
    engine_need,
    kv_bytes_per_token,
    labels_of,
    logit_bytes,
    trainer_need,
)
from fedse.models.shape import read_shape
from fedse.train.lora import lora_config

TINY = SHIPPED["tiny"]
RANK, TOKENS = 4, 24
# As published with Qwen2.5-7B-Instruct (Apache-2.0), without what does not decide a size.
QWEN_7B = {
    "architectures": ["Qwen2ForCausalLM"],
    "hidden_size": 3584,
    "intermediate_size": 18944,
    "model_type": "qwen2",
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "vocab_size": 152064,
}


def tiny(each: str) -> Any:
    return AutoModelForCausalLM.from_pretrained(
        TINY, local_files_only=True, dtype=getattr(torch, each)
    )


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_the_shape_is_that_of_the_weights(name: str):
    shape, held = read_shape(SHIPPED[name]), weight_shapes(SHIPPED[name])
    assert shape.parameters == sum(math.prod(sizes) for sizes in held.values())
    assert shape.linear == linear_layers(held)
    for rank in (1, 8):
        spec = adapter_spec(name, rank=rank, alpha=1.0, targets=("all-linear",))
        assert shape.adapter_size(rank) == spec.size


@pytest.mark.parametrize("each", FORMATS)
def test_keys_and_values_are_counted_exactly(each: str):
    ids = torch.zeros(3, TOKENS, dtype=torch.long)
    with torch.no_grad():
        cache = tiny(each)(input_ids=ids, use_cache=True).past_key_values
    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in cache.layers)
    need = engine_need(read_shape(TINY), FORMATS[each], context=TOKENS, in_flight=3)
    assert need.keys_values == held
    assert need.total == held + need.weights


@pytest.mark.parametrize("each", FORMATS)
def test_weights_are_counted_exactly(each: str):
    held = sum(parameter.nbytes for parameter in tiny(each).parameters())
    assert engine_need(read_shape(TINY), FORMATS[each], context=1, in_flight=1).weights == held


@pytest.mark.parametrize("each", FORMATS)
def test_activations_are_what_autograd_keeps(each: str):
    spec = adapter_spec("tiny", rank=RANK, alpha=1.0, targets=("all-linear",))
    model = get_peft_model(tiny(each), lora_config(spec)).train()
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in own:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        ids = torch.zeros(1, TOKENS, dtype=torch.long)
        model.get_base_model().model(input_ids=ids, use_cache=False)
    counted = sum(tensor.untyped_storage().nbytes() for tensor in kept.values())
    shape = read_shape(TINY)
    assert activation_bytes(shape, FORMATS[each], rank=RANK, tokens=TOKENS) == counted


def test_the_parts_of_a_trainer_by_hand():
    """4 layers, 96 wide, 328 words, 14,592 adapter parameters at rank 2; 8 tokens, 2 labels."""
    need = trainer_need(read_shape(TINY), 4, rank=2, tokens=8)
    assert labels_of(8) == 2
    assert need.adapter == 14_592 * 4 * 4
    assert need.logits == 2 * 328 * 12
    assert need.checkpointed == 4 * 8 * 96 * 4 + need.activations // 4
    assert need.total == need.weights + need.adapter + need.activations + need.logits
    assert need.total - need.total_checkpointed == need.activations - need.checkpointed
    assert logit_bytes(read_shape(TINY), 2, labels=2) == 2 * 328 * 16


def test_a_model_can_be_sized_by_its_config_alone(tmp_path: Path):
    """The figures of its model card: 7.61 billion parameters, 28 layers, 4 heads with keys."""
    (tmp_path / "config.json").write_text(json.dumps(QWEN_7B))
    shape = read_shape(tmp_path)
    assert (shape.parameters, shape.architecture) == (7_615_616_512, "Qwen2ForCausalLM")
    assert (shape.layers, shape.kv_heads, shape.head_size) == (28, 4, 128)
    assert kv_bytes_per_token(shape, 2) == 57_344
    assert shape.adapter_size(8) == 20_185_088
    assert [*tmp_path.iterdir()] == [tmp_path / "config.json"]


def test_a_config_of_no_language_model_is_refused(tmp_path: Path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "abacus"}))
    with pytest.raises(MachineError, match=r"config\.json in .*abacus"):
        read_shape(tmp_path)
