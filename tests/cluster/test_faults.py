"""Faults of machines and of the store change nothing in the dataset."""

import random

import pytest

from tests.cluster.faults import KINDS, DisturbedJob, Watch, run
from tests.cluster.machines import last_for

# Seconds that each lasts.
FAULTS = {
    "TaskManager off": 20,
    "pool killed": 1,
    "store cut off": 20,
    "store slow": 10,
    "store answers 503": 10,
}
# Of the soak: a worker killed, a TaskManager cut off, SIGKILL; a worker, SIGKILL, the JobManager.
SEEDS = (79, 317)
_SECONDS = 20.0  # that an undisturbed job takes


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_the_middle_of_writing(sound, expected, name):
    kind = KINDS[name]
    with Watch(sound) as watch:
        job = DisturbedJob(sound, watch, name.replace(" ", "-"))
        sound.wait_for_shards(job.command, job.key)
        with kind.strike(job, kind.wheres[-1], random.Random(0)):
            last_for(FAULTS[name])
        job.end_well()
    job.check(expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_faults_at_random_moments(sound, expected, seed):
    found = run(sound, seed, expected, seconds=_SECONDS)
    assert found["different"] == "", found
