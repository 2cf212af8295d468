"""EMPA's formulas: judged forms, the path of the state, energies, indices, EPM-Q, success, failure (section 3.4, App. B and C).

Presets. `paper`: as printed. `released`: as the authors' code computes it, which yields the published leaderboard. They differ in
the points of a level, the ideal direction, most denominators, and the end: only the code has a minimum of replies and defines
failure. The paper prints no threshold of Eq. 5: both presets take |P_0| for the energy (the "minimum deficit" of App. C.2.1;
released code) and `_NEAR` for the distance; `_TAU` is ours. A window without a judgement is excluded and listed, not zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from heartloop.core.errors import InputError

_Array = npt.NDArray[np.float64]

PRESETS = ("released", "paper")

AXES: tuple[Literal["C", "A", "P"], ...] = ("C", "A", "P")
"""Cognitive, affective and proactive empathy (EMPA Figure 4)."""

DEFICIT_POINTS: Mapping[str, tuple[int, int, int, int]] = {
    "C.1": (0, 2, 4, 6), "C.2": (0, 2, 4, 6), "C.3": (0, 3, 6, 9),
    "A.1": (0, 2, 4, 6), "A.2": (0, 4, 8, 12), "A.3": (0, 3, 6, 9),
    "P.1": (0, 2, 4, 6), "P.2": (0, 4, 8, 12), "P.3": (0, 3, 6, 9),
}  # fmt: skip

LEVELS: Mapping[str, tuple[int, int, int]] = {"Prog": (0, 1, 2), "Neg": (0, -1, -2)}

_PROGRESS = (0.0, 1.0, 3.0)
_REGRESS: Mapping[str, tuple[float, float, float]] = {"C": (0.0, -2.0, -4.0), "A": (0.0, -2.0, -5.0), "P": (0.0, -2.0, -5.0)}
"""Points of the levels in the released code."""

_WEIGHTS = (0.4, 0.2, 0.4)

_ALPHA, _NET, _DENSITY = 1.2, 1.5, 2.5
_ZONE = -1.0  # the released code measures distance to the zone in which every axis is at least this

_NEAR = 0.1  # epsilon, as a share of |P_0| (released results; the authors' README says 0.05)
_TAU = 0.5  # mean alignment above which a dialogue counts as companionship (ours: the paper prints none)
_NEGATIVE_RUN = 5  # windows of negative energy in a row that are a failure (released code, as all of `FailureSigns`)
_STAGNATION = (5, 0.5)  # latest positions, and the standard deviation of their |P| below which there is stagnation
_REGRESSION = (8, 0.7, -1.0)  # latest windows, share of negative ones and sum of energies that are exceeded in a regression


class Case(NamedTuple):
    """P_0, shape (D,), and one MDEP form per window; `None` for an unjudged window."""

    p0: Sequence[float]
    forms: Sequence[Mapping[str, int] | None]


class Trajectory(NamedTuple):
    """The path over J judged windows of D axes, in points of the preset; `unjudged` are the numbers of the other windows."""

    position: _Array
    """Shape (J + 1, D): P_0 first."""
    increment: _Array
    energy: _Array
    """Shape (J,): v_t . v*, positive if the deficit decreases."""
    alignment: _Array
    """Shape (J,): cosine of the angle between v_t and v*, in [-1, 1]; 0 if either is 0."""
    total: float
    net: _Array
    """Shape (J,): sum of the levels over all axes."""
    regress: _Array
    """Shape (J,): sum of the absolute regress levels over all axes."""
    judged: tuple[int, ...]
    unjudged: tuple[int, ...]

    @property
    def distance(self) -> _Array:
        return np.asarray(np.linalg.norm(self.position, axis=1))

    @property
    def size(self) -> _Array:
        return np.asarray(np.linalg.norm(self.increment, axis=1))

    def until(self, windows: int) -> Trajectory:
        names = ("increment", "energy", "alignment", "net", "regress", "judged")
        by_window = {name: getattr(self, name)[:windows] for name in names}
        unjudged = tuple(n for n in self.unjudged if windows >= len(self.judged) or n < self.judged[windows])
        total = float(self.energy[:windows].sum())
        return self._replace(position=self.position[: windows + 1], total=total, unjudged=unjudged, **by_window)


class Indices(NamedTuple):
    """The nine indices of a dialogue, or their means over dialogues. Higher is better in all; some have no upper bound."""

    rdi: float
    """Decrease of the distance to the balance, [0, 100]; 50 is no change."""
    energy: float
    """E_total relative to the deficit, from 0, no upper bound."""
    net: float
    """Net score relative to the deficit, from 0, no upper bound."""
    density: float
    """E_total per judged window, from 0, no upper bound."""
    projection: float
    """Mean energy, from 0, no upper bound."""
    tortuosity: float
    """Length of the path over its displacement, [0, 100]: ratio 1 is 100, ratio 3 or more is 0."""
    positive: float
    """Share of windows with positive energy, [0, 100]."""
    alignment: float
    """Mean alignment, [0, 100]; 50 is orthogonal."""
    penalty: float
    """Regress levels per window, [0, 100]; 100 is no regress."""


INDICES: Mapping[str, tuple[str, str, str]] = {
    "outcome": ("rdi", "energy", "net"),
    "efficiency": ("density", "projection", "tortuosity"),
    "stability": ("positive", "alignment", "penalty"),
}


class EpmQ(NamedTuple):
    indices: Indices
    outcome: float
    efficiency: float
    stability: float
    score: float


class SuccessSigns(NamedTuple):
    """The energy gate and the conditions of success; `None` if the preset does not have the condition."""

    gate: bool
    """E_total > |P_0|, required for success (EMPA Eq. 5); `released` has >= here and <= in the next."""
    resolution: bool
    """|P| < epsilon |P_0|."""
    position: bool | None
    """P . v*_0 >= -epsilon |P_0|: the distance of the start was covered in its direction (`released`)."""
    companionship: bool | None
    """Mean alignment > tau (`paper`)."""

    @property
    def reached(self) -> bool:
        return self.gate and bool(self.resolution or self.position or self.companionship)


class FailureSigns(NamedTuple):
    """The three detectors of the released code, over the latest judged windows; `None` in `paper`, which defines no failure."""

    negative_run: bool | None = None
    stagnation: bool | None = None
    regression: bool | None = None

    @property
    def detected(self) -> bool:
        return bool(self.negative_run or (self.stagnation and self.regression))


def form_keys(axes: Sequence[str] = AXES) -> tuple[str, ...]:
    return tuple(f"{axis}.{side}" for axis in axes for side in LEVELS)


def deficit(form: Mapping[str, int]) -> _Array:
    """P_0 of an IEDR form, level by indicator: shape (D,), all at most 0 (EMPA section 3.4).

    >>> deficit({"C.1": 1, "C.2": 0, "C.3": 3, "A.1": 2, "A.2": 3, "A.3": 0, "P.1": 0, "P.2": 1, "P.3": 1}).tolist()
    [-11.0, -16.0, -7.0]
    """
    _check_keys("IEDR", form, DEFICIT_POINTS)
    deficits: dict[str, float] = dict.fromkeys(AXES, 0.0)
    for name, level in form.items():
        _check_level(name, level, range(len(DEFICIT_POINTS[name])))
        deficits[name[0]] -= DEFICIT_POINTS[name][level]
    return np.array(list(deficits.values()))


def shares_of(p0: Sequence[float]) -> dict[Literal["C", "A", "P"], float]:
    """The deficit of each axis as a share of its maximum, in [0, 1]."""
    most = deficit(dict.fromkeys(DEFICIT_POINTS, 3))
    return {axis: float(x / y) for axis, x, y in zip(AXES, p0, most, strict=True)}


def increment(form: Mapping[str, int], *, preset: str) -> _Array:
    """v of an MDEP form: shape (D,), points of progress plus points of regress per axis (EMPA Eq. 8; released code).

    In `paper` the levels are the points; in `released` progress has 0, 1, 3 and regress 0, -2, -5 (on C -4).

    >>> levels = {"C.Prog": 2, "C.Neg": 0, "A.Prog": 1, "A.Neg": -1, "P.Prog": 0, "P.Neg": -2}
    >>> increment(levels, preset="paper").tolist(), increment(levels, preset="released").tolist()
    ([2.0, 0.0, -2.0], [3.0, -1.0, -5.0])
    """
    _check_preset(preset)
    progress, regress = _levels(form)
    if preset == "paper":
        return np.array([float(up + down) for up, down in zip(progress, regress, strict=True)])
    return np.array([_PROGRESS[up] + _REGRESS[axis][-down] for axis, up, down in zip(AXES, progress, regress, strict=True)])


def trace(dialogue: Case, *, preset: str) -> Trajectory:
    """The path of a dialogue (EMPA Eq. 3 and 4).

    The ideal direction is -P/|P| before the window in `paper`, -P_0/|P_0| in `released`. If P is 0, the energy is 0.
    """
    p0, forms = dialogue
    start = np.asarray(p0, dtype=float)
    if start.shape != (len(AXES),) or not np.isfinite(start).all():
        raise InputError(f"P_0 is {p0!r}; expected {len(AXES)} finite numbers, one per axis ({', '.join(AXES)})")
    judged = [(number, form) for number, form in enumerate(forms) if form is not None]
    levels = [_levels(form) for _, form in judged]
    v = np.array([increment(form, preset=preset) for _, form in judged], dtype=float).reshape(len(judged), len(AXES))
    position = np.vstack([start, start + np.cumsum(v, axis=0)])
    state = position[:-1] if preset == "paper" else np.tile(start, (len(judged), 1))
    work = -(v * state).sum(axis=1)  # exact for integers: an orthogonal step has energy 0
    distance, size = np.linalg.norm(state, axis=1), np.linalg.norm(v, axis=1)
    energy = np.divide(work, distance, out=np.zeros_like(work), where=distance > 0)
    alignment = np.divide(energy, size, out=np.zeros_like(energy), where=size > 0)
    return Trajectory(
        position=position,
        increment=v,
        energy=energy,
        alignment=np.clip(alignment, -1.0, 1.0),
        total=float(energy.sum()),
        net=np.array([float(sum(up) + sum(down)) for up, down in levels]),
        regress=np.array([float(-sum(down)) for _, down in levels]),
        judged=tuple(number for number, _ in judged),
        unjudged=tuple(number for number, form in enumerate(forms) if form is None),
    )


def indices_of(path: Trajectory, *, preset: str) -> Indices:
    """The nine indices of a dialogue (EMPA App. C.2, Table 10; released code).

    `released` measures distance to the zone where every axis is at least -1, divides by that distance, counts the start as one
    more window without effect, and computes `net` from levels instead of points. Ours: tortuosity is 0 if the path ends where it
    began; the greatest intensity of `paper` is 2 sqrt(D), and the range of the penalty is [0, D].
    """
    _check_preset(preset)
    windows = len(path.energy)
    if not windows:
        raise InputError("the dialogue has no judged window; expected at least one")
    released = preset == "released"
    distance = np.linalg.norm(np.minimum(path.position - _ZONE, 0.0), axis=1) if released else path.distance
    r0, end = float(distance[0]), float(distance[-1])
    if r0 <= 0.0:
        raise InputError(f"P_0 is {path.position[0].tolist()}; expected a deficit on at least one axis")
    counted = windows + 1 if released else windows
    most = _DENSITY if released else 2.0 * float(np.sqrt(len(AXES)))
    net = path.net.sum() / (_NET * r0) if released else path.increment.sum() / (_ALPHA * r0)
    length = float(path.size.sum())
    displacement = float(np.linalg.norm(path.position[-1] - path.position[0]))
    return Indices(
        rdi=_scaled((r0 - end) / r0, -1.0, 1.0),
        energy=100.0 * max(0.0, path.total) / ((_ALPHA if released else 1.0) * r0),
        net=100.0 * max(0.0, float(net)),
        density=100.0 * max(0.0, path.total / windows) / most,
        projection=100.0 * max(0.0, path.total / counted) / most,
        tortuosity=_scaled(length / displacement, 3.0, 1.0) if displacement > 0 else 0.0,
        positive=100.0 * float((path.energy > 0).sum()) / counted,
        alignment=_scaled(float(path.alignment.sum()) / counted, -1.0, 1.0),
        penalty=_scaled(float(path.regress.sum()) / counted, float(len(AXES)), 0.0),
    )


def epmq(dialogues: Sequence[Case], *, preset: str) -> EpmQ:
    """EPM-Q over dialogues: means of the indices, the three components, the composite (EMPA Eq. 15 and 16)."""
    if not dialogues:
        raise InputError("there is no dialogue to score; expected at least one")
    rows = np.array([indices_of(trace(dialogue, preset=preset), preset=preset) for dialogue in dialogues])
    return composed(Indices(*map(float, rows.mean(axis=0))))


def composite(outcome: float, efficiency: float, stability: float) -> float:
    return sum(weight * part for weight, part in zip(_WEIGHTS, (outcome, efficiency, stability), strict=True))


def composed(indices: Indices) -> EpmQ:
    values = indices._asdict()
    outcome, efficiency, stability = (float(np.mean([values[name] for name in names])) for names in INDICES.values())
    return EpmQ(indices, outcome, efficiency, stability, composite(outcome, efficiency, stability))


def reached(path: Trajectory, *, preset: str) -> SuccessSigns:
    """The conditions of success after the latest window (EMPA Eq. 5; released code)."""
    _check_preset(preset)
    first, last = path.position[0], path.position[-1]
    r0, distance = float(np.linalg.norm(first)), float(np.linalg.norm(last))
    if preset == "paper":
        companionship = bool(len(path.alignment)) and float(path.alignment.mean()) > _TAU
        return SuccessSigns(path.total > r0, distance < _NEAR * r0, None, companionship)
    ahead = -float(last @ first) / r0 if r0 > 0 else 0.0
    gate = bool(len(path.energy)) and path.total >= r0
    return SuccessSigns(gate, distance <= _NEAR * r0, ahead >= -_NEAR * r0, None)


def failure(path: Trajectory, *, preset: str) -> FailureSigns:
    if preset == "paper":
        return FailureSigns()
    windows, share, sum_below = _REGRESSION
    positions, spread = _STAGNATION
    recent = path.energy[-windows:]
    return FailureSigns(
        negative_run=len(path.energy) >= _NEGATIVE_RUN and bool((path.energy[-_NEGATIVE_RUN:] < 0).all()),
        stagnation=len(path.energy) >= positions and float(path.distance[-positions:].std(ddof=1)) < spread,
        regression=len(recent) == windows and float((recent < 0).mean()) > share and float(recent.sum()) < sum_below,
    )


def _scaled(x: float, zero: float, hundred: float) -> float:
    """EMPA Eq. 14: linear, 0 at `zero` and 100 at `hundred`, clipped to [0, 100]."""
    return float(min(100.0, max(0.0, 100.0 * (x - zero) / (hundred - zero))))


def _levels(form: Mapping[str, int]) -> tuple[list[int], list[int]]:
    _check_keys("MDEP", form, form_keys())
    for key in form_keys():
        _check_level(key, form[key], LEVELS[key[2:]])
    return [int(form[f"{axis}.Prog"]) for axis in AXES], [int(form[f"{axis}.Neg"]) for axis in AXES]


def _check_keys(name: str, form: Mapping[str, int], keys: Sequence[str] | Mapping[str, object]) -> None:
    if form.keys() != set(keys):
        odd = sorted(form.keys() ^ set(keys))
        raise InputError(f"the {name} form is wrong at {', '.join(odd)}; expected {', '.join(keys)}")


def _check_level(name: str, level: int, allowed: Sequence[int]) -> None:
    if isinstance(level, bool) or level not in allowed:
        raise InputError(f"level of {name} is {level!r}; expected one of {', '.join(map(str, allowed))}")


def _check_preset(preset: str) -> None:
    if preset not in PRESETS:
        raise InputError(f"unknown preset {preset!r}; expected {' or '.join(PRESETS)}")
