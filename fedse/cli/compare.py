"""`fedse compare RUN RUN...`: which run is better, and how certain is that?"""

import json as json_format
import shutil
import sys
import textwrap
from math import isfinite
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from fedse.api.measuring import compare
from fedse.cli.display import Json, plain_wanted
from fedse.cli.phrases import counted
from fedse.cli.whiskers import ASCII, UNICODE, Signs, axis_over, tick_line, whisker
from fedse.config.rounds import out_of
from fedse.config.worlds import world_names
from fedse.results.arms import differing
from fedse.results.compare import ArmResult, Comparison, Contrast, scope, sentence
from fedse.stats.paired import Difference
from fedse.stats.rates import Mean, Rate

NARROW, WIDE = 60, 100
LONGEST_LABEL = 16
SHOWN_SETTINGS = 4
STYLES = {"better": "green", "worse": "red"}

Line = tuple[str, str]
"""Text and its style; the text is complete without the style."""


def compare_verb(
    *runs: Annotated[
        str, Parameter(help="Paths or ids of runs, or `last`; all are compared with the first.")
    ],
    round: Annotated[
        int | None, Parameter(help="The adapter after this round; default: the last measured.")
    ] = None,
    json: Json = False,
    plain: Annotated[bool, Parameter(help="ASCII only, no colours.", show_default=False)] = False,
) -> None:
    """Each run's held-out success and its difference to the first run's are on stdout."""
    comparison = compare(*runs, round=round)
    if json:
        print(json_format.dumps(as_json(comparison)))
        return
    unicode = not plain and (sys.stdout.encoding or "").lower().startswith("utf")
    width = min(WIDE, max(NARROW, shutil.get_terminal_size().columns))
    lines = text_of(comparison, width=width, signs=UNICODE if unicode else ASCII)
    if plain or plain_wanted(sys.stdout):
        print("\n".join(text for text, _ in lines))
    else:
        Console(width=width).print(Text("\n").join(Text(*line) for line in lines), soft_wrap=True)


def as_json(comparison: Comparison) -> dict[str, Any]:
    """All numbers of the comparison, unrounded; null where there is none."""
    return {
        "arms": [
            {
                "name": result.arm.label,
                "runs": {seed: str(path) for seed, path in result.arm.runs.items()},
                "rounds": list(result.rounds),
                "settings": {key: here for key, (here, _) in _settings(comparison, result).items()},
                "environments": {env: _rate_json(rate) for env, rate in result.envs.items()},
                "all": _rate_json(result.all),
                "mean_of_environments": {"rate": result.mean.value}
                | result.mean.interval._asdict(),
            }
            for result in comparison.results
        ],
        "differences": [_contrast_json(contrast, comparison) for contrast in comparison.contrasts],
        "notes": comparison.notes,
    }


def _rate_json(rate: Rate) -> dict[str, Any]:
    return {"won": rate.successes, "played": rate.n, "rate": rate.value} | rate.interval._asdict()


def _contrast_json(contrast: Contrast, comparison: Comparison) -> dict[str, Any]:
    return {
        "of": contrast.arm.label,
        "to": comparison.results[0].arm.label,
        "verdict": contrast.verdict,
        "paired": not contrast.unpaired,
        "unpaired_because": contrast.unpaired or None,
        "games": contrast.games,
        "seeds": contrast.seeds,
        "environments": {env: _plain(d) for env, d in contrast.found.groups.items()},
        "all": _plain(contrast.found.micro),
        "mean_of_environments": _plain(contrast.found.macro),
        "p": contrast.p,
        "p_holm": contrast.p_holm,
        "minimum_detectable": contrast.detectable if isfinite(contrast.detectable) else None,
    }


def _plain(difference: Difference) -> dict[str, float | None]:
    return {k: v if isfinite(v) else None for k, v in difference._asdict().items()}


def _settings(comparison: Comparison, result: ArmResult) -> dict[str, tuple[Any, Any]]:
    return differing(result.arm.config, comparison.results[0].arm.config)


def text_of(comparison: Comparison, *, width: int, signs: Signs) -> list[Line]:
    """The comparison for a person."""
    labels = [result.arm.label for result in comparison.results]
    short = max(map(len, labels)) <= LONGEST_LABEL
    names = {label: label if short else _letter(i) for i, label in enumerate(labels)}
    lines = _legend(comparison, names, width)
    lines += [("", ""), *_rates(comparison, names, width, signs)]
    for contrast in comparison.contrasts:
        lines += [("", ""), *_difference(comparison, contrast, names, width, signs)]
    return [*lines, ("", ""), *_wrapped(scope(comparison), width)]


def _letter(number: int) -> str:
    return chr(ord("A") + number) if number < 26 else f"run {number + 1}"


def _wrapped(text: str, width: int, style: str = "", hang: int = 0) -> list[Line]:
    folded = textwrap.wrap(text, width, subsequent_indent=" " * hang, break_on_hyphens=False)
    return [(line, style) for line in folded]


