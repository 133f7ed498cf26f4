"""The comparison counts the same work on both sides."""

from itertools import count

from tests.needs import needs

needs("torch")

from fedse.adapters.base import adapter_spec, base_path, initial_adapter
from fedse.agent.loaded import prepare_torch
from fedse.config.hardware import TrainerSection
from fedse.config.training import TrainSection
from fedse.train.batch import learned_tokens
from fedse.train.lora import trainer_for
from research.bench.fit import bare_loop, measure_fit, synthetic_lessons

SPEC = adapter_spec("tiny", rank=4, alpha=8, targets=("all-linear",))


def test_both_loops_see_the_same_tokens():
    prepare_torch(1)
    lessons = synthetic_lessons(4, shortest=41, longest=60, vocabulary=200, seed=1)
    assert all(learned_tokens([lesson]) >= 10 for lesson in lessons)
    ticks = count()
    measured = measure_fit(
        trainer_for(base_path("tiny"), SPEC),
        initial_adapter(SPEC, seed=0),
        lessons,
        settings=TrainSection(epochs=1, batch=2),
        seed=1,
        repeats=3,
        clock=lambda: float(next(ticks)),
    )
    first, *others = measured
    tokens = sum(len(lesson.token_ids) for lesson in lessons)
    # The clock goes on by one whenever it is asked.
    assert first.fit == first.bare
    assert (first.fit.tokens, first.fit.seconds, first.ratio) == (tokens, 1.0, 1.0)
    assert first.fit.padded > tokens
    assert others == [first, first]


def test_the_bare_loop_has_the_attention_of_the_trainer(monkeypatch):
    prepare_torch(1)
    place = TrainerSection(attention="eager")
    trainer, used = trainer_for(base_path("tiny"), SPEC, place), list[str]()
    lessons = synthetic_lessons(1, shortest=41, longest=60, vocabulary=200, seed=1)
    base = trainer.model().get_base_model()
    forward = type(base).forward

    def noted(self, *args, **kwargs):
        used.append(self.config._attn_implementation)
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(type(base), "forward", noted)
    bare_loop(trainer, initial_adapter(SPEC, seed=0), [lessons], settings=TrainSection())
    assert used == ["eager"]
    assert base.config._attn_implementation != "eager"
