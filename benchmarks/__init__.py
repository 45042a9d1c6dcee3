"""What the figures of the README were measured with. Run from the root of the repository."""
