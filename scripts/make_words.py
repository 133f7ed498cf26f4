"""Write fedse/envs/wordle/words.txt and its licence from an unpacked SCOWL package.

    apt-get download scowl && dpkg -x scowl_*.deb scowl
    python scripts/make_words.py scowl/usr/share

The same SCOWL version (2020.12.07 for the shipped list) gives the same bytes.
"""

import re
import sys
from pathlib import Path

# Spelling-neutral lists of the commonest words; 10 and 20 are SCOWL's two smallest sizes.
LISTS = ("english-words.10", "english-words.20")
PLAIN_WORD = re.compile(r"[a-z]{5}")
# Insults and words that do not belong in a demonstration.
LEFT_OUT = frozenset({"abuse", "bigot", "idiot", "moron", "naked", "sexes", "slave"})

ENVS = Path(__file__).resolve().parents[1] / "fedse" / "envs" / "wordle"


def words_of(scowl: Path) -> list[str]:
    """The plain five-letter words of the lists, sorted, each once."""
    lines = [
        line
        for name in LISTS
        # SCOWL files are Latin-1; accented words are not plain and drop out.
        for line in (scowl / "dict" / "scowl" / name).read_text("latin-1").split()
    ]
    return sorted({line for line in lines if PLAIN_WORD.fullmatch(line)} - LEFT_OUT)


def licence_of(scowl: Path) -> str:
    """SCOWL's whole copyright notice, under a line that says what it is about."""
    notice = (scowl / "doc" / "scowl" / "copyright").read_text("utf-8")
    return (
        "words.txt holds the plain five-letter words of SCOWL 2020.12.07, "
        f"{' and '.join(LISTS)},\nwithout {len(LEFT_OUT)} words (scripts/make_words.py). "
        "It is a modified version. SCOWL's notice follows.\n\n"
        "SCOWL (Spell Checker Oriented Word Lists) is maintained by Kevin Atkinson.\n\n"
        # What stands before it is about the distribution's package.
        + notice[notice.index("Copyright:") :]
    )


def main(share: str) -> None:
    """Both files are written anew."""
    words = words_of(Path(share))
    (ENVS / "words.txt").write_text("\n".join(words) + "\n", "utf-8")
    (ENVS / "words.LICENSE.txt").write_text(licence_of(Path(share)), "utf-8")
    print(f"{len(words)} words")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"expected one argument, the share folder of SCOWL, got {len(sys.argv) - 1}")
    main(sys.argv[1])
