"""Collect what the options of another tool's line ask for, in words of qdqtool."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping

from qdqtool.engines.tensorrt.deployment import parse_pools
from qdqtool.errors import UsageError
from qdqtool.jobs.migration.lines import GivenOption, ToolLine
from qdqtool.samples.input_shapes import Shapes, parse_shapes

_TYPES = {"float16": "fp16", "half": "fp16", "bfloat16": "bf16", "float32": "fp32", "float": "fp32"}
_TYPES |= dict.fromkeys(("int8", "fp8"), "quantized")
_IGNORED = "the types come from the file in strongly typed networks"
_QUANTIZED = "the model has Q/DQ nodes, which decide its types"
_UNUSED = "only quantization reads it, and the line does not quantize"
_BUILT = "an engine that exists keeps its types and options"
_FREE = "the tool ignores it unless precision constraints are obey or prefer, and types can be chosen"
_OTHER_SHAPES = "the engine is built for the other shapes, and bench times the optimum"
_REGEX = re.compile(r"[\\()|+{}\[\]^$?]")
_WITH_ENGINE = {
    "shapes run": ("none", "bench times the shapes that the engine was built for; --data gives others"),
    "build --plugins": ("none", "bench loads no libraries of plugins; the engine must contain them"),
    "build --export-layer-info": ("none", "inspect prints its kernels, and reads the file of trtexec"),
}
"""The fates of options that mean something else for an engine that exists."""
_ENGINE_SLOTS = {"", "load", "bench", "inspect", "verify"}
"""The slots that also concern an engine that exists."""


class Request:
    """What a line asks for. The table of options names a slot for each option: the first word of ``to``.

    Args:
        line: The line.
        has_pairs: Returns whether a model has Q/DQ nodes.

    Attributes:
        value: The value of each slot that has one value; "" for a slot that is only asked for.
        words: Options for ``quantize``, ``build`` and ``bench``.
        fates: ``none`` or ``default`` with a reason, for options with another fate than that of the table.
        layers: The types of layers by glob.
        profiles: The shapes of each optimization profile, by ``min``, ``opt``, ``max`` and ``run``.

    Raises:
        UsageError: The line names no ONNX model and no engine, or a value cannot be read.
    """

    def __init__(self, line: ToolLine, has_pairs: Callable[[str], bool]) -> None:
        self._given, self._is_modelopt = line.options, line.program == "modelopt.onnx.quantization"
        self.value, self.words = dict[str, str](), defaultdict[str, list[str]](list)
        self.fates, self.layers, self._io = dict[str, tuple[str, str]](), dict[str, str](), set[str]()
        self.profiles: dict[str, Mapping[str, Shapes]] = {"0": {}}
        self.has_engine = any(given.option.to == "load" for given in line.options)
        for given in line.options:
            slot, _, rest = given.option.to.partition(" ")
            if not self.has_engine or slot in _ENGINE_SLOTS:
                getattr(self, f"_take_{slot}", self._take_value)(given, slot, rest)
            else:
                self.fates[given.name] = _WITH_ENGINE.get(given.option.to, ("default", _BUILT))
        self._settle(has_pairs)

    @property
    def half(self) -> str:
        """The type of the nodes that are not quantized; empty for float32."""
        return self.value.get("half") or {None: "", "bf16": "bf16"}.get(self.value.get("io"), "fp16")

    @property
    def casts(self) -> bool:
        """Whether ``cast`` converts the model, because ``quantize`` has one type for all that stays float."""
        return bool(self.half and ("io" in self.value or "fp32" in self.layers.values() or "mode" not in self.value))

    def _take_value(self, given: GivenOption, slot: str, kind: str) -> None:
        value = kind.partition(" ")[0] or given.value
        if slot in {"mode", "half"} and self.value.get(slot, value) != value:
            self.fates[given.name] = "none", f"a model has one type here: {self.value[slot]}"
        elif slot:
            self.value[slot] = value
        if slot == "mode" and " " in kind:
            self.value.setdefault("half", kind.partition(" ")[2])

    def _take_words(self, given: GivenOption, command: str, flags: str) -> None:
        flag, *more = flags.split() or [""]
        words, known = (
            [*repeated(flag, given.values), *more] if given.option.arity else flags.split(),
            self.words[command],
        )
        if command == "bench" or not flags:
            self.value[command] = ""
        elif flags == "--timing-cache-file" and flags in known and words[-1] not in known:
            self.fates[given.name] = "none", given.option.reason
            return
        known += () if set(words) <= set(known) or not flags else words

    _take_build = _take_quantize = _take_bench = _take_words

    def _take_shapes(self, given: GivenOption, _slot: str, kind: str) -> None:
        words = [re.sub(r":(scalar)?\s*(?=,|$)", ":[]", word).replace("'", "") for word in given.values]
        if unread := [word for word in words if {"$", "`"} & set(word)]:
            raise UsageError(f"{given.name} has '{unread[0]}', which a shell expands", hint="write the shape itself")
        kinds = self.profiles[self.value.get("profile", "0")]
        parsed = {**kinds.get(kind, {}), **parse_shapes(words, given.name)}
        self.profiles[self.value.get("profile", "0")] = {**kinds, kind: parsed}

    def _take_profile(self, given: GivenOption, slot: str, _kind: str) -> None:
        self.value[slot] = given.value
        self.profiles.setdefault(given.value, {})

    def _take_layers(self, given: GivenOption, _slot: str, _kind: str) -> None:
        for entry in given.entries():
            name, _, kind = entry.rpartition(":")
            if not name:
                raise UsageError(f"{given.name} has '{entry}' without a type", hint="write it as LAYER:fp32")
            self.layers[re.sub(r"[\[?]", r"[\g<0>]", name.strip("'"))] = _TYPES.get(kind.lower(), kind.lower())

    def _take_io(self, given: GivenOption, _slot: str, _kind: str) -> None:
        for entry in given.entries():
            first, _, last = entry.partition(":")
            kind, layout = (first, last) if given.option.names[0].endswith("IOFormats") else (last or first, "")
            if layout not in {"", "chw", "linear"}:
                self.fates[given.name] = "none", "engines take and give linear tensors"
            self._io |= {_TYPES.get(kind.lower(), kind.lower())} & {"fp32", "fp16", "bf16", "quantized"}

    def _take_pools(self, given: GivenOption, _slot: str, _kind: str) -> None:
        for entry in given.entries():
            name, _, size = entry.rpartition(":")
            if name.lower().startswith("dla"):
                self.fates[given.name] = "none", "no builder of qdqtool builds for DLA"
                continue
            # Polygraphy counts bytes, and trtexec MiB.
            is_bytes = given.option.arity == "=+" and re.fullmatch(r"\d+(\.\d+)?([eE]\d+)?", size)
            name = {"tactic_shared_memory": "tacticSharedMem"}.get(name.lower(), name)
            pool = f"{name}:{f'{int(float(size))}B' if is_bytes else size}"
            parse_pools([pool])
            self.words["build"] += ["--mem-pool-size", pool]

    def _take_workspace(self, given: GivenOption, _slot: str, _kind: str) -> None:
        self.words["build"] += ["--mem-pool-size", f"workspace:{given.value}"]

    def _take_gpus(self, given: GivenOption, _slot: str, _kind: str) -> None:
        found = (f"sm{entry}" if entry.isdecimal() else entry for entry in given.entries())
        self.words["build"] += ["--compute-capabilities", ",".join(found)]

    def _take_usual(self, given: GivenOption, _slot: str, _kind: str) -> None:
        usual = given.value.lower() in {"none", "ampere+", "ampere_plus", "disable"}
        self.fates[given.name] = "default" if usual else "none", given.option.reason

    def _take_nodes(self, given: GivenOption, _slot: str, flag: str) -> None:
        for pattern in given.values:
            glob = pattern.removeprefix("^").removesuffix("$").replace(r"\.", ".").replace(".*", "*")
            if _REGEX.search(glob):
                self.fates[given.name] = "none", f"no glob is known for the regular expression {pattern}"
            else:
                self.words["quantize"] += [flag, glob]

    def _take_method(self, given: GivenOption, _slot: str, _kind: str) -> None:
        words = {"awq_clip": [], "rtn_dq": ["--awq", "off"]}
        self.words["quantize"] += words.get(given.value, ["--calibration-method", given.value])

    def _take_kind(self, given: GivenOption, _slot: str, _kind: str) -> None:
        if given.value != "onnx":
            hint = "export the network to ONNX from its framework"
            raise UsageError(f"{given.text} is no ONNX model: {given.option.reason}", hint=hint)

    def _settle(self, has_pairs: Callable[[str], bool]) -> None:
        value = self.value
        if not value.get("model") and not self.has_engine:
            raise UsageError("the line names no model", hint="name it in the line, as in --onnx=model.onnx")
        if self._is_modelopt:
            value.setdefault("mode", "int8")
            value.setdefault("output", f"{value['model'].removesuffix('.onnx')}.quant.onnx")
        elif "typed" in value:
            self._drop({"mode", "half", "cache"}, "default", _IGNORED)
        elif "mode" in value and has_pairs(value.get("model", "")):
            self._drop({"mode", "cache"}, "default", _QUANTIZED)
        if "mode" not in value:
            self._drop({"cache", "data"}, "default", _UNUSED)
        if value.get("constraints") not in {"obey", "prefer"} or not value.keys() & {"mode", "half"}:
            self._drop({"layers"}, "default", _FREE)
            self.layers.clear()
        self._settle_inputs()

    def _settle_inputs(self) -> None:
        if any(kinds.keys() - {"run"} for kinds in self.profiles.values()):
            names = (given.name for given in self._given if given.option.to == "shapes run")
            self.fates |= dict.fromkeys(names, ("default", _OTHER_SHAPES))
        if len(self._io) > 1:
            self._drop({"io"}, "none", "cast gives all float inputs and outputs one type")
        elif self._io == {"fp32"}:
            self._drop({"io"}, "default", "inputs and outputs keep float32")
        elif self._io:
            self.value["io"] = self._io.pop()

    def _drop(self, slots: Collection[str], fate: str, reason: str) -> None:
        """Give the options of these slots another fate than that of the table."""
        for given in self._given:
            if given.option.to.partition(" ")[0] in slots:
                self.fates.setdefault(given.name, (fate, reason))
        for slot in slots:
            self.value.pop(slot, None)


def repeated(flag: str, values: Iterable[str]) -> list[str]:
    """Return an option with each of its values."""
    return [word for value in values for word in (flag, value)]
