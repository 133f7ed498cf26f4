"""A turn before it is stored: private parts replaced in its texts and in its tokens.

As fedse.redact.episode, but turn by turn: a session is stored while it goes on. So a pseudonym
follows from a keyed digest of session and value, and is the same in every turn of a session.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from fedse.redact.episode import Redactor
from fedse.redact.pseudonyms import Redaction, plan_redaction
from fedse.redact.spans import settled

Letters = Callable[[str], str]
"""A private value, by its letters and digits -> what tells its pseudonym from others."""


class Content(NamedTuple):
    """The part of a turn that can be private."""

    observation: str
    reply: str
    sampling: str
    """The settings as JSON."""
    given_ids: Sequence[int]
    sampled_ids: Sequence[int]
    log_probs: Sequence[float]
    redacted: bool = False
    learned: bool = True


def redact_turn(
    content: Content,
    redactor: Redactor,
    letters: Letters,
    *,
    shown: Sequence[str] = (),
    said: Sequence[str] = (),
) -> Content:
    """The content without anything private; the very same one if there was nothing.

    `shown` and `said` are the texts of the session so far. What is private there is private here.
    """
    given = _given(content, redactor)
    sampled = _sampled(content, redactor)
    before = (*shown, *said)
    texts = (*before, content.observation, content.reply)
    beside = (*given, *sampled, content.sampling)
    if not any(settled(text, redactor.find) for text in (*texts, *beside)):
        return content
    plan = _named(plan_redaction(texts, redactor.find, beside=beside), letters)
    known = frozenset[str]().union(*map(plan.values, (*shown, content.observation, *given)))
    own = frozenset[str]().union(*map(plan.values, (content.reply, *sampled)))
    return Content(
        plan.apply(content.observation),
        plan.apply(content.reply),
        plan.apply(content.sampling),
        _ids(content.given_ids, given, plan, redactor),
        _ids(content.sampled_ids, sampled, plan, redactor),
        (),  # among other words than it was said, a reply has another chance
        redacted=True,
        learned=own <= known,
    )


def redact_value(text: str, redactor: Redactor, letters: Letters) -> str:
    """One text about a session, such as a comment, by itself."""
    return _named(plan_redaction([text], redactor.find), letters).apply(text)


def _given(content: Content, redactor: Redactor) -> tuple[str, ...]:
    """The text behind the given tokens; around what was observed, mostly words of a template."""
    if redactor.encoder is None or not content.given_ids:
        return ()
    text = redactor.encoder.marked_text(content.given_ids)
    if not content.observation or content.observation not in text:
        return (text,)
    return text.rpartition(content.observation)


def _sampled(content: Content, redactor: Redactor) -> tuple[str, ...]:
    if redactor.encoder is None or not content.sampled_ids:
        return ()
    text = redactor.encoder.marked_text(content.sampled_ids)
    if not content.reply or content.reply not in text:
        return (text,)
    return text.partition(content.reply)


def _ids(
    ids: Sequence[int], pieces: Sequence[str], plan: Redaction, redactor: Redactor
) -> Sequence[int]:
    if redactor.encoder is None:
        return ()  # made when they are needed
    if not any(map(plan.values, pieces)):
        return ids
    return redactor.encoder.marked_ids("".join(map(plan.apply, pieces)))


def _named(plan: Redaction, letters: Letters) -> Redaction:
    names = {value: f"[{kind}-{letters(value)}]" for value, kind in plan.kinds.items()}
    return plan._replace(pseudonyms=names)
