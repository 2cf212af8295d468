"""Agreement of judges and of rankings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from heartloop.core.errors import UseError


def sign_agreement(a: Sequence[float], b: Sequence[float]) -> float:
    """Share of pairs with the same sign: both above 0, both 0, or both below 0 (RLVER's agreement of a judge).

    >>> sign_agreement([5.0, 0.0, -3.0, 2.0], [1.0, 0.0, 4.0, 0.0])
    0.5
    """
    if not a or len(a) != len(b):
        raise UseError(f"sign_agreement got {len(a)} and {len(b)} values; expected pairs, at least one")
    return float(np.mean(np.sign(a) == np.sign(b)))


def mean_pairwise_pearson(judges_by_models: npt.ArrayLike) -> float:
    """Agreement of judges: Pearson's r over the models, averaged over all pairs of judges; scores of shape (j, m).

    >>> round(mean_pairwise_pearson([[1, 2, 3], [2, 4, 6], [3, 2, 1]]), 4)  # r: 1, -1, -1
    -0.3333
    """
    scores_j_m = np.asarray(judges_by_models, dtype=np.float64)
    if scores_j_m.ndim != 2 or min(scores_j_m.shape) < 2:
        raise UseError(f"mean_pairwise_pearson got shape {scores_j_m.shape}; expected at least two judges by two models")
    _varied({f"judge {row}": list(scores) for row, scores in enumerate(scores_j_m.tolist(), start=1)})
    r_j_j: npt.NDArray[np.float64] = np.asarray(np.corrcoef(scores_j_m))
    return float(r_j_j[np.triu_indices(len(r_j_j), k=1)].mean())


def spearman(first: Mapping[str, float], second: Mapping[str, float]) -> float:
    """Spearman's rho between two rankings, scores by entry, over their common entries; ties share their mean rank.

    >>> round(spearman({"x": 1, "y": 2, "z": 3}, {"x": 10, "y": 30, "z": 20}), 4)
    0.5
    """
    from scipy.stats import rankdata  # a third of a second to import

    common = [entry for entry in first if entry in second]
    if len(common) < 2:
        raise UseError(f"the rankings share {len(common)} entries; expected at least two")
    scores = [[float(ranking[entry]) for entry in common] for ranking in (first, second)]
    _varied(dict(zip(("the first ranking", "the second ranking"), scores, strict=True)))
    return float(np.corrcoef(*map(rankdata, scores))[0, 1])


def kappa(ratings_n_j: Sequence[Sequence[float]]) -> float:
    """Agreement beyond chance on units that all raters rated: of two raters Cohen's kappa (1960), of more Fleiss's (1971).

    Chance is the share of equal pairs by each rater's own shares of ratings (Cohen), or by those of all together (Fleiss).

    >>> kappa([[1, 1], [1, 0], [0, 0], [1, 1]])  # 3 of 4 are equal; by chance 3/4 * 1/2 + 1/4 * 1/2
    0.5
    """
    raters = {len(unit) for unit in ratings_n_j}
    if len(raters) != 1 or (j := raters.pop()) < 2:
        raise UseError("kappa got no unit, or units with other numbers of ratings; expected two or more for each")
    values = sorted({rating for unit in ratings_n_j for rating in unit})
    if len(values) < 2:
        raise UseError(f"kappa got only ratings of {values[0]:g}; expected ratings that differ")
    given_n_j_v = np.array([[[rating == value for value in values] for rating in unit] for unit in ratings_n_j], dtype=float)
    counts_n_v, shares_j_v = given_n_j_v.sum(axis=1), given_n_j_v.mean(axis=0)
    observed = float((counts_n_v * (counts_n_v - 1)).sum(axis=1).mean()) / (j * (j - 1))
    chance = float((shares_j_v.prod(axis=0) if j == 2 else shares_j_v.mean(axis=0) ** 2).sum())
    return (observed - chance) / (1.0 - chance)


def nominal_alpha(ratings_j_n: Sequence[Sequence[float | None]]) -> float:
    """Krippendorff's alpha of ratings that are equal or not: 1 is agreement, 0 chance, below 0 systematic disagreement.

    Krippendorff 2011, Computing Krippendorff's Alpha-Reliability, part B to D: 1 - observed over expected disagreement, over the
    units with at least two ratings; missing ratings are left out.

    >>> nominal_alpha([[1, 2, 3, None], [1, 2, 4, 4]])  # of 6 ratings 4 are in equal pairs; 26 of 30 pairs by chance differ
    0.6153846153846154
    """
    if len({len(ratings) for ratings in ratings_j_n}) != 1:
        raise UseError(f"nominal_alpha got judges with {[len(r) for r in ratings_j_n]} units; expected the same for each")
    units = [[float(rating) for rating in unit if rating is not None] for unit in zip(*ratings_j_n, strict=True)]
    counts = [Counter(unit) for unit in units if len(unit) > 1]
    totals = sum(counts, Counter[float]())
    if not counts:
        raise UseError("nominal_alpha got no unit that two judges rated; expected at least one")
    if not np.isfinite(list(totals)).all():
        raise UseError("nominal_alpha got a rating that is not finite; expected finite ratings, or None for a missing one")
    if len(totals) < 2:
        raise UseError(f"nominal_alpha got only ratings of {next(iter(totals)):g}; expected ratings that differ")
    n = totals.total()
    equal = sum(times * (times - 1) / (count.total() - 1) for count in counts for times in count.values())
    return 1.0 - (n - equal) * (n - 1) / (n * n - sum(times * times for times in totals.values()))


def _varied(rows: Mapping[str, Sequence[float]]) -> None:
    for name, scores in rows.items():
        if not np.isfinite(scores).all():
            raise UseError(f"{name} has a score that is not finite; expected finite scores: leave that entry out")
        if min(scores) == max(scores):
            raise UseError(f"{name} has the same score {scores[0]:g} for all entries; expected scores that differ")
