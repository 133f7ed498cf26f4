"""An ordinary Flower app that moves the bytes of a round of ours and does nothing else.

Every node receives one array and answers with another of the same size, after as many seconds as it
is told to wait; the server takes the mean.
It is written out as text because it is not ours to import: Flower runs it from its bundle.
"""

from pathlib import Path

from fedse.flower.messages.bundle import write_project

APP = "bare_app"

_PROJECT = f"""\
[project]
name = "bare-app"
version = "1.0.0"
description = "Moves arrays and takes their mean"
license = "Apache-2.0"
dependencies = ["flwr==1.41.0"]

[tool.flwr.app]
publisher = "bench"
fab-include = ["{APP}/*.py"]

[tool.flwr.app.components]
serverapp = "{APP}.server:app"
clientapp = "{APP}.client:app"

[tool.flwr.app.config]
nodes = 1
rounds = 1
numbers = 1
seconds = 0.0
marks = ""
"""

_SERVER = '''\
"""Sends an array to every node and takes the mean of what comes back, round after round."""

import time

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid, ServerApp

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    settings = context.run_config
    while len(nodes := list(grid.get_node_ids())) < settings["nodes"]:
        time.sleep(1)
    # Random numbers: Flower would send equal pieces of an array once.
    random = np.random.default_rng(0)
    vector = random.standard_normal(settings["numbers"], dtype=np.float32)
    for number in range(1, settings["rounds"] + 1):
        content = RecordDict({"arrays": ArrayRecord({"adapter": Array(vector)})})
        questions = [Message(content, node, MessageType.TRAIN) for node in nodes]
        replies = grid.send_and_receive(questions)
        vector = np.mean([r.content["arrays"]["adapter"].numpy() for r in replies], axis=0)
        with open(settings["marks"], "a") as marks:
            marks.write(f"{number}\\n")
'''

_CLIENT = '''\
"""Answers an array with another one of the same size."""

import time

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    vector = message.content["arrays"]["adapter"].numpy()
    time.sleep(context.run_config.get("seconds", 0.0))
    # Another number at every node: Flower would keep equal arrays once.
    own = vector + np.float32(context.node_id % 1009 + 1)
    content = RecordDict({"arrays": ArrayRecord({"adapter": Array(own)})})
    return Message(content, reply_to=message)
'''

_FILES = {
    "pyproject.toml": _PROJECT,
    f"{APP}/__init__.py": "",
    f"{APP}/server.py": _SERVER,
    f"{APP}/client.py": _CLIENT,
}


def write_bare_app(folder: Path) -> Path:
    """`folder` is a Flower project that `flwr run` takes."""
    return write_project(folder, _FILES)
