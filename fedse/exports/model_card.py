"""The README of an exported adapter: what it is, what it achieved, how to serve it.

It names no client, no task and no folder of this machine, because a folder with a model card is
meant to be shared.
"""

import shlex
from typing import NamedTuple

from fedse.adapters.base import FETCHED, is_name
from fedse.adapters.hub import hub_model
from fedse.adapters.peft_folder import vllm_rank
from fedse.config.rounds import out_of
from fedse.ledger.chain import FILE
from fedse.ledger.verifying import verify_ledger
from fedse.stats.rates import Rate, by_env, rates
from fedse.store.run import Run
from fedse.store.run_folder import RunCard
from fedse.types import Adapter

CAVEAT = (
    "An adapter is derived from private data: published attacks reconstruct text from adapter "
    "updates. Each site decides whether it trains with noise, and this card does not know. Assume "
    "that none did unless all of them say so."
)
CARD = """---
library_name: peft
base_model: {base}
base_model_relation: adapter
pipeline_tag: text-generation
tags:
- lora
- fed-se
---
# {experiment}, round {round}

LoRA adapter (rank {rank}, alpha {alpha:g}, on {targets}) for `{base}`, made by Fed-SE {version}:
{clients} improved one agent together, and shared adapters but no episodes.

| | |
|---|---|
| base model | `{base}` |
| revision of the base model | {revision} |
| digest of the base model | `{base_digest}` |
| adapter sha256 | `{digest}` |
| rounds | {rounds} |
| head of the ledger | {ledger} |

## Success in held-out tasks

{success}

## Gate

{gate}

## Privacy

{privacy}
"""
SERVE = """
## Use it

Run these lines in this folder.{note}

### transformers and PEFT

```python
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

{python}
tokenizer = AutoTokenizer.from_pretrained(BASE{pinned})
model = AutoModelForCausalLM.from_pretrained(BASE{pinned})
model = PeftModel.from_pretrained(model, ".")
```

`model.merge_and_unload().save_pretrained("merged")` and `tokenizer.save_pretrained("merged")` turn
both into an ordinary model.

### vLLM

```bash
{shell}
vllm serve "$BASE"{flag} --enable-lora --max-lora-rank {vllm_rank} --lora-modules agent=. \\
  --enable-auto-tool-choice --tool-call-parser hermes
```

The model is then called `agent`. The second line is for tool calls.

### llama.cpp and Ollama

Both scripts are in the repository of llama.cpp.

```bash
{folder}
python convert_hf_to_gguf.py "$BASE" --outfile base.gguf
python convert_lora_to_gguf.py --base "$BASE" --outfile adapter.gguf .
llama-server -m base.gguf --lora adapter.gguf --jinja
```

```bash
printf 'FROM ./base.gguf\\nADAPTER ./adapter.gguf\\n' > Modelfile
ollama create agent -f Modelfile
```
"""


def model_card(run: Run, card: RunCard, adapter: Adapter, round: int) -> str:
    """The text of README.md for the run's adapter after `round`."""
    spec, hub = adapter.spec, hub_model(adapter.spec.base)
    base = hub.repository if hub else spec.base
    voters = len(run.config.clients)
    told = CARD.format(
        experiment=card.experiment,
        round=round,
        rounds=out_of(round, run.config.run.rounds),
        rank=spec.rank,
        alpha=spec.alpha,
        targets=", ".join(f"`{name}`" for name in sorted(spec.target_modules)),
        base=base,
        revision=f"`{hub.revision}`" if hub else "none: it is not from a hub",
        base_digest=spec.base_digest,
        digest=adapter.digest,
        version=card.versions.get("fedse", "unknown"),
        clients="1 client" if voters == 1 else f"{voters} clients",
        ledger=_ledger(run),
        success=_success(run, round),
        gate=_gate(run, round),
        privacy=CAVEAT,
    )
    return told + SERVE.format(
        **_where(spec.base)._asdict(),
        pinned=f', revision="{hub.revision}"' if hub else "",
        flag=f" --revision {hub.revision}" if hub else "",
        vllm_rank=vllm_rank(spec.rank),
    )


class BaseLines(NamedTuple):
    """Lines that define BASE, so that the code of the card runs as it is."""

    python: str
    shell: str
    folder: str
    """In a shell, where a folder is needed and the name of a hub's model will not do."""
    note: str = ""


def _where(base: str) -> BaseLines:
    """How a reader obtains the base model; a path of this machine is never named."""
    if hub := hub_model(base):
        named = f"{shlex.quote(hub.repository)} --revision {shlex.quote(hub.revision)}"
        return BaseLines(
            f"BASE = {hub.repository!r}",
            f"BASE={shlex.quote(hub.repository)}",
            f"BASE=base\nhf download {named} --local-dir base",
        )
    if not is_name(base):
        shell = f"BASE=../{shlex.quote(base)}"
        note = f" Change `BASE` if the folder `{base}` with the base model is not beside this one."
        return BaseLines(f"BASE = {'../' + base!r}", shell, shell, note)
    find = f'from fedse.adapters.base import base_path; print(base_path("{base}"))'
    shell = f"BASE=$(python -c '{find}')"
    get = f", after `fedse model get {base}`" if base in FETCHED else ""
    return BaseLines(
        f'from fedse.adapters.base import base_path\n\nBASE = base_path("{base}")',
        shell,
        shell,
        f" The package `fed-se` finds the base model{get}.",
    )


def _ledger(run: Run) -> str:
    path = run.path / FILE
    if not path.is_file():
        return "there is no ledger"
    verdict = verify_ledger(path)
    if verdict.finding or not verdict.entries:
        return "the ledger was altered"
    head = verdict.entries[-1]
    return f"`{head.hash}` (line {head.line}, {'signed' if head.signature else 'unsigned'})"


def _success(run: Run, round: int) -> str:
    after = by_env(rates(run.evals(round)), run.config)
    if not after:
        return f"The adapter of round {round} was not evaluated."
    before = by_env(rates(run.evals(0)), run.config)
    rows = [
        f"| {_cell(env)} | {_rate(before.get(env))} | {_rate(rate)} |"
        for env, rate in after.items()
    ]
    head = [f"| environment | before round 1 | after round {round} |", "|---|---|---|"]
    note = "\nSuccess in tasks that nobody learned from, with 95 % Wilson intervals."
    return "\n".join([*head, *rows, note])


def _rate(rate: Rate | None) -> str:
    if rate is None:
        return "not measured"
    low, high = rate.interval
    return f"{rate.value:.2f} [{low:.2f}, {high:.2f}], {rate.successes} of {rate.n}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _gate(run: Run, round: int) -> str:
    judged = [result for result in run.results() if result.gate and result.index <= round]
    if not judged:
        return "There was no gate: no site tested a merged adapter before it was adopted."
    refused = sum(bool(result.gate and result.gate.refused) for result in judged)
    last = judged[-1]
    assert last.gate is not None
    return (
        f"The sites' validation games refused {refused} of {len(judged)} merged adapters. In round "
        f"{last.index}, with {last.gate.sites} sites, success changed by {last.gate.change:+.3f}; "
        f"chance alone explains changes down to {last.gate.bound:+.3f}."
    )
