"""An agent program that owns its loop and has never heard of fedse: a game and an OpenAI-style URL.

It improves through fedse without a changed line, from this folder:

    fedse run own_agent_loop.toml
"""

import json
from itertools import permutations, product
from random import Random
from urllib.request import Request, urlopen

WAYS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
SIZE, MOVES = 5, 8
CELLS = list(product(range(1, SIZE + 1), repeat=2))
WALKS = Random(0).sample(list(permutations(CELLS, 2)), k=600)


def play(base_url, task):
    """Walk to the goal of `task` by asking the model for every move; 1.0 if it got there."""
    split, number = task.split("-")
    me, goal = WALKS[int(number) if split == "train" else -1 - int(number)]
    messages = [{"role": "system", "content": "maze"}]
    for _ in range(MOVES):
        messages.append({"role": "user", "content": view(me, goal)})
        answer = chat(base_url, messages)
        messages.append({"role": "assistant", "content": answer})
        row, column = WAYS.get(answer.strip(), (0, 0))
        me = (min(max(me[0] + row, 1), SIZE), min(max(me[1] + column, 1), SIZE))
        if me == goal:
            return 1.0
    return 0.0


def chat(base_url, messages):
    body = json.dumps({"model": "any", "messages": messages}).encode()
    request = Request(f"{base_url}/chat/completions", body, {"Content-Type": "application/json"})
    with urlopen(request, timeout=300) as response:
        return json.load(response)["choices"][0]["message"]["content"]


def view(me, goal):
    down, right = goal[0] - me[0], goal[1] - me[1]
    rows = f" {'down' if down > 0 else 'up'} {abs(down)}" if down else ""
    columns = f" {'right' if right > 0 else 'left'} {abs(right)}" if right else ""
    return f"at {me[0]} {me[1]} goal{rows}{columns} open {' '.join(WAYS)}"
