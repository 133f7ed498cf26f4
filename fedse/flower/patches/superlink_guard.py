"""Flower's SuperLink, which takes from a node its own replies, of a reply's size, and nothing else.

Flower checks that a push is signed by the node it names, and not that the message in it is that
node's, or a reply at all. Anything else it accepts reaches the server's app as if another node, or
the SuperLink itself, had sent it. Here such a push is refused.
"""

import sys
import time
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from fedse.flower.messages.bounds import reply_bounds
from fedse.flower.patches.heard_nodes import HeardNodes
from fedse.flower.patches.replace import replace
from fedse.flower.patches.reply_watch import ReplyWatch, refusal

HANDLERS = "flwr.superlink.servicer.fleet.fleet_handlers"
PUSH, PUSH_OBJECT = "push_messages", "push_object"
# By which the server's app asks.
ASK_HANDLERS = "flwr.superlink.servicer.runtime.runtime_handlers"


def main(argv: Sequence[str]) -> None:
    """Runs flower-superlink with its own arguments; ours say how large a reply is."""
    parser = ArgumentParser(
        "python -m fedse.flower.patches.superlink_guard", add_help=False, allow_abbrev=False
    )
    parser.add_argument("--adapter-bytes", type=int, help="size of an adapter; absent = no bound")
    parser.add_argument("--offences", type=Path, help="where replies beyond the bound are noted")
    parser.add_argument("--heard", type=Path, help="where it is noted when each node was heard")
    own, flowers = parser.parse_known_args(argv)
    sys.argv = ["flower-superlink", *flowers]
    if own.adapter_bytes is not None:
        bound_pushes(ReplyWatch(reply_bounds(own.adapter_bytes), own.offences))
    guard_pushes()
    if own.heard is not None:
        HeardNodes(own.heard, clock=time.time, ticks=time.monotonic).follow()
    import_module("flwr.superlink.cli").flower_superlink()


def bound_pushes(watch: ReplyWatch) -> None:
    """From now on this process takes no reply that is larger than a reply can be."""
    handlers = import_module(HANDLERS)
    replace(handlers, PUSH, watch.messages)
    replace(handlers, PUSH_OBJECT, watch.objects)
    replace(import_module(ASK_HANDLERS), PUSH, watch.questions)


def guard_pushes() -> None:
    """From now on this process takes only own replies; only those can be an offence."""
    replace(import_module(HANDLERS), PUSH, only_own_replies)


def only_own_replies(push: Callable[..., Any]) -> Callable[..., Any]:
    """`push`, but for one message that the node itself sends in reply to one that it was sent."""

    def push_own(request: Any, state: Any) -> Any:
        if problem := push_violation(request, state):
            raise refusal(problem)
        return push(request=request, state=state)

    return push_own


def push_violation(request: Any, state: Any) -> str:
    """Why a push is not the node's own reply; empty if it is."""
    if len(request.messages_list) != 1 or len(request.message_object_trees) != 1:
        return "a push holds one message"
    metadata = request.messages_list[0].metadata
    if metadata.src_node_id != request.node.node_id:
        return "the message is not from the node that pushes it"
    if not metadata.reply_to_message_id:
        return "the message is not a reply"
    question = state.get_valid_message_ins(metadata.reply_to_message_id)
    # The database keeps numbers with a sign; an expired question Flower itself refuses.
    if question is not None and question["dst_node_id"] % 2**64 != request.node.node_id:
        return "the message replies to a request sent to another node"
    return ""


if __name__ == "__main__":
    main(sys.argv[1:])
