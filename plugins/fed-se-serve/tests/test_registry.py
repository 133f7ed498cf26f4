"""Laws of the registry: the ledger alone says what serves, and no crash leaves it in between."""

import shutil
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedse.adapters.peft_folder import WEIGHTS, export_adapter
from fedse.errors import RunError, StoreError
from fedse.ledger.chain import FILE
from fedse.ledger.verifying import verify_ledger
from fedse.types import Adapter, AdapterSpec, TensorSpec
from fedse_serve.canary import CanarySettings, Decision, Seen, Trial
from fedse_serve.moves import Candidate, Kind, Move, State, after, replay
from fedse_serve.registry import Registry
from tests.needs import needs

needs("cryptography")

SPEC = AdapterSpec(
    base="tiny",
    base_digest="0" * 64,
    rank=1,
    alpha=1.0,
    target_modules=("q",),
    tensors=(TensorSpec(name="q.lora_A.weight", shape=(1, 4)),),
)
A, B, C = (Adapter(SPEC, np.full(4, number, np.float32)) for number in (1, 2, 3))


def ticking() -> Callable[[], float]:
    ticks = count(1)
    return lambda: float(next(ticks))


def opened(folder: Path) -> Registry:
    return Registry(folder, name="desk", clock=ticking())


def move(kind: Kind, adapter: Adapter | None, share: float | None = None) -> Move:
    return Move(kind=kind, adapter=adapter.digest if adapter else None, share=share, reason="told")


def decided(**asked: object) -> Decision:
    return Trial(CanarySettings()).decision.model_copy(update=asked)


def serving(registry: Registry, adapter: Adapter) -> State:
    """Offered, passed and at the first share."""
    registry.offer(adapter, reason="night 1")
    registry.move(move("passed", adapter))
    return registry.follow(adapter.digest, decided())


def test_an_adapter_goes_all_the_way(tmp_path: Path) -> None:
    registry = opened(tmp_path)
    assert registry.state == State()
    state = serving(registry, A)
    assert state.candidate is not None
    assert state.candidate._replace(began=None) == Candidate(A.digest, True, 0.05)
    began = state.candidate.began
    assert began == registry.history[-1][0]
    wider = registry.follow(A.digest, decided(share=0.25)).candidate
    assert wider == Candidate(A.digest, True, 0.25, began)
    state = registry.follow(A.digest, decided(verdict="promote", share=1.0, reason="good"))
    assert (state.current, state.candidate, state.earlier) == (A.digest, None, (None,))
    kinds = [one.kind for _, one in registry.history]
    assert kinds == ["offered", "passed", "share", "share", "promoted"]
    last = registry.history[-1][1]
    assert (last.reason, last.decision and last.decision.reason) == ("good", "good")
    assert (tmp_path / "adapters/current" / WEIGHTS).read_bytes() == A.to_bytes()


def test_one_that_was_rolled_back_does_not_return_and_the_next_follows(tmp_path: Path) -> None:
    registry = opened(tmp_path)
    serving(registry, A)
    registry.offer(B, reason="night 2")
    registry.offer(C, reason="night 3")
    assert registry.state.waiting == Candidate(C.digest)
    state = registry.follow(A.digest, decided(verdict="roll back", reason="success: lower"))
    assert (state.current, state.candidate, state.waiting) == (None, Candidate(C.digest), None)
    assert state.refused == {A.digest}
    with pytest.raises(RunError, match=f"{A.digest[:12]} cannot be offered: it was rolled back"):
        registry.offer(A, reason="again")


def test_a_promoted_one_can_be_rolled_back_and_a_trial_against_it_begins_again(
    tmp_path: Path,
) -> None:
    registry = opened(tmp_path)
    serving(registry, A)
    registry.follow(A.digest, decided(verdict="promote"))
    serving(registry, B)
    state = registry.move(move("rolled back", A))
    assert (state.current, state.earlier) == (None, ())
    assert state.candidate == Candidate(B.digest, passed=True)
    assert not (tmp_path / "adapters/current").exists()


