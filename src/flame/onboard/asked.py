"""What a user may ask of a detector: how sure it must be, and where a plume's outline runs."""

from __future__ import annotations

from dataclasses import dataclass

from flame.detection import DecisionRule
from flame.onboard.manifest import Manifest, ModelError

__all__ = ["SENSITIVITIES", "Asked"]

SENSITIVITIES = ("high-recall", "balanced", "high-precision")


@dataclass(frozen=True)
class Asked:
    """What was asked for; nothing means what the model's maker chose.

    Attributes:
        sensitivity: One of `SENSITIVITIES`, for models that have them.
        threshold: Probability above which a pixel is plume, instead of a sensitivity.
        level_ppm_m: Enhancement at which the outline runs, instead of an annotator's outline.
    """

    sensitivity: str | None = None
    threshold: float | None = None
    level_ppm_m: float | None = None

    def __post_init__(self) -> None:
        if self.sensitivity is not None and self.threshold is not None:
            raise ModelError("give a sensitivity or a threshold, not both")
        if self.threshold is not None and not 0.0 < self.threshold < 1.0:
            raise ModelError(f"a threshold must lie between 0 and 1, got {self.threshold:g}")

    def check(self, manifest: Manifest) -> None:
        """Refuses what a model cannot do, before any scene is read.

        Raises:
            ModelError: If the model has no such sensitivity or level.
        """
        self.rule(manifest)
        manifest.check_level(self.level_ppm_m)

    def rule(self, manifest: Manifest) -> DecisionRule:
        """How probabilities become a mask.

        Raises:
            ModelError: If the model has no such sensitivity.
        """
        if self.threshold is not None:
            return DecisionRule(self.threshold, manifest.opening)
        if self.sensitivity is None:
            return manifest.rule
        points = {} if manifest.plane_facts is None else manifest.plane_facts.sensitivities
        if self.sensitivity not in points:
            known = ", ".join(points) or "none: give a threshold instead"
            raise ModelError(f"{manifest.name} has no sensitivity '{self.sensitivity}'; known are {known}")
        return DecisionRule(points[self.sensitivity].threshold, manifest.opening)

    def key(self, of: str) -> str:
        """Tells a model, known by its own key, and what was asked of it from every other."""
        return of if self == Asked() else f"{of} {self}"
