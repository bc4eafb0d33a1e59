"""Inference engines behind one call: own kernels where they were compiled, OpenVINO if installed, else onnxruntime."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float32

from flame.kernels import MOST_THREADS, load_kernels, why_no_kernels
from flame.onboard.manifest import ModelError
from flame.onboard.native import NativeNetwork
from flame.onboard.package import ModelPackage
from flame.onboard.plane_backends import PlaneEngine, PlaneGraph, PlaneJudge

__all__ = [
    "RUNTIMES",
    "Backend",
    "NativeBackend",
    "OnnxRuntimeBackend",
    "OpenVinoBackend",
    "check_runtime",
    "chosen_threads",
    "open_backend",
    "runs_natively",
    "usable_cores",
]

RUNTIMES: tuple[str, ...] = ("auto", "native", "onnxruntime", "openvino")

_ENGINES = {"onnxruntime": "pip install onnxruntime", "openvino": "pip install 'flame-methane[openvino]'"}
"""Engines that are packages of their own, and how to get them."""


@runtime_checkable
class Backend(Protocol):
    """One loaded model, ready to answer.

    Attributes:
        name: Engine and version.
        block_rows: Rows of the blocks in which it takes spectra.
        more: Names of the maps it gives besides probability and score, in order; all in the unit of the score,
            but for "core", which is in standard deviations.
    """

    name: str
    block_rows: int
    more: tuple[str, ...]

    def infer(self, inputs: Mapping[str, Float32[np.ndarray, ...]]) -> tuple[Float32[np.ndarray, "row col"], ...]:
        """Probability, score and what `more` names, of one tile; the next call may overwrite them."""
        ...


class OnnxRuntimeBackend:
    """onnxruntime on CUDA where the installed build has it, else on the CPU."""

    more: tuple[str, ...] = ()

    def __init__(self, model: ModelPackage, threads: int) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Both would take memory for nothing: a plan laid beside the arena, and all blocks of spectra copied at once.
        options.enable_mem_pattern = False
        unwanted = ["GatherSliceToSplitFusion"]
        available = onnxruntime.get_available_providers()
        providers = [p for p in ("CUDAExecutionProvider", "CPUExecutionProvider") if p in available]
        try:
            self._session = onnxruntime.InferenceSession(
                model.onnx, options, providers=providers, disabled_optimizers=unwanted
            )
        except Exception as mistake:  # onnxruntime's own exceptions share no base class
            raise ModelError(f"{model.source}: onnxruntime cannot load the graph: {mistake}") from mistake
        self.block_rows = model.manifest.block_rows
        self._outputs = model.manifest.outputs
        self.name = f"onnxruntime {onnxruntime.__version__} ({self._session.get_providers()[0]})"
        _check_names(model, {i.name for i in self._session.get_inputs()}, {o.name for o in self._session.get_outputs()})

    def infer(
        self, inputs: Mapping[str, Float32[np.ndarray, ...]]
    ) -> tuple[Float32[np.ndarray, "row col"], Float32[np.ndarray, "row col"]]:
        """See `Backend`."""
        probability, score = self.run(inputs)
        return probability[0], score[0]

    def run(self, inputs: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The graph's outputs."""
        first, second = self._session.run(list(self._outputs), dict(inputs))
        return first, second


