"""A sample of PERM for a reader: one line of a list, or the whole sheet. Does not cover what judges are told (`prompts/`)."""

from __future__ import annotations

from heartloop.environments.perm.drawn import AnySample, DrawnSample

__all__ = ["line_of", "sheet_of"]


def line_of(s: AnySample) -> str:
    """Id, what they want, who it is, title, tags."""
    if isinstance(s, DrawnSample):
        return f"{s.id:26} {s.emotion:15} {s.person}: {s.title} [{' '.join(s.tags)}]"
    return f"{s.id:22} {s.want:15} {s.person}: {s.title} [{' '.join(s.tags)}]"


def sheet_of(s: AnySample) -> str:
    """All that stands in the record."""
    if isinstance(s, DrawnSample):
        head = f"{s.title} ({s.id}; {s.emotion}; {s.source})"
        return "\n\n".join([head, s.who, s.scenario, f"Says: {s.query}"])
    named = (("Cause", s.cause), ("Need", s.need), *(("Touch", m) for m in s.touches), *(("Sore", m) for m in s.sores))
    parts = [
        f"{s.title} ({s.id}; {s.emotion}; wants {s.want}; {' '.join(s.tags)})",
        f"{s.who}.",
        s.scenario,
        f"Says: {s.query}",
        f"Feels: {', '.join(s.feelings)}\nDoes not feel: {', '.join(s.misreadings)}",
        "\n".join(f"{name}: {matter.text} ({', '.join(matter.cues)})" for name, matter in named),
    ]
    return "\n\n".join(parts)
