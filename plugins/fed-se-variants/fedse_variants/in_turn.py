"""A and B in turn (RoLoRA, arXiv 2502.01755): B is learned in odd rounds, A in even ones.

The factor that rests is equal at all sites, and the mean of equal numbers is that number, so it
keeps its bits. The whole adapter travels, in every round.
"""

from collections.abc import Mapping
from typing import ClassVar

from fedse.extend.learning import Course, Loss


class InTurn(Loss):
    """`train.loss = "in-turn"`: maximum likelihood, one factor per round."""

    roles = True
    # A product or an outer optimiser would move the factor that rests.
    needs: ClassVar[Mapping[str, object]] = {"train.factors": "both", "aggregate.type": "mean"}

    def learns(self, tensor: str, course: Course) -> bool:
        """B first, because A has no gradient as long as B is zero.

        A fit that stands alone learns both.
        """
        learned = ".lora_B." if course.round % 2 else ".lora_A."
        return not course.round or learned in tensor
