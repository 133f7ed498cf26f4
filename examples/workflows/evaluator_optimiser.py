"""Evaluator and optimiser: a writer proposes a way, a critic accepts it or not, the writer mends.

The writer sees a flag, which says a way and another one that is as good. Only the critic sees the
flag of the watch, which bars some ways, and answers y or n. Both are asked by the model's name.
"""

from functools import partial

from openai import DefaultHttpxClient, OpenAI
from signals import HARBOURS, is_good, signals

PROPOSALS = 2
HTTP = DefaultHttpxClient()


def play(base_url: str, task: str, *, harbour: str) -> float:
    """1.0 if the critic accepted a way that is good."""
    client = OpenAI(base_url=base_url, api_key="none", http_client=HTTP)
    split, _, number = task.partition("-")
    flag, watch = signals(harbour, split, flags=2)[int(number)].split()
    writer, critic = ([{"role": "system", "content": role}] for role in ("writer", "critic"))

    def ask(role: str, messages: list, shown: str) -> str:
        messages.append({"role": "user", "content": shown})
        said = client.chat.completions.create(model=role, messages=messages)
        messages.append({"role": "assistant", "content": said.choices[0].message.content})
        return said.choices[0].message.content.strip()

    shown = flag
    for _ in range(PROPOSALS):
        way = ask("writer", writer, shown)
        shown = ask("critic", critic, f"{watch} {way}")
        if shown != "n":
            return float(shown == "y" and is_good(flag, watch, way))
    return 0.0


north, east, west = (partial(play, harbour=harbour) for harbour in HARBOURS)
