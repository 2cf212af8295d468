"""Tags that the words of a text decide: whether it speaks outright of suicide or self-harm.

Covers English text. Does not cover hints: a model or a reader has to find those.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from heartloop.environments.records import Tag

__all__ = ["crisis_tags"]

_CRISIS: Mapping[Tag, re.Pattern[str]] = {
    "suicide": re.compile(
        r"\bsuicid\w*|\bkill(?:ing|ed)? my ?self\b|\b(?:end|ending|take|taking) my (?:own )?life\b|\bend(?:ing)? it all\b|"
        r"\b(?:do not|don['’]?t) want to (?:live|be alive|exist|wake up)\b|\b(?:want|wanted|wish|going) to (?:die|be dead)\b|"
        r"\bwish i (?:was|were) dead\b|\bbetter off (?:dead|without me)\b|\bunalive\b|\bkms\b",
        re.IGNORECASE,
    ),
    "self-harm": re.compile(
        r"\bself[- ]?(?:harm|injur)\w*|\b(?:cut|cutting|hurt|hurting|burn|burning|harm|harming) my ?self\b", re.IGNORECASE
    ),
}


def crisis_tags(text: str) -> list[Tag]:
    """The tags among `suicide` and `self-harm` that the words of a text require.

    >>> crisis_tags("Some days I don't want to live."), crisis_tags("This deadline is killing me.")
    (['suicide'], [])
    """
    return [tag for tag, pattern in _CRISIS.items() if pattern.search(text)]
