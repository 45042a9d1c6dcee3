"""How far a job is, by what stands in its staging folder."""

from pipelines.watch import JobProgress
from recordmill.files import Location
from recordmill.staging import Listing, Part, Staging, to_json


def test_parts_are_counted_once_however_many_they_became(tmp_path) -> None:
    staging = Staging(Location.parse(str(tmp_path)))
    parts = tuple(Part(name=f"listing/part-{n:05d}.arrow", rows=5, bytes=9) for n in range(3))
    listing = Listing(
        parts=parts, fingerprint="", labelled=0, grouped=0, presplit=0, rejects=(), filtered={}
    )
    staging.place("listing.json").write_bytes(to_json(listing))
    staging.place("checked").make_dirs()
    for name in ("part-00000-00000", "part-00000-00001", "part-00001-00000"):
        staging.place(f"checked/{name}.arrow").write_bytes(b"")
        staging.place(f"checked/{name}.arrow.json").write_bytes(b"{}")
    staging.place("checked/part-00000.json").write_bytes(b"[]")
    found = JobProgress(staging).poll()
    assert found is not None
    assert (found.phase, found.done, found.total) == ("checking", 1, 3)
