"""Laws of a trial in service: who is in which arm, what decides, and what is left out."""

from collections.abc import Iterable, Iterator
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fedse_serve.canary import Arm, CanarySettings, Decision, Seen, Trial, arm_of, decide
from fedse_serve.guards import GuardMargins, Limits, Totals, flags_of, limits_of

DEFAULT = CanarySettings()
QUICK = CanarySettings(least=5, limit=60, limit_all=200)
EAGER = CanarySettings(alpha=0.9, promote_alpha=0.9, least=1, limit=3, limit_all=4)
"""Almost anything decides."""
CALM = Totals(0, 0, 0, 0, tokens=10, seconds=0.5)
NO_FLAGS = flags_of(CALM, Limits())

SEEN = st.lists(
    st.builds(
        Seen,
        unit=st.integers(0, 40).map(str),
        arm=st.sampled_from(["stable", "canary"]),
        share=st.sampled_from([0.05, 0.25]),
        label=st.sampled_from([True, False, None]),
        flags=st.sampled_from([None, NO_FLAGS, {**NO_FLAGS, "errors": True}]),
        mixed=st.sampled_from([False, False, False, True]),
    ),
    max_size=80,
)


def labels(canary: Iterable[bool], stable: bool, share: float, name: str = "") -> Iterator[Seen]:
    """Each outcome of the canary after one of the present adapter."""
    for number, outcome in enumerate(canary):
        yield Seen(f"s{name}{number}", "stable", share, label=stable)
        yield Seen(f"c{name}{number}", "canary", share, label=outcome)


def served(rates: dict[Arm, float], guard: dict[Arm, float], *, seed: int) -> Decision:
    """A trial until its verdict, at the shares that it asks for."""
    trial, draw = Trial(DEFAULT), Random(seed)
    decision, number = trial.decision, 0
    while decision.verdict == "go on":
        for _ in range(50):
            number += 1
            arm = arm_of(str(number), salt=str(seed), share=decision.share)
            flags = {**NO_FLAGS, "invalid_tool_calls": draw.random() < guard[arm]}
            trial.see(Seen(str(number), arm, decision.share, draw.random() < rates[arm], flags))
        decision = trial.decision
    return decision


@given(st.text(), st.text(), st.floats(0, 1), st.floats(0, 1))
def test_who_is_in_the_canary_stays_in_at_a_greater_share(
    key: str, salt: str, one: float, other: float
) -> None:
    small, great = sorted([one, other])
    if arm_of(key, salt=salt, share=small) == "canary":
        assert arm_of(key, salt=salt, share=great) == "canary"
    assert arm_of(key, salt=salt, share=0.0) == "stable"
    assert arm_of(key, salt=salt, share=1.0) == "canary"


def test_the_arms_have_their_shares_and_differ_with_the_salt() -> None:
    keys = [str(number) for number in range(20_000)]
    one = {key for key in keys if arm_of(key, salt="a", share=0.05) == "canary"}
    other = {key for key in keys if arm_of(key, salt="b", share=0.05) == "canary"}
    # Standard deviations: 31 around 1,000 each, 7 around 50 in both.
    assert 880 < len(one) < 1120
    assert 20 < len(one & other) < 85


def test_a_worse_candidate_is_rolled_back_with_figures() -> None:
    told = served({"stable": 0.8, "canary": 0.5}, {"stable": 0.0, "canary": 0.0}, seed=1)
    assert (told.verdict, told.share) == ("roll back", 0.0)
    assert told.reason.startswith("success in ")
    assert "lower (evidence" in told.reason
    assert told.figures[0].evidence >= told.figures[0].needed == 40


def test_a_better_candidate_is_promoted_after_every_share() -> None:
    decision = served({"stable": 0.5, "canary": 0.8}, {"stable": 0.05, "canary": 0.05}, seed=2)
    assert (decision.verdict, decision.share) == ("promote", 1.0)
    assert decision.promotion >= 20
    assert decision.labelled["canary"] >= 2 * DEFAULT.least


