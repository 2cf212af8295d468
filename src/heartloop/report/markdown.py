"""Markdown of replies as nodes that the page builds, so that no markup of a model reaches it.

CommonMark and tables by markdown-it-py. HTML, links, images and definitions of links are shown as they are written, and a line of
dashes under a text makes no heading.
"""

from __future__ import annotations

from typing import Any

from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode

from heartloop.core.text import printable

_LITERAL = ("html_block", "html_inline", "link", "image", "autolink", "reference", "lheading", "code", "entity")
_PARSER = MarkdownIt("commonmark", {"html": False}).enable("table").disable(_LITERAL)
_BREAKS = {"softbreak", "hardbreak"}


def nodes_of(text: str) -> list[Any] | None:
    """Texts and `[tag, *children]`, of a list that begins later its first number too; `None` for a text without any Markdown.

    >>> nodes_of("Be **kind**.")
    [['p', 'Be ', ['strong', 'kind'], '.']]
    >>> nodes_of("<b>Be</b> [kind](javascript:alert(1)).") is None
    True
    """
    tree = SyntaxTreeNode(_PARSER.parse(printable(text)))
    if all(node.type in {"root", "paragraph", "inline", "text", *_BREAKS} for node in tree.walk()):
        return None
    return _children(tree)


def _children(node: SyntaxTreeNode) -> list[Any]:
    built: list[Any] = []
    for child in node.children:
        if child.type == "text" or child.type in _BREAKS:
            text = "\n" if child.type in _BREAKS else child.content
            if built and isinstance(built[-1], str):
                text = built.pop() + text
            built += [text] if text else []
        elif child.type in ("code_inline", "fence"):
            built.append(["pre" if child.type == "fence" else "code", child.content.removesuffix("\n")])
        elif child.type == "inline" or child.hidden:  # a paragraph of a tight list
            built += _children(child)
        elif child.type == "heading":  # one would break the order of the page's own
            built.append(["p", ["strong", *_children(child)]])
        else:
            built.append([child.tag, *([child.attrs["start"]] if "start" in child.attrs else []), *_children(child)])
    return built
