"""Moves of adapters in service, and the state that follows from them.

An adapter is offered, passes the gate, serves a growing share of the sessions, and is promoted,
rolled back or withdrawn. One is on trial at a time; the newest of those offered meanwhile waits.
Whatever changes the present adapter ends a trial against it: the candidate begins again.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Literal, NamedTuple

from pydantic import Field

from fedse.errors import RunError
from fedse.types import Record
from fedse_serve.canary import Decision

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Kind = Literal[
    "offered", "passed", "share", "promoted", "rolled back", "withdrawn", "pinned", "unpinned"
]
STATUS = "fedse serve status"


class Move(Record):
    """One move of one adapter."""

    kind: Kind
    adapter: Digest | None
    """None = the base model, which can only be pinned or come back."""
    share: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Of the sessions, from now on; only for the kind `share`."""
    reason: str = ""
    decision: Decision | None = None
    """The figures that led to it; None = a person, or the gate."""


class Candidate(NamedTuple):
    """An adapter that is to replace the present one."""

    adapter: str
    passed: bool = False
    """The gate, which it has to before it serves anyone."""
    share: float = 0.0
    began: float | None = None
    """When it began to serve, in seconds since 1970; sessions before do not count in its trial."""


class State(NamedTuple):
    """Which adapters serve."""

    current: str | None = None
    """None = the base model without an adapter."""
    candidate: Candidate | None = None
    waiting: Candidate | None = None
    """Offered while another is on trial."""
    earlier: tuple[str | None, ...] = ()
    """What was current before, the newest last."""
    known: frozenset[str] = frozenset()
    """All that were ever offered."""
    refused: frozenset[str] = frozenset()
    """Those that were rolled back."""
    pinned: bool = False
    """Nothing is tried out, and the present one stays."""

    @property
    def offered(self) -> tuple[str, ...]:
        """The candidate and the one that waits."""
        return tuple(one.adapter for one in (self.candidate, self.waiting) if one)

    @property
    def in_use(self) -> tuple[str, ...]:
        """Adapters that serve, may serve next, or are gone back to."""
        used = [self.current, *self.earlier[-1:], *self.offered]
        return tuple(dict.fromkeys(one for one in used if one is not None))


def replay(moves: Iterable[tuple[float, Move]]) -> State:
    """The state after all moves, each with its time."""
    state = State()
    for time, move in moves:
        state = after(state, move, time=time)
    return state


def after(state: State, move: Move, *, time: float) -> State:
    """The state after the move; one that is not possible is refused."""
    return _RULES[move.kind](state, move, time)


def _refusal(move: Move, why: str) -> RunError:
    which = f"adapter {move.adapter[:12]}" if move.adapter else "the base model"
    return RunError(f"{which} cannot be {_DONE.get(move.kind, move.kind)}: {why}", hint=STATUS)


_DONE: Mapping[str, str] = {"share": "given a share", "passed": "passed by the gate"}


def _offered(state: State, move: Move, time: float) -> State:
    if move.adapter is None or move.adapter in state.refused:
        raise _refusal(move, "it was rolled back" if move.adapter else "it needs no offer")
    if move.adapter in (state.current, *state.offered):
        raise _refusal(move, "it is here already")
    new, known = Candidate(move.adapter), state.known | {move.adapter}
    if state.candidate is None:
        return state._replace(candidate=new, known=known)
    return state._replace(waiting=new, known=known)


def _passed(state: State, move: Move, time: float) -> State:
    candidate, waiting = state.candidate, state.waiting
    if candidate and candidate.adapter == move.adapter:
        return state._replace(candidate=candidate._replace(passed=True))
    if waiting and waiting.adapter == move.adapter:
        return state._replace(waiting=waiting._replace(passed=True))
    raise _refusal(move, "it is not offered")


def _share(state: State, move: Move, time: float) -> State:
    one = _on_trial(state, move)
    if move.share is None or move.share <= one.share:
        raise _refusal(move, f"expected more than {one.share:g}, got {move.share}")
    began = one.began if one.share else time
    return state._replace(candidate=one._replace(share=move.share, began=began))


def _promoted(state: State, move: Move, time: float) -> State:
    one = _on_trial(state, move)
    if not one.share:
        raise _refusal(move, "it has not served anyone")
    return _next(_become(state, one.adapter))


def _rolled_back(state: State, move: Move, time: float) -> State:
    refused = state.refused | ({move.adapter} if move.adapter else set())
    if state.candidate and state.candidate.adapter == move.adapter:
        return _next(state._replace(refused=refused))
    if state.current != move.adapter or not state.earlier:
        raise _refusal(move, "it is neither the candidate nor a present one that replaced another")
    *earlier, current = state.earlier
    back = state._replace(current=current, earlier=tuple(earlier), refused=refused, pinned=False)
    return _begin_again(back)


def _withdrawn(state: State, move: Move, time: float) -> State:
    if state.waiting and state.waiting.adapter == move.adapter:
        return state._replace(waiting=None)
    if state.candidate is None or state.candidate.adapter != move.adapter:
        raise _refusal(move, "it is not offered")
    return _next(state)


def _pinned(state: State, move: Move, time: float) -> State:
    if move.adapter is not None and move.adapter not in state.known:
        raise _refusal(move, "it was never offered")
    pinned = state._replace(pinned=True)
    if move.adapter == state.current:
        return _begin_again(pinned)
    if state.candidate and state.candidate.adapter == move.adapter:
        pinned = _next(pinned)
    if pinned.waiting and pinned.waiting.adapter == move.adapter:
        pinned = pinned._replace(waiting=None)
    return _become(pinned, move.adapter)


def _unpinned(state: State, move: Move, time: float) -> State:
    if not state.pinned or move.adapter != state.current:
        raise _refusal(move, "it is not pinned")
    return state._replace(pinned=False)


_RULES: Mapping[Kind, Callable[[State, Move, float], State]] = {
    "offered": _offered,
    "passed": _passed,
    "share": _share,
    "promoted": _promoted,
    "rolled back": _rolled_back,
    "withdrawn": _withdrawn,
    "pinned": _pinned,
    "unpinned": _unpinned,
}


def _on_trial(state: State, move: Move) -> Candidate:
    """The candidate, if it is the one that moves and may serve."""
    one = state.candidate
    if one is None or one.adapter != move.adapter:
        raise _refusal(move, "it is not the candidate")
    if not one.passed:
        raise _refusal(move, "it has not passed the gate")
    if state.pinned:
        raise _refusal(move, "the present one is pinned")
    return one


def _become(state: State, adapter: str | None) -> State:
    return _begin_again(state._replace(current=adapter, earlier=(*state.earlier, state.current)))


def _next(state: State) -> State:
    """The candidate is gone; the one that waits follows it."""
    return state._replace(candidate=state.waiting, waiting=None)


def _begin_again(state: State) -> State:
    """The candidate serves nobody; what it showed was against another present one."""
    one = state.candidate
    again = one._replace(share=0.0, began=None) if one else None
    return state._replace(candidate=again)
