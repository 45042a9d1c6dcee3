"""The command line: puts config, kind of data, pipeline and runner together.

The only place that knows all of them. It imports a command's modules when that command is called,
so that help is there at once.
"""

from __future__ import annotations

import importlib
import logging
import os
import select
import sys
from collections.abc import Sequence

from recordmill.errors import ConfigError, RunError
from recordmill.runners.beam_patches import permanent_imports

# Command: (module of the kind of data, its config class, what it does).
_KINDS = {
    "images": ("recordmill.pipelines.images", "ImagesConfig", "pictures, in folders or listings"),
    "text": (
        "recordmill.pipelines.text",
        "TextConfig",
        "texts, in tables or in files of their own",
    ),
    "table": ("recordmill.pipelines.table", "TableConfig", "tables, column by column"),
    "sensor": ("recordmill.pipelines.sensor", "SensorConfig", "series of sensors, as windows"),
    "arrays": (
        "recordmill.pipelines.arrays",
        "ArraysConfig",
        "arrays, in .npy, .npz and HDF5 files",
    ),
    "video": ("recordmill.pipelines.video", "VideoConfig", "films, as clips"),
}
# Command: (module, its function, what it does).
_OTHERS = {
    "adopt": (
        "recordmill.pipelines.commands.adopt_command",
        "adopt_main",
        "make a dataset of TFRecord files that others wrote, as they are",
    ),
    "verify": (
        "recordmill.pipelines.commands.dataset_commands",
        "verify_main",
        "read a whole dataset again and name what is damaged",
    ),
    "inspect": (
        "recordmill.pipelines.commands.dataset_commands",
        "inspect_main",
        "show what is in a dataset, or one record of it",
    ),
    "export-transform": (
        "recordmill.pipelines.commands.export_command",
        "export_transform_main",
        "write what records went through as a TensorFlow SavedModel",
    ),
    "status": (
        "recordmill.pipelines.commands.flink_commands",
        "status_main",
        "say how a job on Flink is",
    ),
    "cancel": ("recordmill.pipelines.commands.flink_commands", "cancel_main", "end a job on Flink"),
    "worker-pool": (
        "recordmill.pipelines.commands.flink_commands",
        "worker_pool_main",
        "start Python workers for the TaskManager of this machine",
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit code: 0 done, 1 failed, 2 wrong usage, 130 stopped, 141
    where nobody reads any more what it prints.
    """
    try:
        code = _main(argv)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        if not _reader_left():
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python tells at exit
        return 141


def _reader_left() -> bool:
    """Whether stdout is a pipe that nobody reads: other pipes and sockets break too."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _main(argv: Sequence[str] | None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    logging.getLogger().addFilter(_is_news)
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0 if argv else 2
    command, *rest = argv
    if command == "--version":
        from importlib.metadata import version

        print(f"recordmill {version('recordmill')}")
        return 0
    prog = f"recordmill {command}"
    try:
        if command in _KINDS:
            return _run_kind(command, rest, prog)
        if command in _OTHERS:
            module, function, _ = _OTHERS[command]
            return int(getattr(importlib.import_module(module), function)(rest))
        raise ConfigError(f"unknown command {command!r}{_nearest(command)}; see recordmill --help")
    except ConfigError as error:
        print(f"{prog}: error: {error}", file=sys.stderr)
        return 2
    except RunError as error:
        print(f"{prog}: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{prog}: stopped by SIGINT", file=sys.stderr)
        return 130


def _run_kind(command: str, argv: Sequence[str], prog: str) -> int:
    module_name, config_name, _ = _KINDS[command]
    from recordmill.processes import environment, pool

    environment.set_up()
    with permanent_imports():
        from recordmill.pipelines.options import declaration

        module = importlib.import_module(module_name)
    parsed = declaration.parse(
        getattr(module, config_name), argv, prog=prog, description=module.__doc__ or ""
    )
    kind = module.kind(parsed.config)
    # Beam takes two seconds to import: not before the command line is known to be sound, nor before
    # encoder processes, where they are of this machine, are forked from what there is so far.
    if parsed.config.runner == "direct":
        pool.shared_pool(
            parsed.config.workers,
            imports=["recordmill.transforms.staged.encoder_tasks", *kind.modules],
        )
    try:
        with permanent_imports():
            from recordmill.pipelines import run

        return run.run(parsed.config, kind, parsed.passthrough, prog=prog)
    finally:
        pool.close_shared_pool()


def _is_news(message: logging.LogRecord) -> bool:
    """Beam warns at import of Google's libraries, which it can do without."""
    return "apitools not found" not in message.getMessage()


def _nearest(command: str) -> str:
    import difflib

    found = difflib.get_close_matches(command, [*_KINDS, *_OTHERS], n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


def _overview() -> str:
    rows = [(name, text) for name, (*_, text) in [*_KINDS.items(), *_OTHERS.items()]]
    table = "\n".join(f"  recordmill {name:<17}{text}" for name, text in rows)
    return f"""\
Raw data to balanced, shuffled, validated, sharded TFRecord datasets.

{table}

recordmill COMMAND --help shows its declaration. A first run:

  recordmill images --input photos/ --output out/ --size 224 --balance oversample
  recordmill verify --dataset out/"""


if __name__ == "__main__":
    sys.exit(main())
