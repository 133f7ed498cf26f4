"""A GGUF file -> an ordinary Hugging Face folder in bfloat16."""

import copy
import json
from pathlib import Path
from typing import Any

import torch
from tokenizers.normalizers import NFC
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig, Qwen2Tokenizer

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
# They would make the digest of the same model differ from site to site.
OF_THE_WRITER = (
    "transformers_version",
    "_name_or_path",
    "_model_name_or_path",
    "is_local",
    "local_files_only",
)


def convert_gguf(gguf: Path, folder: Path) -> None:
    """`folder` holds the model and the tokenizer of `gguf`; the same bytes every time.

    The numbers are those of the quantised file, each rounded to bfloat16.
    """
    tokenizer = AutoTokenizer.from_pretrained(
        gguf.parent, gguf_file=gguf.name, local_files_only=True
    )
    is_qwen = isinstance(tokenizer, Qwen2Tokenizer)
    if is_qwen:
        # A GGUF file does not say how text is normalised.
        tokenizer.backend_tokenizer.normalizer = NFC()
    read = AutoModelForCausalLM.from_pretrained(
        gguf.parent, gguf_file=gguf.name, local_files_only=True, dtype=torch.float32
    )
    fresh = _unquantised(read)
    fresh.generation_config = GenerationConfig(
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    fresh.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    for name in ("config.json", "generation_config.json", "tokenizer_config.json"):
        make_canonical(folder / name)
    if is_qwen:
        # As published. Without it transformers warns of an error of Mistral's tokenizers.
        make_canonical(folder / "config.json", transformers_version="4.43.1")
    # safetensors writes for the owner only.
    (folder / "model.safetensors").chmod((folder / "config.json").stat().st_mode)


def _unquantised(read: Any) -> Any:
    """The same model in bfloat16; transformers 5.22 refuses to save one it has read from GGUF."""
    config = copy.deepcopy(read.config)
    del config.quantization_config
    config.dtype = torch.bfloat16
    config.tie_word_embeddings = True
    fresh = AutoModelForCausalLM.from_config(config).to(torch.bfloat16)
    weights = {name: t.to(torch.bfloat16) for name, t in read.state_dict().items()}
    # Where a tied matrix is there twice, that of the head has more bits.
    weights[EMBEDDING] = weights[HEAD]
    fresh.load_state_dict(weights)
    fresh.tie_weights()
    return fresh


def make_canonical(file: Path, **added: str) -> None:
    """The settings in `file`, and `added`, do not mention the machine or the versions here."""
    kept = {k: v for k, v in json.loads(file.read_text()).items() if k not in OF_THE_WRITER}
    file.write_text(json.dumps({**kept, **added}, indent=2, sort_keys=True) + "\n")