def test_a_pin_ends_the_trial_and_holds_until_it_is_taken_away(tmp_path: Path) -> None:
    registry = opened(tmp_path)
    serving(registry, A)
    registry.follow(A.digest, decided(verdict="promote"))
    serving(registry, B)
    state = registry.move(move("pinned", None))
    assert (state.current, state.pinned) == (None, True)
    assert state.candidate == Candidate(B.digest, passed=True)
    assert registry.follow(B.digest, decided()) == state
    with pytest.raises(RunError, match="the present one is pinned"):
        registry.move(move("share", B, 0.05))
    registry.move(move("unpinned", None))
    assert registry.follow(B.digest, decided()).candidate is not None
    with pytest.raises(RunError, match=f"{C.digest[:12]} cannot be pinned: it was never offered"):
        registry.move(move("pinned", C))


def test_a_decision_about_another_candidate_moves_nothing(tmp_path: Path) -> None:
    registry = opened(tmp_path)
    state = serving(registry, A)
    assert registry.follow(B.digest, decided(verdict="promote")) == state
    assert registry.follow(A.digest, decided(share=0.05)) == state
    assert len(registry.history) == 3


def test_nobody_is_served_before_the_gate(tmp_path: Path) -> None:
    registry = opened(tmp_path)
    registry.offer(A, reason="night 1")
    assert registry.follow(A.digest, decided()).candidate == Candidate(A.digest)
    with pytest.raises(RunError, match="it has not passed the gate"):
        registry.move(move("share", A, 0.05))
    registry.move(move("passed", A))
    with pytest.raises(RunError, match="it has not served anyone"):
        registry.move(move("promoted", A))
    registry.move(move("share", A, 0.25))
    for share in (0.05, 0.25):
        with pytest.raises(RunError, match=f"expected more than 0.25, got {share}"):
            registry.move(move("share", A, share))


def test_offering_twice_is_offering_once_also_as_a_folder(tmp_path: Path) -> None:
    registry = opened(tmp_path / "service")
    registry.offer(A, reason="night 1")
    lines = (tmp_path / "service" / FILE).read_bytes()
    exported = export_adapter(A, tmp_path / "exported")
    assert registry.offer_folder(exported, reason="by hand") == A.digest
    assert registry.offer(A, reason="night 1") == A.digest
    assert (tmp_path / "service" / FILE).read_bytes() == lines
    other = opened(tmp_path / "other")
    assert other.offer_folder(exported, reason="by hand") == A.digest
    assert (other.folder_of(A.digest) / WEIGHTS).read_bytes() == A.to_bytes()


def test_looks_that_meet_leave_one_line(tmp_path: Path) -> None:
    one, other = opened(tmp_path), opened(tmp_path)
    one.offer(A, reason="night 1")
    states = [each.move(move("passed", A)) for each in (one, other)]
    assert states[0] == states[1]
    assert [told.kind for _, told in one.history] == ["offered", "passed"]


def test_two_processes_see_each_other(tmp_path: Path) -> None:
    one, other = opened(tmp_path), opened(tmp_path)
    serving(one, A)
    assert other.state == one.state
    other.move(move("withdrawn", A))
    assert one.state.candidate is None


def test_the_ledger_is_verified_by_the_usual_command(tmp_path: Path) -> None:
    serving(opened(tmp_path), A)
    assert verify_ledger(tmp_path / FILE).finding is None
    changed = (tmp_path / FILE).read_bytes().replace(b"0.05", b"0.06", 1)
    (tmp_path / FILE).write_bytes(changed)
    with pytest.raises(StoreError, match="line 4 was changed"):
        opened(tmp_path)


