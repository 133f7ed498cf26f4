"""One of several processes that fit an adapter together: python -m fedse.train.job FOLDER"""

import os
import sys
import threading
from pathlib import Path

import torch.distributed
from accelerate import Accelerator

from fedse.agent.loaded import prepare_torch
from fedse.config.hardware import TrainerSection
from fedse.errors import FedSEError
from fedse.train.lora import trainer_for
from fedse.train.optimise import Share
from fedse.train.order import FitFolder, Refusal


def fit_share(folder: FitFolder, *, process: int, processes: int) -> None:
    """This process has computed its share of every step; the first one has written the result."""
    order, start = folder.read_order()
    on_cpu = order.place.device == "cpu"
    torch.distributed.init_process_group(
        "gloo" if on_cpu else "nccl",
        init_method=f"file://{folder.meeting}",
        rank=process,
        world_size=processes,
    )
    accelerator = Accelerator(cpu=on_cpu)
    prepare_torch(order.place.threads)
    device = "cpu" if on_cpu else str(accelerator.device)
    place = TrainerSection.model_validate(
        {**order.place.model_dump(), "device": device, "processes": 1}
    )
    fitted = trainer_for(order.base, order.spec, place).fit(
        start,
        order.lessons,
        settings=order.settings,
        context=order.context,
        seed=order.seed,
        course=folder.course(order),
        share=Share(process, processes, lambda found: accelerator.reduce(found, "sum")),
    )
    if process == 0:
        folder.write_fitted(fitted)
    accelerator.end_training()


def _end_with_parent() -> None:
    # Not by sys.stdin: its lock would be held when the interpreter ends.
    os.read(0, 1)
    os._exit(1)


def main() -> None:
    folder, process = FitFolder(Path(sys.argv[1])), int(os.environ["RANK"])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        fit_share(folder, process=process, processes=int(os.environ["WORLD_SIZE"]))
    except FedSEError as error:
        folder.refuse(process, Refusal(message=str(error), hint=error.hint))
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
