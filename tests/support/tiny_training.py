"""Training of the tiny models, alone and in several processes.

A process that is started finds a function by the name of its module. It looks for modules here,
and not among the tests: an installed package may be called "tests", too.
"""

from typing import Any

import torch
from tiny_models import TINY
from torch import nn


def train(model: nn.Module, kind: str, steps: int = 6) -> list[float]:
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = TINY[kind].loss(model)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


def train_together(rank: int, meeting: str, queue: Any) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
    results = {}
    for kind, tiny in TINY.items():
        torch.manual_seed(2022)
        wrapped = nn.parallel.DistributedDataParallel(tiny.build(), find_unused_parameters=True)
        losses = train(wrapped, kind, steps=3)
        results[kind] = (losses, sum(p.double().sum().item() for p in wrapped.parameters()))
    queue.put((rank, results))
    torch.distributed.destroy_process_group()
