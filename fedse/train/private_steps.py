"""The optimiser's steps of DP-SGD (arXiv 1607.00133): random units, short gradients, noise.

A step takes each unit with a fixed probability, adds up their shortened gradients and Gaussian
noise, and gives that to AdamW, which sees the data in no other way. Samples and noise come from
SHAKE-256 of a secret: who does not have it can predict neither, and the same fit with the same
secret has the same bits.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

from fedse.config.hardware import TrainerSection
from fedse.config.training import TrainSection
from fedse.course import Arc, PrivateCourse
from fedse.train.batch import Lesson
from fedse.train.optimise import StepTaken, resting_factor, trainable, training_mode
from fedse.train.unit_gradients import clipped_sum

BLOCK = 1 << 20
"""Numbers that are drawn at once."""
# With half a unit added they are exact in float64, and neither 0 nor 1 when divided.
BITS = 52


def private_steps(
    model: Any,
    lessons: Sequence[Lesson],
    private: PrivateCourse,
    settings: TrainSection,
    place: TrainerSection,
    arc: Arc,
    optimizer: AdamW,
) -> Iterator[StepTaken]:
    """The model's trainable parameters after `private.steps` steps, also where there is no unit.

    A gradient is divided by `settings.batch`, not by the number of units, which is private; to
    AdamW the scale makes no difference. `MAX_GRAD_NORM` is for fits without noise.
    """
    with resting_factor(model, settings.factors), training_mode(model, place):
        schedule = LambdaLR(optimizer, lambda step: arc.rate(step, of=private.steps))
        for step in range(private.steps):
            units = [
                [lessons[place] for place in private.units[number]]
                for number in sampled(private, step)
            ]
            total, loss, longest = clipped_sum(model, units, place, clip=private.clip)
            noise = normals(private.secret, step, len(total)) * (private.noise * private.clip)
            _set_gradient(model, (total + noise) / settings.batch)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            tokens = sum(len(lesson.token_ids) for unit in units for lesson in unit)
            yield StepTaken(loss, tokens, tokens, longest)


def sampled(private: PrivateCourse, step: int) -> list[int]:
    """The units of a step: each with probability `rate`, independently of all others."""
    drawn = uniforms(private.secret, "sample", step, len(private.units))
    return [int(number) for number in np.flatnonzero(drawn < private.rate)]


def normals(secret: bytes, step: int, size: int) -> Tensor:
    """Standard normal numbers of a step, in float64."""
    drawn: Tensor = torch.special.ndtri(torch.from_numpy(uniforms(secret, "noise", step, size)))
    return drawn


def uniforms(secret: bytes, purpose: str, step: int, size: int) -> "np.ndarray[Any, Any]":
    """Numbers between 0 and 1, both excluded, that follow from the secret and the names."""
    made = np.empty(size, dtype=np.float64)
    for start in range(0, size, BLOCK):
        part = made[start : start + BLOCK]
        place = step.to_bytes(8, "big") + start.to_bytes(8, "big")
        seed = secret + purpose.encode() + place
        words = np.frombuffer(hashlib.shake_256(seed).digest(8 * len(part)), dtype="<u8")
        part[:] = ((words >> (64 - BITS)) + 0.5) / 2.0**BITS
    return made


def _set_gradient(model: Any, gradient: Tensor) -> None:
    parameters = trainable(model)
    parts = torch.split(gradient, [p.numel() for p in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.grad = part.to(parameter.device, parameter.dtype).view_as(parameter)
