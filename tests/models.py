"""Small real models (ONNX) whose answers are known without them.

colours     which of red, green and blue a picture has the most of: 1x3 logits
grid        how bright each cell of a picture is, as boxes of two classes ("bright", "dark"), in the rows of a detector
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

#: One that onnxruntime of JetPack 5 reads, too.
_OPSET, _IR = 13, 8
Shape = Sequence[int | str]
FLOAT, BYTES, HALF = TensorProto.FLOAT, TensorProto.UINT8, TensorProto.FLOAT16


def save(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    given: Sequence[tuple[str, int, Shape]],
    answers: Sequence[tuple[str, Shape]],
    constants: dict[str, NDArray[np.generic]] | None = None,
) -> Path:
    """Write a model of some nodes."""
    graph = helper.make_graph(
        nodes,
        "made",
        [helper.make_tensor_value_info(*one) for one in given],
        [helper.make_tensor_value_info(name, FLOAT, shape) for name, shape in answers],
        [numpy_helper.from_array(values, name) for name, values in (constants or {}).items()],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR)
    onnx.checker.check_model(made)
    path.write_bytes(made.SerializeToString())
    return path


def colours(path: Path, shape: Shape = (1, 3, 32, 32), *, dtype: int = FLOAT, softmax: bool = False) -> Path:
    """Write a model that tells which colour a picture has the most of; logits are the means of 0..1, times 10.

    ``shape`` may be that of NHWC, and ``dtype`` BYTES, whose values are divided by 255 inside.
    """
    first = shape[3] in (1, 3) and shape[1] not in (1, 3)
    nodes = [helper.make_node("Cast", ["picture"], ["cast"], to=FLOAT)]
    nodes.append(helper.make_node("Mul", ["cast", "by"], ["scaled"]))
    if first:
        nodes.append(helper.make_node("Transpose", ["scaled"], ["turned"], perm=[0, 3, 1, 2]))
    nodes.append(helper.make_node("GlobalAveragePool", ["turned" if first else "scaled"], ["mean"]))
    nodes.append(helper.make_node("Flatten", ["mean"], ["flat" if softmax else "said"]))
    if softmax:
        nodes.append(helper.make_node("Softmax", ["flat"], ["said"], axis=1))
    by = np.array(10 / 255 if dtype == BYTES else 10, np.float32)
    return save(path, nodes, [("picture", dtype, shape)], [("said", ("n", "c"))], {"by": by})


def grid(path: Path, *, side: int = 64, cell: int = 16, rows: str = "v8") -> Path:
    """Write a detector for ``side`` x ``side``: a box on each cell, "bright" as much as it is bright, else "dark"."""
    count = (side // cell) ** 2
    at = np.arange(side // cell, dtype=np.float32) * cell + cell / 2
    down, across = np.meshgrid(at, at, indexing="ij")
    size = np.full(count, cell, np.float32)
    boxes = np.stack([across.ravel(), down.ravel(), size, size])[np.newaxis]
    nodes = [
        helper.make_node("ReduceMean", ["picture"], ["grey"], axes=[1], keepdims=1),
        helper.make_node("AveragePool", ["grey"], ["cells"], kernel_shape=[cell, cell], strides=[cell, cell]),
        helper.make_node("Reshape", ["cells", "flat"], ["bright"]),
        helper.make_node("Sub", ["one", "bright"], ["dark"]),
    ]
    parts = ["boxes", "bright", "dark"]
    constants: dict[str, NDArray[np.generic]] = {
        "boxes": boxes,
        "flat": np.array([1, 1, count], np.int64),
        "one": np.array(1, np.float32),
    }
    if rows == "v5":
        parts.insert(1, "sure")
        constants["sure"] = np.ones((1, 1, count), np.float32)
    nodes.append(helper.make_node("Concat", parts, ["said" if rows == "v8" else "rows"], axis=1))
    if rows == "v5":
        nodes.append(helper.make_node("Transpose", ["rows"], ["said"], perm=[0, 2, 1]))
    return save(path, nodes, [("picture", FLOAT, (1, 3, side, side))], [("said", (1, "high", "wide"))], constants)


def final(path: Path, found: Sequence[Sequence[float]], *, side: int = 64) -> Path:
    """Write a detector that says the same of every picture: rows of left, top, right, bottom, score, class."""
    rows = np.array(found, np.float32).reshape(1, -1, 6)
    nodes = [
        helper.make_node("ReduceMax", ["picture"], ["most"], keepdims=0),
        helper.make_node("Mul", ["most", "zero"], ["nothing"]),
        helper.make_node("Add", ["rows", "nothing"], ["said"]),
    ]
    constants = {"rows": rows, "zero": np.array(0, np.float32)}
    return save(path, nodes, [("picture", FLOAT, (1, 3, side, side))], [("said", (1, "high", "wide"))], constants)
