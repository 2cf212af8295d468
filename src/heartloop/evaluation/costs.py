"""Cost of dialogues, by the same rule as the meter of a run (`heartloop.models.budget`). Does not cover limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from heartloop.core.dialogue import Transcript, Usage
from heartloop.models.budget import DEAREST, Price, is_paid

__all__ = ["cost_of", "cost_of_usage", "merged_prices"]


def cost_of(dialogues: Iterable[Transcript], prices: object) -> float | None:
    """Cost of dialogues; `None` if a paid model was called and has no price.

    A free model (scripted, embedded, a Python function, a local server) without a price costs 0. Earlier transcripts of dialogues
    that were played again are not included.

    Args:
        prices: input and output price per million tokens by model, as a mapping or a pair; other values are ignored.
    """
    return cost_of_usage(
        ((dialogue.models.get(role, dialogue.model), usage) for dialogue in dialogues for role, usage in dialogue.usage.items()),
        prices,
    )


def cost_of_usage(usages: Iterable[tuple[str, Usage]], prices: object) -> float | None:
    """Cost of what models used, each with its name; `None` if a paid model has no price."""
    total = 0.0
    for model, usage in usages:
        price = _price(model, prices)
        if price is None:
            return None
        total += price.of(usage.prompt_tokens, usage.completion_tokens)
    return total


def merged_prices(tables: Iterable[object]) -> dict[str, object]:
    """Prices of several runs in one table; a model that they price differently gets none, so that no cost is wrong."""
    merged: dict[str, object] = {}
    for table in tables:
        for model, price in table.items() if isinstance(table, Mapping) else ():
            same = model not in merged or _sides(merged[model]) == _sides(price)
            merged[model] = price if same else None
    return merged


def _price(model: str, prices: object) -> Price | None:
    given = prices.get(model) if isinstance(prices, Mapping) else None
    return _sides(given) or (None if is_paid(model) else Price(0.0, 0.0))


def _sides(given: object) -> Price | None:
    """A price from a mapping or a pair; `None` if it is invalid."""
    pair = (given.get("input"), given.get("output")) if isinstance(given, Mapping) else given
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        return None
    if not all(isinstance(side, (int, float)) and 0 <= side < DEAREST for side in pair):
        return None
    return Price(float(pair[0]), float(pair[1]))
