"""Count what readable text is like, for the detector of random words.

    python -m scripts.make_letter_pairs        writes fedse/redact/letter_pairs.py

The readable text is this package's own source: prose in its docstrings, names, paths, numbers. Not
the documentation and not the games, on which false alarms are measured, and not the tables of
tokens.
"""

import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import pairwise
from math import log2
from pathlib import Path

from fedse.redact.randomness import CLASSES, class_of

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "fedse" / "redact" / "letter_pairs.py"
RUN = re.compile(r"[\w+~!#%&*?@^$/.-]+", re.ASCII)
"""As `LONG` in fedse/redact/randomness.py, of any length."""
SMOOTHING = 0.5
"""Times that every pair counts as seen, besides the times that it was."""
MOST = 15
"""Bits, in one hexadecimal digit."""
HEAD = '''"""How surprising a letter is after another in readable text, in bits, by our own sources.

Made by scripts/make_letter_pairs.py.
"""

'''


def readable_runs(folder: Path) -> Iterator[str]:
    """Runs of characters as the detector cuts them, of all lengths."""
    for file in sorted(folder.rglob("*.py")):
        if file.parent != OUT.parent:
            yield from (
                run for word in file.read_text("utf-8").split() for run in RUN.findall(word)
            )


def bits(counts: Counter[str], symbols: Iterable[str]) -> dict[str, float]:
    """Of each symbol, smoothed."""
    names = list(symbols)
    total = sum(counts[name] for name in names) + SMOOTHING * len(names)
    return {name: -log2((counts[name] + SMOOTHING) / total) for name in names}


def counted(runs: Iterable[str]) -> tuple[Counter[str], Counter[str]]:
    """Pairs of classes; pairs of letters that stand in one word, the first letter after `^`."""
    classes: Counter[str] = Counter()
    letters: Counter[str] = Counter()
    for run in runs:
        for one, other in pairwise(f" {run}"):
            classes[class_of(one) + class_of(other)] += 1
            if other.isalpha():
                begins = not one.isalpha() or (one.islower() and other.isupper())
                letters[("^" if begins else one.lower()) + other.lower()] += 1
    return classes, letters


def table(classes: Counter[str], letters: Counter[str]) -> str:
    """The module's text."""
    rows = ["LETTERS = {"]
    for one in "^" + string.ascii_lowercase:
        costs = bits(letters, [one + other for other in string.ascii_lowercase])
        rows.append(
            f'    "{one}": "{"".join(f"{min(MOST, round(c)):x}" for c in costs.values())}",'
        )
    rows += [
        "}",
        '"""After a letter, or `^` at the beginning of a word: a to z, hexadecimal."""',
        "",
    ]
    rows += ["STEPS = {"]
    for one in f" {CLASSES}":
        costs = bits(classes, [one + other for other in CLASSES])
        rows.append(f'    "{one}": ({", ".join(f"{c:.1f}" for c in costs.values())}),')
    rows += ["}", '"""From a class of characters to each class in the order of CLASSES."""', ""]
    return HEAD + "\n".join(rows)


def main() -> None:
    """The table is written."""
    OUT.write_text(table(*counted(readable_runs(ROOT / "fedse"))), encoding="utf-8")


if __name__ == "__main__":
    main()
