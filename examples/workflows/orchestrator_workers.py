"""Orchestrator and workers: one splits the work, the workers do its parts, the first one answers.

The orchestrator says which way of each flag is meant, as the first flag of the signal demands.
Every worker reads one flag, all at the same time. The orchestrator answers with what they read.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from openai import DefaultHttpxClient, OpenAI
from signals import HARBOURS, orders, signals

WORKERS = 2
HTTP = DefaultHttpxClient()


def play(base_url: str, task: str, *, harbour: str) -> float:
    """1.0 if the orchestrator's answer is what the signal says."""
    client = OpenAI(base_url=base_url, api_key="none", http_client=HTTP)
    split, _, number = task.partition("-")
    signal = signals(harbour, split, flags=3)[int(number)]

    def ask(role: str, messages: list, shown: str) -> str:
        messages.append({"role": "user", "content": shown})
        said = client.chat.completions.create(model=role, messages=messages)
        messages.append({"role": "assistant", "content": said.choices[0].message.content})
        return said.choices[0].message.content.strip()

    def work(how: str, flag: str) -> str:
        return ask("worker", [{"role": "system", "content": "worker"}], f"{how} {flag}")

    orchestrator = [{"role": "system", "content": "orchestrator"}]
    plan = ask("orchestrator", orchestrator, signal).split()
    with ThreadPoolExecutor(WORKERS) as workers:
        read = list(workers.map(work, plan, signal.split()[1:]))
    return float(ask("orchestrator", orchestrator, " ".join(read)) == orders(signal))


north, east, west = (partial(play, harbour=harbour) for harbour in HARBOURS)
