"""The entry point of the command line: maps each command to its module, and errors to exit codes.

A command's modules are imported only when that command is called, so that help appears at once.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import select
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from recordmill.errors import ConfigError, RunError
from recordmill.option_names import as_flags
from recordmill.pipelines.options.data_types import DATA_TYPES
from recordmill.printable import printable_lines
from recordmill.processes import standard_streams
from recordmill.processes.process_end import end_process
from recordmill.runners.beam_patches import permanent_imports
from recordmill.storage.machine_faults import machine_fault

if TYPE_CHECKING:
    from recordmill.pipelines.options.arguments.command_line import Parsed
    from recordmill.transforms.model.data_type import DataType

_ENCODER_TASKS = "recordmill.transforms.staged.encoder_tasks"  # needed by encoder processes

# Command: (module, its function, help).
_TOOLS = {
    "adopt": (
        "recordmill.pipelines.commands.adopt_command",
        "adopt_main",
        "describe existing TFRecord files as a dataset",
    ),
    "verify": (
        "recordmill.pipelines.commands.dataset_commands",
        "verify_main",
        "read a whole dataset and list what is missing or damaged",
    ),
    "inspect": (
        "recordmill.pipelines.commands.dataset_commands",
        "inspect_main",
        "show the content of a dataset, or one record",
    ),
    "diff": (
        "recordmill.pipelines.commands.diff_command",
        "diff_main",
        "show the differences between two datasets",
    ),
    "report": (
        "recordmill.pipelines.commands.report_command",
        "report_main",
        "write an HTML page that shows a dataset",
    ),
    "bench-load": (
        "recordmill.pipelines.commands.bench_load_command",
        "bench_load_main",
        "measure how fast this machine loads a dataset",
    ),
    "export-transform": (
        "recordmill.pipelines.commands.export_command",
        "export_transform_main",
        "export a dataset's preprocessing as a SavedModel",
    ),
    "export-index": (
        "recordmill.pipelines.commands.export_index_command",
        "export_index_main",
        "export the index of a dataset for DALI",
    ),
    "status": (
        "recordmill.pipelines.commands.flink_commands",
        "status_main",
        "show the state of a Flink job",
    ),
    "cancel": (
        "recordmill.pipelines.commands.flink_commands",
        "cancel_main",
        "cancel a Flink job",
    ),
    "worker-pool": (
        "recordmill.pipelines.commands.flink_commands",
        "worker_pool_main",
        "serve Python workers to the Flink TaskManager of this machine",
    ),
    "flink-library": (
        "recordmill.pipelines.commands.flink_commands",
        "flink_library_main",
        "write Beam's classes for the lib folder of a Flink cluster",
    ),
}


def run_process(argv: Sequence[str] | None = None) -> NoReturn:
    """Run a command, and end this process with the exit code of `main`."""
    end_process(main(argv))


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0: done. 1: the job failed. 2: wrong usage. 130: interrupted. 141: the reader of stdout is gone.

    argv: the command and its options; by default those of this process.
    """
    owns_process = sys.stdout is sys.__stdout__ and sys.stderr is sys.__stderr__
    if owns_process:
        standard_streams.make_lossy()
        _report_signals()
    try:
        try:
            with as_flags():
                code = _main(argv)
        except SystemExit as ended:  # of --help and --print-config
            if not owns_process or ended.code != 0:
                raise
            code = 0
        if sys.stdout is not None:
            sys.stdout.flush()
        return standard_streams.report_lost_output("recordmill", code) if owns_process else code
    except BrokenPipeError:
        if not _reader_left():
            raise
        # Python flushes stdout at exit, and would print a traceback for the broken pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _reader_left() -> bool:
    """Return whether stdout is a pipe without a reader; other pipes and sockets can break too."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _main(argv: Sequence[str] | None) -> int:
    argv = list(sys.argv[1:] if argv is None else argv)
    logging.getLogger().addFilter(_is_relevant)
    if argv and argv[0] in ("-h", "--help", "help") and argv[1:2] and argv[1][:1] != "-":
        argv = [argv[1], "--help", *argv[2:]]  # recordmill help images masks
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0 if argv else 2
    command, *rest = argv
    if command == "--version":
        from importlib.metadata import version

        print(f"recordmill {version('recordmill')}")
        return 0
    prog = "recordmill"
    try:
        if command.startswith("--"):
            command, rest = _command_of(argv), argv
        prog = f"recordmill {command}"
        if command in DATA_TYPES:
            return _build_dataset(command, rest, prog)
        if command in _TOOLS:
            module, function, _ = _TOOLS[command]
            return int(getattr(importlib.import_module(module), function)(rest))
        raise ConfigError(f"unknown command {command!r}{_nearest(command)}; see recordmill --help")
    except (ConfigError, RunError) as error:
        print(f"{prog}: error: {printable_lines(error)}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print(f"{prog}: stopped by SIGINT", file=sys.stderr)
        return 130
    except Exception as error:
        # Only errors of the machine become a sentence; a bug keeps its traceback.
        fault = None if isinstance(error, BrokenPipeError) else machine_fault(error)
        if fault is None:
            raise
        print(f"{prog}: error: {fault}", file=sys.stderr)
        return 1


def _report_signals() -> None:
    """End with a sentence on SIGTERM and SIGHUP; a job replaces this while it runs.

    SIGINT raises KeyboardInterrupt, also if a shell ignores it for commands in the background.
    """

    def end(number: int, _: object) -> None:
        with contextlib.suppress(OSError):
            print(f"recordmill: stopped by {signal.Signals(number).name}", file=sys.stderr)
        os._exit(128 + number)

    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, end)


def _build_dataset(command: str, argv: Sequence[str], prog: str) -> int:
    found = DATA_TYPES[command]
    from recordmill.processes import environment

    environment.set_up()
    with permanent_imports():
        from recordmill.pipelines.options.arguments import command_line
        from recordmill.storage import filesystems

        filesystems.before_threads(_fork_children)
        module = importlib.import_module(found.module)
    config_class, description = getattr(module, found.config), module.__doc__ or ""
    with command_line.temporary_outputs() as temporary:
        parsed = command_line.parse(
            config_class, argv, prog=prog, description=description, temporary=temporary
        )
        return _run(parsed, module.data_type(parsed.config), prog)


def _fork_children() -> None:
    from recordmill.processes import pool

    pool.fork_children([_ENCODER_TASKS])


def _run(parsed: Parsed[Any], data_type: DataType, prog: str) -> int:
    from recordmill.processes import environment, pool

    # The job imports Beam, which takes two seconds without patches, when its input is listed, and
    # the encoder processes of this machine are forked before, so that they do not carry its memory.
    if parsed.config.runner == "direct":
        pool.shared_pool(
            parsed.config.workers,
            imports=[_ENCODER_TASKS, *data_type.modules],
        )
    try:
        environment.expect_threads()
        with permanent_imports():
            from recordmill.pipelines.jobs import run

        return run.run(parsed.config, data_type, parsed.passthrough, prog=prog)
    finally:
        pool.close_shared_pool()


def _is_relevant(message: logging.LogRecord) -> bool:
    """Return False for Beam's import warning about Google's libraries, which are optional."""
    return "apitools not found" not in message.getMessage()


def _command_of(argv: Sequence[str]) -> str:
    """Return the command that the job file of --config names. Raises ConfigError."""
    from recordmill.pipelines.options.arguments import command_line
    from recordmill.pipelines.options.common import job_file

    path = command_line.config_path(argv)
    if path is None:
        raise ConfigError("expected a command, or --config FILE; see recordmill --help")
    return job_file.command_of(path)


def _nearest(command: str) -> str:
    import difflib

    found = difflib.get_close_matches(command, [*DATA_TYPES, *_TOOLS], n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


def _overview() -> str:
    build = "\n".join(f"  {name:<18}{found.help}" for name, found in DATA_TYPES.items())
    tools = "\n".join(f"  {name:<18}{text}" for name, (*_, text) in _TOOLS.items())
    return f"""\
Turns raw data into balanced, shuffled, validated, sharded TFRecord datasets.

Usage: recordmill COMMAND --option VALUE ...

Commands that build a dataset from raw data:
{build}

Commands for datasets and for jobs on Flink:
{tools}

recordmill COMMAND --help lists the options of a command. recordmill --config FILE runs the command
that a job file names; recordmill COMMAND ... --print-config prints such a file. Example:

  recordmill images --input photos/ --output out/ --size 224 --balance oversample
  recordmill verify --dataset out/"""


if __name__ == "__main__":
    run_process()
