"""The command line: `python -m recordmill images --input ... --output ...`."""

import sys

from recordmill.pipelines import cli

if __name__ == "__main__":
    sys.exit(cli.main())
