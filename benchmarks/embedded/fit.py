"""Fits the embedded user's reader from the data of this repository: `python -m benchmarks.embedded fit`

One ridge regression on hashed n-grams, counts and a kernel to 1,500 of the replies. The worth is fitted on plain replies and
recorded dialogues; counts have further weights by environment. Errors on kind replies cost most, since they are what most people
type. Then `lean` is added to the worth of short replies in their writer's own words: under squared loss what cannot be told apart
is predicted between kind and cold, and `lean` makes as many kind replies fall below 0 as rude ones rise above it. Insults and
danger are fitted on plain replies and one-liners, aspects and strategies on the judged replies. Held-out predictions, by folds of
scenarios, give `lean` and the thresholds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, hstack

from benchmarks.embedded.examples import (
    JUDGED,
    JUDGED_AT,
    Aspects,
    Example,
    aspects,
    one_liners,
    plain_replies,
    readings,
    recorded,
)
from heartloop.fitting.ridge import COUNTS_WEIGHT, Design, Floats, Mask, correlation, design_of, linear_of, predict_folds, solve
from heartloop.reader.aspects import ASPECTS, STRATEGIES
from heartloop.reader.features import COUNTS, Context, FeatureLayout, features_of, unreadable
from heartloop.reader.harm import plain_harm
from heartloop.reader.model import SHARPNESS, Landmarks, ReaderModel, WordTable, WordVectors
from heartloop.reader.reader import EMBEDDED_WEIGHTS, WORTH, leaned, short_share

LAYOUT = FeatureLayout(bits=15, words=(1, 2), characters=(3, 4, 5))
ALPHA, LANDMARKS, FOLDS = 10.0, 1_500, 4
COSTS: Mapping[str, float] = {"specific": 12.0, "plain": 12.0, "rude": 6.0}
OTHERS_COST, RECORDED_COST, JUDGED_COST = 4.0, 16.0, 6.0
KIND = ("specific", "plain")
ONE_ANSWER = ("perm", "daily")
"""Environments whose judged replies have grades that say little about what is worse than silence; they give aspects only."""
FALSE_ALARMS = 0.01
HARMLESS = ("good", "near", "neutral")
HARM_ALPHA, LINE_COST = 4.0, 3.0
_TOGETHER: Mapping[str, int] = {"sage": 0, "eibench": 1, "empa": 2, "perm": 3, "daily": 3}
"""Environments with weights of the counts of their own; answers to one message share theirs."""
_OWN_WEIGHT, _NEAR_WEIGHT, _RIDGE = 0.06, 1.5, 1e-3


class Rows(NamedTuple):
    """Features of replies, of which each fit takes a part."""

    design: Design
    near: Any
    """Sparse, shape (rows, landmarks): the kernel, made white."""
    landmarks: Landmarks
    """Without weights."""
    root: Floats
    """What whitens the kernel, shape (landmarks, landmarks)."""

    @property
    def shared(self) -> Any:
        return hstack([self.design.matrix, self.near], format="csr")


def rows_of(replies: Sequence[tuple[str, Context]], words: WordVectors, candidates: int) -> Rows:
    """Landmarks are drawn from the first replies, the candidates."""
    features = [features_of(reply, context, LAYOUT) for reply, context in replies]
    inputs = np.array([np.concatenate([f.counts, words.mean(reply)]) for f, (reply, _) in zip(features, replies, strict=True)])
    center, spread = inputs[:candidates].mean(0), inputs[:candidates].std(0) + np.float32(1e-6)
    chosen = np.sort(np.random.default_rng(0).permutation(candidates)[:LANDMARKS])
    points = (inputs[chosen] - center) / spread
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    landmarks = Landmarks(center, spread, points.astype(np.float16), np.zeros((len(points), 0), np.float16))
    wide = landmarks.points.astype(np.float64)
    values, basis = np.linalg.eigh(np.exp(SHARPNESS * (wide @ wide.T - 1.0)))
    root = basis / np.sqrt(np.maximum(values, 0.0) + _RIDGE) * _NEAR_WEIGHT
    return Rows(design_of(features, LAYOUT), csr_matrix(landmarks.near(inputs) @ root), landmarks, root)


def own_columns(examples: Sequence[Example], counts: Any) -> Any:
    """Counts and a constant by environment, then a constant by environment and counts of judged replies, sparse.

    The judges of data/judged_replies, who saw other replies beside, were stricter with what could be said to anybody; their own
    columns take that up and are left out of the model.
    """
    names = list(readings())
    place = np.array([_TOGETHER[one.environment] for one in examples])
    number = np.array([names.index(one.environment) for one in examples])[:, None] == np.arange(len(names))
    judged = np.array([one.where == JUDGED_AT for one in examples])[:, None]
    scaled = counts * (_OWN_WEIGHT / COUNTS_WEIGHT)
    blocks = [scaled.multiply((place == n)[:, None]) for n in sorted(set(_TOGETHER.values()))]
    return hstack(
        [*blocks, csr_matrix(number * 1.0), csr_matrix(number & judged, dtype=float), scaled.multiply(judged)], format="csr"
    )


def folds_of(scenarios: Sequence[str]) -> list[tuple[Mask, Mask]]:
    names, place = np.unique(scenarios, return_inverse=True)
    fold = np.random.default_rng(0).integers(0, FOLDS, len(names))[place]
    return [(fold != n, fold == n) for n in range(FOLDS)]


def cost_of(example: Example) -> float:
    if example.where == JUDGED_AT:
        return JUDGED_COST
    if np.isnan(example.insults):
        return RECORDED_COST
    return COSTS.get(example.kind, OTHERS_COST)


def leans(examples: Sequence[Example], rows: Rows, predicted: Floats) -> dict[str, float]:
    """By environment, what makes kind replies fall below 0 as often as rude ones rise above it; never below 0."""
    place = COUNTS.index("copied_share")
    raw = rows.design.matrix[: len(examples), LAYOUT.buckets + place].toarray()[:, 0]
    copied = raw / COUNTS_WEIGHT * rows.design.spread[place] + rows.design.center[place]
    share = np.array([short_share(len(one.reply.split())) for one in examples]) * (1.0 - copied)
    found = {}
    for name in readings():
        mine = np.array([one.environment == name for one in examples])
        kind = mine & np.array([one.kind in KIND for one in examples])
        rude = mine & np.array([one.kind == "rude" for one in examples])
        tried = np.arange(0.0, 0.31, 0.01)
        misses = [
            (np.mean(leaned(predicted[kind], b * share[kind]) <= 0), np.mean(leaned(predicted[rude], b * share[rude]) >= 0))
            for b in tried
        ]
        found[name] = round(float(tried[np.argmin([max(pair) for pair in misses])]), 2)
    return found


def fit() -> tuple[ReaderModel, Floats, list[Example]]:
    """The reader, and the held-out worth, before `lean`, of each plain and recorded reply."""
    examples = [*plain_replies(), *(one for dialogue in recorded() for one in dialogue.replies)]
    examples = [one for one in examples if any(map(str.isalnum, one.reply)) and not unreadable(one.reply)]
    lines, nothing = list(one_liners()), Context(("",))
    judged = sorted(aspects(), key=lambda one: one.example.environment in ONE_ANSWER)
    scored = [*examples, *(one.example for one in judged if one.example.environment not in ONE_ANSWER)]
    words = WordVectors(table := read_table())
    replies = [(one.reply, one.context) for one in (*examples, *(one.example for one in judged))]
    rows = rows_of([*replies, *((line, nothing) for _, line in lines)], words, len(examples))
    shared, count, width = rows.shared, len(examples), len(COUNTS)

    own = own_columns(scored, rows.design.matrix[: len(scored), LAYOUT.buckets :])
    matrix = hstack([shared[: len(scored)], own], format="csr")
    worth, costs = np.array([[one.worth] for one in scored]), np.array(list(map(cost_of, scored)))
    kept = np.arange(matrix.shape[1]) < matrix.shape[1] - len(readings()) - width  # what is left are columns of judged replies
    held_out = np.zeros(count)
    for train, test in folds_of([one.scenario for one in scored]):
        mean = worth[train].mean(0)
        solved = solve(matrix[train], worth[train] - mean, ALPHA, costs[train])
        mine = np.flatnonzero(test[:count])
        held_out[mine] = (mean + matrix[mine][:, kept] @ solved[kept])[:, 0]
    mean = worth.mean(0)
    solved = solve(matrix, worth - mean, ALPHA, costs)

    marks = np.array([one.marks for one in judged])
    of_judged = shared[count : count + len(judged)]
    of_marks = solve(of_judged, marks - marks.mean(0), ALPHA)
    usual = (shared[:count] @ of_marks) + marks.mean(0)
    strategies, cuts, base = _strategies(of_judged, judged)
    of_harm, harm_mean, least = _harms(examples, judged, lines, shared)

    columns, offsets = [], []
    for n, name in enumerate(readings()):
        column = solved[: shared.shape[1], 0].copy()
        start = shared.shape[1] + _TOGETHER[name] * width
        column[LAYOUT.buckets : LAYOUT.buckets + width] += solved[start : start + width, 0] * (_OWN_WEIGHT / COUNTS_WEIGHT)
        columns.append(column)
        offsets.append(mean[0] + solved[shared.shape[1] + (max(_TOGETHER.values()) + 1) * width + n, 0])
    weights = np.column_stack([of_marks, strategies, of_harm, *columns])
    outputs = (*ASPECTS, *STRATEGIES, "insults", "endangers", *(WORTH + name for name in readings()))
    offset = np.concatenate([marks.mean(0), base, harm_mean, offsets])
    linear = linear_of(rows.design, weights[: LAYOUT.buckets + width], offset, outputs)
    card: dict[str, Any] = {
        "replies": len(scored),
        "lean": leans(examples, rows, held_out),
        "least": least,
        "strategies": cuts,
        "aspects": {"usual": np.round(usual.mean(0), 3).tolist(), "spread": np.round(usual.std(0), 3).tolist()},
    }
    near = rows.root @ weights[LAYOUT.buckets + width :]
    landmarks = rows.landmarks._replace(weights=near.astype(np.float16))
    return ReaderModel(linear.rounded()._replace(card=card), table, landmarks), held_out, examples


def _strategies(matrix: Any, judged: Sequence[Aspects]) -> tuple[Floats, dict[str, float], Floats]:
    """A fit of each strategy; a strategy's threshold is where it is named as often as it was labelled."""
    rows = np.array([one.strategies is not None for one in judged])
    used = np.array([[float(name in (one.strategies or ())) for name in STRATEGIES] for one in judged])[rows]
    number = np.random.default_rng(0).integers(0, FOLDS, len(used))
    predicted = predict_folds(matrix[rows], used, [(number != n, number == n) for n in range(FOLDS)], ALPHA)
    share = used.mean(0)
    cuts = {name: round(float(np.quantile(predicted[:, n], 1.0 - share[n])), 3) for n, name in enumerate(STRATEGIES)}
    return solve(matrix[rows], used - share, ALPHA), cuts, share


