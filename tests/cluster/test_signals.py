"""A command that was stopped is run again at once, and makes the dataset without a second job."""

import signal

import pytest

from tests.cluster.faults import LONG
from tests.paths import DEMO

SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGKILL]


@pytest.mark.parametrize("number", SIGNALS, ids=[one.name for one in SIGNALS])
def test_a_stopped_command_is_run_again_at_once(sound, expected, number):
    key = number.name
    places = {"source": sound.fill("photos", DEMO), "output": sound.uri(key)}
    with sound.flink() as flink:
        before = set(flink.jobs())
    command = sound.submit("images", *LONG, **places)
    sound.wait_for_shards(command, key)
    command.signal(number)
    assert command.end().code in (128 + number, -number)
    again = sound.submit("images", *LONG, **places).end()
    assert again.code == 0, again.err
    assert sound.objects(key) == expected
    with sound.flink() as flink:
        states = {job: flink.state(job) for job in set(flink.jobs()) - before}
    # The rerun joins a job that nothing has cancelled; else a second one continues it.
    ended = ["FINISHED"] if number == signal.SIGKILL else ["CANCELED", "FINISHED"]
    assert sorted(states.values()) == ended
