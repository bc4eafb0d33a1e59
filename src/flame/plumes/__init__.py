"""Records of plumes: what detection, rates and the spectral check say of each, in one place."""

from flame.plumes.light import LightPath
from flame.plumes.records import DetectionLimit, PlumePoint, PlumeRecord, SceneRecord, UnitRate, plume_letters

__all__ = ["DetectionLimit", "LightPath", "PlumePoint", "PlumeRecord", "SceneRecord", "UnitRate", "plume_letters"]
