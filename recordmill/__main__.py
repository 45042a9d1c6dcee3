"""`python -m recordmill images --input ... --output ...`: the command line."""

import sys

from recordmill.pipelines import cli

if __name__ == "__main__":
    sys.exit(cli.main())