def test_a_crash_at_any_byte_of_the_last_line_leaves_the_state_before_or_after(
    tmp_path: Path,
) -> None:
    registry = opened(tmp_path)
    before = serving(registry, A)
    size = (tmp_path / FILE).stat().st_size
    after_it = registry.follow(A.digest, decided(verdict="promote"))
    whole = (tmp_path / FILE).read_bytes()
    for cut in {*range(size, len(whole), 97), len(whole) - 1, len(whole)}:
        (tmp_path / FILE).write_bytes(whole[:cut])
        again = opened(tmp_path)
        assert again.state == (after_it if cut >= len(whole) - 1 else before)
        assert (tmp_path / "adapters/current").is_symlink() == (again.state == after_it)


def test_what_a_crash_left_beside_the_ledger_is_finished_or_removed(tmp_path: Path) -> None:
    registry = opened(tmp_path)
    serving(registry, A)
    state = registry.follow(A.digest, decided(verdict="promote"))
    place = tmp_path / "adapters"
    (place / "current").unlink()
    (place / f".{B.digest}").mkdir()
    (place / f".{B.digest}" / WEIGHTS).write_bytes(b"half")
    (place / B.digest).mkdir()
    (place / B.digest / WEIGHTS).write_bytes(b"half, before a power cut")
    again = opened(tmp_path)
    assert again.state == state
    assert (place / "current").resolve() == place / A.digest
    assert not (place / f".{B.digest}").exists()
    again.offer(B, reason="again")
    assert (again.folder_of(B.digest) / WEIGHTS).read_bytes() == B.to_bytes()


@pytest.mark.parametrize("how", ["changed", "gone"])
def test_an_adapter_in_use_that_is_not_what_was_offered_is_refused(
    tmp_path: Path, how: str
) -> None:
    serving(opened(tmp_path), A)
    folder = tmp_path / "adapters" / A.digest
    (folder / WEIGHTS).write_bytes(B.to_bytes()) if how == "changed" else shutil.rmtree(folder)
    with pytest.raises(StoreError, match=A.digest[:12]):
        opened(tmp_path)


MOVES = st.lists(
    st.builds(
        Move,
        kind=st.sampled_from(Kind.__args__),
        adapter=st.sampled_from([None, "a" * 64, "b" * 64, "c" * 64]),
        share=st.sampled_from([None, 0.05, 0.25]),
    ),
    max_size=40,
)


def possible(moves: Iterable[Move]) -> list[tuple[float, Move]]:
    """The moves without those that are refused, with times."""
    state, done = State(), []
    for time, one in enumerate(moves):
        try:
            state = after(state, one, time=float(time))
        except RunError:
            continue
        done.append((float(time), one))
    return done


@given(MOVES)
def test_whatever_happens_only_what_passed_serves(moves: list[Move]) -> None:
    done = possible(moves)
    passed = {one.adapter for _, one in done if one.kind == "passed"}
    pinned = {one.adapter for _, one in done if one.kind == "pinned"}
    for length in range(len(done) + 1):
        state = replay(done[:length])
        assert state.current in {None, *passed, *pinned}
        if state.candidate and state.candidate.share:
            assert state.candidate.adapter in passed
            assert not state.pinned
            assert state.candidate.began is not None
        assert len({*state.offered, state.current}) == len(state.offered) + 1


def test_a_trial_and_the_registry_agree_on_the_shares(tmp_path: Path) -> None:
    registry, settings = opened(tmp_path), CanarySettings(least=5)
    state, trial = serving(registry, A), Trial(settings)
    for number in range(60):
        assert state.candidate is not None
        share = state.candidate.share
        trial.see(Seen(f"s{number}", "stable", share, label=False))
        trial.see(Seen(f"c{number}", "canary", share, label=True))
        state = registry.follow(A.digest, trial.decision)
        if state.current == A.digest:
            break
    assert [one.share for _, one in registry.history] == [None, None, 0.05, 0.25, None]
    assert registry.history[-1][1].kind == "promoted"
