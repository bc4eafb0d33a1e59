"""The iterations of MAG1C, without their cost.

With a = R alpha (albedo factor times enhancement) three things make it cheap and change no result:

- The data of every iteration are `x - a t^T`, t being the last target. So each mean is the first one less `mean(a) t`,
  and each covariance the first one with a correction of rank two, `C0 - q t^T - t q^T + var(a) t t^T`, `q = cov(x, a)`,
  whose inverse follows from the first one's. Only `X^T a` is needed from the pixels.
- A pixel that reaches zero stays there: its sparsity weight is then 1e9. So soon a few per cent of the pixels are left.
- R divides only at the end, so dark pixels cannot upset the iterations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32, Float64, Int

from flame.filters.background import Background
from flame.filters.errors import OTHER_BANDS, FilterError
from flame.filters.pixels import Block, Pixels
from flame.filters.whitening import whitening

__all__ = ["EPSILON", "Mag1cFit", "fit", "reweight"]

EPSILON = 1e-9
"""Keeps the sparsity weight finite, in 100,000 ppm m. So small that a pixel at zero never leaves it."""

_WORTH_KEEPING = 0.75
Spectrum: TypeAlias = Float64[np.ndarray, " band"]


@dataclass(frozen=True, eq=False)
class Mag1cFit:
    """What the last iteration knew of the background, and what it made of the pixels.

    Attributes:
        mean: Mean spectrum without the methane found.
        weight: `C^-1 t`, the whitened target.
        normaliser: `t^T C^-1 t`, at least 1.
        signal: a = albedo factor times enhancement of each pixel, in 100,000 ppm m, 0 at pixels that were not used.
    """

    mean: Spectrum
    weight: Spectrum
    normaliser: float
    signal: Float32[np.ndarray, " pixel"]


def reweight(
    response: Float32[np.ndarray, " pixel"], signal: Float32[np.ndarray, " pixel"], normaliser: float
) -> Float32[np.ndarray, " pixel"]:
    """One step of eq:mag1c_iter in a: `max((response - 1 / (a + EPSILON)) / normaliser, 0)`.

    The paper's delta is multiplied by R here; beside any a that survives both vanish.

    Args:
        response: `(x - mean)^T C^-1 t`.
        signal: a of the step before.
        normaliser: `t^T C^-1 t`.
    """
    new = signal + np.float32(EPSILON)
    np.reciprocal(new, out=new)
    np.subtract(response, new, out=new)
    new *= np.float32(1.0 / normaliser)
    return np.asarray(np.maximum(new, 0.0, out=new))


@dataclass(frozen=True, eq=False)
class _State:
    """The background of one iteration: mean, target t, `C^-1 t`, and `t^T C^-1 t`."""

    mean: Spectrum
    target: Spectrum
    weight: Spectrum
    normaliser: float


@dataclass(frozen=True, eq=False)
class _Active:
    """The pixels not yet at zero.

    Attributes:
        where: Where they stand in the image.
        pixels: Their spectra less `centre`.
        signal: Their a.
        centre: What was taken from the spectra.
        products: Sum of these spectra, each times its a.
        total: Sum of a.
        squares: Sum of a squared.
    """

    where: Int[np.ndarray, " pixel"]
    pixels: Pixels
    signal: Float32[np.ndarray, " pixel"]
    centre: Spectrum
    products: Spectrum
    total: float = 0.0
    squares: float = 0.0

    def stepped(self, state: _State, first: bool = False) -> _Active:
        """The same pixels one iteration on; the first has no sparsity yet."""
        signal = np.zeros_like(self.signal)
        weight, offset = state.weight.astype(np.float32), np.float32((state.mean - self.centre) @ state.weight)

        def step(block: Block) -> tuple[Float32[np.ndarray, " band"], float, float]:
            response = weight @ block.spectra
            response -= offset
            if first:
                new = np.maximum(response / np.float32(state.normaliser), 0.0)
            else:
                new = reweight(response, self.signal[block.where], state.normaliser)
            signal[block.where] = new
            return block.spectra @ new, float(new.sum()), float(new @ new)

        parts = self.pixels.map(step)
        products = sum((product for product, _, _ in parts), np.zeros(self.centre.size))
        total, squares = sum((part[1] for part in parts), 0.0), sum((part[2] for part in parts), 0.0)
        return _Active(self.where, self.pixels, signal, self.centre, products, total, squares)

    def thinned(self, centre: Spectrum) -> _Active:
        """Without the pixels at zero, once they are many; what is kept is kept less the new centre."""
        found = self.signal > 0
        if np.count_nonzero(found) > _WORTH_KEEPING * found.size:
            return self
        left = np.flatnonzero(found)
        shift = centre - self.centre
        spectra = self.pixels.picked(left, shift.astype(np.float32))
        pixels = Pixels(spectra, np.ones(left.size, dtype=np.bool_), (1, left.size))
        signal, products = self.signal[left], self.products - shift * self.total
        return replace(self, where=self.where[left], pixels=pixels, signal=signal, centre=centre, products=products)


class _Backgrounds:
    """The backgrounds of all iterations, each a correction of the first."""

    def __init__(self, first: Background, unit_spectrum: Spectrum, count: int) -> None:
        self._first, self._unit_spectrum, self._count = first, unit_spectrum, count
        self._whitening = first.whitening()

    def opening(self) -> _State:
        """The background before anything is known of methane."""
        # What does not vary must not start to: removing methane from a dead band would make it vary.
        target = self._whitening.seen(self._first.mean * self._unit_spectrum)
        weight = self._whitening.solve(target)
        normaliser = float(target @ weight)
        if not normaliser > 0:
            raise FilterError(f"methane leaves no trace in these bands; {OTHER_BANDS}")
        return _State(self._first.mean, target, weight, normaliser)

    def without(self, active: _Active, last: Spectrum) -> _State:
        """The background with `a t^T` removed from the data.

        Args:
            active: All pixels that have an a.
            last: The target t that they were found with.
        """
        mean_signal = active.total / self._count
        variance = active.squares / self._count - mean_signal**2
        coupling = active.products / self._count - (self._first.mean - active.centre) * mean_signal
        mean = self._first.mean - mean_signal * last
        target = self._whitening.seen(mean * self._unit_spectrum)
        weight = self._solve(target, last, coupling, variance)
        return _State(mean, target, weight, max(float(target @ weight), 1.0))

    def _solve(self, target: Spectrum, last: Spectrum, coupling: Spectrum, variance: float) -> Spectrum:
        if self._first.shrinkage:
            crossed = np.outer(coupling, last)
            covariance = self._first.covariance - crossed - crossed.T + variance * np.outer(last, last)
            return whitening(covariance, self._first.shrinkage).solve(target)
        # Sherman, Morrison and Woodbury with C = C0 + U S U^T, U = [t q], S = [[var, -1], [-1, 0]].
        sides = np.array([last, coupling, target]).T
        solved = self._whitening.solve(sides)
        (tt, tq, tw), (_, qq, qw) = (sides.T @ solved)[:2].tolist()
        # (S^-1 + U^T C0^-1 U)^-1 U^T C0^-1 w, by Cramer's rule.
        cross, lower = tq - 1.0, qq - variance
        determinant = tt * lower - cross * cross
        along_t, along_q = (lower * tw - cross * qw) / determinant, (tt * qw - cross * tw) / determinant
        return np.asarray(solved @ np.array([-along_t, -along_q, 1.0]))


def fit(pixels: Pixels, background: Background, unit_spectrum: Spectrum, iterations: int) -> Mag1cFit:
    """Run the iterations.

    Args:
        pixels: The pixels.
        background: Their mean and covariance.
        unit_spectrum: Unit absorption, per 100,000 ppm m.
        iterations: How many times the background is estimated again.
    """
    backgrounds = _Backgrounds(background, unit_spectrum, pixels.count)
    centre = background.mean.astype(np.float32).astype(np.float64)
    signal, nothing = np.zeros(pixels.usable.size, dtype=np.float32), np.zeros_like(centre)
    state = backgrounds.opening()
    active = _Active(np.arange(signal.size), pixels, signal, nothing, nothing).stepped(state, first=True)
    for _ in range(iterations):
        state = backgrounds.without(active, state.target)
        active = active.stepped(state).thinned(centre)
    signal[active.where] = active.signal
    return Mag1cFit(state.mean, state.weight, state.normaliser, signal)
