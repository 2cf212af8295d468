"""Prompts: Markdown files beside the code that owns them, with named blanks, identified by hash.

A blank is written `{{name}}`. All blanks are filled in one pass: values are not searched for blanks, and other braces are text.
"""

from __future__ import annotations

import hashlib
import re
from importlib import resources
from typing import NamedTuple

from heartloop.core.errors import PromptError

_BLANK = re.compile(r"\{\{([a-z_]+)\}\}")


class Prompt(NamedTuple):
    """A prompt's name, its unfilled text, and the first 12 hex digits of the text's SHA-256."""

    name: str
    text: str
    hash: str

    @property
    def blanks(self) -> frozenset[str]:
        return frozenset(_BLANK.findall(self.text))

    def fill(self, **values: str) -> str:
        """The text with every blank filled; `PromptError` for a blank without a value and a value without a blank.

        >>> Prompt("greet", "Hello {{name}}!", "").fill(name="{{name}}")
        'Hello {{name}}!'
        """
        blanks = self.blanks
        if blanks != values.keys():
            missing, unused = blanks - values.keys(), values.keys() - blanks
            raise PromptError(
                f"prompt {self.name!r}: blanks without a value {sorted(missing)}, values without a blank {sorted(unused)}; "
                "expected one value per blank"
            )
        return _BLANK.sub(lambda match: values[match.group(1)], self.text)


def load_prompt(package: str, name: str) -> Prompt:
    """The prompt `prompts/NAME.md` of a package, without an HTML comment at its head."""
    try:
        text = (resources.files(package) / "prompts" / f"{name}.md").read_text(encoding="utf-8")
    except (FileNotFoundError, ModuleNotFoundError) as error:
        raise PromptError(f"no prompt {name!r} in {package}/prompts; expected {name}.md") from error
    text = re.sub(r"\A\s*<!--.*?-->\s*", "", text, flags=re.DOTALL).strip()
    return Prompt(name, text, hashlib.sha256(text.encode()).hexdigest()[:12])
