"""A loss that compares the games of one task, for sites without a model."""

from fedse.extend.learning import Loss


class Comparing(Loss):
    """As GRPO asks for games, and learns from them as the toy trainer does."""

    group = 2
    fresh = True
    explored = True
