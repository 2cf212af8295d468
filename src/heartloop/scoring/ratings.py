"""Ratings of models from comparisons of two: TrueSkill, with a margin as several wins, and the scale that two anchors fix."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from heartloop.core.errors import UseError


class Rating(NamedTuple):
    mean: float
    deviation: float


def trueskill(matches: Iterable[tuple[str, str, float]], *, most_wins: int, start: Rating, noise: float) -> dict[str, Rating]:
    """Ratings after matches, in the order given: TrueSkill for two players (Herbrich, Minka and Graepel 2006, section 3).

    A match is two names and the share of the first: 1 is its win by the largest margin, `most_wins` wins in a row; 0.5 is a draw.
    Between them wins are rounded up, in floating point as in EQ-Bench3's released code: a share on a step can count one more. A
    draw is the limit for a draw margin of 0. Skills do not drift (tau is 0); a performance deviates from them by `noise` (beta).
    """
    ratings: dict[str, Rating] = {}
    for first, second, share in matches:
        if first == second or not 0.0 <= share <= 1.0:
            raise UseError(
                f"trueskill got {first!r} against {second!r}, share {share!r}; expected two names and a share in [0, 1]"
            )
        winner, loser = (first, second) if share >= 0.5 else (second, first)
        pair = ratings.get(winner, start), ratings.get(loser, start)
        wins = min(most_wins, math.ceil(abs(share - 0.5) / (0.5 / most_wins)))
        for _ in range(max(1, wins)):
            pair = _after(*pair, noise, drawn=wins == 0)
        ratings[winner], ratings[loser] = pair
    return ratings


def _after(winner: Rating, loser: Rating, noise: float, *, drawn: bool) -> tuple[Rating, Rating]:
    from scipy.special import erfcx  # a quarter of a second to import

    spread = math.sqrt(2 * noise**2 + winner.deviation**2 + loser.deviation**2)
    ahead = (winner.mean - loser.mean) / spread
    # of the normal distribution at `ahead`, density over distribution, without underflow
    shift = -ahead if drawn else math.sqrt(2 / math.pi) / float(erfcx(-ahead / math.sqrt(2)))
    shrink = 1.0 if drawn else shift * (shift + ahead)

    def moved(one: Rating, sign: int) -> Rating:
        part = one.deviation**2 / spread
        return Rating(one.mean + sign * part * shift, one.deviation * math.sqrt(1 - part / spread * shrink))

    return moved(winner, 1), moved(loser, -1)


def anchored(means: Mapping[str, float], anchors: Mapping[str, float]) -> tuple[float, float] | None:
    """Slope and shift of the line that takes the means of two anchors to their given values; `None` without both."""
    (a, at_a), (b, at_b) = anchors.items()
    if a not in means or b not in means or means[a] == means[b]:
        return None
    slope = (at_a - at_b) / (means[a] - means[b])
    return slope, at_a - slope * means[a]
