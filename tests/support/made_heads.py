"""A network whose heads are made to be for one thing each, whatever it reads."""

import torch
from torch import Tensor, nn

KINDS = ("previous", "first", "same", "induction", "even")


class MadeHeads(nn.Module):
    """One causal layer: a head for each of KINDS, by one-hot queries and keys of ids and places."""

    def __init__(self, vocabulary: int = 40, length: int = 64) -> None:
        super().__init__()
        self.words = nn.Embedding.from_pretrained(torch.eye(vocabulary))
        self.places = nn.Embedding.from_pretrained(torch.eye(length))
        self.output = nn.Linear(len(KINDS) * (vocabulary + length), vocabulary, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        word, place = (
            self.words(ids),
            self.places(torch.arange(ids.shape[1])).expand(len(ids), -1, -1),
        )
        none, away = torch.zeros_like(word), torch.zeros_like(place)
        first = place[:, :1].expand_as(place)
        pairs = {
            "previous": (torch.cat([none, place.roll(1, 1)], -1), torch.cat([none, place], -1)),
            "first": (torch.cat([none, first], -1), torch.cat([none, place], -1)),
            "same": (torch.cat([word, -place], -1), torch.cat([word, place], -1)),
            "induction": (torch.cat([word, away], -1), torch.cat([word.roll(1, 1), away], -1)),
            "even": (torch.cat([none, away], -1), torch.cat([none, place], -1)),
        }
        query, key = (torch.stack([pairs[kind][k] for kind in KINDS], 1) for k in (0, 1))
        scores = 50 * query @ key.mT
        ahead = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        heads = scores.masked_fill(ahead, -torch.inf).softmax(-1) @ key
        return self.output(heads.transpose(1, 2).flatten(2))
