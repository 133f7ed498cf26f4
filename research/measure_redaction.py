"""How many made-up secrets the redaction finds, and how often it finds one where there is none.

    python -m research.measure_redaction docs/results/redaction.json

A secret is found if each of its letters and digits is replaced. The sets of texts around the
secrets are in tests/redact/corpora/; no rule was changed with the texts of `held out`. A false
alarm is one replaced part of a text without secrets; tokens are separated by spaces.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fedse.config.redaction import RedactSection
from fedse.redact.finding import finder_for
from fedse.redact.spans import Find, settled
from fedse.stats.rates import Rate
from tests.redact.corpora.clean_texts import ENVIRONMENTS, clean_texts
from tests.redact.corpora.personal_corpus import NAMES, personal
from tests.redact.corpora.secret_carriers import CARRIERS
from tests.redact.corpora.secret_corpus import Planted, is_found, secrets

PER_FORMAT, GAMES, SEED = 200, 20, 2026


def recall(corpus: Iterable[Planted], find: Find) -> dict[str, Any]:
    """By format and over all."""
    found: Counter[str] = Counter()
    planted: Counter[str] = Counter()
    for one in corpus:
        planted[one.format] += 1
        found[one.format] += is_found(one, find)
    formats = {name: shown(Rate(found[name], planted[name])) for name in planted}
    return {"all": shown(Rate(found.total(), planted.total())), "formats": formats}


def shown(rate: Rate) -> dict[str, Any]:
    low, high = rate.interval
    facts = {"found": rate.successes, "of": rate.n, "recall": round(rate.value, 5)}
    return {**facts, "low": round(low, 5), "high": round(high, 5)}


def false_alarms(texts: Iterable[str], find: Find) -> dict[str, Any]:
    """In how many places of how many tokens, by kind, and how fast it was looked."""
    alarms: Counter[str] = Counter()
    tokens, characters, started = 0, 0, time.process_time()
    for text in texts:
        alarms.update(span.kind for span in settled(text, find))
        tokens, characters = tokens + len(text.split()), characters + len(text)
    seconds = time.process_time() - started
    speed = {"microseconds_per_1000_characters": round(1e9 * seconds / characters)}
    return {**alarm_rate(alarms, tokens), **speed}


def alarm_rate(alarms: Counter[str], tokens: int) -> dict[str, Any]:
    rate = Rate(alarms.total(), tokens)
    low, high = rate.interval
    facts = {"tokens": tokens, "false": rate.successes, "kinds": dict(alarms)}
    per_1000 = {"per_1000": rate.value, "low": low, "high": high}
    return {**facts, **{name: round(1000 * value, 3) for name, value in per_1000.items()}}


def alarms_by_source(clean: Mapping[str, Sequence[str]], find: Find) -> dict[str, Any]:
    """Of each source, of the five environments together, and of all."""
    figures = {name: false_alarms(texts, find) for name, texts in clean.items()}
    five = {*ENVIRONMENTS} - {"desk"}
    for name, sources in (("the five environments", five), ("all", clean.keys())):
        alarms = sum((Counter(figures[source]["kinds"]) for source in sources), Counter[str]())
        tokens = sum(figures[source]["tokens"] for source in sources)
        figures[name] = alarm_rate(alarms, tokens)
    return figures


def measured(per_format: int, games: int, folder: Path) -> dict[str, Any]:
    """All figures; `folder` is for the list of names."""
    (folder / "names.txt").write_text("\n".join(NAMES), encoding="utf-8")
    secret = finder_for(RedactSection(secrets=True), folder)
    both = RedactSection(secrets=True, personal=True, words=("names.txt",))
    everything = finder_for(both, folder)
    next(iter(everything("presidio is loaded before the clock runs")), None)
    clean = clean_texts(games, SEED)
    return {
        "seed": SEED,
        "secrets": {name: recall(secrets(SEED, per_format, name), secret) for name in CARRIERS},
        "personal": recall(personal(SEED, per_format), everything),
        "false_alarms": {
            "secrets": alarms_by_source(clean, secret),
            "secrets and personal": alarms_by_source(clean, everything),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--per-format", type=int, default=PER_FORMAT)
    parser.add_argument("--games", type=int, default=GAMES)
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        figures = measured(given.per_format, given.games, Path(folder))
    given.out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    for name, one in figures["secrets"].items():
        print(name, one["all"])
    print("personal", figures["personal"]["all"])
    for name, places in figures["false_alarms"].items():
        print(name, places["all"])


if __name__ == "__main__":
    main()
