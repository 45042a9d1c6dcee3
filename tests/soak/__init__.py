"""Long runs that hunt for what the tests cannot: `make soak`, not in CI, not collected by pytest."""