def _legend(comparison: Comparison, names: dict[str, str], width: int) -> list[Line]:
    """Which runs each name stands for, and how their settings differ."""
    lines, long = list[Line](), max(map(len, names.values()))
    for result in comparison.results:
        arm, name = result.arm, names[result.arm.label]
        rounds = "/".join(map(str, sorted({*result.rounds})))
        folders = ", ".join(path.name for path in arm.runs.values())
        seeds = ", ".join(map(str, arm.runs))
        entry = f"{name:<{long}}  after round {out_of(rounds, arm.config.run.rounds)}"
        entry += f", seed{'s' * (len(arm.runs) > 1)} {seeds}"
        entry += f": {folders}" if folders != name else ""
        lines += _wrapped(entry, width, hang=long + 2)
        settings = _settings(comparison, result)
        other = [f"{'':<{long + 2}}{_setting(key, *pair)}" for key, pair in settings.items()]
        for setting in other[:SHOWN_SETTINGS]:
            lines += _wrapped(setting, width, hang=long + 4)
        if (more := len(other) - SHOWN_SETTINGS) > 0:
            lines += [(f"{'':<{long + 2}}and {counted(more, 'more setting')}", "")]
    return lines + [line for note in comparison.notes for line in _wrapped(note, width)]


def _setting(key: str, here: Any, there: Any) -> str:
    if not key.startswith("clients."):
        return f"{key} = {_toml(here)}, not {_toml(there)}"
    if here and there:
        return f"{key} differs"
    return f"{key} is added" if here else f"{key} is missing"


def _toml(value: Any) -> str:
    return "unset" if value is None else json_format.dumps(value)


def _rates(comparison: Comparison, names: dict[str, str], width: int, signs: Signs) -> list[Line]:
    results = comparison.results
    worlds = world_names(results[0].envs)
    rows: dict[str, list[Rate | Mean]] = {
        f"{worlds[env]}, {_sizes(results, env)}": [result.envs[env] for result in results]
        for env in results[0].envs
    }
    if len(rows) > 1:
        rows["all games"] = [result.all for result in results]
        rows["mean of environments"] = [result.mean for result in results]
    long = max(map(len, names.values()))
    left = long + 25
    spans = [rate.interval for row in rows.values() for rate in row]
    axis = axis_over((number for span in spans for number in span), width - left)
    lines = [("success on held-out tasks, 95 % interval", "bold")]
    lines += [(f"{'':<{left}}{tick_line(axis)}", "dim")]
    for name, row in rows.items():
        lines += [(name, "")]
        for result, rate in zip(results, row, strict=True):
            value, (low, high) = rate.value, rate.interval
            label = f"  {names[result.arm.label]:<{long}}"
            drawn = whisker(axis, value, low, high, signs)
            lines += [(f"{label}  {value:.2f} ({low:.2f} to {high:.2f})  {drawn}", "")]
    return lines


def _sizes(results: list[ArmResult], env: str) -> str:
    sizes = sorted({result.envs[env].n for result in results})
    return counted(sizes[0], "game") if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} games"


def _difference(
    comparison: Comparison, contrast: Contrast, names: dict[str, str], width: int, signs: Signs
) -> list[Line]:
    worlds = world_names(contrast.found.groups)
    rows = {worlds[env]: found for env, found in contrast.found.groups.items()}
    if len(rows) > 1:
        rows |= {"all games": contrast.found.micro, "mean of envs": contrast.found.macro}
    long = max(map(len, rows))
    left = long + 28
    spans = [
        d.interval
        for c in comparison.contrasts
        for d in (*c.found.groups.values(), c.found.micro, c.found.macro)
    ]
    axis = axis_over([0.0, *(number for span in spans for number in span)], width - left)
    mine, first = names[contrast.arm.label], names[comparison.results[0].arm.label]
    lines = [(f"{mine} minus {first}, {_basis(contrast)}", "bold")]
    lines += [(f"{'':<{left}}{tick_line(axis, signed=True)}", "dim")]
    for name, d in rows.items():
        drawn = whisker(axis, d.value, d.low, d.high, signs, zero=True)
        lines += [
            (f"  {name:<{long}}  {d.value:+.2f} ({d.low:+.2f} to {d.high:+.2f})  {drawn}", "")
        ]
    style = STYLES.get(contrast.verdict, "")
    lines += _wrapped(sentence(contrast, mine, first, len(comparison.contrasts)), width, style)
    if contrast.unpaired:
        lines += _wrapped(
            f"counts only, so small differences are more easily missed: {contrast.unpaired}", width
        )
    return lines


def _basis(contrast: Contrast) -> str:
    seeds = f" of {counted(contrast.seeds, 'seed')}" if contrast.seeds > 1 else ""
    if contrast.unpaired:
        return f"by their counts in {counted(contrast.games, 'game')}{seeds}"
    return f"the same {counted(contrast.games, 'game')}{seeds}"
