"""For losses, with torch: batches, logits, log-probabilities. Import it inside methods only."""

from fedse.train.batch import Batch, Lesson, LessonOrigin, learned_tokens, make_batch, make_pieces
from fedse.train.log_probabilities import episode_chances, log_probabilities, token_chances
from fedse.train.optimise import Objective, Share, accumulate, agent_logits, likelihood

__all__ = [
    "Batch",
    "Lesson",
    "LessonOrigin",
    "Objective",
    "Share",
    "accumulate",
    "agent_logits",
    "episode_chances",
    "learned_tokens",
    "likelihood",
    "log_probabilities",
    "make_batch",
    "make_pieces",
    "token_chances",
]
