"""Fine-tune with TRL on what `fedse export trajectories --to parquet` wrote, file unchanged.

Loss on the agent's own tokens only, as Fed-SE trains. TRL and datasets are no dependency of Fed-SE;
torch must be named in the same command, else a CUDA build comes along:

    python -m venv trl && trl/bin/pip install torch==2.13.0 trl datasets peft transformers
    fedse export trajectories last --to parquet --out won.parquet --kept
    trl/bin/python examples/train_with_trl.py won.parquet --model fedse/tiny --steps 2

Assistant-only loss needs a chat template that marks the agent's words with `{% generation %}`.
The template of `fedse/tiny` has no such marks, so they are put in here; what it renders is checked
to stay the same. For a model whose template has them, nothing is changed.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

SAID = "{{ message.content + '<|end|>' }}"
"""Where the shipped template writes what the agent said."""


def marked(template: str) -> str:
    """The template with the agent's words marked for the loss."""
    if "{% generation" in template or "{%- generation" in template:
        return template
    if SAID not in template:
        raise SystemExit(
            "this chat template marks no assistant tokens, assistant-only loss needs it"
        )
    return template.replace(SAID, "{% generation %}" + SAID + "{% endgeneration %}")


def first_example(trainer: Any, tokenizer: Any) -> dict[str, str]:
    """The first example as the model is given it, and the part of it that is learned."""
    batch = next(iter(trainer.get_train_dataloader()))
    labels, ids = batch["labels"][0], batch["input_ids"][0]
    given = ids[batch["attention_mask"][0] == 1]
    return {"given": tokenizer.decode(given), "learned": tokenizer.decode(labels[labels != -100])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parquet", type=Path)
    parser.add_argument("--model", default="fedse/tiny")
    parser.add_argument("--steps", type=int, default=2)
    given = parser.parse_args()

    from datasets import load_dataset
    from peft import LoraConfig
    from transformers import AutoTokenizer
    from trl import SFTConfig, SFTTrainer

    data = load_dataset("parquet", data_files=str(given.parquet), split="train")
    tokenizer = AutoTokenizer.from_pretrained(given.model)
    chat = data[0]["messages"]
    before = tokenizer.apply_chat_template(chat, tokenize=False)
    tokenizer.chat_template = marked(tokenizer.chat_template)
    if tokenizer.apply_chat_template(chat, tokenize=False) != before:
        raise SystemExit("the marks changed what the template renders")
    with tempfile.TemporaryDirectory() as folder:
        trainer = SFTTrainer(
            model=given.model,
            args=SFTConfig(
                output_dir=folder,
                assistant_only_loss=True,
                max_steps=given.steps,
                per_device_train_batch_size=4,
                learning_rate=2e-3,
                logging_steps=1,
                report_to="none",
                save_strategy="no",
                use_cpu=True,
                gradient_checkpointing=False,
                bf16=False,
            ),
            train_dataset=data,
            processing_class=tokenizer,
            peft_config=LoraConfig(r=8, lora_alpha=16, target_modules="all-linear"),
        )
        trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    example = first_example(trainer, tokenizer)
    print(json.dumps({"episodes": len(data), "losses": losses, **example}))


if __name__ == "__main__":
    main()
