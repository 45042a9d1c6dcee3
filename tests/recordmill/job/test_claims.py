"""The lock for object stores."""

import json
import os
import pathlib
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from recordmill.job.claims import PREFIX, Claim, ClaimedError, ClaimTiming, hold_claim
from recordmill.storage.files import Location, StorageError

_QUICK = ClaimTiming(renew=0.05, expire=90, pause=0.02)


@pytest.fixture
def folder(tmp_path) -> Location:
    place = Location.parse(str(tmp_path / "job"))
    place.make_dirs()
    return place


def claims(folder: Location) -> list[pathlib.Path]:
    return sorted(pathlib.Path(folder.local_path).glob(f"{PREFIX}*"))


def test_a_second_holder_gets_the_name_of_the_first(folder):
    with hold_claim(folder):
        with pytest.raises(ClaimedError) as caught, hold_claim(folder):
            pass
        assert caught.value.holder["pid"] == os.getpid()
        assert len(claims(folder)) == 1
    assert claims(folder) == []


def test_an_error_releases_the_claim(folder):
    with pytest.raises(ZeroDivisionError), hold_claim(folder):
        raise ZeroDivisionError
    assert claims(folder) == []


def test_a_claim_that_is_not_renewed_expires(folder):
    dead = pathlib.Path(folder.local_path, f"{PREFIX}dead.json")
    dead.write_text(json.dumps({"host": "elsewhere", "pid": 1, "holds": True}))
    with pytest.raises(ClaimedError), hold_claim(folder):
        pass
    long_ago = dead.stat().st_mtime - 91
    os.utime(dead, (long_ago, long_ago))
    with hold_claim(folder):
        assert dead not in claims(folder)


def test_a_claim_of_a_dead_process_of_this_machine_does_not_count(folder):
    with hold_claim(folder):
        (claim,) = claims(folder)
        content = json.loads(claim.read_bytes())
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    left = pathlib.Path(folder.local_path, f"{PREFIX}left.json")
    for machine, counts in (("another", True), (content["machine"], False)):
        left.write_text(json.dumps(content | {"pid": process.pid, "machine": machine}))
        if counts:
            with pytest.raises(ClaimedError) as caught, hold_claim(folder):
                pass
            assert 0 < caught.value.seconds <= ClaimTiming().expire
        else:
            with hold_claim(folder):
                assert not left.exists()


def test_an_ended_claim_is_not_written_again(folder):
    claim = Claim(folder)
    lost = []
    with hold_claim(folder, claim=claim, timing=_QUICK, on_lost=lost.append):
        claim.end()
        claim.write(holds=True)
        assert claims(folder) == []
    assert not lost


def test_a_holder_renews_its_claim(folder):
    with hold_claim(folder, timing=_QUICK):
        (claim,) = claims(folder)
        os.utime(claim, (0, 0))
        renewed = threading.Event()

        def look() -> None:
            while claim.stat().st_mtime == 0:
                pass
            renewed.set()

        threading.Thread(target=look, daemon=True).start()
        assert renewed.wait(30)


def test_a_holder_that_was_taken_over_hears_of_it(folder):
    lost = threading.Event()
    with hold_claim(folder, timing=_QUICK, on_lost=lambda why: lost.set()):
        (claim,) = claims(folder)
        claim.unlink()
        assert lost.wait(30)


def test_a_claim_that_the_store_does_not_delete_blocks_no_run(folder, monkeypatch, capsys):
    def refuse(place, *, missing_ok=False):
        raise StorageError(f"cannot delete {place}: permission denied")

    monkeypatch.setattr(Location, "delete", refuse)
    with hold_claim(folder):
        pass
    with hold_claim(folder):
        assert len(claims(folder)) == 2
    said = capsys.readouterr().err
    assert "permission denied: it has no effect any more, and can be removed\n" in said
    monkeypatch.undo()
    with hold_claim(folder):
        assert len(claims(folder)) == 1
    assert claims(folder) == []


def test_a_failed_run_does_not_report_that_its_claim_remains(folder, monkeypatch, capsys):
    def refuse(place, *, missing_ok=False):
        raise StorageError(f"cannot delete {place}: permission denied")

    monkeypatch.setattr(Location, "delete", refuse)
    with pytest.raises(KeyError), hold_claim(folder):
        raise KeyError
    assert len(claims(folder)) == 1
    assert capsys.readouterr().err == ""


def test_of_many_at_once_never_two_hold_it(folder):
    holding = []
    most = []

    def work(_: int) -> bool:
        try:
            with hold_claim(folder, timing=_QUICK):
                holding.append(1)
                most.append(len(holding))
                holding.pop()
        except ClaimedError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert any(threads.map(work, range(40)))
    assert max(most) == 1
    assert claims(folder) == []
