"""The intervals at which a Flink job is polled."""

from recordmill.runners.flink.job import _poll_seconds


def test_a_short_job_is_polled_often_and_a_long_one_seldom():
    intervals = [_poll_seconds(elapsed) for elapsed in (0.0, 1.0, 4.0, 8.0, 60.0, 1e6)]
    assert intervals == [0.1, 0.1, 0.1, 0.16, 0.5, 0.5]
