"""Work that is spread over processes or a cluster, whatever else runs there."""

from dataclasses import dataclass

import pytest

from fourierkernels.foundation.workers import Work, on_cluster


@dataclass(frozen=True)
class Number:
    """A piece whose key says nothing about the work that it belongs to."""

    value: int

    @property
    def key(self) -> str:
        return str(self.value)


def test_results_of_one_work_on_a_cluster_are_not_those_of_another() -> None:
    distributed = pytest.importorskip("distributed")
    numbers = [Number(3), Number(4)]
    doubled, squared = (
        Work(lambda number, times=times: times(number.value), "number", "numbers")
        for times in (lambda value: 2 * value, lambda value: value**2)
    )
    options = {"processes": False, "n_workers": 1, "threads_per_worker": 1}
    with distributed.LocalCluster(
        **options, protocol="tcp", host="127.0.0.1", dashboard_address=None
    ) as cluster:
        first = on_cluster(doubled, numbers, cluster.scheduler_address)
        held = [next(first)]  # the scheduler keeps the other result until it is taken
        second = dict(on_cluster(squared, numbers, cluster.scheduler_address))
        assert dict([*held, *first]) == {Number(3): 6, Number(4): 8}
    assert second == {Number(3): 9, Number(4): 16}
