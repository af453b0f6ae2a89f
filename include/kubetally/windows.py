"""Half-open UTC windows `[start, end)`, the only way time is spoken of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from kubetally.errors import BadDataError

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@dataclass(frozen=True, order=True)
class Window:
    """`[start, end)` in UTC. Raises BadDataError for naive times and empty windows."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        for name, moment in (("start", self.start), ("end", self.end)):
            if moment.tzinfo is None:
                raise BadDataError(
                    f"The window's {name} {moment.isoformat()} has no time zone.",
                    remedy="Give it in UTC, for example 2026-11-03T00:00:00Z.",
                )
        object.__setattr__(self, "start", _plain(self.start))
        object.__setattr__(self, "end", _plain(self.end))
        if self.start >= self.end:
            raise BadDataError(f"The window {self} is empty: its start is not before its end.")

    def __str__(self) -> str:
        return f"[{iso(self.start)}, {iso(self.end)})"

    @classmethod
    def of_day(cls, day: date) -> Window:
        """The UTC day `[day, day + 1)`."""
        start = datetime.combine(day, time.min, UTC)
        return cls(start, start + DAY)

    @classmethod
    def of_hour(cls, moment: datetime) -> Window:
        """The whole UTC hour that holds `moment`."""
        start = floor(moment, HOUR)
        return cls(start, start + HOUR)

    @property
    def seconds(self) -> int:
        return int((self.end - self.start).total_seconds())

    @property
    def is_whole_hours(self) -> bool:
        return floor(self.start, HOUR) == self.start and floor(self.end, HOUR) == self.end

    def days(self) -> list[date]:
        """Every UTC day the window touches, in order."""
        first = self.start.date()
        last = (self.end - timedelta(microseconds=1)).date()
        return [first + timedelta(days=n) for n in range((last - first).days + 1)]

    def chunks(self, step: timedelta) -> Iterator[Window]:
        """The window cut at `step` on the UTC epoch; the first and last may be shorter."""
        start = self.start
        while start < self.end:
            end = min(floor(start, step) + step, self.end)
            yield Window(start, end)
            start = end


def _plain(moment: datetime) -> datetime:
    """`moment` as a datetime of the standard library in UTC; Airflow hands over pendulum's, whose
    sums with a timedelta lose the time zone once they were converted."""
    utc = moment.astimezone(UTC)
    return datetime.combine(date(utc.year, utc.month, utc.day), utc.time(), UTC)


def floor(moment: datetime, step: timedelta) -> datetime:
    """`moment` in UTC, rounded down to a multiple of `step` since the epoch."""
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return epoch + ((moment.astimezone(UTC) - epoch) // step) * step


def iso(moment: datetime) -> str:
    """ISO 8601 in UTC with a `Z`, as it is shown to people and sent to APIs."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def parse_time(text: str) -> datetime:
    """An RFC 3339 time as UTC. Raises BadDataError when it is not one or has no zone."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise BadDataError(f"{text!r} is not an RFC 3339 time.") from error
    if moment.tzinfo is None:
        raise BadDataError(f"{text!r} has no time zone.", remedy="Append Z for UTC.")
    return moment.astimezone(UTC)
