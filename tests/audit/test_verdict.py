"""Whether a reply may leave: only after an audit that works and finds little enough."""

import pytest
from pydantic import ValidationError

from fedse.audit.scores import Estimate
from fedse.audit.verdict import (
    AttackFigures,
    AuditResult,
    AuditRules,
    CanaryFigures,
    ControlFigures,
    nothing_to_audit,
)

RULES = AuditRules()


def sure(value: float) -> Estimate:
    return Estimate(value=value, low=value, high=value)


def found(
    auc: float = 0.5, tpr: float = 0.01, bits: float = 1.4, control: float = 1.0, lessons: int = 200
) -> AuditResult:
    """A quiet audit, but for what is given."""
    quiet = AttackFigures(attack="cosine", auc=sure(0.4), tpr=sure(0.0))
    loud = AttackFigures(attack="loss", auc=sure(auc), tpr=sure(tpr))
    places = {"seen": 0.5, "typed": bits}
    return AuditResult(
        lessons=lessons,
        shadows=4,
        attacks=(quiet, loud),
        canaries=tuple(
            CanaryFigures(place=place, planted=8, candidates=4096, bits=sure(mean), most=mean)
            for place, mean in places.items()
        ),
        controls=(ControlFigures(control="observations", figure=control, low=0.8, high=1.0),),
    )


def test_the_worst_figure_counts():
    assert found(auc=0.7, tpr=0.2, bits=4.0).worst == (0.7, 0.2, 4.0)


def test_a_quiet_audit_passes_and_limits_themselves_do():
    assert found().passes(RULES)
    assert found(auc=RULES.max_auc, tpr=RULES.max_tpr, bits=RULES.max_bits).passes(RULES)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"auc": 0.61}, "auc is 0.61, max_auc is 0.6"),
        ({"tpr": 0.11}, "tpr is 0.11, max_tpr is 0.1"),
        ({"bits": 3.1}, "bits is 3.1, max_bits is 3"),
        ({"control": 0.79}, "lessons learned by heart, observations too, are recognised"),
        ({"lessons": 99}, "99 lessons are too few, min_episodes is 100"),
    ],
)
def test_any_single_figure_holds_the_reply_back(changed, said):
    result = found(**changed)
    assert not result.passes(RULES)
    assert said in " ".join(result.objections(RULES))


@pytest.mark.parametrize("figure", ["auc", "tpr", "bits", "control"])
def test_a_figure_that_is_no_number_is_refused(figure):
    """No limit would hold it back: nothing is greater than it, and it is greater than nothing."""
    with pytest.raises(ValidationError):
        found(**{figure: float("nan")})


def test_an_audit_of_nothing_never_passes():
    assert not nothing_to_audit(500).passes(RULES)
    assert not nothing_to_audit(3).passes(RULES.model_copy(update={"min_episodes": 20}))


def test_a_result_is_numbers_and_fixed_words():
    """So a line about it in a ledger cannot hold what an agent saw or said."""
    with pytest.raises(ValidationError):
        AttackFigures(attack="the patient is", auc=sure(0.5), tpr=sure(0.5))
    assert AuditResult.model_validate_json(found().model_dump_json()) == found()
