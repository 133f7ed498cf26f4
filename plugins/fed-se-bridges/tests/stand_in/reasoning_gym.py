"""As much of reasoning-gym 0.1.25 as the bridge uses, with one data set: sums of two numbers."""

from random import Random
from typing import Any


class ChainSum:
    def __init__(self, seed: int, size: int, max_terms: int = 6) -> None:
        assert max_terms > 0, "max_terms must be positive"
        random = Random(seed)
        terms = [random.randrange(10, 99) for _ in range(2)]
        problem = " + ".join(map(str, terms))
        self._entry = {
            "question": f"State the final answer to the following arithmetic problem: {problem} =",
            "answer": str(sum(terms)),
        }

    def __getitem__(self, index: int) -> dict[str, Any]:
        return self._entry

    def score_answer(self, answer: str, entry: dict[str, Any]) -> float:
        return float(answer == entry["answer"])


def create_dataset(name: str, **options: Any) -> ChainSum:
    if name != "chain_sum":
        raise ValueError(f"Dataset '{name}' not registered")
    return ChainSum(**options)
