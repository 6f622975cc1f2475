"""What a training script needs of its gang: the process group, checkpoints, attempts, progress.

    from jetq import training

    with training.init() as ranks:
        model = DistributedDataParallel(model.to(ranks.device))

Runs in the ranks, started by torchrun, by mpirun or by hand. torch is loaded on first use, inside functions.
"""

from jetq.training.checkpoints import attempt, checkpoint_dir, load, save
from jetq.training.group import Ranks, finish, init
from jetq.training.report import progress

__all__ = ["Ranks", "attempt", "checkpoint_dir", "finish", "init", "load", "progress", "save"]
