"""Refusals for a GPU, and of the graph as a whole: its opset, its connections, its control flow."""

from qdqtool.engines.tensorrt.known_refusals._known import known

_NEWER_HINT = (
    "to convert the model to opset 13, run `python -c 'import sys, onnx, onnx.version_converter as v; "
    "onnx.save(v.convert_version(onnx.load(sys.argv[1]), 13), sys.argv[2])' MODEL OUT.onnx`"
)

_FOLDED = "fold the If nodes: with --input-shapes if shapes decide them, with --input-values if an input decides them"

ENTRIES = (
    known(
        r"Cannot compile for target\(s\) ([\w, ]+), because the model contains HW-specific datatypes: (\w+(?:, \w+)*)",
        "the model has type {1}, which {0} cannot compute",
        hint="give only targets that can compute it with --compute-capabilities, or leave the option out",
    ),
    known(
        r"Cannot compile operation '(?P<node>.+?)' for Turing \(SM75\): (.+)",
        "compute capability 7.5 cannot run it: {1}",
        hint="leave 7.5 out of --compute-capabilities",
        rules="QT402",
    ),
    known(
        r"failed\. (?P<node>\S+) has no runners that implement it",
        "no kernel computes it",
        hint="run that part outside the engine",
    ),
    known(
        r"within workspace|Could not find any implementation for node (?P<node>.+?)\.",
        "no kernel computes it",
        hint="leave it unquantized; if it is refused unquantized too, run that part outside the engine",
    ),
    known(
        r"Pre-opset 7 broadcasting is unsupported",
        "the model is for opset 6 or older, whose broadcasting TensorRT does not support",
        hint=_NEWER_HINT,
    ),
    known(
        r"Failed to sort the model topologically",
        "the nodes have no order: a tensor depends on itself, or two nodes make it",
        hint="`qdqtool validate --target onnx MODEL` names the tensor",
        rules="QM615",
    ),
    known(
        r"Node input was not registered",
        "it reads a tensor that nothing makes, or that the parser does not import",
        hint="`qdqtool validate --target onnx,tensorrt-rtx MODEL` names the tensor",
        rules="QM616 QS009 QM609 QP101 QP102",
    ),
    known(
        r"Trying to access weights or a null tensor",
        "an output of the model is made by no node",
        hint="`qdqtool validate --target onnx MODEL` names the output",
        rules="QM615 QM609",
    ),
    known(
        r"(Assertion tScope\.getType\(\) != ScopeType::kUNDEFINED failed)",
        "the builder fails with an internal error in the control flow (If, Loop) of the model, quantized or not ({0})",
        hint=_FOLDED,
    ),
    known(
        r"(Assertion newNodeOrder\.size\(\) == g\.nodes\.size\(\) failed)",
        "the builder fails with an internal error in a Loop of the model, quantized or not ({0})",
        hint="unroll the loop when the model is exported",
    ),
    known(
        r"IConditionalOutputLayer (?P<node>\S+?)(?:_OutputLayer)?: Must have inputs with equal ranks",
        "the branches of an If make tensors of different ranks",
        hint=_FOLDED,
    ),
    known(
        r"does not support training_mode == 1|only supports the training_mode|operator in training mode",
        "it is in training mode",
        hint="export the model for inference",
        rules="QN503",
    ),
)
