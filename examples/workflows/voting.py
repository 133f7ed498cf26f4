"""Voting: several voters read the same signal, each for itself, and what most of them say is done.

The program asks for the role "voter" by the model's name and knows nothing else of fedse.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from openai import DefaultHttpxClient, OpenAI
from signals import HARBOURS, reading, signals

VOTERS = 3
HTTP = DefaultHttpxClient()


def play(base_url: str, task: str, *, harbour: str) -> float:
    """1.0 if most voters read the signal of `task` rightly."""
    client = OpenAI(base_url=base_url, api_key="none", http_client=HTTP)
    split, _, number = task.partition("-")
    signal = signals(harbour, split, flags=2)[int(number)]

    def vote(voter: int) -> str:
        messages = [{"role": "system", "content": "voter"}, {"role": "user", "content": signal}]
        said = client.chat.completions.create(model="voter", messages=messages)
        return said.choices[0].message.content.strip()

    with ThreadPoolExecutor(VOTERS) as voters:
        votes = list(voters.map(vote, range(VOTERS)))
    return float(max(votes, key=votes.count) == reading(signal.split()))


north, east, west = (partial(play, harbour=harbour) for harbour in HARBOURS)
