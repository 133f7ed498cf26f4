"""Does a model that was made from a GGUF file read text as the published tokenizer does?

    python -m research.compare_tokenizers FOLDER TOKENIZER.json docs/results/tokenizers.json

FOLDER is what `fedse model get` made; TOKENIZER.json is the file that the model's makers publish,
with its tokenizer_config.json beside it if chat templates are to be compared too. The texts are
this repository's own files, text with the marks of the chat template, and random characters of many
scripts. What is found of a model takes its place in the result; other models stay there.
"""

import argparse
import json
from pathlib import Path
from random import Random
from typing import Any

from tokenizers import Tokenizer
from transformers import AutoTokenizer

ROOT = Path(__file__).parents[1]
RANDOM_TEXTS, LENGTH = 2000, 200
SCRIPTS = ((0x20, 0x7F), (0x80, 0x2000), (0x3000, 0xD7FF), (0x1F300, 0x1FAFF), (0x0A, 0x0B))
MARKED = (
    "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n",
    '<tool_call>\n{"name": "refund", "arguments": {"id": "486"}}\n</tool_call><|im_end|>\n',
    "<tool_response>\nOrder 486: atlas, 94 euro, late.\n</tool_response>",
)
CALL = {"type": "function", "function": {"name": "refund", "arguments": {"id": "486"}}}
TOOL = {"type": "function", "function": {"name": "refund", "parameters": {"type": "object"}}}
DIALOGUES: tuple[list[dict[str, Any]], ...] = (
    [{"role": "user", "content": "Hello"}],
    [
        {"role": "system", "content": "You serve customers."},
        {"role": "user", "content": "My order 486 is late."},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "content": "Done."},
    ],
)


def texts() -> list[str]:
    """Always the same ones for the same checkout."""
    files = [*sorted(ROOT.glob("fedse/**/*.py")), *sorted(ROOT.glob("docs/*/*.md"))]
    random = Random(0)
    drawn = ["".join(_character(random) for _ in range(LENGTH)) for _ in range(RANDOM_TEXTS)]
    return [*(file.read_text() for file in files), *MARKED, *drawn]


def _character(random: Random) -> str:
    return chr(random.randrange(*random.choice(SCRIPTS)))


def templates_agree(folder: Path, settings: Path) -> int:
    """How many dialogues, with and without tools, both chat templates write in the same way."""
    ours = AutoTokenizer.from_pretrained(folder)
    published = json.loads(settings.read_text())["chat_template"]
    return sum(
        ours.apply_chat_template(dialogue, tools=tools, tokenize=False)
        == ours.apply_chat_template(dialogue, tools=tools, tokenize=False, chat_template=published)
        for dialogue in DIALOGUES
        for tools in (None, [TOOL])
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("published", type=Path)
    parser.add_argument("result", type=Path)
    args = parser.parse_args()
    made = Tokenizer.from_file(str(args.folder / "tokenizer.json"))
    published, given = Tokenizer.from_file(str(args.published)), texts()
    equal = sum(made.encode(text).ids == published.encode(text).ids for text in given)
    found = {"texts": len(given), "equal": equal}
    settings = args.published.with_name("tokenizer_config.json")
    if settings.is_file():
        found |= {"dialogues": 2 * len(DIALOGUES), "same": templates_agree(args.folder, settings)}
    before = json.loads(args.result.read_text()) if args.result.is_file() else {}
    models = dict(sorted({**before, args.folder.name: found}.items()))
    args.result.write_text(json.dumps(models, indent=1) + "\n")
    print(json.dumps(models))


if __name__ == "__main__":
    main()
