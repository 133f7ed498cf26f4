"""What `research/leakage_table.py` found, as a section of docs/results.md."""

import json
from collections.abc import Mapping, Sequence
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from fedse.audit.scores import Estimate
from fedse.privacy.measured import signal_at
from fedse.privacy.ratio import in_one_step, of_mean, ratio
from fedse.stats.rates import Z_95, Rate
from scripts import markdown

FOUND = Path(__file__).parents[1] / "docs" / "results" / "leakage-table.json"
PUBLISHED_NOISE, LEARNED = 0.742, 58_368
"""Of the row with epsilon 8, by the accountant of that time; and how many numbers were learned."""
LABELS = {
    "before": "before training",
    "observations": "no protection: observation tokens too",
    "default-rate": "action tokens, the default `[train]`",
    "actions": "action tokens",
    "redaction": "+ redaction, rules that come with it",
    "own-pattern": "+ redaction, a pattern for the secrets",
    "dp-8": "+ noise, epsilon 8",
    "dp-3": "+ noise, epsilon 3",
    "dp-1": "+ noise, epsilon 1",
    "secure-sum": "+ secure sum of five sites",
}
SERVER_AIMS = "an AUC of 0.55, 0.02 at 1 % false alarms and 3 bits"
HOW = """\
`python -m research.leakage_table docs/results/leakage-table.json --cells runs/leakage --seeds {}`:
the model of 0.53 M parameters in {}, one round, five sites of {} lessons, {} shadow adapters, {}
CPU-hours. The server attacks one site's reply, or with a secure sum the mean of five. AUC and the
share recognised at 1 % false alarms are those of the strongest attack; bits are those of {}
secrets of 32 bits among 4,096 candidates (1.4 is chance, 12 is all); success is that of the mean
of five replies in {} held-out games per seed. Means over seeds with 95 % intervals, the wider one
of within and between seeds; Wilson intervals for success. Each protection with a + is added to
the loss on action tokens, alone; all of epsilon is spent in this round."""

SUMMED = """\
With a secure sum, LiRA's shadow adapters are made with the true updates of the other four sites,
which a server has only if these work with it. The attacks without shadow
adapters had an AUC of {}."""

NOISE = """\
**The rows with noise hold for their settings only**, and neither column says what an epsilon does.
The success is that of `privacy.clip = 1` under gradients of 0.18 to 1.21 (median 0.42), so that
most of the noise hid nothing; of noise for A as well, which has no gradient at the start; of a
sampling rate of 0.1, with nearly three times the noise of full batches at the same epsilon; and of
AdamW, which divides by the size of the noise. The update was {:.2f} times as long as its noise at
a site, and {:.2f} times in the mean of five, where 0.5 is needed (`fedse privacy plan`,
[measured](how-to/differential-privacy.md#what-a-budget-buys)). The AUC is near chance because such
a reply had learned nothing; an epsilon of 8 spent in this way allows up to 0.74, and in full
batches up to 0.88 (`fedse privacy budget`)."""

HEAD = ["learned from", "AUC", "recognised at 1 %", "bits, typed", "bits, seen", "success"]

Row = Mapping[str, Any]


def over_seeds(estimates: Sequence[Estimate]) -> Estimate:
    """Their mean; its 95 % interval is the wider one of within seeds and between them."""
    value = fmean(one.value for one in estimates)
    if len(estimates) == 1:
        return estimates[0]
    between = Z_95 * stdev(one.value for one in estimates) / sqrt(len(estimates))
    low, high = (
        sqrt(sum((end - one.value) ** 2 for one, end in zip(estimates, ends, strict=True)))
        for ends in ([one.low for one in estimates], [one.high for one in estimates])
    )
    down, up = (max(between, reach / len(estimates)) for reach in (low, high))
    return Estimate(value=value, low=value - down, high=value + up)


def by_attack(rows: Sequence[Row], figure: str) -> dict[str, Estimate]:
    """A figure of each attack, over the seeds."""
    found: dict[str, list[Estimate]] = {}
    for one in (one for row in rows for one in row["audit"]["attacks"]):
        found.setdefault(one["attack"], []).append(_estimate(one[figure]))
    return {attack: over_seeds(each) for attack, each in found.items()}


