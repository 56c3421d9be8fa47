"""The worked examples as the pages print them."""

from dataclasses import dataclass

from sample_models.plan_writer import Scale

Nested = list[float] | list[list[float]] | list[list[list[list[float]]]]

LAST_PRINTED_DIGIT = 0.5e-4
"""The pages print four decimals."""

ONE_STEP_OF_127 = 1 / 127
"""TensorRT's first page example prints 0.56 for 71/127 and -1 for -128/127: never more than one step off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One worked example. Exactly one of ``x`` and ``codes`` is given: what the page starts from.

    Attributes:
        folder: Where it is written.
        source: The page, and where it needs reading between the lines.
        x: Float values.
        codes: Integer codes.
        constant: Whether the tensor is a constant of the model rather than a graph input.
        format: Of the codes.
        scale: Step in real units, nested as the page spells it.
        axis: Kept axis for one scale per index, blocked axis for blocks; None for per-tensor.
        block_size: Elements that share a scale along ``axis``.
        zero_point: Code of real zero; it is subtracted from codes.
        page_codes: Codes that the page prints.
        page_y: Dequantized values that the page prints.
        page_tolerance: Largest difference between ``page_y`` and the exact result.
    """

    folder: str
    source: str
    x: Nested | None = None
    codes: list[int] | list[list[int]] | None = None
    constant: bool = False
    format: str = "int8"
    scale: Scale
    axis: int | None = None
    block_size: int | None = None
    zero_point: int | None = None
    page_codes: list[list[int]] | None = None
    page_y: Nested | None = None
    page_tolerance: float = 0.0


EXAMPLES = (
    Example(
        folder="tripy_quantize_per_tensor",
        source="Tripy quantize, per-tensor; the page prints no output",
        x=[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]],
        scale=0.99872,
    ),
    Example(
        folder="tripy_quantize_per_channel",
        source="Tripy quantize, per-channel with dim=0",
        x=[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]],
        scale=[0.99872, 0.96125],
        axis=0,
        page_codes=[[0, 1, 2], [3, 4, 5]],
    ),
    Example(
        folder="tripy_quantize_block",
        source="Tripy quantize, block-wise int4: a single block along the first dimension",
        x=[[0.0, 1.0], [2.0, 3.0]],
        format="int4",
        scale=[[1.0, 1.0]],
        axis=0,
        block_size=2,
        page_y=[[0.0, 1.0], [2.0, 3.0]],
    ),
    Example(
        folder="tripy_dequantize_per_tensor",
        source="Tripy dequantize, per-tensor",
        codes=[1, 2, 3],
        constant=True,
        scale=0.99872,
        page_y=[0.9987, 1.9974, 2.9962],
        page_tolerance=LAST_PRINTED_DIGIT,
    ),
    Example(
        folder="tripy_dequantize_per_channel",
        source="Tripy dequantize, per-channel with dim=0",
        codes=[[1, 2, 3], [4, 5, 6]],
        constant=True,
        scale=[0.99872, 0.96125],
        axis=0,
        page_y=[[0.9987, 1.9974, 2.9962], [3.8450, 4.8063, 5.7675]],
        page_tolerance=LAST_PRINTED_DIGIT,
    ),
    Example(
        folder="tripy_dequantize_block",
        source="Tripy dequantize, block-wise int4: the quantize page's example as a constant",
        x=[[0.0, 1.0], [2.0, 3.0]],
        constant=True,
        format="int4",
        scale=[[1.0, 1.0]],
        axis=0,
        block_size=2,
        page_y=[[0.0, 1.0], [2.0, 3.0]],
    ),
    Example(
        folder="tensorrt_dequantize",
        source="TensorRT Dequantize, first example: one scale, hence per-tensor although the page sets axis 3; "
        "the page prints rounded expectations and -1 where the defined result is -128/127",
        x=[[[[0.56, 0.89, 1.4], [-0.56, 0.39, 6.0], [0.67, 0.11, -3.6]]]],
        scale=[0.007874016],
        axis=3,
        page_y=[[[[0.56, 0.89, 1.0], [-0.56, 0.39, 1.0], [0.67, 0.11, -1.0]]]],
        page_tolerance=ONE_STEP_OF_127,
    ),
    Example(
        folder="tensorrt_block",
        source="TensorRT Dequantize, second example: int4 weights in blocks of two rows; "
        "the network input that the page never reads is left out",
        x=[
            [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0],
            [1.1, 1.2, 2.1, 2.2, 3.1, 3.2, 4.1, 4.2],
            [4.0, 4.0, 5.0, 5.0, 6.0, 6.0, 7.0, 7.0],
            [4.1, 4.2, 5.1, 5.2, 6.1, 6.2, 7.1, 7.2],
        ],
        constant=True,
        format="int4",
        scale=[[1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0], [4.0, 4.0, 5.0, 5.0, 6.0, 6.0, 7.0, 7.0]],
        axis=0,
        block_size=2,
        page_y=[
            [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0],
            [1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0],
            [4.0, 4.0, 5.0, 5.0, 6.0, 6.0, 7.0, 7.0],
            [4.0, 4.0, 5.0, 5.0, 6.0, 6.0, 7.0, 7.0],
        ],
    ),
    Example(
        folder="torch_per_tensor",
        source="PyTorch torch.dequantize: quint8 with zero point 10",
        x=[[-1.0, 0.0], [1.0, 2.0]],
        format="uint8",
        scale=0.1,
        zero_point=10,
        page_codes=[[0, 10], [20, 30]],
        page_y=[[-1.0, 0.0], [1.0, 2.0]],
    ),
    Example(
        folder="pypto_symmetric",
        source="pypto dequantize without zero points: its axis -1 is the one that shares a scale, ONNX's axis 0",
        codes=[[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4]],
        constant=True,
        scale=[1.0, 1.0, 1.0],
        axis=0,
        page_y=[[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0]],
    ),
    Example(
        folder="pypto_asymmetric",
        source="pypto dequantize with zero points -2, which it adds: 2 in ONNX, which subtracts",
        codes=[[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4]],
        constant=True,
        scale=[1.0, 1.0, 1.0],
        axis=0,
        zero_point=2,
        page_y=[[-1.0, 0.0, 1.0, 2.0], [-1.0, 0.0, 1.0, 2.0], [-1.0, 0.0, 1.0, 2.0]],
    ),
)
