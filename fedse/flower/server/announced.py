"""Which replies are at the SuperLink, by one request; each is then read by itself.

Flower's own pull asks and reads in one: for several messages at once, one reply that is never
whole would hold up the others, and one that cannot be read would take them along.
"""

import copy
from collections.abc import Collection
from typing import Any

from flwr.proto.runtime_pb2 import PullAppMessagesRequest, PullAppMessagesResponse
from flwr.serverapp import Grid
from flwr.superlink.grid import HttpGrid


def replies_at(grid: Grid, message_ids: Collection[str]) -> dict[str, Grid]:
    """A grid for each reply that may be there: to pull the reply from it is to read it.

    A grid that is no SuperLink's is asked for each reply when it is pulled. What else lies there
    for the server, in reply to nothing, is not read.
    """
    if not isinstance(grid, HttpGrid):
        return dict.fromkeys(message_ids, grid)
    client = grid._runtime_client
    found = client.PullMessages(PullAppMessagesRequest(message_ids=message_ids))
    replies: dict[str, Grid] = {}
    for message, tree in zip(found.messages_list, found.message_object_trees, strict=True):
        message_id = message.metadata.reply_to_message_id
        if message_id in message_ids and message_id not in replies:
            only = PullAppMessagesResponse(messages_list=[message], message_object_trees=[tree])
            replies[message_id] = reading = copy.copy(grid)
            reading._client = _Answered(client, only)
    return replies


class _Answered:
    """Flower's client of the SuperLink, whose next question for messages has its answer."""

    def __init__(self, client: Any, answer: PullAppMessagesResponse) -> None:
        self._client, self._answer = client, answer

    def PullMessages(self, request: PullAppMessagesRequest) -> PullAppMessagesResponse:
        return self._answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)
