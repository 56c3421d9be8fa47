"""TensorRT engines: how they are built, why a model is refused, and how they run on a GPU.

``build`` prepares a model, builds it, compares the precision of its kernels with the plan and writes the manifest.
``tensorrt`` runs TensorRT's parser and builder in a child process, because they can crash, and explains their answers.
``gpu`` runs engines and compares their speed; it is optional.

In: an ONNX model with Q/DQ, shapes, builder options. Out: an engine, its manifest, and a report or a refusal.

Read next: ``tensorrt/tensorrt_builder.py``, which starts the child process, and ``build/refusal.py``.
"""
