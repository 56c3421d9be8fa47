"""Models that are refused for reasons which no other corpus has, as ONNX text."""

ODD = {
    "a Conv of float16 with a float32 weight": """
        g (float16[1,2,4,4] x) => (float[1,2,4,4] y) <float[2,2,1,1] w = {1,2,3,4}> { y = Conv (x, w) }""",
    "a PRelu whose slope does not broadcast": """
        g (float[1,3,4] x) => (float[1,3,4] y) <float[3] s = {1,2,3}> { y = PRelu (x, s) }""",
    "an LpPool of one dimension": """
        g (float[1,3,9] x) => (float[1,3,8] y) { y = LpPool <kernel_shape = [2], p = 2> (x) }""",
}
