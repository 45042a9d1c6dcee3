import io
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.runners.progress import Meter, Pace, Snapshot, Watcher, duration, fitting_line, line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def writing(done: int, *, total: int | None = 20_000, rejects: int = 0) -> Snapshot:
    return Snapshot(
        phase="writing", done=done, total=total, records=done, bytes=done * 16_000, rejects=rejects
    )


def test_a_steady_pace_is_measured_exactly() -> None:
    meter = Meter()
    paces = [meter.update(writing(300 * second), second) for second in range(0, 60, 3)]
    assert paces[0] == Pace()
    for second, pace in zip(range(3, 60, 3), paces[1:], strict=True):
        assert pace.records == pytest.approx(300)
        assert pace.bytes == pytest.approx(300 * 16_000)
        assert pace.left == pytest.approx((20_000 - 300 * second) / 300)


def test_the_pace_follows_recent_snapshots() -> None:
    meter = Meter()
    for second in range(100):
        meter.update(writing(1000 * second, total=10**6), second)
    slow = [meter.update(writing(99_000 + 10 * s, total=10**6), 99.0 + s) for s in range(1, 121)]
    assert slow[0].records > 900  # one slow second does not count for much
    assert slow[-1].records == pytest.approx(10, abs=5)


def test_the_pace_restarts_with_a_new_phase() -> None:
    meter = Meter()
    meter.update(writing(0), 0)
    assert meter.update(writing(100), 1).records == 100
    assert meter.update(Snapshot(phase="publishing", total=3), 2) == Pace()
    assert meter.update(Snapshot(phase="publishing", done=1, total=3), 4).left == 4


def test_a_job_that_stands_still_has_no_time_left() -> None:
    meter = Meter()
    for second in range(20):
        meter.update(writing(1000 * second), second)
    lines = {}
    for second in range(19, 1000):
        snapshot = writing(19_000)
        lines[second - 19] = line(snapshot, meter.update(snapshot, second))
    assert lines[29].endswith(" s left, 0 rejects")
    assert lines[30] == "writing 19,000/20,000 records, no progress for 30 s, 0 rejects"
    assert lines[980] == "writing 19,000/20,000 records, no progress for 16 min 20 s, 0 rejects"
    goes_on = meter.update(writing(19_500), 1000)
    assert goes_on.idle == 0
    assert goes_on.left is not None


def test_a_job_that_has_written_everything_has_no_time_left() -> None:
    meter = Meter()
    for second in range(21):
        meter.update(writing(1000 * second), second)
    end = writing(20_000)
    assert line(end, meter.update(end, 21)).endswith(" MB/s, 0 rejects")
    publishing = line(end, meter.update(end, 65))
    assert publishing == "writing 20,000/20,000 records, no progress for 45 s, 0 rejects"


def test_a_message_is_a_line_of_its_own() -> None:
    for quiet, stream in ((False, io.StringIO()), (True, io.StringIO()), (False, Terminal())):
        with Watcher(lambda: None, quiet=quiet, stream=stream) as watcher:
            watcher.say("recordmill: [it] waits")
        assert ("recordmill: [it] waits\n" in stream.getvalue()) == (not quiet)


@given(st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 10**9)), max_size=20))
def test_the_pace_is_never_negative_or_above_the_fastest_step(steps: list[tuple[int, int]]) -> None:
    # Counts may decrease, when a shard is written a second time.
    meter = Meter()
    now, fastest, last = 0, 0.0, 0
    meter.update(writing(0), 0)
    for milliseconds, done in steps:
        now += milliseconds
        pace = meter.update(writing(done), now / 1000)
        if milliseconds:
            fastest = max(fastest, (done - last) / milliseconds * 1000)
            last = done
        assert 0 <= pace.done <= fastest * 1.001
        assert pace.left is None or pace.left >= 0


def test_plain_lines() -> None:
    pace = Pace(done=310, records=310, bytes=5.2e6, left=26.2)
    assert line(writing(12_000), pace) == (
        "writing 12,000/20,000 records, 310 records/s, 5.2 MB/s, 26 s left, 0 rejects"
    )
    assert line(writing(5, total=None, rejects=1), Pace()) == "writing 5 records, 1 reject"
    listing = Snapshot(phase="listing", done=5000, unit="files")
    assert line(listing, Pace(done=700)) == "listing 5,000 files, 700 files/s, 0 rejects"
    verifying = Snapshot(phase="verifying", done=1, total=9, rejects=None, unit="shards")
    assert line(verifying, Pace()) == "verifying 1/9 shards"
    shards = Snapshot(phase="publishing", done=1, total=3, unit="files")
    assert line(shards, Pace(done=1, left=2)) == "publishing 1/3 files, 2 s left, 0 rejects"


