"""The draw of dropout: the published generator, and shares of what is kept."""

import pytest
import torch

from fourierkernels.ops.dropout import draw_seed, keep_mask, philox

# Known answers of Random123 for philox4x32-10: counter, key, words.
ANSWERS = {
    "zeros": ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    "ones": (
        (0xFFFFFFFF,) * 4,
        (0xFFFFFFFF,) * 2,
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    "pi": (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_philox_gives_the_known_answers(name: str) -> None:
    counter, key, expected = ANSWERS[name]
    c0, c1, c2, c3, k0, k1 = (torch.tensor(word) for word in (*counter, *key))
    assert tuple(int(word) for word in philox((c0, c1, c2, c3), (k0, k1))) == expected


@pytest.mark.parametrize("seed", [0, -1, 2**40 + 7])
def test_a_pair_reads_the_word_of_its_place(seed: int) -> None:
    kept = keep_mask(torch.tensor([seed]), (2, 3, 10), 0.25)
    for head, query, key in [(0, 0, 0), (1, 2, 9), (1, 0, 6)]:
        place = tuple(torch.tensor(word) for word in (key // 4, query, head, 0))
        halves = torch.tensor(seed & 0xFFFFFFFF), torch.tensor((seed >> 32) & 0xFFFFFFFF)
        word = int(philox((place[0], place[1], place[2], place[3]), halves)[key % 4])
        assert bool(kept[head, query, key]) == (word >= 2**30)


@pytest.mark.parametrize("p", [0.0, 0.1, 0.9])
def test_each_weight_is_dropped_with_its_probability(p: float) -> None:
    kept = keep_mask(torch.tensor([5]), (4, 250, 1000), p).double()
    error = (p * (1 - p) / kept.numel()) ** 0.5
    assert abs(kept.mean().item() - (1 - p)) <= 4 * error
    rows = kept.mean(dim=-1)
    assert (rows - (1 - p)).abs().max() <= 5 * (p * (1 - p) / 1000) ** 0.5


def test_seeds_follow_the_generator_of_torch() -> None:
    torch.manual_seed(3)
    first, second = (draw_seed(torch.device("cpu")) for _ in range(2))
    torch.manual_seed(3)
    assert torch.equal(draw_seed(torch.device("cpu")), first)
    assert not torch.equal(first, second)
