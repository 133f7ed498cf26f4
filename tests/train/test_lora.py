"""Local training: only the agent's tokens, same seed same bits, PEFT in and out."""

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.needs import needs

needs("torch")

import numpy as np
import torch

from fedse.adapters.base import adapter_spec, base_path, initial_adapter
from fedse.adapters.peft_folder import export_adapter
from fedse.agent.loaded import load_base, prepare_torch
from fedse.config.training import TrainSection
from fedse.course import LEVEL, Arc, Course
from fedse.envs.base import make_env
from fedse.errors import TrainError
from fedse.method.rollout import choose_games, demonstrate
from fedse.train.batch import IGNORED, agent_loss, make_batch
from fedse.train.lora import load_adapter, read_adapter, trainer_for
from fedse.types import Adapter

PATH = base_path("tiny")
SPEC = adapter_spec("tiny", rank=4, alpha=8, targets=("all-linear",))
MAZE = partial(make_env, "maze", {"prompt": "short"})


def lessons(count: int = 8):
    return demonstrate(choose_games(MAZE().tasks("train"), count, seed=1), MAZE)


def fitted(
    seed: int = 1,
    context: int = 512,
    course: Course = Course(),  # noqa: B008
    start: Adapter | None = None,
    **settings: object,
):
    prepare_torch(1)
    options = TrainSection(**{"lr": 2e-3, "batch": 4, **settings})
    encoder = load_base(PATH).encoder
    prepared = [encoder.tokenized("maze", lesson) for lesson in lessons()]
    return trainer_for(PATH, SPEC).fit(
        start or initial_adapter(SPEC, seed=0),
        prepared,
        settings=options,
        context=context,
        seed=seed,
        course=course,
    )


def test_the_spec_is_what_peft_makes_of_the_model():
    from peft import get_peft_model_state_dict

    state = get_peft_model_state_dict(trainer_for(PATH, SPEC).model())
    assert {k: tuple(v.shape) for k, v in state.items()} == {t.name: t.shape for t in SPEC.tensors}


def test_an_adapter_goes_through_peft_unchanged():
    adapter = Adapter(SPEC, torch.randn(SPEC.size).numpy())
    model = trainer_for(PATH, SPEC).model()
    load_adapter(model, adapter)
    assert read_adapter(model, SPEC).digest == adapter.digest


def test_the_gradient_of_every_observation_logit_is_exactly_zero():
    encoder = load_base(PATH).encoder
    episodes = [encoder.tokenized("maze", lesson) for lesson in lessons(4)]
    batch = make_batch(episodes, context=512)
    logits = torch.randn(*batch.ids_B_T.shape, 448, requires_grad=True)
    agent_loss(logits[batch.predicting_B_T], batch.labels_B_T).backward()
    assert logits.grad is not None
    for row, episode in enumerate(episodes):
        for place in range(batch.ids_B_T.shape[1]):
            # The logits at one place predict the token at the next.
            mask = episode.loss_mask
            learned = place + 1 < len(mask) and mask[place + 1]
            assert bool((logits.grad[row, place] == 0).all()) is not learned


def test_no_observation_token_is_a_label():
    encoder = load_base(PATH).encoder
    episode = encoder.tokenized("maze", lessons(1)[0])
    labels = make_batch([episode], context=512).labels_B_T[0].tolist()
    assert [label != IGNORED for label in labels] == list(episode.loss_mask)
    assert [label for label in labels if label != IGNORED] == [
        i for turn in episode.turns for i in turn.action_ids
    ]


def test_training_lowers_the_loss():
    assert fitted(epochs=20).loss < 0.5 * fitted(epochs=1).loss


def test_the_same_seed_gives_the_same_bits_and_a_fresh_optimiser():
    first, other, again = fitted(1), fitted(2), fitted(1)
    assert first.adapter.digest == again.adapter.digest != other.adapter.digest


def test_steps_are_epochs_over_batches_unless_bounded():
    assert fitted(epochs=2).steps == 4
    assert fitted(epochs=2, max_steps=3).steps == 3


@pytest.mark.parametrize(("factors", "moved"), [("both", "AB"), ("b", "B")])
def test_the_factor_that_rests_keeps_its_bits(factors: str, moved: str):
    """And the next fit of the same process learns both again."""
    start = Adapter(SPEC, 0.05 * torch.randn(SPEC.size).numpy())
    options = TrainSection(lr=2e-3, batch=4, factors=factors)
    prepared = [load_base(PATH).encoder.tokenized("maze", lesson) for lesson in lessons(4)]
    trainer = trainer_for(PATH, SPEC)
    found = trainer.fit(start, prepared, settings=options, context=512, seed=1).adapter
    before, after = start.tensors(), found.tensors()
    same = {name for name in before if before[name].tobytes() == after[name].tobytes()}
    assert same == {name for name in before if name.split(".lora_")[1][0] not in moved}
    names = [name for name, p in trainer.model().named_parameters() if p.requires_grad]
    assert len(names) == len(SPEC.tensors)


