"""Why an option cannot be used: the messages of TensorRT for RTX 1.7.1, and refusals that are about the model."""

import pytest

from qdqtool.engines.tensorrt.deployment import DeploymentOptions
from qdqtool.engines.tensorrt.process import Outcome
from qdqtool.engines.tensorrt.tensorrt_builder import check_targets, unusable_option
from qdqtool.errors import CapabilityError, GateError, UsageError

NO_DEVICE = (
    "Error Code 1: Myelin ([myelin_graph.h:1295: attachExceptionMsgToGraph] MyelinCheckException: "
    "graph_jit.cpp:278: CHECK(status == CUDA_SUCCESS) failed.  In compileGraph at /_src/codeGenerator.cpp:2012)"
)
NO_LIBRARY = "Error Code 6: API Usage Error (Unable to load library: libnvinfer_lean.so.1: cannot open shared object)"
NO_TACTIC = "[tactic.cpp:1676: enumerate_tactics] Tactic Selection: no tactics within workspace limit. Consider"
NO_MEMORY = "[localCheckMacros.cpp::getErrorStr::132] Error Code 2: OutOfMemory (Requested size was 17074864 bytes.)"
WEIGHTS = DeploymentOptions(refit=True, strip_weights=True)
COMPATIBLE = DeploymentOptions(version_compatible=True)
SMALL = DeploymentOptions(mem_pool_size={"workspace": 1024})


def found(wanted: DeploymentOptions, log: str = "", **facts: str) -> tuple[type, str] | None:
    outcome = Outcome({"version": "1.7.1.116", **facts}, [("ERROR", log)])
    error = unusable_option("TensorRT for RTX", outcome, wanted)
    return (type(error), error.message) if error is not None else None


@pytest.mark.parametrize(
    ("wanted", "log", "kind", "words"),
    [
        (WEIGHTS, NO_DEVICE, CapabilityError, "needs a CUDA device to build with --refit and --strip-weights"),
        (COMPATIBLE, NO_LIBRARY, CapabilityError, "needs the library libnvinfer_lean.so.1 for"),
        (SMALL, NO_TACTIC, GateError, "within 1024 bytes of workspace"),
        (SMALL, NO_MEMORY, GateError, "within 1024 bytes of workspace: it asks for 17074864 bytes"),
    ],
)
def test_a_message_is_explained_where_its_option_was_given(wanted, log, kind, words):
    error = found(wanted, log, problem="refused")
    assert error[0] is kind
    assert words in error[1]
    assert found(DeploymentOptions(), log, problem="refused") is None
    assert found(wanted, "another reason", problem="refused") is None
    assert found(wanted, log) is None


@pytest.mark.parametrize("why", ["std::bad_alloc", "Resource temporarily unavailable"])
def test_a_refusal_for_lack_of_memory_is_a_lack_of_the_machine(why):
    assert found(DeploymentOptions(), f"Error Code 1: Myelin (Unexpected exception {why} In f)", problem="refused") == (
        CapabilityError,
        f"TensorRT for RTX got no memory from this machine: {why}; no engine was written",
    )


def test_an_option_that_is_absent_or_not_taken_is_named_with_product_and_version():
    assert found(WEIGHTS, problem="lacking", option="--refit", message="BuilderFlag.REFIT") == (
        UsageError,
        "TensorRT for RTX 1.7.1.116 does not support --refit: its API has no BuilderFlag.REFIT",
    )
    assert found(WEIGHTS, problem="option", option="--refit", message="the builder does not set it") == (
        UsageError,
        "TensorRT for RTX 1.7.1.116 does not accept --refit: the builder does not set it",
    )


def test_a_refit_is_for_one_target_or_the_gpu_of_the_machine():
    check_targets("T", (), WEIGHTS)
    check_targets("T", ("8.9",), WEIGHTS)
    check_targets("T", ("8.6", "8.9"), DeploymentOptions(strip_weights=True))
    with pytest.raises(UsageError, match="2 are given"):
        check_targets("T", ("8.6", "8.9"), WEIGHTS)
