"""Texts: the nearest name, text of models made safe to show, numbers, durations and costs in words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff]")


def nearest_name(name: object, names: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """The nearest of the valid names, or by its last part after a dot; `None` if none is as similar as `cutoff` (0 to 1)."""
    known = list(names)
    last = {one.rpartition(".")[2]: one for one in known}
    near = get_close_matches(str(name), known, n=1, cutoff=cutoff) or [
        last[part] for part in get_close_matches(str(name).rpartition(".")[2], last, n=1, cutoff=cutoff)
    ]
    return near[0] if near else None


def nearest(name: object, names: Iterable[str], *, cutoff: float = 0.6) -> str:
    """`nearest_name` as the end of an error message; empty without one.

    >>> nearest("sagee", ["empa", "sage"])
    "; the nearest is 'sage'"
    """
    near = nearest_name(name, names, cutoff=cutoff)
    return "" if near is None else f"; the nearest is {near!r}"


def without_classes(message: str) -> str:
    """A message of pydantic without the name of a class, which its reader does not know.

    >>> without_classes("Input should be a valid dictionary or instance of _Answer")
    'Input should be a valid dictionary'
    """
    return re.sub(r" or instance of \w+", "", message)


def printable(text: str) -> str:
    """Text with control, direction-changing and unpaired surrogate characters made visible.

    >>> printable("a\\x00b\\u202ec\\r\\n")
    'a␀b⟨U+202E⟩c\\n'
    """

    def shown(found: re.Match[str]) -> str:
        code = ord(found[0])
        return chr(0x2400 + code) if code < 0x20 else f"⟨U+{code:04X}⟩"

    return _CONTROL.sub(shown, text.replace("\r\n", "\n"))


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_cell(value: object) -> object:
    """A cell of a CSV file that no spreadsheet takes for a formula: texts that look like one get an apostrophe before them.

    >>> csv_cell("=1+1"), csv_cell(-1.5), csv_cell("a-b")
    ("'=1+1", -1.5, 'a-b')
    """
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def from_csv_cell(text: str) -> str:
    """The text that `csv_cell` wrote.

    >>> from_csv_cell("'=1+1"), from_csv_cell("'tis")
    ('=1+1', "'tis")
    """
    return text[1:] if text[:1] == "'" and text[1:].startswith(_FORMULA) else text


def printable_texts(given: object) -> dict[str, str]:
    return {str(key): printable(str(value)) for key, value in given.items()} if isinstance(given, Mapping) else {}


def short_number(value: float) -> float | int:
    """A number as the browser needs it: whole, or with two decimals.

    >>> short_number(3.0), short_number(0.125)
    (3, 0.12)
    """
    return int(value) if value == int(value) else round(value, 2)


def script_json(value: object) -> str:
    """JSON for the inside of a script element: ASCII, without `<`, `>` or `&`.

    >>> script_json("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def utf16_place(text: str, place: int) -> int:
    """A place in a text as the browser counts it, in UTF-16 units.

    >>> utf16_place("😀 a", 2)
    3
    """
    return len(text[:place].encode("utf-16-le", "surrogatepass")) // 2


def amount(n: int, one: str, many: str | None = None) -> str:
    """A number with its noun; the plural is by default the singular with an s.

    >>> amount(1, "dialogue"), amount(2009, "dialogue"), amount(0, "reply", "replies")
    ('1 dialogue', '2,009 dialogues', '0 replies')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def clock(seconds: float) -> str:
    """A duration in minutes or hours.

    >>> clock(75), clock(3675)
    ('1:15', '1:01:15')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def money(cost: float | None) -> str:
    """A cost with two decimals, below 0.1 with two significant digits; a dash where it is unknown.

    >>> money(12.345), money(0.0042), money(0.0), money(None)
    ('12.35', '0.0042', '0', '–')
    """
    if cost is None:
        return "–"
    return f"{cost:.2f}" if cost >= 0.1 else f"{cost:.2g}"


def roughly(seconds: float) -> str:
    """A duration with its unit, for an estimate.

    >>> roughly(0.2), roughly(75), roughly(600), roughly(9000)
    ('1 s', '75 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
