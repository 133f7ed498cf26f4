"""An episode before it is stored: private parts replaced in its texts and in its tokens.

What the agent was shown is encoded anew where it changed; it carries no loss anyway. What the agent
said is encoded anew where it changed, as a demonstration is, and learned from if everything private
in it had been shown before: then it teaches to repeat what was shown. Else the agent said something
private of its own, and that action carries no loss. All other tokens stay as they were sampled.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedse.agent.conversations import Speaker, conversations_of, speaker_of
from fedse.agent.prompt import Encoder
from fedse.config.redaction import RedactSection
from fedse.redact.finding import finder_for
from fedse.redact.pseudonyms import Redaction, plan_redaction, redact_text
from fedse.redact.spans import PSEUDONYM, Find, settled
from fedse.types import Trajectory, Turn

Pieces = tuple[str, ...]
"""A text in parts; a part that is an observation has the same private parts there and here."""


@dataclass(frozen=True)
class Redactor:
    """Replaces what `find` finds."""

    find: Find
    encoder: Encoder | None = None
    """Without one, the tokens of a changed episode are left out, and made when they are needed."""

    def text(self, text: str) -> str:
        return redact_text(text, self.find)

    def plan(self, episode: Trajectory) -> Redaction | None:
        """What would be replaced; None = nothing."""
        texts = [text for turn in episode.turns for text in (turn.observation, turn.action)]
        texts.append(episode.error or "")
        # Later turns of a conversation are given nothing but what they observe.
        first = [one.turns[0] for one in conversations_of(episode)]
        opening = [text for turn in first for text in self._given(turn)]
        if not any(settled(text, self.find) for text in (*texts, *opening)):
            return None
        given = [text for turn in episode.turns for text in self._given(turn)]
        task, shapes = f"{episode.task.env}/{episode.task.id}", dict(episode.stand_ins)
        plan = plan_redaction(texts, self.find, identity=task, beside=given, shapes=shapes)
        return plan if any(plan.replacements()) else None

    def episode(self, episode: Trajectory) -> Trajectory:
        """The episode without anything private; the very same one if there was nothing."""
        plan = self.plan(episode)
        if plan is None:
            return episode
        turns: list[Turn] = []
        # What one role was shown, another one says of its own.
        shown: dict[Speaker, frozenset[str]] = {}
        for turn in episode.turns:
            who, now = speaker_of(turn), (turn.observation, *self._given(turn))
            shown[who] = shown.get(who, frozenset()).union(*map(plan.values, now))
            turns.append(self._turn(turn, plan, shown[who]))
        error = episode.error and plan.apply(episode.error)
        changed = {"turns": tuple(turns), "error": error, "stand_ins": plan.stand_ins}
        likeness = _likeness(episode, plan) if plan.stand_ins else ""
        return episode.model_copy(update={**changed, "likeness": likeness})

    def _given(self, turn: Turn) -> Pieces:
        """The text behind the tokens that were given in this turn: prompt, observation, marks."""
        if self.encoder is None or not turn.context_ids:
            return ()
        text = self.encoder.marked_text(turn.context_ids)
        if not turn.observation or turn.observation not in text:
            return (text,)
        return text.rpartition(turn.observation)

    def _turn(self, turn: Turn, plan: Redaction, shown: frozenset[str]) -> Turn:
        shown_now = plan.apply(turn.observation)
        # Among other words than it was said, an action has another chance.
        changed: dict[str, object] = {"observation": shown_now, "log_chances": ()}
        given = self._given(turn)
        if self.encoder is None:
            changed |= {"context_ids": (), "action_ids": ()}
        elif any(map(plan.values, given)):
            changed["context_ids"] = self.encoder.marked_ids("".join(map(plan.apply, given)))
        if own := plan.values(turn.action):
            action = plan.apply(turn.action)
            changed |= {"action": action, "learned": turn.learned and own <= shown}
            if self.encoder is not None and turn.action_ids:
                ended = turn.action_ids[-1] == self.encoder.end_id
                encode = self.encoder.action if ended else self.encoder.marked_ids
                changed["action_ids"] = encode(action)
        return turn.model_copy(update=changed)


def _likeness(episode: Trajectory, plan: Redaction) -> str:
    """Equal for two episodes that differ in private values only, and so in their stand-ins."""
    bare = plan.skeleton
    turns = tuple(
        Turn(
            observation=bare.apply(turn.observation),
            action=bare.apply(turn.action),
            role=turn.role,
            thread=turn.thread,
        )
        for turn in episode.turns
    )
    return episode.model_copy(update={"turns": turns, "likeness": ""}).content_digest


def pseudonyms_in(episode: Trajectory) -> Counter[str]:
    """How many pseudonyms of each kind stand in the texts of a stored episode."""
    texts = [text for turn in episode.turns for text in (turn.observation, turn.action)]
    found = Counter(match[1] for text in texts for match in PSEUDONYM.finditer(text))
    for stand_in, kind in episode.stand_ins:
        found[kind] += sum(text.count(stand_in) for text in texts)
    return found


def redactor_for(
    settings: RedactSection, folder: Path, encoder: Encoder | None = None
) -> Redactor | None:
    """What redacts as a site's settings say; None = they ask for nothing."""
    return Redactor(finder_for(settings, folder), encoder) if settings.on else None


def episode_filter(
    settings: RedactSection, folder: Path, encoder: Encoder | None = None
) -> Callable[[Trajectory], Trajectory]:
    """What every episode passes before it is stored."""
    made = redactor_for(settings, folder, encoder)
    return made.episode if made else lambda episode: episode


def text_filter(settings: RedactSection, folder: Path) -> Callable[[str], str]:
    """What every other text that may quote a world passes, each by itself."""
    made = redactor_for(settings, folder)
    return made.text if made else lambda text: text