def test_exact_steps_have_the_bits_of_as_many_steps_in_epochs():
    exact, bounded = fitted(steps=5), fitted(epochs=3, max_steps=5)
    assert exact.steps == 5
    assert exact.adapter.digest == bounded.adapter.digest


def test_batches_by_length_learn_from_every_lesson_with_less_padding():
    plain, grouped = fitted(epochs=2, batch=2), fitted(epochs=2, batch=2, batches="by-length")
    assert (grouped.steps, grouped.tokens) == (plain.steps, plain.tokens)
    assert grouped.tokens <= grouped.padded < plain.padded


def test_a_constant_rate_and_a_run_long_cosine_go_further_than_one_to_zero():
    def length(**changes: object) -> float:
        return float(np.abs(fitted(steps=4, **changes).adapter.vector - START).sum())

    START = initial_adapter(SPEC, seed=0).vector
    late, early = (Course(Arc(before, 4, 40)) for before in (36, 0))
    assert length(course=late) < 0.1 * length(course=early)
    assert length() < length(course=early) < length(course=Course(LEVEL))


def kept(course: Course = Course(LEVEL), start: Adapter | None = None, steps: int = 2):  # noqa: B008
    return fitted(course=course, start=start, steps=steps, batch=8, optimizer="kept")


def test_two_fits_with_kept_moments_are_one_fit():
    """All lessons in every batch and a level rate: only the moments could tell them apart."""
    first = kept()
    second = kept(Course(LEVEL, first.moments), first.adapter)
    whole = kept(steps=4)
    fresh = kept(Course(LEVEL), first.adapter)
    assert np.abs(second.adapter.vector - whole.adapter.vector).max() < 1e-5
    assert np.abs(fresh.adapter.vector - whole.adapter.vector).max() > 1e-4


def test_moments_are_kept_and_used_only_where_the_settings_say_so():
    before = kept()
    assert fitted(steps=2).moments is None
    with_moments = fitted(steps=2, course=Course(moments=before.moments))
    assert with_moments.adapter.digest == fitted(steps=2).adapter.digest


def test_the_same_moments_give_the_same_bits():
    course = Course(LEVEL, kept().moments)
    first, again = kept(course), kept(course)
    assert first.adapter.digest == again.adapter.digest != kept().adapter.digest
    assert first.moments == again.moments != course.moments


ANOTHER_PROCESS = """
import sys
sys.path.insert(0, sys.argv[1])
from test_lora import fitted
print(fitted().adapter.digest)
"""


def test_another_process_gives_the_same_bits():
    here = str(Path(__file__).parent)
    command = [sys.executable, "-c", ANOTHER_PROCESS, here]
    root = Path(__file__).parents[2]
    told = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    assert told.stdout.split()[-1] == fitted().adapter.digest


def test_the_exported_folder_is_plain_peft(tmp_path: Path):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    adapter = fitted().adapter
    folder = export_adapter(adapter, tmp_path / "adapter")
    config = json.loads((folder / "adapter_config.json").read_text())
    assert config["target_modules"] == sorted(config["target_modules"])
    assert str(tmp_path) not in "".join(p.read_text("latin1") for p in folder.iterdir())
    assert {p.name for p in folder.iterdir()} == {
        "README.md",
        "adapter_config.json",
        "adapter_model.safetensors",
    }
    assert all(p.stat().st_mode & 0o777 == 0o644 for p in folder.iterdir())

    base = AutoModelForCausalLM.from_pretrained(PATH, dtype=torch.float32)
    loaded = PeftModel.from_pretrained(base, str(folder)).eval()
    ours = trainer_for(PATH, SPEC).model()
    load_adapter(ours, adapter)
    ids = torch.tensor([[7, 8, 9, 10, 11, 12]])
    with torch.inference_mode():
        assert torch.equal(loaded(input_ids=ids).logits, ours(input_ids=ids).logits)


def test_a_fit_counts_its_tokens():
    told = fitted(epochs=2)
    encoder = load_base(PATH).encoder
    tokens = sum(len(encoder.tokenized("maze", lesson).token_ids) for lesson in lessons())
    assert told.tokens == 2 * tokens < told.padded


def test_a_context_too_short_for_any_action_is_named():
    with pytest.raises(TrainError, match=r"no action of 4 episodes begins within .* = 5 tokens"):
        fitted(context=5)
