"""What a user may ask of a detector: how sure it must be, and where a plume's outline runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from flame.detection import DecisionRule
from flame.onboard.manifest import Manifest, ModelError

__all__ = ["SENSITIVITIES", "USUAL_SENSITIVITY", "Asked"]

SENSITIVITIES = ("high-recall", "balanced", "high-precision")
USUAL_SENSITIVITY = "balanced"


@dataclass(frozen=True)
class Asked:
    """What was asked for; nothing means what the model's maker chose.

    Attributes:
        sensitivity: One of `SENSITIVITIES`, for models that have them.
        threshold: Probability above which a pixel is plume, instead of a sensitivity; plumes then need no core.
        level: Where outlines run: an enhancement in ppm m; "scene" for one that follows the noise, tile by tile;
            "visible" for what an annotator would outline, as streams of lines do. None is "scene" for models that know
            it, and "visible" for others.
        core_sigmas: Standard deviations by which network and filter must somewhere in a plume be sure of gas, in place
            of the sensitivity's; 0 for no such rule.
    """

    sensitivity: str | None = None
    threshold: float | None = None
    level: float | Literal["scene", "visible"] | None = None
    core_sigmas: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.level, str) and self.level not in ("scene", "visible"):
            raise ModelError(f"a level is a number of ppm m, 'scene' or 'visible', got '{self.level}'")
        if self.sensitivity is not None and self.threshold is not None:
            raise ModelError("give a sensitivity or a threshold, not both")
        if self.threshold is not None and not 0.0 < self.threshold < 1.0:
            raise ModelError(f"a threshold must lie between 0 and 1, got {self.threshold:g}")
        if self.core_sigmas is not None and not 0.0 <= self.core_sigmas < float("inf"):
            raise ModelError(f"a core's standard deviations must be 0 or more, got {self.core_sigmas:g}")

    @property
    def level_ppm_m(self) -> float | None:
        """The level that was given as a number."""
        return None if self.level is None or isinstance(self.level, str) else float(self.level)

    def check(self, manifest: Manifest) -> None:
        """Refuses what a model cannot do, before any scene is read.

        Raises:
            ModelError: If the model has no such sensitivity or level.
        """
        self.rule(manifest)
        manifest.check_level(self.level_ppm_m)
        facts = manifest.plane_facts
        if self.level == "scene" and (facts is None or not facts.scene_sigmas):
            raise ModelError(f"{manifest.name} knows no level that follows the scene; leave out the level")

    def follows_scene(self, manifest: Manifest) -> bool:
        """Whether outlines run at a level that follows the noise."""
        facts = manifest.plane_facts
        return facts is not None and facts.scene_sigmas > 0 and self.level in (None, "scene")

    def rule(self, manifest: Manifest) -> DecisionRule:
        """How probabilities become a mask.

        An annotator's outline is cut as in the paper, by a threshold and an opening. Down to a level of the enhancement
        gas is faint, and an opening would take most of it. Both need a core, if the sensitivity has one.

        Raises:
            ModelError: If the model has no such sensitivity.
        """
        facts = manifest.plane_facts
        points = {} if facts is None else facts.sensitivities
        if self.sensitivity is not None and self.sensitivity not in points:
            known = ", ".join(points) or "none: give a threshold instead"
            raise ModelError(f"{manifest.name} has no sensitivity '{self.sensitivity}'; known are {known}")
        rule = manifest.rule
        if self.threshold is not None:
            rule = replace(rule, threshold=self.threshold)
        elif self.sensitivity is not None:
            rule = replace(rule, threshold=points[self.sensitivity].threshold)
        if facts is not None and self.threshold is None:
            core = facts.core_of(self.sensitivity or USUAL_SENSITIVITY, at_level=self.level_ppm_m is not None)
            rule = replace(rule, core_sigmas=core)
        if facts is not None and facts.scene_sigmas and self.level != "visible":
            rule = replace(rule, opening=False, fewest_pixels=facts.fewest_pixels)
        if self.core_sigmas is None:
            return rule
        if facts is None and self.core_sigmas:
            raise ModelError(f"{manifest.name} does not tell how sure it is of gas, so that plumes can have no core")
        return replace(rule, core_sigmas=self.core_sigmas)

    def rule_of_lines(self, manifest: Manifest) -> DecisionRule:
        """The same for a stream of lines, whose plumes need the core and whose masks, given out before, do not.

        Raises:
            ModelError: If the scene's level was asked for, or the model has no such sensitivity or no cores.
        """
        if self.level == "scene":
            raise ModelError("a stream of lines knows no level of the scene: leave it out")
        rule = self.rule(manifest)
        return DecisionRule(rule.threshold, manifest.opening, rule.core_sigmas)

    def key(self, of: str) -> str:
        """Tells a model, known by its own key, and what was asked of it from every other."""
        return of if self == Asked() else f"{of} {self}"
