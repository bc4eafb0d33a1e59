"""The paper's learned baselines, one network a file; `flame.models.networks` has them by name."""

from flame.models.baselines.absorption_transformer import AbsorptionTransformer
from flame.models.baselines.efficientvit import EfficientViT
from flame.models.baselines.linknet import LinkNet
from flame.models.baselines.mobilenet import Encoder, mobilenet_v2, mobilenet_v3_small_minimal
from flame.models.baselines.resnet import resnet18
from flame.models.baselines.segformer import Adaptations, SegFormer
from flame.models.baselines.unet import UNet

__all__ = [
    "AbsorptionTransformer",
    "Adaptations",
    "EfficientViT",
    "Encoder",
    "LinkNet",
    "SegFormer",
    "UNet",
    "mobilenet_v2",
    "mobilenet_v3_small_minimal",
    "resnet18",
]
