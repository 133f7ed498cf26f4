"""The guides use the words of the glossary, and none that it sets aside."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GUIDES = [
    ROOT / "README.md",
    DOCS / "index.md",
    DOCS / "explanation" / "when-it-pays.md",
    *sorted(DOCS.glob("how-to/*.md")),
    *sorted(DOCS.glob("tutorials/*.md")),
]
SET_ASIDE = {"member": "site", "world": "environment", "trajectory": "episode"}
"""Each with the word that a guide uses instead."""
# What a class has, and what the attacks of an audit look for.
OTHER_MEANINGS = {
    "bring-your-environment.md": ["members of [`fedse.Env`]"],
    "audit.md": ["membership"],
}


def prose(page: Path) -> str:
    """The page without code, links' targets and words that mean something else there."""
    text = page.read_text()
    for phrase in OTHER_MEANINGS.get(page.name, []):
        text = text.replace(phrase, "")
    text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return re.sub(r"`[^`]*`|\]\([^)]*\)", "", text)


def found(word: str, text: str) -> list[str]:
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return re.findall(rf"\b(?:{word}|{plural})\b", text, flags=re.I)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.name)
def test_a_guide_uses_no_word_that_is_set_aside(page: Path):
    assert {word for word in SET_ASIDE if found(word, prose(page))} == set()


def test_the_glossary_has_the_words_and_their_replacements():
    glossary = (DOCS / "reference" / "glossary.md").read_text()
    for word, instead in SET_ASIDE.items():
        assert f"| **{instead}** |" in glossary
        assert found(word, glossary)
    assert found("member", "Members") == ["Members"]
    assert found("trajectory", "two trajectories") == ["trajectories"]
