"""Refusals for a GPU: types and operations that it cannot compute, too little memory, missing kernels."""

from qdqtool.engines.tensorrt.known_refusals._known import known

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
)
