"""FLAME on the compiled kernels: from prepared spectra to probability and score, as the ONNX graph does it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float32

from flame.onboard.manifest import Manifest, NetworkFacts
from flame.onboard.native.library import SIDE, Image, Kernels, images, pack, rows_of, shared_rows
from flame.onboard.native.operator import LINEAR, Crew, Operator
from flame.physics import ABSORPTION_UNIT_PPM_M

__all__ = ["NativeNetwork"]

_NOISE_INPUTS = ("matched_filter", "brightness", "anomaly", "coherence", "noise", "enhancement", "clutter")
"""In the order of the enumeration in `kernels.c`."""


class NativeNetwork:
    """One model for tiles of one size.

    Args:
        manifest: Its facts.
        network: Those of them that only this runtime needs.
        arrays: Its folded weights by name.
        kernels: The compiled kernels.
        threads: Threads to share rows among.
    """

    def __init__(
        self, manifest: Manifest, network: NetworkFacts, arrays: Mapping[str, np.ndarray], kernels: Kernels, threads: int
    ) -> None:
        self._manifest, self._network = manifest, network
        self._crew = crew = Crew(kernels, threads)
        self._arrays = arrays
        self._bands, self._side = len(manifest.band_centres_nm), manifest.tile
        width = len(arrays["lift.weight"])
        self._lifted, self._z = (Image(width, self._side, self._side) for _ in range(2))
        self._kinds = np.array([_NOISE_INPUTS.index(name) for name in network.noise_inputs], dtype=np.int32)
        self._extra = np.zeros((len(self._kinds), self._side, self._side), dtype=np.float32)
        backbone = {name.removeprefix("backbone."): a for name, a in arrays.items() if name.startswith("backbone.")}
        self._coarse = {name: a for name, a in backbone.items() if not name.startswith(("blocks.", "operator."))}
        own = {name.removeprefix("operator."): a for name, a in backbone.items() if name not in self._coarse}
        side = self._side // 2 if self._coarse else self._side
        self._operator = Operator(crew, own, side, side)
        self._trunk = Image(width, side, side) if self._coarse else self._lifted
        self._clipped = Image(1, self._side, self._side)
        self._rgb = Image(3, self._side, self._side)
        self._score, self._probability = (np.zeros((self._side, self._side), dtype=np.float32) for _ in range(2))
        self._nothing = np.zeros(max(width, self._bands), dtype=np.float32)

    def infer(
        self, inputs: Mapping[str, Float32[np.ndarray, ...]]
    ) -> tuple[Float32[np.ndarray, "row col"], Float32[np.ndarray, "row col"]]:
        """Probability and score / tau of one tile; the next call overwrites them."""
        spectra = inputs["whitened" if "whitened" in inputs else "log_radiance"]
        self._lift(spectra, inputs)
        z, gate = self._features()
        if "heads.w_sw" in self._arrays:
            self._find_score(spectra, z, gate, self._direction(inputs))
        if "rgb" in inputs:
            self._rgb.pixels[:] = inputs["rgb"][0]
        self._segment(z, gate, "rgb" in inputs)
        return self._probability, self._score

    def _lift(self, spectra: np.ndarray, inputs: Mapping[str, np.ndarray]) -> None:
        """The lift of spectra and of the further inputs, block after block of rows."""
        weight = self._arrays["lift.weight"].astype(np.float64)
        if "unwhitening" in inputs:
            basis = self._arrays["whitening"].astype(np.float64) @ inputs["unwhitening"][0]
            weight[:, : self._bands] = weight[:, : self._bands] @ basis
        packed, bias = pack(weight), self._arrays["lift.bias"]
        if self._kinds.size:
            self._find_noise_inputs(inputs)
        kernels, side, rows = self._crew.kernels, self._side, self._manifest.block_rows
        shape = self._lifted.struct()

        def work(first: int, last: int) -> None:
            for block in range(first, last):
                out = self._lifted.struct()
                out.data += 4 * block * rows * shape.stride
                read = [rows_of(spectra[block], self._bands, rows * side, side)]
                if self._kinds.size:
                    read.append(rows_of(self._extra[:, block * rows :], len(self._extra), side * side, side))
                kernels.convolve(
                    *(0, rows, side, images(*read), len(read), packed.ctypes.data, bias.ctypes.data, LINEAR),
                    *(None, None, 0, False, out, None),
                )

        shared_rows(self._crew.pool, self._crew.threads, len(spectra), work, least=1)

    def _find_noise_inputs(self, inputs: Mapping[str, np.ndarray]) -> None:
        facts, side = self._network, self._side
        layers = inputs["statistics"]
        norm = max(float(np.linalg.norm(inputs["target"])), facts.tiny)
        noise = ABSORPTION_UNIT_PPM_M / norm / facts.faint_ppm_m

        def work(first: int, last: int) -> None:
            scratch = np.zeros(2 * (side + 2 * SIDE), dtype=np.float32)
            self._crew.kernels.noise_inputs(
                *(first, last, side, side, layers.ctypes.data, self._kinds.ctypes.data, len(self._kinds), noise),
                *(facts.tiny, facts.clutter_clip, facts.clutter_window // 2, self._extra.ctypes.data),
                scratch.ctypes.data,
            )

        shared_rows(self._crew.pool, self._crew.threads, side, work)

    def _features(self) -> tuple[Image, np.ndarray]:
        """Features and the factors of their channels."""
        if not self._coarse:
            return self._operator.run(self._lifted)
        coarse, crew = self._coarse, self._crew
        crew.down(self._lifted, coarse["down.weight"], coarse["down.bias"], LINEAR, self._trunk)
        features, gate = self._operator.run(self._trunk)
        crew.up([features], coarse["up.weight"] * gate[:, None, None, None], coarse["up.bias"], LINEAR, self._z)
        beside = coarse["beside.weight"].reshape(len(gate), -1)
        crew.convolve([(self._lifted, 1)], beside, self._nothing, LINEAR, self._z, onto=True)
        return self._z, np.ones_like(gate)

    def _direction(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """What a residual is multiplied by to be in units of tau."""
        direction = self._arrays.get("direction")
        if direction is None:
            target = inputs["target"][0].astype(np.float64)
            direction = ABSORPTION_UNIT_PPM_M * target / max(float(target @ target), 1e-30)
        return np.asarray(direction / self._manifest.tau_ppm_m, dtype=np.float32)

    def _find_score(self, spectra: np.ndarray, z: Image, gate: np.ndarray, direction: np.ndarray) -> None:
        arrays, kernels, side = self._arrays, self._crew.kernels, self._side
        weight = np.concatenate([pack(arrays[name] * gate) for name in ("heads.w_sw", "heads.w_bg")])
        bias = np.concatenate([arrays["heads.b_sw"], arrays["heads.b_bg"]])
        read, clipped = z.struct(), self._clipped.struct()
        shared_rows(
            self._crew.pool,
            self._crew.threads,
            side,
            lambda first, last: kernels.score(
                *(first, last, side, read, spectra.ctypes.data, self._bands, self._manifest.block_rows),
                *(weight.ctypes.data, bias.ctypes.data, direction.ctypes.data, self._network.tau_max),
                *(self._score.ctypes.data, clipped),
            ),
        )

    def _segment(self, z: Image, gate: np.ndarray, colour: bool) -> None:
        arrays, kernels, side = self._arrays, self._crew.kernels, self._side
        sources = [z] + [self._clipped] * ("heads.w_sw" in arrays) + [self._rgb] * colour
        read = images(*(source.struct(3) for source in sources))
        first_weight = arrays["segmentation.layers.0.weight"].copy()
        first_weight[:, : z.channels] *= gate[:, None, None]
        weight1 = pack(first_weight.reshape(len(first_weight), -1))
        second = arrays["segmentation.layers.3.weight"]
        weight2 = pack(second.reshape(len(second), -1))
        bias1, bias2 = arrays["segmentation.layers.0.bias"], arrays["segmentation.layers.3.bias"]
        project = arrays["segmentation.project.weight"].ravel()
        offset = float(arrays["segmentation.project.bias"][0])

        def work(first: int, last: int) -> None:
            hidden = Image(len(first_weight), 3, side)
            kernels.segment(
                *(first, last, side, side, read, len(sources), weight1.ctypes.data, bias1.ctypes.data),
                *(hidden.struct(), weight2.ctypes.data, bias2.ctypes.data, len(second), project.ctypes.data),
                *(offset, self._probability.ctypes.data),
            )

        shared_rows(self._crew.pool, self._crew.threads, side, work, least=32)
