"""A few steps of training, alone or as one of two processes, which import this by its name."""

import os
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


def train_distributed(rank: int, port: int, queue: Any) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    results = {}
    for kind, tiny in TINY.items():
        torch.manual_seed(2022)
        wrapped = nn.parallel.DistributedDataParallel(tiny.build(), find_unused_parameters=True)
        losses = train(wrapped, kind, steps=3)
        results[kind] = (losses, sum(p.double().sum().item() for p in wrapped.parameters()))
    queue.put((rank, results))
    torch.distributed.destroy_process_group()