@pytest.mark.parametrize(
    ("width", "bar", "expected"),
    [
        (200, 20, "53/540 records, 52.4 records/s, 0.1 MB/s, 9 s left, 0 rejects"),
        (80, 10, "53/540 records, 52.4 records/s, 0.1 MB/s, 9 s left, 0 rejects"),
        (75, 5, "53/540 records, 52.4 records/s, 0.1 MB/s, 9 s left, 0 rejects"),
        (74, 20, "53/540, 52.4/s, 0.1 MB/s, 9 s left, 0 rejects"),
        (59, 5, "53/540, 52.4/s, 0.1 MB/s, 9 s left, 0 rejects"),
        (58, 0, "53/540, 52.4/s, 0.1 MB/s, 9 s left, 0 rejects"),
        (52, 0, "53/540, 52.4/s, 9 s left, 0 rejects"),
        (40, 0, "53/540, 9 s left, 0 rejects"),
        (30, 0, "53/540, 9 s left"),
        (20, 0, "53/540"),
        (5, 0, "53/540"),
    ],
)
def test_lines_fit_every_width(width: int, bar: int, expected: str) -> None:
    snapshot = writing(53, total=540)
    pace = Pace(done=52.4, records=52.4, bytes=0.1e6, left=9)
    assert fitting_line(snapshot, pace, width) == (bar, expected)
    assert len(f"writing {'=' * bar}{' ' * bool(bar)}{expected}") <= max(width, 14)


def test_all_figures_of_a_large_job_fit_80_columns() -> None:
    pace = Pace(done=1310, records=1310, bytes=150e6, left=12_000)
    assert fitting_line(writing(1_200_000, total=12_800_000, rejects=12), pace, 80) == (
        0,
        "1,200,000/12,800,000, 1,310/s, 150 MB/s, 3 h 20 min left, 12 rejects",
    )
    verifying = Snapshot(phase="verifying", done=12, total=99, rejects=None, unit="shards")
    assert fitting_line(verifying, pace, 80) == (
        13,
        "12/99 shards, 1,310 records/s, 150 MB/s, 3 h 20 min left",
    )


@pytest.mark.parametrize("columns", ["30", "60", "80", "120"])
def test_the_live_line_is_never_cut(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TERM", "xterm")
    out, clock = Terminal(), Clock()
    with Watcher(
        lambda: writing(int(clock.now) * 100), stream=out, clock=clock, poll_seconds=1000
    ) as watcher:
        ticks(watcher, clock, range(26))
        shown = out.getvalue()
    assert "2,500/20,000" in shown
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown
    last = shown.rsplit("2,500/20,000", 1)[1]
    assert ("2 min 55 s left" in last, "0 rejects" in last) == (columns != "30", columns != "30")


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min"), (200, "3 min 20 s"), (3599.6, "1 h"),
        (7500, "2 h 5 min"), (7199, "2 h"), (10**7, "2,777 h 47 min"),
    ],
)  # fmt: skip
def test_durations(seconds: float, expected: str) -> None:
    assert duration(seconds) == expected


def ticks(watcher: Watcher, clock: Clock, times: range) -> None:
    for now in times:
        clock.now = float(now)
        watcher.tick()


def test_a_plain_stream_gets_a_line_every_ten_seconds() -> None:
    clock, out = Clock(), io.StringIO()
    watcher = Watcher(lambda: writing(int(clock.now) * 100), stream=out, clock=clock)
    ticks(watcher, clock, range(26))
    assert out.getvalue() == (
        "writing 1,000/20,000 records, 100 records/s, 1.6 MB/s, 3 min 10 s left, 0 rejects\n"
        "writing 2,000/20,000 records, 100 records/s, 1.6 MB/s, 3 min left, 0 rejects\n"
    )


def test_failed_polls_show_nothing() -> None:
    clock, out = Clock(), io.StringIO()

    def poll() -> Iterator[Snapshot | None]:
        yield None
        yield writing(10)

    def vanished() -> Snapshot | None:
        raise FileNotFoundError("the folder is gone")

    answers = poll()
    watcher = Watcher(lambda: next(answers), stream=out, clock=clock)
    ticks(watcher, clock, range(20, 40, 19))
    assert out.getvalue() == "writing 10/20,000 records, 0 rejects\n"
    ticks(Watcher(vanished, stream=out, clock=clock), clock, range(50, 60))
    assert out.getvalue().count("\n") == 1


def run(out: io.StringIO, *, quiet: bool = False) -> int:
    """Run a watcher until it has polled three times, and return the number of polls."""
    polled: list[int] = []
    thrice = threading.Event()

    def poll() -> Snapshot:
        polled.append(1)
        if len(polled) == 3:
            thrice.set()
        return writing(10 * len(polled), rejects=7)

    with Watcher(poll, quiet=quiet, stream=out, poll_seconds=0.001):
        if not quiet:
            assert thrice.wait(60)
    return len(polled)


def test_a_terminal_gets_a_live_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    assert run(out) >= 3
    shown = out.getvalue()
    assert "writing" in shown
    assert "/20,000 records" in shown
    assert "7 rejects" in shown
    assert "\x1b[?25h" in shown.rsplit("\x1b[?25l", 1)[1]  # the cursor is back


def test_quiet_shows_and_polls_nothing() -> None:
    out = Terminal()
    assert run(out, quiet=True) == 0
    assert out.getvalue() == ""


def test_the_job_s_own_error_passes_through() -> None:
    with (
        pytest.raises(ZeroDivisionError),
        Watcher(lambda: writing(1), stream=io.StringIO(), poll_seconds=0.001),
    ):
        raise ZeroDivisionError


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_in_poll_does_not_end_the_job() -> None:
    called = threading.Event()

    def poll() -> Snapshot:
        called.set()
        raise ZeroDivisionError

    out = Terminal()
    with Watcher(poll, stream=out, poll_seconds=0.001):
        assert called.wait(60)
    assert "\x1b[?25h" in out.getvalue()
