"""Reading and running ONNX models; `tinygrad.nn.onnx` re-exports what users call.

`wire` decodes protobuf fields, `model` turns them into graphs, `registry` finds the function of an
operator, `ops/` holds these functions by topic, `host` computes small known values without kernels and
`runner` walks a graph.
"""
