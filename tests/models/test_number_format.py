"""A format that the CPU only imitates is warned of, and nothing else is."""

from pathlib import Path

import pytest

from fedse.config.hardware import TrainerSection
from fedse.models.number_format import computes_in_bfloat16, slowed_by

OLD, NEW = "flags\t\t: fpu avx2 avx512f", "flags\t\t: fpu avx512f avx512_bf16 amx_bf16"


@pytest.mark.parametrize(
    ("facts", "precision", "told"),
    [
        (OLD, "bfloat16", True),
        (NEW, "bfloat16", False),
        ("Features\t: fp asimd bf16 i8mm", "bfloat16", False),
        (OLD, "float32", False),
        (OLD, "4bit", False),
    ],
)
def test_it_depends_on_the_cpu_and_the_format(
    tmp_path: Path, facts: str, precision: str, told: bool
):
    (tmp_path / "facts").write_text(facts)
    place = TrainerSection.model_validate({"precision": precision})
    assert bool(slowed_by(place, tmp_path / "facts")) is told


def test_a_gpu_or_an_unknown_cpu_is_not_judged(tmp_path: Path):
    assert not slowed_by(TrainerSection(precision="bfloat16"), tmp_path / "none")
    (tmp_path / "facts").write_text(OLD)
    assert not slowed_by(TrainerSection(device="cuda", precision="bfloat16"), tmp_path / "facts")


def test_whether_the_cpu_has_the_instructions_is_known_or_unknown(tmp_path: Path):
    for facts, known in ((OLD, False), (NEW, True)):
        (tmp_path / "facts").write_text(facts)
        assert computes_in_bfloat16(tmp_path / "facts") is known
    assert computes_in_bfloat16(tmp_path / "none") is None
