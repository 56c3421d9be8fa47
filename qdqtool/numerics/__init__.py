"""The arithmetic of quantization on arrays: number formats, scales, quantize and dequantize, GPTQ, packing.

``formats`` has a module for each number format. ``scheme.py`` describes how a tensor is quantized. ``affine.py``
quantizes and dequantizes. ``derive.py`` computes scales from ranges, ``search.py`` finds better scales. ``gptq.py``
rounds weights with data. ``compiled`` has kernels for numba, which is optional.

In: NumPy arrays, ranges, a scheme. Out: codes, scales, errors. No module here uses graphs or files.

Read next: ``number_format.py`` and ``granularity.py``, then ``affine.py``; formulas are in
``docs/reference/numerics.md``.
"""
