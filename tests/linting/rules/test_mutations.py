"""Damaged models, as ``validate`` gets them: whatever is broken, there are findings or one clear error, and soon."""

import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
import pytest

from qdqtool.__main__ import _run
from qdqtool.linting import rules
from qdqtool.models import targets

resource = pytest.importorskip("resource", reason="measures with getrusage, and sets alarms")

QUICK, MANY = range(2, 6), pytest.mark.slow(reason="thousands of damaged models")
ASKING = 3
"""Below this seed, TensorRT's parser is asked too: it starts anew for each model, which takes most of the time."""
MODELS_PER_SEED = 34
ASKED_QUICKLY = 12
SECONDS = 10
BYTES = 10**9
ENDINGS = {0, 1, 3}
"""Exit codes: clean, findings, unreadable."""
ORIGINALS = [
    example.model().SerializeToString() for rule in rules.catalogue() for example in (*rule.VALID, *rule.INVALID)
]
WILD = (-1, 0, 1, 3, 99, -(2**40), 2**40)
OPERATORS = ("QuantizeLinear", "DequantizeLinear", "Conv", "Gemm", "Cast", "Transpose", "If", "Constant", "Identity")
ATTRIBUTES = ("axis", "block_size", "output_dtype", "to", "perm", "transB", "value", "saturate")


def flip_bits(data: bytes, draw: random.Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(draw.randint(1, 6)):
        damaged[draw.randrange(len(damaged))] ^= 1 << draw.randrange(8)
    return bytes(damaged)


def truncate(data: bytes, draw: random.Random) -> bytes:
    begin, end = sorted(draw.randrange(len(data) + 1) for _ in range(2))
    return draw.choice((data[:end], data[:begin] + data[end:]))


def rewire(data: bytes, draw: random.Random) -> bytes:
    model = onnx.ModelProto.FromString(data)
    for _ in range(draw.randint(1, 4)):
        draw.choice(REWIRINGS)(model.graph, draw)
    return model.SerializeToString()


def _cut_input(graph: onnx.GraphProto, draw: random.Random) -> None:
    node = draw.choice(graph.node)
    if node.input:
        del node.input[draw.randrange(len(node.input))]


def _rename_input(graph: onnx.GraphProto, draw: random.Random) -> None:
    node = draw.choice(graph.node)
    if node.input:
        names = ["", "nowhere", *(output for each in graph.node for output in each.output)]
        node.input[draw.randrange(len(node.input))] = draw.choice(names)


def _rename_output(graph: onnx.GraphProto, draw: random.Random) -> None:
    node = draw.choice(graph.node)
    if node.output:
        node.output[0] = draw.choice(["", *graph.node[0].output, *node.input])


def _add_attribute(graph: onnx.GraphProto, draw: random.Random) -> None:
    kind = draw.choice([each for each in onnx.AttributeProto.AttributeType.values() if each])
    draw.choice(graph.node).attribute.add(name=draw.choice(ATTRIBUTES), type=kind, i=draw.choice(WILD))


def _retype(graph: onnx.GraphProto, draw: random.Random) -> None:
    if graph.initializer:
        draw.choice(graph.initializer).data_type = draw.randint(-1, 40)


def _reshape(graph: onnx.GraphProto, draw: random.Random) -> None:
    if graph.initializer:
        draw.choice(graph.initializer).dims.append(draw.choice(WILD))


def _change_operator(graph: onnx.GraphProto, draw: random.Random) -> None:
    draw.choice(graph.node).op_type = draw.choice(OPERATORS)


def _reshape_input(graph: onnx.GraphProto, draw: random.Random) -> None:
    shape = draw.choice(graph.input).type.tensor_type.shape
    if shape.dim and draw.random() < 0.5:
        draw.choice(shape.dim).dim_value = draw.choice(WILD)
    else:
        shape.dim.add(dim_value=draw.choice(WILD))


REWIRINGS = (
    _cut_input,
    _rename_input,
    _rename_output,
    _add_attribute,
    _retype,
    _reshape,
    _reshape_input,
    _change_operator,
)


@pytest.fixture(autouse=True)
def time_limit() -> Iterator[None]:
    """Each model has its seconds; the alarm is set again for every one."""

    def stop(_signal: int, _frame: object) -> None:
        raise AssertionError(f"one model takes more than {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _is_quick(seed: int, damage: object) -> bool:
    """Whether `make test` has it: of the rewired models, most of which the parser is asked about, those without it."""
    return seed in QUICK and (seed >= ASKING or damage is not rewire)


@pytest.mark.parametrize(
    ("damage", "mostly", "seed"),
    [
        pytest.param(damage, mostly, seed, marks=() if _is_quick(seed, damage) else MANY)
        for damage, mostly in ((flip_bits, 3), (truncate, 3), (rewire, 1))
        for seed in range(20)
    ],
)
def test_a_damaged_model_gives_findings_or_a_clear_error(
    damage: Callable[[bytes, random.Random], bytes],
    mostly: int,
    seed: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setenv("QDQTOOL_TRACEBACK", "1")  # a bug is raised here, not told in a line
    draw, path, before = random.Random(seed), tmp_path / "m.onnx", _peak_bytes()
    arguments = ["validate", str(path), "--isolated", "--target", ",".join(targets.names())]
    if seed >= ASKING:
        arguments.append("--no-parser")
    count = ASKED_QUICKLY if seed in QUICK and seed < ASKING else MODELS_PER_SEED
    ended: Counter[int] = Counter()
    for _ in range(count):
        path.write_bytes(damage(draw.choice(ORIGINALS), draw))
        signal.alarm(SECONDS)
        ended[_run(arguments)] += 1
        assert capsys.readouterr().out

    assert ended.keys() <= ENDINGS
    assert ended[mostly] > count / 2
    assert _peak_bytes() - before < BYTES


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
