"""The command that installs an extra of heartloop, from where heartloop itself was installed.

Covers a clone, an archive or a repository (PEP 610), and a package index. Does not install anything.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import metadata
from urllib.parse import unquote, urlsplit

__all__ = ["install_command", "install_command_from"]


@cache
def install_command(extra: str) -> str:
    """The command for this installation."""
    try:
        origin = metadata.distribution("heartloop").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        origin = None
    return install_command_from(origin, extra)


def install_command_from(origin: str | None, extra: str) -> str:
    """The command for an origin, the content of `direct_url.json`; `None` for an installation from an index.

    >>> install_command_from(None, "train")
    "pip install 'heartloop[train]'"
    >>> install_command_from('{"url": "file:///home/me/heartloop", "dir_info": {"editable": true}}', "train")
    "pip install -e '/home/me/heartloop[train]'"
    >>> install_command_from('{"url": "https://host/heartloop.git", "vcs_info": {"vcs": "git", "commit_id": "1f0e"}}', "train")
    "pip install 'heartloop[train] @ git+https://host/heartloop.git@1f0e'"
    """
    record = json.loads(origin) if origin else {}
    url = str(record.get("url", ""))
    if "dir_info" in record:
        editable = "-e " if record["dir_info"].get("editable") else ""
        return f"pip install {editable}'{unquote(urlsplit(url).path)}[{extra}]'"
    if "vcs_info" in record:
        at = record["vcs_info"]
        return f"pip install 'heartloop[{extra}] @ {at.get('vcs')}+{url}@{at.get('commit_id')}'"
    return f"pip install 'heartloop[{extra}]{f' @ {url}' if url else ''}'"
