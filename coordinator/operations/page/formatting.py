"""Numbers and times as people read them; the filters of the page's templates."""

from __future__ import annotations

import time


def took(seconds: float | None) -> str:
    """A duration; of days only the days and hours."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms" if seconds >= 0.01 or not seconds else f"{1000 * seconds:.1f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} days {hours % 24} h"


def ago(seconds: float) -> str:
    """How long since, in whole seconds; `live.js` counts on in the same words."""
    if seconds < 1:
        return "just now"
    return f"{int(seconds)} s ago" if seconds < 60 else f"{took(seconds)} ago"


def moment(at: float | None) -> str:
    """Seconds since 1970 as the day and time, in UTC."""
    return "-" if at is None else time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))


def machine_time(at: float) -> str:
    """The same for the `datetime` of an element."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at))


def counted(number: float | None) -> str:
    """A number of rows or bytes: whole from 10 on."""
    if number is None:
        return "-"
    return f"{number:,.0f}" if isinstance(number, int) or number >= 10 else f"{number:,.2f}"


def sized(size_bytes: int) -> str:
    """A number of bytes, in the units of a thousand."""
    size, units = float(size_bytes), ["bytes", "kB", "MB", "GB", "TB"]
    while size >= 999.5 and len(units) > 1:
        size, units = size / 1000, units[1:]
    return f"{size:.0f} {units[0]}" if size >= 99.5 or units[0] == "bytes" else f"{size:.1f} {units[0]}"
