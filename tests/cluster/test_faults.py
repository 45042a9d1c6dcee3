"""Faults of machines and of the store change nothing in the dataset."""

import contextlib
from collections.abc import Iterator

import pytest

from tests.cluster.conftest import LONG
from tests.cluster.machines import STORE, TASK_MANAGERS, Machines, last_for
from tests.paths import DEMO


@contextlib.contextmanager
def _taskmanager_off(machines: Machines) -> Iterator[None]:
    machines.switch_off(TASK_MANAGERS[1])
    yield
    machines.switch_on(TASK_MANAGERS[1])


@contextlib.contextmanager
def _pool_killed(machines: Machines) -> Iterator[None]:
    machines.kill_pool(TASK_MANAGERS[1])
    yield
    machines.use_pool(TASK_MANAGERS[1])


FAULTS = {
    "TaskManager off": (_taskmanager_off, 20),
    "pool killed": (_pool_killed, 1),
    "store cut off": (lambda machines: machines.cut_off(STORE), 20),
    "store slow": (lambda machines: machines.store.answering(delay=0.5), 10),
    "store answers 503": (lambda machines: machines.store.answering(status=503), 10),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_the_middle_of_writing(sound, expected, name):
    fault, seconds = FAULTS[name]
    key = name.replace(" ", "-")
    places = {"source": sound.fill("photos", DEMO), "output": sound.uri(key)}
    command = sound.submit("images", *LONG, **places)
    sound.wait_for_shards(command, key)
    with fault(sound):
        last_for(seconds)
    if command.end().code != 0:
        sound.wait_for_taskmanagers()
        again = sound.submit("images", *LONG, **places).end()
        assert again.code == 0, again.err
    assert sound.objects(key) == expected