class OpenVinoBackend:
    """OpenVINO on the CPU in float32."""

    more: tuple[str, ...] = ()

    def __init__(self, model: ModelPackage, threads: int) -> None:
        import openvino

        core = openvino.Core()
        settings: dict[str, Any] = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "f32",
        }
        try:
            compiled = core.compile_model(core.read_model(io.BytesIO(model.onnx)), "CPU", settings)
        except RuntimeError as mistake:
            raise ModelError(f"{model.source}: OpenVINO cannot load the graph: {mistake}") from mistake
        self.block_rows = model.manifest.block_rows
        self._outputs = model.manifest.outputs
        self.name = f"openvino {openvino.__version__.split('-')[0]} (CPU)"
        _check_names(
            model, {n for i in compiled.inputs for n in i.names}, {n for o in compiled.outputs for n in o.names}
        )
        self._request = compiled.create_infer_request()

    def infer(
        self, inputs: Mapping[str, Float32[np.ndarray, ...]]
    ) -> tuple[Float32[np.ndarray, "row col"], Float32[np.ndarray, "row col"]]:
        """See `Backend`."""
        probability, score = self.run(inputs)
        return probability[0], score[0]

    def run(self, inputs: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The graph's outputs; the next call overwrites them."""
        self._request.infer(dict(inputs), share_inputs=True)
        first, second = (np.asarray(self._request.get_tensor(name).data) for name in self._outputs)
        return first, second


class NativeBackend:
    """The network on `flame.kernels`, on the CPU in float32."""

    more: tuple[str, ...] = ()

    def __init__(self, model: ModelPackage, threads: int) -> None:
        import safetensors.numpy

        kernels, network = load_kernels(), model.manifest.network
        if kernels is None:
            raise ModelError(f"no native runtime: {why_no_kernels()}")
        if network is None or model.weights is None:
            raise ModelError(f"{model.source}: has no native weights; export it again, or take another runtime")
        try:
            arrays = safetensors.numpy.load(model.weights)
            self._network = NativeNetwork(model.manifest, network, arrays, kernels, threads)
        except (safetensors.SafetensorError, KeyError, ValueError, IndexError) as mistake:
            raise ModelError(f"{model.source}: the native runtime cannot take its weights: {mistake}") from mistake
        self.block_rows = 1  # all bands of a pixel lie on few pages of memory
        self.name = f"native ({kernels.instructions})"

    def infer(
        self, inputs: Mapping[str, Float32[np.ndarray, ...]]
    ) -> tuple[Float32[np.ndarray, "row col"], Float32[np.ndarray, "row col"]]:
        """See `Backend`."""
        return self._network.infer(inputs)


def _check_names(model: ModelPackage, inputs: set[str], outputs: set[str]) -> None:
    wanted = set(model.manifest.inputs)
    if not (wanted <= inputs and len(inputs) >= len(wanted)) or not set(model.manifest.outputs) <= outputs:
        raise ModelError(
            f"{model.source}: the graph has inputs {sorted(inputs)} and outputs {sorted(outputs)}, the manifest says "
            f"{sorted(wanted)} and {sorted(model.manifest.outputs)}"
        )


def usable_cores() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def chosen_threads(threads: int | None) -> int:
    """As many threads as were asked for, or as there are cores.

    Raises:
        ModelError: If that is none, or more than a runtime can use.
    """
    if threads is None:
        return min(usable_cores(), MOST_THREADS)
    if not 1 <= threads <= MOST_THREADS:
        raise ModelError(f"threads must be 1 to {MOST_THREADS}, got {threads}; this process has {usable_cores()} cores")
    return threads


def open_backend(
    model: ModelPackage,
    runtime: str = "auto",
    threads: int | None = None,
    level_ppm_m: float | None = None,
    follows_scene: bool = False,
) -> Backend:
    """Loads a model into an engine.

    Args:
        model: A verified package.
        runtime: "native", "onnxruntime", "openvino", or "auto" for the fastest of these that there is.
        threads: CPU threads; all that this process may use unless given.
        level_ppm_m: Enhancement that a plume pixel must exceed, for models that can be asked so; else their outline.
        follows_scene: Whether that level follows the noise of each tile, for models that know how.

    Raises:
        ModelError: If the engine is not known or not installed, or cannot load the graph, or threads are out of range,
            or the model has no such level.
    """
    check_runtime(runtime)
    threads = chosen_threads(threads)
    facts = model.manifest.plane_facts
    model.manifest.check_level(level_ppm_m)
    judge = None if facts is None else PlaneJudge(facts, level_ppm_m, follows_scene)
    if runtime == "native" or (runtime == "auto" and runs_natively(model)):
        kernels = load_kernels()
        if judge is not None and kernels is not None:
            return PlaneEngine.native(model, judge, kernels, threads)
        return NativeBackend(model, threads)
    engine: OnnxRuntimeBackend | OpenVinoBackend
    if runtime == "onnxruntime" or find_spec("openvino") is None:
        check_runtime("onnxruntime")
        engine = OnnxRuntimeBackend(model, threads)
    else:
        engine = OpenVinoBackend(model, threads)
    return engine if judge is None else PlaneEngine(PlaneGraph(engine.run), judge, engine.name)


def check_runtime(runtime: str) -> None:
    """Refuses an engine that is not known or not installed, before any work is done.

    Raises:
        ModelError: With the names that are known, or what to install.
    """
    if runtime not in RUNTIMES:
        raise ModelError(f"no runtime '{runtime}'; known are {', '.join(RUNTIMES)}")
    if runtime in _ENGINES and find_spec(runtime) is None:
        raise ModelError(f"{runtime} is not installed: {_ENGINES[runtime]}, or take another runtime")
    if runtime == "native" and load_kernels() is None:
        raise ModelError(f"no native runtime: {why_no_kernels()}")


def runs_natively(model: ModelPackage) -> bool:
    """Whether this installation has kernels and the model weights for them."""
    return model.weights is not None and load_kernels() is not None
