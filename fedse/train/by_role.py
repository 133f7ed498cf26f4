"""A fit of an agent of several roles: block by block, or of the one adapter they all share.

A lesson is an episode with its conversations, so a step takes as many episodes as without roles.
With `roles.balance` every role has the same weight, and n conversations of a role in one episode
that begin with the same prompt count as one. The steps of a fit are those of the block that took
the most: what one block learns is told from the others' by nothing but which episodes it has.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from fedse.agent.conversations import conversations_of, weighed
from fedse.blocks import block_adapter, span_of, with_blocks
from fedse.config.roles import RolesSection
from fedse.config.training import TrainSection
from fedse.course import Course
from fedse.lazy import Lazy
from fedse.seeds import seed_of
from fedse.train.batch import Lesson, Part, Tokenized, joined, learned_tokens
from fedse.train.moments import bundled, unbundled
from fedse.types import Adapter, Fitted, Trajectory

REMEMBERED = 4096


class BlockFit(Protocol):
    """Trains one adapter, which knows nothing of roles."""

    def __call__(
        self,
        start: Adapter,
        lessons: Sequence[Lesson],
        /,
        *,
        settings: TrainSection,
        context: int,
        seed: int,
        course: Course,
    ) -> Fitted: ...


class RoleWeights(NamedTuple):
    """What decides about the weight of a conversation."""

    context: int
    balance: bool
    apart: bool = False
    """Whether the weights in one episode must not depend on any other."""
    factors: Mapping[str, float] = {}
    """Of each role in this fit; 1 for one that is not named."""

    def lesson(self, episode: Trajectory, roles: Collection[str]) -> Lesson:
        """The episode's conversations of these roles, each with its weight."""
        parts = [part for part in self._parts(episode) if part.role in roles]
        factors = self.factors
        if self.apart and self.balance:
            factors = equal_factors(tokens_by_role(parts))
        parts = [part._replace(weight=part.weight * factors.get(part.role, 1)) for part in parts]
        return joined(parts, success=episode.success)

    def _parts(self, episode: Trajectory) -> Iterable[Part]:
        for one, weight in weighed(conversations_of(episode)):
            ids, mask = one.token_ids[: self.context], one.loss_mask[: self.context]
            yield Part(ids, mask, episode.success, one.role, weight if self.balance else 1.0)


def tokens_by_role(parts: Iterable[Part]) -> Counter[str]:
    """How many tokens of each role are learned from, those of parallel conversations in part."""
    found: Counter[str] = Counter()
    for part in parts:
        found[part.role] += part.weight * learned_tokens([part])  # type: ignore[assignment]
    return found


def equal_factors(tokens: Mapping[str, float]) -> dict[str, float]:
    """What each role's tokens are multiplied by so that all roles have equal sums, and the total
    stays as it is; exactly 1 for a single role."""
    spoken = {role: count for role, count in tokens.items() if count > 0}
    whole = sum(spoken.values())
    if len(spoken) < 2:
        return dict.fromkeys(spoken, 1.0)
    return {role: whole / (len(spoken) * count) for role, count in spoken.items()}


def role_lessons(
    lessons: Sequence[Trajectory],
    roles: Collection[str],
    weights: RoleWeights,
    *,
    plain: bool = False,
) -> Sequence[Lesson]:
    """The lessons' conversations of these roles, in their order.

    Lessons without one are left out, unless weights are apart: then every lesson keeps its place.
    `plain` lessons are as those of an agent without roles, if each is one whole conversation.
    """
    if weights.apart:
        places: Sequence[int] = range(len(lessons))
    else:
        tokens, places = Counter[str](), []
        for place, episode in enumerate(lessons):
            if parts := weights.lesson(episode, roles).parts:
                tokens.update(tokens_by_role(parts))
                places.append(place)
        weights = weights._replace(factors=equal_factors(tokens) if weights.balance else {})
    single = plain and all(_is_whole(weights.lesson(lessons[place], roles)) for place in places)

    def made(index: int) -> Lesson:
        lesson = weights.lesson(lessons[places[index]], roles)
        return lesson._replace(parts=()) if single else lesson

    return Lazy(len(places), made, remembered=REMEMBERED)


def _is_whole(lesson: Lesson) -> bool:
    return len(lesson.parts) == 1


def fit_by_role(
    fit: BlockFit,
    start: Adapter,
    lessons: Sequence[Trajectory],
    *,
    roles: RolesSection,
    here: Collection[str] = (),
    settings: TrainSection,
    context: int,
    seed: int,
    course: Course,
) -> Fitted:
    """The adapter whose every block has learned from the conversations of its own roles.

    Blocks of roles that are not `here`, or without a lesson, stay as they are, and so does what
    AdamW remembers of them. `here` empty = all roles are.
    """
    weights = RoleWeights(context, roles.balance, apart=course.private is not None)
    acting = acting_roles(roles, here)
    before, fits = unbundled(course.moments, start.spec.blocks), dict[str, Fitted]()
    for block in start.spec.blocks or ("",):
        own = [role for role in acting if roles.block_of(role) == block]
        given = role_lessons(lessons, own, weights, plain=len(roles.names) < 2)
        if len(given) or course.private:
            moments = before.get(block) if start.spec.blocks else course.moments
            fits[block] = fit(
                block_adapter(start, block),
                given,
                settings=settings,
                context=context,
                seed=seed_of(seed, block) if block else seed,
                course=course._replace(moments=moments),
            )
    return _together(start, fits, before)


def acting_roles(roles: RolesSection, here: Collection[str]) -> list[str]:
    """The roles that act at a client, and nobody: what was played before there were roles."""
    return [*(role for role in roles.names if not here or role in here), ""]


def lessons_apart(
    lessons: Sequence[Trajectory], roles: RolesSection, here: Collection[str], *, context: int
) -> Sequence[Tokenized]:
    """Every lesson in its place, with weights in it that depend on no other one."""
    if not roles.names:
        return lessons
    weights = RoleWeights(context, roles.balance, apart=True)
    return role_lessons(lessons, acting_roles(roles, here), weights)


def _together(start: Adapter, fits: Mapping[str, Fitted], before: Mapping[str, bytes]) -> Fitted:
    """One fit of the whole adapter, made of those of its blocks."""
    blocks, taken = start.spec.blocks, [fitted for fitted in fits.values() if fitted.steps]
    made = with_blocks(start, {block: one.adapter.vector for block, one in fits.items()})
    kept = {block: one.moments for block, one in fits.items() if one.moments is not None}
    figures = {
        role: one._replace(drift=drift(start, made, block))
        for block, fitted in fits.items()
        for role, one in fitted.roles.items()
    }
    return Fitted(
        made,
        loss=sum(fitted.loss for fitted in taken) / max(1, len(taken)),
        steps=max((fitted.steps for fitted in taken), default=0),
        tokens=sum(fitted.tokens for fitted in taken),
        padded=sum(fitted.padded for fitted in taken),
        moments=bundled({**before, **kept}) if blocks and kept else kept.get(""),
        longest=max((fitted.longest for fitted in fits.values()), default=0.0),
        roles=figures,
    )


def drift(start: Adapter, made: Adapter, block: str) -> float:
    """The norm of the change of one block."""
    span = span_of(start.spec, block)
    return float(np.linalg.norm(made.vector[span].astype(np.float64) - start.vector[span]))
