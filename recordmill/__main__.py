"""The command line: `python -m recordmill images --input ... --output ...`."""

from recordmill.pipelines.cli import run_process

if __name__ == "__main__":
    run_process()
