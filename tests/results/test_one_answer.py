"""`fedse compare` and the tables of the docs say the same of the same games."""

from pathlib import Path

import pytest

from fedse.results.compare import compare
from fedse.stats.paired import minimum_detectable
from fedse.stats.verdict import ComparisonVerdict
from fedse_reproduce.results import SeedResult, TableResult, answers
from tests.run_folders import write_run

ENVS = {"maze-a": "maze", "maze-b": "maze", "wordle-a": "wordle"}
# Arm -> seed -> client -> games: 1 = won.
GAMES = {
    "a": [
        {"maze-a": "1100101000", "maze-b": "0000000001", "wordle-a": "1110000000"},
        {"maze-a": "1000101000", "maze-b": "0100000001", "wordle-a": "1111100000"},
        {"maze-a": "0000101000", "maze-b": "0000010001", "wordle-a": "1000000010"},
    ],
    "b": [
        {"maze-a": "1100111000", "maze-b": "0000010001", "wordle-a": "1110100000"},
        {"maze-a": "0000101000", "maze-b": "0100000001", "wordle-a": "0101100000"},
        {"maze-a": "0001101000", "maze-b": "1000010001", "wordle-a": "1000000110"},
    ],
    "c": [
        {"maze-a": "1111111100", "maze-b": "1101111001", "wordle-a": "1111111000"},
        {"maze-a": "1111111000", "maze-b": "1111100001", "wordle-a": "1111111010"},
        {"maze-a": "1101111000", "maze-b": "1111010101", "wordle-a": "1111010110"},
    ],
}


def written(root: Path) -> list[Path]:
    paths = []
    for epochs, (arm, seeds) in enumerate(GAMES.items(), start=1):
        for seed, clients in enumerate(seeds):
            won = {client: [bit == "1" for bit in bits] for client, bits in clients.items()}
            settings = {"train": {"epochs": epochs}}
            paths.append(write_run(root / f"{arm}-seed{seed}", won, settings=settings, seed=seed))
    return paths


def table() -> TableResult:
    def of(clients: dict[str, str]) -> SeedResult:
        return SeedResult(
            clients={client: ("0" * len(bits), bits) for client, bits in clients.items()},
            curve={},
            adapters={},
            bytes_moved=0,
            payload=0,
            merge_error=None,
            cosine=None,
            cpu_seconds=0.0,
        )

    return TableResult(
        table="main",
        quick=False,
        worlds=dict.fromkeys(GAMES, ENVS),
        arms={arm: {i: of(s) for i, s in enumerate(seeds)} for arm, seeds in GAMES.items()},
        questions=[("b", "a"), ("c", "a")],
        config={},
        versions={},
    )


def test_both_find_the_same_difference_and_could_have_missed_the_same(tmp_path: Path):
    compared, answered = compare(written(tmp_path)).contrasts, answers(table())
    assert [contrast.arm.label for contrast in compared] == ["b", "c"]
    for contrast, answer in zip(compared, answered, strict=True):
        assert contrast.unpaired == ""
        assert answer.found == contrast.found
        assert answer.p_holm == contrast.p_holm
        assert answer.detectable == contrast.detectable
    assert [contrast.verdict for contrast in compared] == ["no difference found", "better"]
    assert [answer.verdict for answer in answered] == [
        ComparisonVerdict.NONE,
        ComparisonVerdict.HIGHER,
    ]
    values = [answer.found.micro.value for answer in answered]
    assert values == pytest.approx([3 / 90, 39 / 90])
    # For two comparisons z is 2.241403. b: the interval is 0.469237 wide, so its seeds decide:
    # (2.241403 + 0.841621) * 0.469237 / (2 * 1.959964). c: its games decide, Connor with 90 games
    # of which only one of both won 39.
    expected = [0.369055, minimum_detectable(90, 0.0, alpha=0.025, discordant=39 / 90)]
    assert [answer.detectable for answer in answered] == pytest.approx(expected, abs=1e-6)
    assert expected[1] == pytest.approx(0.210851, abs=1e-6)
