"""Networks of timm, by its names."""

from collections.abc import Callable
from typing import Any

from benchmarks.networks.network import Network, image


def _of(name: str, options: dict[str, Any]) -> Callable[[], Any]:
    def make() -> Any:
        import timm

        return timm.create_model(name, pretrained=False, num_classes=100, **options)

    return make


def _network(name: str, size: int = 96) -> Network:
    return Network(name, _of(name, {}), image(size))


def _sized(name: str, size: int) -> Network:
    """A network that is made for one size of image."""
    return Network(name, _of(name, {"img_size": size}), image(size))


NETWORKS = (
    _network("ghostnet_100"),
    _network("repvgg_a0"),
    _network("mixnet_s"),
    _network("mobileone_s0"),
    _network("lcnet_050"),
    _network("hardcorenas_a"),
    _network("rexnet_100"),
    _network("dla34"),
    _network("selecsls42"),
    _network("hrnet_w18_small"),
    _network("res2net50_26w_4s"),
    _network("cspresnet50"),
    _network("ese_vovnet19b_dw"),
    _network("skresnet18"),
    _network("ecaresnet26t"),
    _network("nf_resnet26"),
    _network("resnetv2_50x1_bit"),
    _network("convnextv2_atto"),
    _network("fastvit_t8", 64),
    _network("mobilevit_xxs", 64),
    _network("edgenext_xx_small", 64),
    _network("poolformer_s12", 64),
    _sized("mixer_s32_224", 64),
    _sized("resmlp_12_224", 64),
    _sized("xcit_nano_12_p16_224", 64),
    _sized("levit_128s", 64),
    _network("efficientvit_b0", 64),
    _sized("coatnet_nano_rw_224", 64),
    _network("pvt_v2_b0", 64),
)