def _harms(
    examples: Sequence[Example], judged: Sequence[Aspects], lines: Sequence[tuple[str, str]], matrix: Any
) -> tuple[Floats, Floats, dict[str, float]]:
    """A fit of insults and danger on all replies whose harm was judged and on one-liners, and thresholds.

    A threshold lets `FALSE_ALARMS` pass among harmless one-liners and among harmless plain replies, together with the rule for
    plain cases.
    """
    asked = np.array([*(not np.isnan(one.insults) for one in examples), *(True for _ in (*judged, *lines))])
    plain = [one for one in examples if not np.isnan(one.insults)]
    hostility, danger = ASPECTS.index("hostility"), ASPECTS.index("danger")
    wanted = np.array(
        [
            *((one.insults, one.endangers) for one in plain),
            *((one.marks[hostility] / 4.0, one.marks[danger] / 4.0) for one in judged),
            *((float(kind == "insult"), float(kind == "danger")) for kind, _ in lines),
        ]
    )
    costs = np.array([1.0] * len(plain) + [0.5] * len(judged) + [LINE_COST] * len(lines))
    number = np.random.default_rng(0).integers(0, FOLDS, len(wanted))
    folds = [(number != n, number == n) for n in range(FOLDS)]
    predicted = predict_folds(matrix[asked], wanted, folds, HARM_ALPHA, costs)
    texts = [*(one.reply for one in plain), *("" for _ in judged), *(line for _, line in lines)]
    ruled = np.array([bool(plain_harm(text)) for text in texts])
    start = len(plain) + len(judged)
    harmless_lines = np.array([n >= start and lines[n - start][0] in HARMLESS for n in range(len(wanted))])
    harmless_plain = np.array([n < len(plain) and plain[n].kind in KIND and not wanted[n].any() for n in range(len(wanted))])
    least = {
        name: round(max(_threshold(predicted[rows, n], ruled[rows]) for rows in (harmless_lines, harmless_plain)), 3)
        for n, name in enumerate(("insults", "endangers"))
    }
    over = (predicted >= list(least.values())).any(1)
    for kind in dict.fromkeys(kind for kind, _ in lines):
        mine = np.array([n >= start and lines[n - start][0] == kind for n in range(len(wanted))])
        print(kind, f"by the rule {ruled[mine].mean():.0%}, held out with the fit {(ruled | over)[mine].mean():.0%}")
    return solve(matrix[asked], wanted - wanted.mean(0), HARM_ALPHA, costs), wanted.mean(0), least


def _threshold(predicted: Floats, ruled: Mask) -> float:
    """Half of the false alarms that the rule leaves."""
    left = max(0.001, (FALSE_ALARMS - float(ruled.mean())) / 2)
    return float(np.quantile(predicted[~ruled], 1.0 - left))


def read_table() -> WordTable:
    with np.load(JUDGED / "word_vectors.npz", allow_pickle=False) as file:
        return WordTable(tuple(file["words"].tobytes().decode().split("\n")), file["steps"])


def main() -> None:
    model, held_out, examples = fit()
    EMBEDDED_WEIGHTS.write_bytes(model.to_bytes())
    print(
        EMBEDDED_WEIGHTS.name,
        model.hash,
        len(EMBEDDED_WEIGHTS.read_bytes()),
        "bytes",
        model.linear.card["lean"],
        model.linear.card["least"],
    )
    worth = np.array([one.worth for one in examples])
    for name in readings():
        mine = np.array([one.environment == name for one in examples])
        print(name, mine.sum(), "replies, r of held-out worth", correlation(worth[mine], held_out[mine]))


if __name__ == "__main__":
    main()
