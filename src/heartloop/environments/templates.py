"""Templates of `heartloop scenarios new`: a complete, commented example of an environment, and its short form.

Covers the text of the file. Does not cover the fields (each environment's `scenarios/template.yaml`), nor reading (`sources`).
The lines between `#+ embedded` and `#- embedded` are read by embedded roles only; the short form omits them.
"""

from __future__ import annotations

import re
from importlib import resources

from heartloop.core.errors import UseError
from heartloop.environments.spec import EnvironmentSpec

__all__ = ["template_of"]

_ONLY_EMBEDDED = re.compile(r"^ *#\+ embedded\n.*?^ *#- embedded\n", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"^ *#[+-] embedded\n", re.MULTILINE)


def template_of(spec: EnvironmentSpec, file: str, *, short: bool = False) -> str:
    """The YAML text of a template, an example that is played as it is.

    Args:
        file: name of the file that it will be, for the commands in its header.
        short: omit what only embedded roles read.

    Raises:
        UseError: the environment has no template.
    """
    if not spec.scenarios.template:
        raise UseError(
            f"{spec.name} has no scenarios of its own form, so there is no template; see `heartloop environments show`"
        )
    body = (resources.files(spec.scenarios.template) / "scenarios" / "template.yaml").read_text(encoding="utf-8")
    body = _MARK.sub("", _ONLY_EMBEDDED.sub("", body) if short else body)
    user = "MODEL" if short else "embedded"
    form = "in the short form, for models in all roles" if short else "for the embedded roles and for models"
    header = [
        f"A scenario of {spec.title}, {form}. A complete example: replace its texts by your own.",
        f"  heartloop scenarios check {file}",
        f"  heartloop eval {spec.name} --scenarios {file} --model MODEL --user {user}",
        'Texts stand in quotes; write \\" for a quote inside. Further scenarios follow after a line that says ---.',
        "The example is made up and licensed CC BY 4.0.",
    ]
    return "".join(f"# {line}\n" for line in header) + "\n" + body
