"""Times and numbers as pages show them (UI.md section 11): absolute in tables, relative only in prose."""

from datetime import UTC, datetime

from django import template
from django.template.defaultfilters import date as format_date
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import get_language, gettext, pgettext

register = template.Library()
DASH = "–"


def zone_name(moment: datetime) -> str:
    """Name the offset of a moment in its own zone: UTC, UTC+8, UTC−3:30."""
    offset = moment.utcoffset()
    minutes = int(offset.total_seconds() // 60) if offset else 0
    if not minutes:
        return "UTC"
    sign, (hours, rest) = "+" if minutes > 0 else "−", divmod(abs(minutes), 60)
    return f"UTC{sign}{hours}" + (f":{rest:02d}" if rest else "")


def _day(moment: datetime) -> str:
    return format_date(moment, "m-d" if (get_language() or "").startswith("zh") else "M j")


def moment_text(moment: datetime, now: datetime | None = None) -> str:
    """Say a moment in the person's zone: 03:06:11 today, Nov 28, 22:41 on another day."""
    local = timezone.localtime(moment)
    if local.date() == timezone.localtime(now or timezone.now()).date():
        return local.strftime("%H:%M:%S")
    comma = " " if (get_language() or "").startswith("zh") else ", "
    return _day(local) + comma + local.strftime("%H:%M")


def both_zones(moment: datetime) -> str:
    """Write a moment in the person's zone and in UTC, to the second."""
    local, utc = timezone.localtime(moment), moment.astimezone(UTC)
    return f"{_day(local)} {local:%H:%M:%S} {zone_name(local)} · {_day(utc)} {utc:%H:%M:%S} UTC"


@register.simple_tag
def moment(at: datetime | None) -> SafeString | str:
    """A `<time>` in the person's zone whose title tells both zones; a dash when there is none."""
    if at is None:
        return DASH
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        at.isoformat(timespec="seconds"),
        both_zones(at),
        moment_text(at),
    )


def _spans() -> list[tuple[int, int, str]]:
    """(below this many seconds, divided by, pattern); the same patterns tick in timer.js."""
    return [
        (100, 1, pgettext("span", "%(n)s s")),
        (5400, 60, pgettext("span", "%(n)s min")),
        (48 * 3600, 3600, pgettext("span", "%(n)s h")),
        (1 << 60, 86400, pgettext("span", "%(n)s d")),
    ]


def span_words(seconds: float) -> str:
    """Say a span by its largest unit: 12 s, 3 min, 5 h, 2 d."""
    whole = max(0, int(seconds))
    _, divisor, pattern = next(row for row in _spans() if whole < row[0])
    return pattern % {"n": whole // divisor}


@register.simple_tag
def span_patterns() -> str:
    """What timer.js needs to let ages tick in this language."""
    return "|".join(pattern for _, _, pattern in _spans())


@register.simple_tag
def age(at: datetime | None) -> SafeString | str:
    """How long ago, ticking when script runs; a dash when it never was. For prose: 'read {{ age }} ago'."""
    if at is None:
        return DASH
    words = span_words((timezone.now() - at).total_seconds())
    return format_html(
        '<span data-age="{}" title="{}">{}</span>',
        at.isoformat(timespec="seconds"),
        both_zones(at),
        words,
    )


@register.filter
def clock_span(seconds: float | None) -> str:
    """A span as m:ss or h:mm:ss; a dash when unknown."""
    if seconds is None:
        return DASH
    hours, rest = divmod(max(0, int(seconds)), 3600)
    minutes, secs = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{secs:02d}" if hours else f"{minutes}:{secs:02d}"


@register.filter
def thousands(value: float | None) -> str:
    """A count with separators, whole; a dash when unknown."""
    return DASH if value is None else f"{value:,.0f}"


@register.filter
def rate(value: float | None) -> str:
    """A rate with one decimal, whole and with separators from 100 on; a dash when unknown."""
    return DASH if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


@register.filter
def or_dash(value: object) -> object:
    """Return a value, or a dash for one that is absent; 0 is a value."""
    return DASH if value is None or value == "" else value


@register.filter
def gib(mib: float | None) -> str:
    """MiB as GiB with one decimal and its unit; a dash when unknown."""
    return DASH if mib is None else f"{mib / 1024:.1f} GiB"


@register.inclusion_tag("components/_clocks.html")
def clocks(now: datetime | None) -> dict[str, object]:
    """The time of day in the person's zone and in UTC."""
    now = now or timezone.now()
    local = timezone.localtime(now)
    offset = local.utcoffset()
    return {
        "now": now,
        "local": f"{local:%H:%M:%S}",
        "zone": zone_name(local),
        "offset_s": int(offset.total_seconds()) if offset else 0,
        "utc": f"{now.astimezone(UTC):%H:%M}",
        "label": gettext("Time of day"),
    }


@register.filter
def unlocal(value: float | None) -> str:
    """A number for an attribute: a point, no separators, whatever the language; a whole one with all its digits."""
    if isinstance(value, int):
        return str(value)
    return "0" if value is None else f"{value:g}"
