"""What a user may say about a file that the file does not say itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flame.errors import FlameError
from flame.physics import METHANE_WINDOW_NM, radiance_scale
from flame.scene import MaskRule, flag_names

__all__ = ["OpenOptions"]


@dataclass(frozen=True)
class OpenOptions:
    """How a scene is opened.

    Attributes:
        unit: Radiance unit of the stored numbers, spelled as in `flame.physics.units`; wins over what the file says.
        scale: What one stored unit is in `RADIANCE_UNIT`, for units that have no name here; wins over `unit`.
        window_nm: Which bands to read, by their centres; red, green and blue come along if the file has them.
        mask: Which causes make a pixel invalid.
        find_surface: Whether clouds, water and the like are looked for in the radiance if the product has no masks.
    """

    unit: str | None = None
    scale: float | None = None
    window_nm: tuple[float, float] = METHANE_WINDOW_NM
    mask: MaskRule = field(default_factory=MaskRule)
    find_surface: bool = True

    def __post_init__(self) -> None:
        if self.unit is not None:
            radiance_scale(self.unit)
        if self.scale is not None and not 0 < self.scale < float("inf"):
            raise FlameError(f"the scale must be a positive number, got {self.scale:g}")
        if self.unit is not None and self.scale is not None:
            raise FlameError("give the unit or the scale, not both")

    def facts(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "unit": self.unit,
            "scale": self.scale,
            "window_nm": list(self.window_nm),
            "masked": flag_names(self.mask.masked),
            "find_surface": self.find_surface,
        }

    @property
    def stated_scale(self) -> float | None:
        """Factor to `RADIANCE_UNIT` that the user stated, if any."""
        if self.scale is not None:
            return self.scale
        return None if self.unit is None else radiance_scale(self.unit)
