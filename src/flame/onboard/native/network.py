"""FLAME on the compiled kernels: from prepared spectra to probability and score, as the ONNX graph does it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float32
from threadpoolctl import ThreadpoolController

from flame.kernels import Image, Kernels, images, pack
from flame.onboard.manifest import Manifest, NetworkFacts
from flame.onboard.native.operator import Crew, pack_scaled
from flame.onboard.native.shapes import check_shapes
from flame.onboard.native.trunk import Trunk
from flame.physics import ABSORPTION_UNIT_PPM_M

__all__ = ["NativeNetwork"]


class NativeNetwork:
    """One model for tiles of one size.

    Args:
        manifest: Its facts.
        network: Those of them that only this runtime needs.
        arrays: Its folded weights by name.
        kernels: The compiled kernels.
        threads: Threads to share rows among.

    Raises:
        ValueError: If the weights are not those of such a network.
    """

    def __init__(
        self,
        manifest: Manifest,
        network: NetworkFacts,
        arrays: Mapping[str, np.ndarray],
        kernels: Kernels,
        threads: int,
    ) -> None:
        check_shapes(arrays, manifest)
        self._manifest, self._network = manifest, network
        self._crew = crew = Crew(kernels, threads)
        self._arrays = arrays
        self._blas = ThreadpoolController()
        self._bands, self._side = len(manifest.band_centres_nm), manifest.tile
        width = len(arrays["lift.weight"])
        self._trunk = Trunk(crew, arrays, width, self._side)
        self._clipped = Image(1, self._side, self._side)
        self._rgb = Image(3, self._side, self._side)
        self._score, self._probability = (np.zeros((self._side, self._side), dtype=np.float32) for _ in range(2))
        self._no_fields = np.zeros((1, 0, self._side, self._side), dtype=np.float32)

    def infer(
        self, inputs: Mapping[str, Float32[np.ndarray, ...]]
    ) -> tuple[Float32[np.ndarray, "row col"], Float32[np.ndarray, "row col"]]:
        """Probability and score / tau of one tile; the next call overwrites them."""
        # Threads of BLAS gain nothing on matrices this small and take the cores from the kernels.
        with self._blas.limit(limits=1, user_api="blas"):
            return self._infer(inputs)

    def _infer(self, inputs: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        spectra = inputs["whitened" if "whitened" in inputs else "log_radiance"]
        self._lift(spectra, inputs)
        z, gate = self._trunk.run()
        if "heads.w_sw" in self._arrays:
            self._find_score(spectra, z, gate, self._direction(inputs))
        if "rgb" in inputs:
            self._rgb.pixels[:] = inputs["rgb"][0]
        self._segment(z, gate, "rgb" in inputs)
        return self._probability, self._score

    def _lift(self, spectra: np.ndarray, inputs: Mapping[str, np.ndarray]) -> None:
        """The lift of spectra and of pixel fields."""
        weight = self._arrays["lift.weight"].astype(np.float64)
        if "unwhitening" in inputs:
            basis = self._arrays["whitening"].astype(np.float64) @ inputs["unwhitening"][0]
            weight[:, : self._bands] = weight[:, : self._bands] @ basis
        fields = inputs.get("pixel_fields", self._no_fields)
        packed, bias = pack(weight), self._arrays["lift.bias"]
        self._crew.kernels.lift(
            *(self._crew.threads, self._side, self._side, spectra.ctypes.data, self._bands, spectra.shape[2]),
            *(fields.ctypes.data, fields.shape[1], packed.ctypes.data, bias.ctypes.data, self._trunk.lifted.struct()),
        )

    def _direction(self, inputs: Mapping[str, np.ndarray]) -> np.ndarray:
        """What a residual is multiplied by to be in units of tau."""
        direction = self._arrays.get("direction")
        if direction is None:
            target = inputs["target"][0].astype(np.float64)
            direction = ABSORPTION_UNIT_PPM_M * target / max(float(target @ target), 1e-30)
        return np.asarray(direction / self._manifest.tau_ppm_m, dtype=np.float32)

    def _find_score(self, spectra: np.ndarray, z: Image, gate: np.ndarray, direction: np.ndarray) -> None:
        arrays, crew = self._arrays, self._crew
        weight = np.concatenate([pack(arrays[name] * gate) for name in ("heads.w_sw", "heads.w_bg")])
        bias = np.concatenate([arrays["heads.b_sw"], arrays["heads.b_bg"]])
        crew.kernels.score(
            *(crew.threads, self._side, self._side, z.struct(), spectra.ctypes.data, self._bands),
            *(spectra.shape[2], weight.ctypes.data, bias.ctypes.data, direction.ctypes.data),
            *(self._network.tau_max, self._score.ctypes.data, self._clipped.struct()),
        )

    def _segment(self, z: Image, gate: np.ndarray, colour: bool) -> None:
        arrays, crew = self._arrays, self._crew
        sources = [z] + [self._clipped] * ("heads.w_sw" in arrays) + [self._rgb] * colour
        first, second = (arrays[f"segmentation.layers.{layer}.weight"] for layer in (0, 3))
        weights = [pack_scaled(first, gate), pack(second.reshape(len(second), -1))]
        biases = [arrays[f"segmentation.layers.{layer}.bias"] for layer in (0, 3)]
        crew.kernels.segment(
            *(crew.threads, self._side, self._side, images(*(source.struct(3) for source in sources)), len(sources)),
            *(weights[0].ctypes.data, biases[0].ctypes.data, len(first), weights[1].ctypes.data, biases[1].ctypes.data),
            *(len(second), arrays["segmentation.project.weight"].ctypes.data),
            *(arrays["segmentation.project.bias"].ctypes.data, 1, True, self._probability.ctypes.data),
        )
