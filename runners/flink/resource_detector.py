"""A class for the jar of a job, by which Beam does not search for files to stage on Flink.

Beam's main class lists all jars in the class path of the JobManager, and for that it reads the
directories of these jars, 70,000 entries. It uses the list only to send a pipeline to another
cluster. An option of Beam names the class that makes the list; this one makes an empty list:

    package recordmill;

    import java.util.Collections;
    import java.util.List;
    import org.apache.beam.sdk.util.construction.resources.PipelineResourcesDetector;

    public class NoResources
        implements PipelineResourcesDetector, PipelineResourcesDetector.Factory {
      public static NoResources create() {
        return new NoResources();
      }

      public PipelineResourcesDetector getPipelineResourcesDetector() {
        return this;
      }

      public List<String> detect(ClassLoader loader) {
        return Collections.emptyList();
      }
    }
"""

from __future__ import annotations

import base64

from recordmill.runners.flink.jar import has_entry

_OPTION = "pipeline_resources_detector_factory_class"
# Job servers with this entry know the option, and the interfaces by these names.
_INTERFACE = (
    b"org/apache/beam/sdk/util/construction/resources/PipelineResourcesDetector$Factory.class"
)
# javac --release 11 -g:none -cp flink-job-server.jar NoResources.java
_CLASS = base64.b64decode(
    """
    yv66vgAAADcAHwoAAgADBwAEDAAFAAYBABBqYXZhL2xhbmcvT2JqZWN0AQAGPGluaXQ+AQADKClWBwAIAQAWcmVj
    b3JkbWlsbC9Ob1Jlc291cmNlcwoABwADCgALAAwHAA0MAA4ADwEAFWphdmEvdXRpbC9Db2xsZWN0aW9ucwEACWVt
    cHR5TGlzdAEAEigpTGphdmEvdXRpbC9MaXN0OwcAEQEASW9yZy9hcGFjaGUvYmVhbS9zZGsvdXRpbC9jb25zdHJ1
    Y3Rpb24vcmVzb3VyY2VzL1BpcGVsaW5lUmVzb3VyY2VzRGV0ZWN0b3IHABMBAFFvcmcvYXBhY2hlL2JlYW0vc2Rr
    L3V0aWwvY29uc3RydWN0aW9uL3Jlc291cmNlcy9QaXBlbGluZVJlc291cmNlc0RldGVjdG9yJEZhY3RvcnkBAARD
    b2RlAQAGY3JlYXRlAQAaKClMcmVjb3JkbWlsbC9Ob1Jlc291cmNlczsBABxnZXRQaXBlbGluZVJlc291cmNlc0Rl
    dGVjdG9yAQBNKClMb3JnL2FwYWNoZS9iZWFtL3Nkay91dGlsL2NvbnN0cnVjdGlvbi9yZXNvdXJjZXMvUGlwZWxp
    bmVSZXNvdXJjZXNEZXRlY3RvcjsBAAZkZXRlY3QBACkoTGphdmEvbGFuZy9DbGFzc0xvYWRlcjspTGphdmEvdXRp
    bC9MaXN0OwEACVNpZ25hdHVyZQEAPShMamF2YS9sYW5nL0NsYXNzTG9hZGVyOylMamF2YS91dGlsL0xpc3Q8TGph
    dmEvbGFuZy9TdHJpbmc7PjsBAAxJbm5lckNsYXNzZXMBAAdGYWN0b3J5ACEABwACAAIAEAASAAAABAABAAUABgAB
    ABQAAAARAAEAAQAAAAUqtwABsQAAAAAACQAVABYAAQAUAAAAFAACAAAAAAAIuwAHWbcACbAAAAAAAAEAFwAYAAEA
    FAAAAA4AAQABAAAAAiqwAAAAAAABABkAGgACABQAAAAQAAEAAgAAAAS4AAqwAAAAAAAbAAAAAgAcAAEAHQAAAAoA
    AQASABAAHgYJ
    """
)


def for_job_server(jar: str) -> tuple[dict[str, str], dict[str, bytes]]:
    """Return the option for a job server, and the entries to add to the job's jar.

    Both are empty if the job server is of a version of Beam without this option.
    """
    if not has_entry(jar, _INTERFACE):
        return {}, {}
    return {_OPTION: "recordmill.NoResources"}, {"recordmill/NoResources.class": _CLASS}
