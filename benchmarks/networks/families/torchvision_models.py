"""Networks of torchvision, small where their builders allow it."""

from typing import Any

import numpy as np
import torch

from benchmarks.networks.network import SCRIPT, Network, Sample, field_of, image


def _of(name: str, **options: Any) -> Any:
    def make() -> Any:
        from torchvision import models

        return models.get_model(name, weights=None, **options)

    return make


class _First(torch.nn.Module):
    """A segmentation network gives a dictionary; this gives its first entry."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.model(image)["out"]


def _segmentation(name: str) -> Any:
    return lambda: _First(_of(name, weights_backbone=None, num_classes=8)())


class _SsdHead(torch.nn.Module):
    """SSDlite without its non-maximum suppression, which no engine runs."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = model.backbone, model.head

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = self.head(list(self.backbone(image).values()))
        return found["bbox_regression"], found["cls_logits"]


def _ssdlite() -> Any:
    from torchvision.models.detection import ssdlite320_mobilenet_v3_large

    return _SsdHead(ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=8))


def _vit() -> Any:
    from torchvision.models import VisionTransformer

    return VisionTransformer(64, 16, num_layers=3, num_heads=4, hidden_dim=128, mlp_dim=256, num_classes=100)


def _swin() -> Any:
    from torchvision.models import SwinTransformer

    return SwinTransformer([4, 4], 48, [2, 2], [3, 6], [4, 4], num_classes=100)


def _densenet() -> Any:
    from torchvision.models import DenseNet

    return DenseNet(growth_rate=16, block_config=(3, 4, 3), num_init_features=32, num_classes=100)


def _clip(random: np.random.Generator) -> Sample:
    return {"clip": field_of(random, 3, (8, 48, 48))[None]}


NETWORKS = (
    Network("resnet18", _of("resnet18"), image(96)),
    Network("resnet18_open", _of("resnet18"), image(96), dynamic={"image": {0: "batch", 2: "height", 3: "width"}}),
    Network("mobilenet_v2", _of("mobilenet_v2"), image(96)),
    Network("mobilenet_v3_small", _of("mobilenet_v3_small"), image(96)),
    Network("shufflenet_v2", _of("shufflenet_v2_x0_5"), image(96)),
    Network("squeezenet", _of("squeezenet1_1"), image(96)),
    Network("mnasnet", _of("mnasnet0_5"), image(96)),
    Network("efficientnet_b0", _of("efficientnet_b0"), image(96)),
    Network("regnet_y_400mf", _of("regnet_y_400mf"), image(96)),
    Network("googlenet", _of("googlenet", aux_logits=False, init_weights=False), image(96)),
    Network("densenet", _densenet, image(96)),
    Network("convnext", _of("convnext_tiny"), image(64)),
    Network("vit", _vit, image(64)),
    Network("swin", _swin, image(64)),
    Network("deeplabv3", _segmentation("deeplabv3_mobilenet_v3_large"), image(96)),
    Network("lraspp", _segmentation("lraspp_mobilenet_v3_large"), image(96)),
    Network("ssdlite", _ssdlite, image(160), exporters=(SCRIPT,)),
    Network("r3d_18", _of("r3d_18"), _clip),
)
