"""Generate recorded episodes of Hopper to learn control from: random, medium and replay mixes.

    python experiments/data_control.py [--output FOLDER] [--environment NAME] [--seed N] [--quick]

A search for a linear policy by the cross-entropy method, in gymnasium and MuJoCo (the extra
"control"), is recorded as it goes. It writes three files:

hopper-random-generated.npz    policies as they are drawn first;
hopper-medium-generated.npz    the mean policy that half of the search reached, with noise;
hopper-replay-generated.npz    all that the search did.

They are named as D4RL's sets are and are not those: the best episode is about a tenth of D4RL's
expert. The same seed gives the same files on one machine. Then:

    fourierkernels train control --data FOLDER/hopper-medium-generated.npz

The replay mix of seed 0 is also what ``--data generated`` makes and keeps.

D4RL itself: http://rail.eecs.berkeley.edu/datasets/offline_rl/gym_mujoco_v2/ has its HDF5 files,
and gym/data/download_d4rl_datasets.py of https://github.com/kzl/decision-transformer makes the
authors' pickles; both are read. --quick plays a few steps.
"""

import argparse
from pathlib import Path

from fourierkernels.studies.control.environments import ENVIRONMENTS
from fourierkernels.studies.control.episodes import write_recorded
from fourierkernels.studies.control.generating import BEHAVIOURS, Search, generate

QUICK = Search(rounds=2, policies=4, kept=2, steps=10)


def main() -> None:
    """Generate and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--output", type=Path, default=Path("control"))
    parser.add_argument("--environment", choices=list(ENVIRONMENTS), default="hopper")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a few steps of a few policies")
    options = parser.parse_args()
    search = QUICK if options.quick else Search()
    for behaviour in BEHAVIOURS:
        found = generate(options.environment, behaviour, seed=options.seed, search=search)
        write_recorded(options.output / f"{found.corpus}.npz", found)
        score = found.row.normalised(float(found.returns.max()))
        print(
            f"{found.corpus}: {len(found.ends)} episodes, {len(found.rewards)} steps, return "
            f"{found.returns.mean():.0f}, at most {found.returns.max():.0f} (score {score:.1f})"
        )


if __name__ == "__main__":
    main()