def strongest(rows: Sequence[Row], figure: str) -> Estimate:
    """Of the attack whose figure is the highest on average over the seeds."""
    return max(by_attack(rows, figure).values(), key=lambda one: one.value)


def bits(rows: Sequence[Row], place: str) -> Estimate:
    """Of the secrets planted in one place."""
    found = [one for row in rows for one in row["audit"]["canaries"] if one["place"] == place]
    return over_seeds([_estimate(one["bits"]) for one in found])


def success(rows: Sequence[Row]) -> Rate:
    """Held-out games of all seeds together."""
    return Rate(sum(row["won"][0] for row in rows), sum(row["won"][1] for row in rows))


def table(found: Mapping[str, Any]) -> str:
    """A line per arm that was measured."""
    seeds, lines = {row["seed"] for row in found["rows"]}, []
    for name in LABELS:
        rows = [row for row in found["rows"] if row["arm"] == name]
        if rows:
            figures = [""] * 4 if name == "before" else _figures(rows)
            lines.append([_label(rows, len(seeds)), *figures, _rate(success(rows))])
    return markdown.table(HEAD, lines)


def _label(rows: Sequence[Row], seeds: int) -> str:
    label, own = LABELS[rows[0]["arm"]], ", ".join(str(row["seed"]) for row in rows)
    return label if len(rows) == seeds else f"{label} (only seed {own})"


def section() -> str:
    """Markdown, as it stands in docs/results.md."""
    found = json.loads(FOUND.read_text(encoding="utf-8"))
    settings, rows = found["settings"], found["rows"]
    seeds = sorted({row["seed"] for row in rows})
    audits = [row for row in rows if "audit" in row]
    failed = [f"{LABELS[row['arm']]}, seed {row['seed']}" for row in audits if failed_in(row)]
    hours = sum(row["cpu_seconds"] for row in audits) / 3600
    controls = (
        f"A control failed in {len(failed)} of {len(audits)} audits ({'; '.join(failed)})."
        if failed
        else f"All controls of all {len(audits)} audits came out as they must."
    )
    size = settings["lessons"], settings["shadows"], f"{hours:.1f}", settings["canaries"]
    how = HOW.format(" ".join(map(str, seeds)), settings["client"], *size, settings["games"])
    return f"""## What a reply gives away

{how}

{table(found)}

{controls} The aim for a default reply was {SERVER_AIMS}.
{summed(rows)}
{noisy(settings["lessons"])}
"""


def summed(rows: Sequence[Row]) -> str:
    """What the row with a secure sum needs to be understood."""
    own = [row for row in rows if row["arm"] == "secure-sum"]
    if not own:
        return ""
    attacks = by_attack(own, "auc").items()
    each = ", ".join(_span(auc, digits=3) for attack, auc in attacks if attack != "lira")
    return f"{SUMMED.format(each)}\n"


def noisy(lessons: int) -> str:
    """What the rows with noise need to be understood."""
    noise = in_one_step(PUBLISHED_NOISE, rate=0.1, steps=20)
    own = ratio(lessons, signal=signal_at(1.0), noise=noise, numbers=LEARNED)
    return NOISE.format(own, of_mean(own, 5))


def failed_in(row: Row) -> bool:
    return bool(row["failed_controls"])


def _figures(rows: Sequence[Row]) -> list[str]:
    return [
        _span(strongest(rows, "auc"), digits=3),
        _span(strongest(rows, "tpr"), digits=3),
        _span(bits(rows, "typed"), digits=1),
        _span(bits(rows, "seen"), digits=1),
    ]


def _span(one: Estimate, *, digits: int) -> str:
    low = max(0.0, one.low)
    return f"{one.value:.{digits}f} ({low:.{digits}f}-{one.high:.{digits}f})"


def _rate(rate: Rate) -> str:
    return f"{rate.value:.3f} ({rate.interval.low:.3f}-{rate.interval.high:.3f})"


def _estimate(facts: Mapping[str, float]) -> Estimate:
    return Estimate.model_validate(facts)
