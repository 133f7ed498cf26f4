"""What redaction finds and costs, and what a secure sum costs, as a section of docs/results.md."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scripts.markdown import table

RESULTS = Path(__file__).parents[1] / "docs" / "results"
TITLE = "## What redaction finds, and what protections cost"
FINDING = """\
`python -m research.measure_redaction docs/results/redaction.json`, seed {seed}, 95 % intervals."""
TRAINING = """\
`python -m research.compare_redaction docs/results/redaction-training.json`, {seeds} seeds: the
smallest model learns for {steps} steps from {lessons} games of a front desk where names matter,
and then plays {games} new games per seed with real names. Wilson and Newcombe 95 % intervals."""
SUM = """\
`python -m research.measure_secure_sum docs/results/secure-sum.json`: {clients} sites and the server
in one process, adapters of {megabytes:.0f} MB, {rounds} rounds; median and range of a round's CPU
seconds without playing and training."""
LESSONS = {
    "as it was": "as they were",
    "stand-ins": "with stand-ins, as redaction leaves them",
    "marks": "with marks such as [STAFF-KQX]",
    "one mark": "with one mark for every name (control)",
}
ROUNDS = {
    "clear": "in the clear",
    "secure": "with a secure sum",
    "third_gone": "the same, and a third leaves before it sent its updates",
}


def section() -> str:
    """Markdown, as it stands in docs/results.md."""
    parts = {"redaction": finding, "redaction-training": training, "secure-sum": secure_sum}
    made = [
        part(json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")))
        for name, part in parts.items()
    ]
    return "\n\n".join([TITLE, *made]) + "\n"


def finding(found: Mapping[str, Any]) -> str:
    """How much of what it must find it finds, and what it takes for a secret by mistake."""
    groups = {
        "secrets, in texts of a kind that no rule was made for": found["secrets"]["held out"],
        "personal data with a known form": found["personal"],
    }
    right = [
        [label, str(len(one["formats"])), f"{one['all']['of']:,}", _span(one["all"], "recall", 4)]
        for label, one in groups.items()
    ]
    alarms = found["false_alarms"]["secrets and personal"]
    wrong = [
        [text, f"{one['tokens']:,}", str(one["false"]), _span(one, "per_1000", 2)]
        for text in ("the five environments", "our documentation", "hard prose")
        for one in (alarms[text],)
    ]
    return "\n\n".join(
        [
            FINDING.format(seed=found["seed"]),
            table(["what must be found", "formats", "generated", "recall"], right),
            table(["false alarms in", "tokens", "false", "per 1,000 tokens"], wrong),
        ]
    )


def training(found: Mapping[str, Any]) -> str:
    """Success after learning from redacted episodes."""
    rows = [
        [
            label,
            f"{arm['won']} of {arm['of']}",
            _between(arm["success"], *arm["interval"], digits=3),
            _between(arm["difference"], *arm["difference interval"], digits=3),
        ]
        for name, label in LESSONS.items()
        for arm in (found["arms"][name],)
    ]
    return (
        f"{TRAINING.format(**found)}\n\n{table(['lessons', 'won', 'success', 'difference'], rows)}"
    )


def secure_sum(found: Mapping[str, Any]) -> str:
    """CPU seconds of a round in the clear and with a secure sum."""
    rows = [
        [
            label,
            _span(found[name], "median", 2, "least", "most"),
            f"{found[name]['median'] / found['clear']['median']:.2f}",
        ]
        for name, label in ROUNDS.items()
    ]
    told = SUM.format(megabytes=found["bytes"] / 1e6, **found)
    return f"{told}\n\n{table(['round', 'CPU seconds', 'of the clear round'], rows)}"


def _span(
    facts: Mapping[str, float], value: str, digits: int, low: str = "low", high: str = "high"
) -> str:
    return _between(facts[value], facts[low], facts[high], digits=digits)


def _between(value: float, low: float, high: float, *, digits: int) -> str:
    return f"{value:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"
