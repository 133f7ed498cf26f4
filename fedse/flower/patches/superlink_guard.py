"""Flower's SuperLink, which takes from a node its own replies and nothing else.

Flower checks that a push is signed by the node it names, and not that the message in it is that
node's, or a reply at all. Anything else it accepts reaches the server's app as if another node, or
the SuperLink itself, had sent it. Here such a push is refused.
"""

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from fedse.flower.patches.replace import replace

HANDLERS, PUSH = "flwr.superlink.servicer.fleet.fleet_handlers", "push_messages"


def main(argv: Sequence[str]) -> None:
    """Runs flower-superlink with its own arguments."""
    sys.argv = ["flower-superlink", *argv]
    guard_pushes()
    import_module("flwr.superlink.cli").flower_superlink()


def guard_pushes() -> None:
    """From now on this process takes only own replies."""
    replace(import_module(HANDLERS), PUSH, only_own_replies)


def only_own_replies(push: Callable[..., Any]) -> Callable[..., Any]:
    """`push`, but for one message that the node itself sends in reply to one that it was sent."""
    from flwr.supercore.error import ApiErrorCode, FlowerError

    def push_own(request: Any, state: Any) -> Any:
        if problem := push_violation(request, state):
            raise FlowerError(ApiErrorCode.INVALID_PROTOBUF_PAYLOAD, problem)
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
