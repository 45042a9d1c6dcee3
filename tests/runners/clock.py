"""A clock in place of the module `time`."""


class Clock:
    """now: seconds, which pass only during `sleep`."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
