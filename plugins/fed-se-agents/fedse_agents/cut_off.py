"""A reply that was cut off in a call: what is learned ends with the last call that was handed over.

A model that must call a function and may call several goes on until it has no tokens left. The
program gets the calls that are whole. Learning the beginning of another one would teach never to
stop, so the reply ends after them, as if the model had said its end token there.
"""

from fedse.agent.calls import CLOSE
from fedse.agent.policy import Reply
from fedse.agent.prompt import Encoder
from fedse_agents.offer import Offer


def ended_after_calls(reply: Reply, offer: Offer, encoder: Encoder) -> Reply:
    """The reply up to its last call if it was cut off after one; any other reply as it is."""
    if reply.action_ids[-1:] == (encoder.end_id,) or offer.choice != "required":
        return reply
    calls, end = offer.read(reply.text).calls, reply.text.rfind(CLOSE) + len(CLOSE)
    kept = reply.text[:end]
    if not calls or offer.read(kept).calls != calls:
        return reply
    ids = _covering(reply.action_ids, kept, encoder)
    # The end token was not drawn, so the chances of all tokens together are not known.
    return reply._replace(text=kept, action_ids=(*ids, encoder.end_id), log_chances=())


def _covering(ids: tuple[int, ...], text: str, encoder: Encoder) -> tuple[int, ...]:
    """The fewest of the first tokens that spell `text`; the last may spell more than that."""
    few, many = 0, len(ids)
    while few < many:
        middle = (few + many) // 2
        if encoder.text(ids[:middle]).startswith(text):
            many = middle
        else:
            few = middle + 1
    return ids[:few]