def test_a_guard_rolls_back_what_success_would_promote() -> None:
    decision = served({"stable": 0.5, "canary": 0.7}, {"stable": 0.02, "canary": 0.4}, seed=3)
    assert decision.verdict == "roll back"
    assert decision.reason.startswith("invalid_tool_calls in ")
    assert "higher by more than 2 points" in decision.reason


def test_a_guard_of_margin_one_is_off_and_leaves_its_risk_to_success() -> None:
    off = GuardMargins(**dict.fromkeys(GuardMargins.model_fields, 1.0))
    settings = CanarySettings(guards=off)
    bad = [
        Seen(f"{arm}{number}", arm, 0.05, flags={"errors": arm == "canary"})
        for number in range(300)
        for arm in ("stable", "canary")
    ]
    assert decide(bad, settings).verdict == "go on"
    assert [figure.needed for figure in decide(bad, settings).figures] == [20]
    assert decide(bad, DEFAULT).verdict == "roll back"
    assert [figure.needed for figure in decide(bad, DEFAULT).figures] == [40] + 6 * [240]


def test_undecided_at_the_limit_the_present_one_stays() -> None:
    even = [bool(number % 2) for number in range(60)]
    # Each success of one arm meets a failure of the other as often as the reverse.
    seen = [
        Seen(f"{arm}{number}", arm, 0.05, label=outcome if arm == "canary" else not outcome)
        for number, outcome in enumerate(even)
        for arm in ("stable", "canary")
    ]
    assert decide(seen[:-1], QUICK).verdict == "go on"
    decision = decide(seen, QUICK)
    assert (decision.verdict, decision.share) == ("withdraw", 0.0)
    assert decision.reason == "not shown to be good enough after 60 labelled sessions"


def test_without_labels_it_is_withdrawn_at_the_limit_of_all_sessions() -> None:
    seen = [Seen(str(number), "canary", 0.05, flags=NO_FLAGS) for number in range(200)]
    assert decide(seen[:-1], QUICK).verdict == "go on"
    assert decide(seen, QUICK).reason == "not shown to be good enough after 200 sessions"


def test_a_share_follows_after_the_least_number_of_sessions_if_it_looks_good() -> None:
    good = list(labels([True] * 5, False, 0.05))
    assert decide(good[:-1], QUICK).share == 0.05
    assert decide(good, QUICK).share == 0.25
    assert decide(labels([False] * 5, True, 0.05), QUICK).share == 0.05
    # Promotion needs as many sessions at the last share; late labels of the first do not count.
    late = [*good, *labels([True] * 40, False, 0.05, "late")]
    assert decide(late, QUICK).verdict == "go on"
    assert decide([*late, *labels([True] * 5, False, 0.25, "b")], QUICK).verdict == "promote"


def test_equal_outcomes_speak_for_promotion_and_against_harm_by_the_margins() -> None:
    settings = CanarySettings(delta=0.1, promote_delta=0.1)
    decision = decide(labels([True], True, 0.05), settings)
    # One against one has weight 1/2; the mean bet is 0.31.
    assert decision.promotion == pytest.approx(1 + 0.31 * 0.5 * 0.1 / 0.9, abs=0.005)
    assert decision.figures[0].evidence == pytest.approx(1 - 0.31 * 0.5 * 0.1 / 1.1, abs=0.005)
    assert decision.promotion > 1 > decision.figures[0].evidence


def test_no_label_is_never_a_success_nor_a_failure() -> None:
    seen = [Seen(str(n), "canary" if n % 2 else "stable", 0.05, flags=NO_FLAGS) for n in range(90)]
    decision = decide(seen, QUICK)
    assert decision.ended == {"stable": 45, "canary": 45}
    assert decision.labelled == {"stable": 0, "canary": 0}
    assert decision.figures[0].evidence == 1
    assert decision.figures[0].canary_all == decision.figures[0].stable_all == 0


