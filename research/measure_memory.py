"""Peak memory of loading a base model and of one training step, beside what the estimate says.

    python research/measure_memory.py smollm2-135m --precision bfloat16 --tokens 400

With MALLOC_MMAP_THRESHOLD_=65536 in the environment the two agree within a tenth; without it glibc
keeps freed activations, and the peak is up to 1.7 times the estimate.

One piece, adapters of rank 8 on all linear layers, logits only where there is a label. Linux only.
"""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from torch.optim import AdamW
from transformers import AutoModelForCausalLM

from fedse.adapters.base import base_path
from fedse.models.memory import FORMATS, labels_of, trainer_need
from fedse.models.shape import read_shape

RANK = 8


def resident(key: str) -> float:
    """VmRSS (now) or VmHWM (most so far) of this process, in MB of 10^6 bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) * 1024 / 1e6


def forget_peak() -> None:
    """VmHWM counts from now on."""
    Path("/proc/self/clear_refs").write_text("5")


def train_once(model: Any, tokens: int, *, checkpointing: bool) -> None:
    """One step of AdamW on one piece of random tokens."""
    model.train()
    if checkpointing:
        model.gradient_checkpointing_enable()
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = AdamW(parameters, lr=1e-4)
    ids_B_T = torch.randint(0, model.config.vocab_size, (1, tokens))
    labels = ids_B_T[0, -labels_of(tokens) :]
    body, head = model.get_base_model().model, model.get_base_model().lm_head
    hidden = body(input_ids=ids_B_T, use_cache=False).last_hidden_state
    logits = head(hidden[0, -labels_of(tokens) - 1 : -1]).float()
    F.cross_entropy(logits, labels).backward()
    optimizer.step()


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("base")
    parser.add_argument("--precision", choices=[*FORMATS], default="bfloat16")
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--checkpointing", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    path = base_path(given.base)
    need = trainer_need(read_shape(path), FORMATS[given.precision], rank=RANK, tokens=given.tokens)
    before = resident("VmRSS")
    forget_peak()
    dtype = getattr(torch, given.precision)
    model = AutoModelForCausalLM.from_pretrained(path, local_files_only=True, dtype=dtype)
    loaded = resident("VmHWM") - before
    lora = LoraConfig(r=RANK, target_modules="all-linear", task_type="CAUSAL_LM")
    train_once(get_peft_model(model, lora), given.tokens, checkpointing=given.checkpointing)
    trained = resident("VmHWM") - before
    total = need.total_checkpointed if given.checkpointing else need.total
    print(f"{given.base} {given.precision}, {given.tokens} tokens, MB beyond the {before:.0f} of")
    print(f"the process: loading {loaded:.0f}, estimate {need.weights / 1e6:.0f};", end=" ")
    print(f"training {trained:.0f}, estimate {total / 1e6:.0f}")


if __name__ == "__main__":
    main()
