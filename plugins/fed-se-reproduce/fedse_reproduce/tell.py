"""A table's result in words: for the terminal, and as Markdown for the docs."""

from collections import Counter
from collections.abc import Sequence
from math import isfinite

from fedse.stats.gap import GapClosed
from fedse.stats.paired import Difference
from fedse.stats.rates import Rate
from fedse.stats.verdict import ComparisonVerdict, p_text
from fedse_reproduce.pinned import TABLES
from fedse_reproduce.results import AnswerTo, Line, TableResult, agrees, answers, gaps, lines
from fedse_reproduce.tables import Gap, arms_of


def text(got: TableResult, expected: TableResult | None) -> str:
    """What was found, beside what was expected where that is known."""
    seeds = max(len(seeds) for seeds in got.arms.values())
    head = [TABLES[got.table].title, *_left_out(got), ""]
    head += [f"success on held-out games over {seeds} seed{'s' if seeds > 1 else ''}"]
    published = {line.arm: line for line in lines(_seeds_of(expected, got))} if expected else {}
    width = max(len(arm) for arm in got.arms)
    body = [_text_line(line, published.get(line.arm), width) for line in lines(got)]
    same = _same_bits(got, expected) if expected else ""
    found = [*map(sentence, answers(got)), *(_gap(gap, part) for gap, part in gaps(got).items())]
    return "\n".join([*head, *body, "", *found, *([same] if same else [])])


def _left_out(got: TableResult) -> list[str]:
    """What the whole table has beyond this quick form, and so cannot be answered from it."""
    whole = [arm.label for arm in arms_of(TABLES[got.table], quick=False)]
    lacking = [label for label in whole if label not in got.arms]
    if not lacking:
        return []
    told = f"the quick form: {len(got.arms)} of {len(whole)} arms, without {', '.join(lacking)}"
    return [told, f"the whole table: fedse reproduce {got.table}"]


def _seeds_of(expected: TableResult, got: TableResult) -> TableResult:
    """What was expected of the arms and seeds that were done."""
    arms = {
        arm: {seed: result for seed, result in expected.arms[arm].items() if seed in seeds}
        for arm, seeds in got.arms.items()
        if arm in expected.arms
    }
    return expected.model_copy(
        update={"arms": {arm: seeds for arm, seeds in arms.items() if seeds}}
    )


def _text_line(line: Line, expected: Line | None, width: int) -> str:
    before = f"{line.before.value:.3f} ->" if line.before.n else " " * 8
    row = f"  {line.arm:<{width}}  {before} {_rate(line.after)}"
    if expected is None:
        return row
    word = "agrees" if agrees(line.after, expected.after) else "DIFFERS"
    return f"{row}  expected {_rate(expected.after)}  {word}"


def _same_bits(got: TableResult, expected: TableResult) -> str:
    same = [
        result.adapters == expected.arms[arm][seed].adapters
        for arm, seeds in got.arms.items()
        for seed, result in seeds.items()
        if seed in expected.arms.get(arm, {})
    ]
    return f"\n{sum(same)} of {len(same)} results have the expected adapters, bit for bit"


def sentence(answer: AnswerTo) -> str:
    """One question and its answer, for a person."""
    better, worse = answer.question
    size = f"{_difference(answer.found.micro)}, p {p_text(answer.p_holm)}"
    if answer.verdict is ComparisonVerdict.NONE:
        least = f"one of less than {answer.detectable:.3f}"
        missed = least if isfinite(answer.detectable) else "any"
        size += f": {answer.verdict}; {missed} would probably have been missed"
    else:
        size += f": {answer.verdict}"
    return f"{better} against {worse}: {size}"


def _gap(gap: Gap, closed: GapClosed) -> str:
    way = f"of the gap between {gap.lower} and {gap.upper}"
    if not (isfinite(closed.low) and isfinite(closed.value)):
        return f"{gap.middle} closes no share {way} that can be told: the gap may be nothing"
    share = f"{closed.value:.0%} ({closed.low:.0%} to {closed.high:.0%})"
    return f"{gap.middle} closes {share} {way}"


