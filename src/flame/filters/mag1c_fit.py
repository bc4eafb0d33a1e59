"""The iterations of MAG1C, without their cost.

With a = R alpha (albedo factor times enhancement) three things make it cheap and change no result:

- The data of every iteration are `x - a t^T`, t being the last target. So each mean is the first one less `mean(a) t`,
  and each covariance the first one with a correction of rank two, `C0 - q t^T - t q^T + var(a) t t^T`, `q = cov(x, a)`,
  whose inverse follows from the first one's. Only `X^T a` is needed from the pixels.
- A pixel that reaches zero stays there: its sparsity weight is then 1e9. So soon a few per cent of the pixels are left.
- R divides only at the end, so dark pixels cannot upset the iterations.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float32, Float64, Int

from flame.filters.background import Background, Usable
from flame.filters.errors import FilterError
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

    def response(
        self, spectra: Float32[np.ndarray, "band pixel"], centre: Float32[np.ndarray, " band"] | float = 0.0
    ) -> Float32[np.ndarray, " pixel"]:
        """`(x - mean)^T C^-1 t` of spectra from which `centre` was taken."""
        response = self.weight.astype(np.float32) @ spectra
        response -= np.float32((self.mean - centre) @ self.weight)
        return np.asarray(response)


@dataclass(frozen=True, eq=False)
class _Active:
    """The pixels not yet at zero.

    Attributes:
        where: Where they stand in the image.
        pixels: Their spectra less the centre.
        signal: Their a.
        products: Sum of their spectra, each times its a.
    """

    where: Int[np.ndarray, " pixel"]
    pixels: Pixels
    signal: Float32[np.ndarray, " pixel"]
    products: Spectrum

    @staticmethod
    def of(
        where: Int[np.ndarray, " pixel"],
        spectra: Float32[np.ndarray, "band pixel"],
        signal: Float32[np.ndarray, " pixel"],
        products: Spectrum,
    ) -> _Active:
        pixels = Pixels(spectra, np.ones(where.size, dtype=np.bool_), (1, where.size))
        return _Active(where, pixels, signal, products)

    def stepped(self, state: _State, centre: Float32[np.ndarray, " band"]) -> _Active:
        """The next iteration; pixels that fell to zero are let go once they are many."""
        signal = np.empty_like(self.signal)

        def step(block: Block) -> Float32[np.ndarray, " band"]:
            response = state.response(block.spectra, centre)
            signal[block.where] = new = reweight(response, self.signal[block.where], state.normaliser)
            return np.asarray(block.spectra @ new)

        products = sum(self.pixels.map(step), np.zeros(self.products.size))
        left = np.flatnonzero(signal)
        if left.size > _WORTH_KEEPING * signal.size:
            return _Active(self.where, self.pixels, signal, products)
        return _Active.of(self.where[left], np.take(self.pixels.spectra, left, axis=1), signal[left], products)


class _Backgrounds:
    """The backgrounds of all iterations, each a correction of the first."""

    def __init__(self, first: Background, unit_spectrum: Spectrum, count: int) -> None:
        self._first, self._unit_spectrum, self._count = first, unit_spectrum, count
        self._whitening = first.whitening()
        self.centre = first.mean.astype(np.float32)
        self._rounding = first.mean - self.centre

    def opening(self) -> _State:
        """The background before anything is known of methane."""
        # What does not vary must not start to: removing methane from a dead band would make it vary.
        target = self._whitening.seen(self._first.mean * self._unit_spectrum)
        weight = self._whitening.solve(target)
        normaliser = float(target @ weight)
        if not normaliser > 0:
            raise FilterError("methane leaves no trace in these bands; give bands between 2122 and 2488 nm")
        return _State(self._first.mean, target, weight, normaliser)

    def without(self, last: Spectrum, signal: Float32[np.ndarray, " pixel"], products: Spectrum) -> _State:
        """The background with `a t^T` removed from the data.

        Args:
            last: The target t that the signal was found with.
            signal: a of all pixels that have any.
            products: Sum of `a (x - centre)`.
        """
        exact = signal.astype(np.float64)
        mean_signal = float(exact.sum()) / self._count
        variance = float(np.einsum("i,i->", exact, exact)) / self._count - mean_signal**2
        coupling = products / self._count - self._rounding * mean_signal
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


def fit(usable: Usable, unit_spectrum: Spectrum, iterations: int, shrinkage: float | None) -> Mag1cFit:
    """Run the iterations.

    Args:
        usable: The pixels.
        unit_spectrum: Unit absorption, per 100,000 ppm m.
        iterations: How many times the background is estimated again.
        shrinkage: As in `BackgroundSettings`.
    """
    pixels = usable.pixels
    backgrounds = _Backgrounds(usable.background(shrinkage), unit_spectrum, pixels.count)
    centre = backgrounds.centre
    state = backgrounds.opening()
    signal = np.zeros(pixels.usable.size, dtype=np.float32)

    def open_block(block: Block) -> Spectrum:
        found = np.maximum(state.response(block.spectra) / np.float32(state.normaliser), 0.0)
        signal[block.where] = found
        return np.asarray(block.spectra @ found - centre * found.sum(dtype=np.float64))

    def first_step(block: Block) -> _Active:
        found = reweight(state.response(block.spectra), signal[block.where], state.normaliser)
        left = np.flatnonzero(found)
        spectra = np.take(block.spectra, left, axis=1)
        spectra -= centre[:, None]
        return _Active.of(block.places(left), spectra, found[left], (spectra @ found[left]).astype(np.float64))

    products = sum(pixels.map(open_block), np.zeros(centre.size))
    if iterations:
        state = backgrounds.without(state.target, signal, products)
        parts = pixels.map(first_step)
        active = _Active.of(
            np.concatenate([part.where for part in parts]),
            np.concatenate([part.pixels.spectra for part in parts], axis=1),
            np.concatenate([part.signal for part in parts]),
            sum((part.products for part in parts), np.zeros(centre.size)),
        )
        for _ in range(iterations - 1):
            state = backgrounds.without(state.target, active.signal, active.products)
            active = active.stepped(state, centre)
        signal[:] = 0.0
        signal[active.where] = active.signal
    return Mag1cFit(state.mean, state.weight, state.normaliser, signal)
