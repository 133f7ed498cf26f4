"""What llama.cpp answers with a converted base and adapter, beside transformers and PEFT.

research/real_llama_cpp.sh makes the files and calls this. Customers of the desk that no training
had say their first words; both sides answer greedily, with the adapter and without it, from the
same token numbers.
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
import xllamacpp
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from fedse.agent.loaded import prepare_torch
from fedse.envs.desk.env import Desk
from fedse.method.rollout import choose_games

NEW_TOKENS, CONTEXT = 32, 1024


def prompts(tokenizer: Any, count: int) -> list[list[int]]:
    """The token numbers that a chat with each customer begins with."""
    env, found = Desk(), []
    for game in choose_games(env.tasks("test"), count, seed=0):
        said = env.reset(game.task, seed=game.seed).observation
        chat = [
            {"role": "system", "content": env.system_prompt},
            {"role": "user", "content": said},
        ]
        text = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
        found.append(tokenizer(text, add_special_tokens=False)["input_ids"])
    return found


@torch.inference_mode()
def by_transformers(model: Any, tokenizer: Any, asked: list[list[int]]) -> list[str]:
    """The text of each answer, up to its end."""
    end, answers = tokenizer.eos_token_id, []
    for ids in asked:
        given = torch.tensor([ids])
        told = model.generate(
            given,
            attention_mask=torch.ones_like(given),
            max_new_tokens=NEW_TOKENS,
            do_sample=False,
            eos_token_id=end,
            pad_token_id=end,
        )
        answers.append(tokenizer.decode(told[0, len(ids) :], skip_special_tokens=True))
    return answers


def by_llama_cpp(gguf: Path, asked: list[list[int]], *, adapter: bool) -> list[str]:
    """The same from llama.cpp's own server."""
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel = str(gguf / "base.gguf"), CONTEXT, 1
    params.cpuparams.n_threads = 1
    if adapter:
        params.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(str(gguf / "adapter.gguf"), 1.0)]
    server = xllamacpp.Server(params)
    question = {"max_tokens": NEW_TOKENS, "temperature": 0.0}
    told = [server.handle_completions({"prompt": ids, **question}) for ids in asked]
    return [one["choices"][0]["text"] for one in told]


def agreement(one: list[str], other: list[str]) -> dict[str, int]:
    return {
        "answers": len(one),
        "equal": sum(x == y for x, y in zip(one, other, strict=True)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("result", type=Path)
    parser.add_argument("--base", type=Path, required=True)
    parser.add_argument("--adapter", type=Path, required=True)
    parser.add_argument("--gguf", type=Path, required=True, help="has base.gguf and adapter.gguf")
    parser.add_argument("--games", type=int, default=16)
    given = parser.parse_args()
    prepare_torch(1)
    tokenizer = AutoTokenizer.from_pretrained(given.base)
    asked = prompts(tokenizer, given.games)
    plain = AutoModelForCausalLM.from_pretrained(given.base, dtype=torch.float32)
    answers = {"transformers, base": by_transformers(plain, tokenizer, asked)}
    adapted = PeftModel.from_pretrained(plain, given.adapter)
    answers["transformers, adapter"] = by_transformers(adapted, tokenizer, asked)
    for name, adapter in (("base", False), ("adapter", True)):
        answers[f"llama.cpp, {name}"] = by_llama_cpp(given.gguf, asked, adapter=adapter)
    found: dict[str, Any] = {
        name: agreement(answers[f"transformers, {name}"], answers[f"llama.cpp, {name}"])
        for name in ("base", "adapter")
    }
    found["base against adapter"] = agreement(
        answers["llama.cpp, base"], answers["llama.cpp, adapter"]
    )
    found["first"] = {name: told[0] for name, told in answers.items()}
    given.result.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
