"""The Attention operator: types, ranks, masks, causality, heads and lengths, with pairs in front of it and without."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import onnx
from onnx import TensorProto as T
from onnx import helper

from support.corpus._case import Case, graph_model, node, pair, tensor, type_word


@dataclass(frozen=True)
class Form:
    rank: int = 4
    batch: int = 1
    heads: tuple[int, int] = (4, 4)
    queries: int = 8
    head: int = 64
    values: int = 64
    mask: bool = False
    causal: int = 0

    def __str__(self) -> str:
        return " ".join(f"{name} {value}" for name, value in vars(self).items())


FORMS = (
    *(Form(rank=rank, head=head, values=head) for rank in (3, 4) for head in (4, 8, 9, 16, 256, 257)),
    *(
        Form(rank=rank, mask=mask, causal=causal, heads=heads)
        for rank, mask, causal, heads in itertools.product((3, 4), (False, True), (0, 1), ((4, 4), (4, 2)))
    ),
    *(
        Form(rank=rank, queries=1, batch=batch, heads=(heads, heads))
        for rank, batch, heads in itertools.product((3, 4), (1, 2), (1, 2, 3, 4))
    ),
    Form(values=32),
    Form(rank=3, values=32),
)
ATTRIBUTES = ({"softcap": 2.0}, {"softcap": 0.0}, {"scale": 0.5}, {"softmax_precision": T.FLOAT})


def cases() -> Iterator[Case]:
    for form in dict.fromkeys(FORMS):
        for kind in (T.FLOAT, T.FLOAT16):
            for codes in (None, T.INT8):
                with_pairs = "pairs" if codes else "no pairs"
                yield Case(f"Attention {type_word(kind)} {with_pairs} {form}", _model(form, kind, codes))
    for attributes in ATTRIBUTES:
        yield Case(f"Attention with {attributes}", _model(Form(), T.FLOAT16, None, attributes))
    yield Case("Attention with presents", _with_presents())


def _model(form: Form, kind: int, codes: int | None, attributes: dict[str, object] | None = None) -> onnx.ModelProto:
    inputs = _inputs(form, kind)
    names = [name for name, _, _ in inputs]
    before = [each for name in names[:3] if codes is not None for each in pair(name, f"{name}d")]
    given = [f"{name}d" if before and name != "m" else name for name in names]
    more: dict[str, object] = {"is_causal": form.causal} if form.causal else {}
    if form.rank == 3:
        more |= {"q_num_heads": form.heads[0], "kv_num_heads": form.heads[1]}
    nodes = [*before, node("Attention", given, "y", **more, **(attributes or {}))]
    stored = [tensor("s", 0.1, kind), tensor("z", 0, codes or T.INT8)]
    return graph_model(nodes, inputs, [("y", kind, None)], stored, 23, 11)


def _inputs(form: Form, kind: int) -> list[tuple[str, int, list[int]]]:
    heads, shared = form.heads

    def shape(count: int, length: int, width: int) -> list[int]:
        return [form.batch, count, length, width] if form.rank == 4 else [form.batch, length, count * width]

    inputs = [
        ("a", kind, shape(heads, form.queries, form.head)),
        ("b", kind, shape(shared, 8, form.head)),
        ("c", kind, shape(shared, 8, form.values)),
    ]
    return [*inputs, ("m", kind, [form.queries, 8])] if form.mask else inputs


def _with_presents() -> onnx.ModelProto:
    model = _model(Form(), T.FLOAT16, None)
    model.graph.node[-1].output.extend(["pk", "pv"])
    model.graph.node[-1].input.extend(["", "past_k", "past_v"])
    for name in ("past_k", "past_v"):
        model.graph.input.append(helper.make_tensor_value_info(name, T.FLOAT16, [1, 4, 8, 64]))
    return model