def markdown(result: TableResult) -> str:
    """The table as a section of the docs."""
    title = TABLES[result.table].title
    seeds = sorted({seed for seeds in result.arms.values() for seed in seeds})
    games = lines(result)[0].after.n
    command = f"fedse reproduce {result.table}" + (" --quick" if result.quick else "")
    parts = [
        f"## {title}",
        f"`{command}`, seeds {seeds[0]} to {seeds[-1]}; {games} held-out games per arm, Wilson 95 %"
        " intervals. Differences are over the same games, with a bootstrap over seeds and games;"
        " p is corrected for the number of questions (Holm).",
        _arms_table(lines(result)),
        _questions_table(answers(result)),
    ]
    closed = "\n".join(f"- {_gap(gap, share)}." for gap, share in gaps(result).items())
    more = [closed, _gate_table(result), _averaging_table(result)]
    return "\n\n".join([*parts, *filter(None, more)]) + "\n"


def _arms_table(arms: Sequence[Line]) -> str:
    envs = sorted({env for line in arms for env in line.envs})
    head = ["arm", "before", "all games", "mean of worlds", *envs, "MB", "CPU-s"]
    rows = [
        [
            line.arm,
            _short(line.before if line.before.n else None),
            f"**{_rate(line.after)}**",
            f"{line.macro:.2f}",
            *(_short(line.envs.get(env)) for env in envs),
            f"{line.megabytes:.2f}",
            f"{line.cpu_seconds:.0f}",
        ]
        for line in arms
    ]
    note = "MB: moved per client and round, both ways. CPU-s: one seed, on average."
    return "\n".join([_table(head, rows), "", note])


def _answer(answer: AnswerTo) -> str:
    if answer.verdict is not ComparisonVerdict.NONE:
        return answer.verdict
    missed = f"< {answer.detectable:.3f}" if isfinite(answer.detectable) else "any"
    return f"{answer.verdict} ({missed} missed)"


def _questions_table(answered: Sequence[AnswerTo]) -> str:
    head = ["question", "all games", "mean of worlds", "p (Holm)", "answer"]
    rows = [
        [
            " against ".join(answer.question),
            _difference(answer.found.micro),
            _difference(answer.found.macro),
            p_text(answer.p_holm),
            _answer(answer),
        ]
        for answer in answered
    ]
    return _table(head, rows)


def _gate_table(result: TableResult) -> str:
    rows = []
    for arm, seeds in result.arms.items():
        gates = [seed.gate for seed in seeds.values() if seed.gate]
        if not gates:
            continue
        refused, rounds = sum(gate.refused for gate in gates), sum(gate.rounds for gate in gates)
        suspected = sum((Counter(gate.suspected) for gate in gates), Counter[str]())
        named = ", ".join(f"{client} {times}" for client, times in sorted(suspected.items()))
        rows.append([arm, f"{refused} of {rounds}", named or "nobody"])
    if not rows:
        return ""
    head = ["arm", "rounds refused", "rounds in which a vote was left out"]
    return _table(head, rows)


def _averaging_table(result: TableResult) -> str:
    rows = []
    for arm, seeds in result.arms.items():
        pairs = [(s.merge_error, s.cosine) for s in seeds.values() if s.merge_error and s.cosine]
        if not pairs:
            continue
        columns = [[p[part][when] for p in pairs] for part in (0, 1) for when in (0, 1)]
        rows.append([arm, *(f"{sum(column) / len(column):.3f}" for column in columns)])
    if not rows:
        return ""
    head = ["arm", "merge error, first", "last round", "cosine, first", "last round"]
    note = (
        "Merge error: ||mean(BA) - mean(B) mean(A)|| / ||mean(BA)||. Cosine: of a client's update"
        " to the merged one, mean over clients; updates at right angles give 1/sqrt(K)."
    )
    return "\n".join([_table(head, rows), "", note])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join(lines)


def _rate(rate: Rate) -> str:
    low, high = rate.interval
    return f"{rate.value:.3f} ({low:.3f}-{high:.3f})"


def _short(rate: Rate | None) -> str:
    return f"{rate.value:.2f}" if rate else ""


def _difference(difference: Difference) -> str:
    return f"{difference.value:+.3f} ({difference.low:+.3f} to {difference.high:+.3f})"
