"""Long runs that hunt for what tests cannot: `make soak`; not in CI, not collected by pytest."""
