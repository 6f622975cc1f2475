"""Train a small CNN on all ranks: DistributedDataParallel on images that it makes itself, resumed where it stopped.

Started in any of these ways, it is the same:

    jetq gang --nodes 4 --workdir examples/ddp -- python train.py --epochs 3
    torchrun --nproc-per-node 4 train.py --epochs 3
    mpirun -np 4 python train.py --epochs 3
    python train.py
"""

from __future__ import annotations

import argparse

import torch
from torch import nn
from torch.distributed import all_reduce
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from jetq import training

SIZE, SHAPES = 24, ("disc", "square", "cross")
#: Images in a step, on each rank.
BATCH = 32


def main() -> None:
    """Train for some epochs, those of earlier attempts included."""
    asked = arguments()
    torch.manual_seed(asked.seed)
    with training.init() as ranks:
        model = network(ranks.device).to(ranks.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        done = resume(model, optimizer)
        say = print if ranks.rank == 0 else lambda *_, **__: None
        if done:
            say(f"attempt {training.attempt()} resumes after epoch {done}", flush=True)
        if done >= asked.epochs:
            say(f"all {asked.epochs} epochs are done; ask for more, or remove {training.checkpoint_dir()}")
        parallel = DistributedDataParallel(model)
        for epoch in range(done + 1, asked.epochs + 1):
            loss, right = train(parallel, optimizer, asked, epoch, ranks)
            training.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()})
            say(f"epoch {epoch}/{asked.epochs} loss {loss:.4f} right {right:.0%}", flush=True)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description="Train a small CNN to tell shapes apart, on all ranks.")
    parser.add_argument("--epochs", type=int, default=3, help="in all, those of earlier attempts included (3)")
    parser.add_argument("--steps", type=int, default=40, help="in an epoch (40)")
    parser.add_argument("--seed", type=int, default=1, help="of weights and images (1)")
    return parser.parse_args()


def network(device: str) -> nn.Module:
    """Return the untrained model."""
    model = nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(16 * (SIZE // 4) ** 2, len(SHAPES))),
    )
    # SyncBatchNorm takes mean and variance over all ranks, but raises on a CPU: there each rank uses its own.
    return model if device == "cpu" else nn.SyncBatchNorm.convert_sync_batchnorm(model)


def resume(model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Load what an earlier attempt has saved. Returns the last epoch that is done; 0: none."""
    saved = training.load()
    if saved is None:
        return 0
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    return int(saved["epoch"])


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    asked: argparse.Namespace,
    epoch: int,
    ranks: training.Ranks,
) -> tuple[float, float]:
    """Train for one epoch. Returns the mean loss and the share of right answers, over all ranks."""
    # A data set of files would be split by torch.utils.data.DistributedSampler; here each rank draws its own images.
    source = torch.Generator().manual_seed((asked.seed * 1_000 + epoch) * 1_000 + ranks.rank)
    total = torch.zeros(2, device=ranks.device)
    for step in range(1, asked.steps + 1):
        images, kinds = (batch.to(ranks.device) for batch in draw(source))
        answers = model(images)
        loss = cross_entropy(answers, kinds)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += torch.stack([loss.detach(), (answers.argmax(1) == kinds).float().mean()])
        training.progress((epoch - 1) * asked.steps + step, asked.epochs * asked.steps, loss=round(loss.item(), 4))
    all_reduce(total)
    loss_mean, right = (total / (asked.steps * ranks.world_size)).tolist()
    return loss_mean, right


def draw(source: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return noisy images of shapes and which shape each is: (n, 1, SIZE, SIZE) float32 and (n,) int64."""
    kinds = torch.randint(len(SHAPES), (BATCH,), generator=source)
    radius = torch.empty(BATCH, 1, 1).uniform_(4, 8, generator=source)
    middle = torch.empty(2, BATCH, 1, 1).uniform_(8, SIZE - 8, generator=source)
    pixels = torch.arange(SIZE, dtype=torch.float32)
    right, down = (pixels.view(1, 1, -1) - middle[0]).abs(), (pixels.view(1, -1, 1) - middle[1]).abs()
    far, near = torch.maximum(right, down), torch.minimum(right, down)
    shapes = torch.stack([right**2 + down**2 < radius**2, far < radius * 0.9, (far < radius) & (near < radius / 3)])
    images = shapes[kinds, torch.arange(BATCH)].float()
    return (images + torch.randn(images.shape, generator=source) * 0.3).unsqueeze(1), kinds


if __name__ == "__main__":
    main()
