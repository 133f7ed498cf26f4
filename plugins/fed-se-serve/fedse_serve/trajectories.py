"""A recorded session as episodes to learn from, with the tokens that were sampled.

A prompt that continues an earlier turn token for token is one episode with it. Any other prompt
begins a new one. Where two turns continue the same one, each has an episode of its own, and what
they have in common is learned in the first of them only.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from fedse.agent.prompt import Encoder
from fedse.types import Task, Trajectory, Turn
from fedse_serve.asked import ROLE
from fedse_serve.rows import StoredFeedback, StoredTurn

MIXED = "mixed"
"""In place of an adapter's digest: more than one adapter sampled the episode."""
DEMONSTRATION = "demonstration"
NAME = "service"
PLAIN_SAMPLING = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": (0, -1),
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
}
"""Settings under which a token is drawn with its own probability."""


def episodes_of(
    turns: Sequence[StoredTurn], *, task: str, success: bool, round: int
) -> list[Trajectory]:
    """The episodes of a session that was labelled."""
    if any(ROLE in turn.sampling for turn in turns):
        return [_of_roles(turns, task, success=success, round=round)]
    chains, learned, made = _chains(turns), set[int](), list[Trajectory]()
    for number, chain in enumerate(chains):
        own = _without_tokens(chain) if _lacks_tokens(chain) else chain
        steps = [_turn(turn, learned=turn.number not in learned) for turn in own]
        learned |= {turn.number for turn in chain}
        adapters = {turn.adapter for turn in chain}
        policy = adapters.pop() if len(adapters) == 1 else MIXED
        made.append(_episode(steps, named(task, number), policy, success=success, round=round))
    return made


def _of_roles(turns: Sequence[StoredTurn], task: str, *, success: bool, round: int) -> Trajectory:
    """The session as one episode, in which every role has a thread for each of its chains."""
    learned, threads = set[int](), Counter[str]()
    steps: list[tuple[int, Turn]] = []
    for chain in _chains(turns):
        own = _without_tokens(chain) if _lacks_tokens(chain) else chain
        role = _role(own[-1])
        place = {"role": role, "thread": threads[role]}
        for turn in own:
            step = _turn(turn, learned=turn.number not in learned)
            steps.append((turn.number, step.model_copy(update=place)))
        learned |= {turn.number for turn in chain}
        threads[role] += 1
    ordered = [step for _, step in sorted(steps, key=lambda one: one[0])]
    adapters = {turn.adapter for turn in turns}
    policy = adapters.pop() if len(adapters) == 1 else MIXED
    return _episode(ordered, named(task, 0), policy, success=success, round=round)


def demonstrations_of(
    turns: Sequence[StoredTurn],
    feedback: Iterable[StoredFeedback],
    encoder: Encoder,
    *,
    task: str,
    round: int,
) -> list[Trajectory]:
    """For each turn that somebody corrected, the session up to there, with the newest correction.

    A correction of the session is one of its last turn. One that is no text is left out.
    """
    by_turn = {turn.inference: turn for turn in turns}
    newest: dict[int, str] = {}
    for one in feedback:
        turn = by_turn.get(one.inference or turns[-1].inference) if turns else None
        if one.metric == DEMONSTRATION and turn and isinstance(one.value, str):
            newest[turn.number] = one.value
    made = []
    for number, text in sorted(newest.items()):
        chain = up_to(turns, number)
        if _lacks_tokens(chain):
            chain = _without_tokens(chain)
        steps = [_turn(turn, learned=False) for turn in chain]
        ids = encoder.action(text) if steps[-1].context_ids else ()
        right = {"action": text, "action_ids": ids, "learned": True, "log_chances": ()}
        steps[-1] = steps[-1].model_copy(update=right)
        name = corrected(task, number)
        made.append(_episode(steps, name, DEMONSTRATION, success=True, round=round))
    return made


def _chains(turns: Sequence[StoredTurn]) -> list[list[StoredTurn]]:
    """From each turn that nothing continues back to one that continues nothing."""
    continued = {turn.parent for turn in turns}
    return [up_to(turns, turn.number) for turn in turns if turn.number not in continued]


def up_to(turns: Sequence[StoredTurn], number: int) -> list[StoredTurn]:
    """The turn of that number, after those that its prompt continues."""
    by_number = {turn.number: turn for turn in turns}
    chain = [by_number[number]]
    while chain[-1].parent is not None:
        chain.append(by_number[chain[-1].parent])
    return chain[::-1]


def _lacks_tokens(chain: Sequence[StoredTurn]) -> bool:
    """Whether tokens were left out when something private was replaced."""
    return not chain[0].given_ids or not all(turn.sampled_ids for turn in chain)


def _without_tokens(chain: Sequence[StoredTurn]) -> list[StoredTurn]:
    """The same texts; tokens of a part of them would not be what was seen."""
    return [replace(turn, given_ids=(), sampled_ids=(), log_probs=()) for turn in chain]


def _turn(turn: StoredTurn, *, learned: bool) -> Turn:
    return Turn(
        observation=turn.observation,
        action=turn.reply,
        context_ids=turn.given_ids,
        action_ids=turn.sampled_ids,
        learned=learned and turn.learned and not turn.guards.error,
        log_chances=turn.log_probs if _is_plain(turn) else (),
        role=_role(turn),
    )


def _role(turn: StoredTurn) -> str:
    """The role that acted; empty = the agent has none."""
    return str(turn.sampling.get(ROLE, ""))


def _is_plain(turn: StoredTurn) -> bool:
    """Whether the log-probabilities are those of the model itself, at temperature 1."""
    for name, plain in PLAIN_SAMPLING.items():
        allowed = plain if isinstance(plain, tuple) else (plain,)
        if turn.sampling.get(name, allowed[0]) not in allowed:
            return False
    return len(turn.log_probs) == len(turn.sampled_ids)


def _episode(
    turns: Sequence[Turn], task: str, policy: str, *, success: bool, round: int
) -> Trajectory:
    return Trajectory(
        task=Task(env=NAME, id=task, split="train"),
        seed=0,
        turns=tuple(turns),
        outcome="success" if success else "failure",
        reward=float(success),
        policy=policy,
        round=round,
    )


def named(task: str, number: int) -> str:
    """The name of an episode of the session; it has at most as many as turns."""
    return f"{task}-{number + 1}" if number else task


def corrected(task: str, number: int) -> str:
    """The name of the session up to a turn that somebody corrected."""
    return f"{task}-corrected-{number}"


def names_of(task: str, turns: Sequence[int]) -> list[str]:
    """Every name that an episode of a session with these turns can have."""
    whole = [named(task, number) for number in range(len(turns))]
    return [*whole, *(corrected(task, number) for number in turns)]