def test_sessions_that_began_at_different_shares_are_not_compared() -> None:
    bad = {**NO_FLAGS, "errors": True}
    seen = [
        one
        for number in range(40)
        for one in (
            Seen(f"s{number}", "stable", 0.05, label=True, flags=NO_FLAGS),
            Seen(f"c{number}", "canary", 0.25, label=False, flags=bad),
        )
    ]
    decision = decide(seen, QUICK)
    assert {figure.evidence for figure in decision.figures} == {decision.promotion} == {1.0}
    together = decide([one._replace(share=0.05) for one in seen], QUICK)
    assert together.verdict == "roll back"


def test_no_next_share_while_a_guard_leans_to_harm() -> None:
    seen = list(labels([True] * 5, False, 0.05))
    harm = [
        Seen("s", "stable", 0.05, flags=NO_FLAGS),
        Seen("c", "canary", 0.05, flags={**NO_FLAGS, "errors": True}),
    ]
    assert decide(seen, QUICK).share == 0.25
    assert decide([*harm, *seen], QUICK).share == 0.05


@given(SEEN)
def test_mixed_sessions_are_left_out_and_counted(seen: list[Seen]) -> None:
    with_them, without = (
        decide(seen, QUICK),
        decide([one for one in seen if not one.mixed], QUICK),
    )
    assert with_them.model_copy(update={"mixed": 0}) == without
    if with_them.verdict == "go on":
        assert with_them.mixed == len({one.unit for one in seen if one.mixed})


@given(SEEN)
def test_seeing_everything_twice_changes_only_the_count_of_repeats(seen: list[Seen]) -> None:
    once, twice = decide(seen, QUICK), decide([*seen, *seen], QUICK)
    assert once.model_copy(update={"repeated": 0}) == twice.model_copy(update={"repeated": 0})


@given(SEEN)
def test_flags_and_label_may_come_together_or_apart(seen: list[Seen]) -> None:
    apart = [part for one in seen for part in (one._replace(label=None), one._replace(flags=None))]
    assert decide(apart, QUICK) == decide(seen, QUICK)


@given(SEEN, SEEN)
def test_a_final_verdict_is_never_taken_back(seen: list[Seen], later: list[Seen]) -> None:
    before, after = decide(seen, EAGER), decide([*seen, *later], EAGER)
    if before.verdict != "go on":
        assert after == before
    assert after.share >= before.share or after.verdict in ("roll back", "withdraw")


@given(SEEN)
def test_a_decision_fits_a_ledger_line(seen: list[Seen]) -> None:
    decision = decide(seen, EAGER)
    assert type(decision).model_validate_json(decision.model_dump_json()) == decision
    assert len(decision.digest) == 64


def test_certainty_without_bounds_fits_a_ledger_line_too() -> None:
    trial = Trial(CanarySettings(least=10_000, limit=10_000))
    for one in labels([True] * 5000, False, 0.05):
        trial.see(one)
    assert trial.decision.promotion == 1e12
    assert len(trial.decision.digest) == 64


@pytest.mark.parametrize("shares", [(1.0,), (0.5, 0.25, 1.0), (0.05, 0.25), (0.5, 0.5, 1.0), ()])
def test_shares_rise_to_one(shares: tuple[float, ...]) -> None:
    with pytest.raises(ValidationError, match="rising shares that end in 1"):
        CanarySettings(shares=shares)


def test_flags_and_limits() -> None:
    totals = [CALM._replace(tokens=tokens, seconds=tokens / 10) for tokens in range(1, 101)]
    limits = limits_of(totals)
    assert limits == (95, 9.5)
    assert [sum(flags_of(one, limits).values()) for one in totals] == 95 * [0] + 5 * [2]
    assert limits_of([]) == Limits()
    assert flags_of(Totals(1, 0, 2, 0, 10**9, 1e9), Limits()) == {
        **NO_FLAGS,
        "invalid_tool_calls": True,
        "refusals": True,
    }
    assert set(NO_FLAGS) == set(GuardMargins.model_fields)
