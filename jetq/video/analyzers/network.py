"""An ONNX model, open: what it takes, and what it says. The only user of onnxruntime."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnxruntime.capi import onnxruntime_pybind11_state as _faults

from jetq.errors import UsageError

#: What may compute it: the names of people and of onnxruntime; the first that is there and works is used. TensorRT
#: comes after CUDA: it may spend minutes on an engine at each start, which is for who asks for it.
PROVIDERS = {
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
    "cpu": "CPUExecutionProvider",
}
#: What takes over the parts of a model that the one asked for does not know.
_FALLBACKS = {"cuda": ("cuda", "cpu"), "tensorrt": ("tensorrt", "cuda", "cpu"), "cpu": ("cpu",)}
#: What an input may be made of.
DTYPES: dict[str, type[np.generic]] = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(uint8)": np.uint8,
}
#: Only errors: it warns about GPUs that a board has not, and about what it makes faster.
_ERRORS = 3
#: onnxruntime's errors have no common base but Exception.
_FAULTS: tuple[type[Exception], ...] = (
    *(kind for kind in vars(_faults).values() if isinstance(kind, type) and issubclass(kind, Exception)),
    RuntimeError,
    ValueError,
)

onnxruntime.set_default_logger_severity(_ERRORS)


@dataclass(frozen=True, slots=True)
class Input:
    """The one picture that a model takes."""

    name: str
    shape: tuple[int | None, ...]  # None: any
    dtype: type[np.generic]

    def __str__(self) -> str:
        """Show its shape as it is in messages, for example 1x3x?x? float32."""
        return f"{'x'.join('?' if side is None else str(side) for side in self.shape)} {self.dtype.__name__}"


class Network:
    """A model that is loaded."""

    def __init__(self, path: str, *, threads: int, provider: str) -> None:
        """Load it.

        Args:
            path: of the file.
            threads: that compute one picture, on processors.
            provider: a name of ``PROVIDERS``; "": whichever there is.

        Raises:
            UsageError: it is no model, takes something else than one picture, or the provider is not there.
        """
        self.name = _short(Path(path).name)
        if not Path(path).is_file():
            raise UsageError(f"onnx: {path} is no file; give a model with model=FILE.onnx")
        asked = _providers(provider)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
        options.log_severity_level = _ERRORS
        # A thread that waits for work in a circle costs a core that others have paid for.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session = onnxruntime.InferenceSession(path, options, providers=asked)
        except _FAULTS as exc:
            raise UsageError(f"onnx: {self.name} cannot be loaded: {_one_line(exc)}") from exc
        got = self._session.get_providers()[0]
        if provider and got != PROVIDERS[provider]:
            raise UsageError(f"onnx: provider {provider} is installed here but does not work; onnxruntime took {got}")
        self.provider = next((name for name, its in PROVIDERS.items() if its == got), got)
        self.input = self._only_input()
        self.outputs = tuple(self._number_output(output) for output in self._session.get_outputs())

    def say(self, tensor: NDArray[Any]) -> list[NDArray[Any]]:
        """Return its outputs for one input.

        Raises:
            UsageError: it cannot take it.
        """
        try:
            found: list[NDArray[Any]] = self._session.run(None, {self.input.name: tensor})
        except _FAULTS as exc:
            shape = "x".join(map(str, tensor.shape))
            raise UsageError(
                f"onnx: {self.name} (input {self.input}) fails on a picture of {shape}: {_one_line(exc)}"
            ) from exc
        return found

    def _only_input(self) -> Input:
        inputs = self._session.get_inputs()
        if len(inputs) != 1:
            names = ", ".join(one.name for one in inputs) or "none"
            raise UsageError(f"onnx: {self.name} has {len(inputs)} inputs ({names}); it must take one picture alone")
        only = inputs[0]
        if only.type not in DTYPES:
            able = ", ".join(sorted(DTYPES))
            raise UsageError(
                f"onnx: {self.name} takes {only.type}; a picture can be {able}: export it for one of these"
            )
        shape = tuple(side if isinstance(side, int) and side > 0 else None for side in only.shape)
        found = Input(only.name, shape, DTYPES[only.type])
        if len(shape) != 4:
            raise UsageError(f"onnx: {self.name} takes {found}; a picture has four sides: NxCxHxW or NxHxWxC")
        return found

    def _number_output(self, output: Any) -> str:
        if not output.type.startswith("tensor(") or output.type == "tensor(string)":
            raise UsageError(f"onnx: output {output.name} of {self.name} is {output.type}; only numbers are understood")
        return str(output.name)


def _providers(provider: str) -> list[str]:
    """Return what onnxruntime shall try, the first first."""
    there = onnxruntime.get_available_providers()
    if provider and provider not in PROVIDERS:
        raise UsageError(f"onnx: provider must be one of {', '.join(PROVIDERS)}, not {provider!r:.40}")
    if provider and PROVIDERS[provider] not in there:
        has = ", ".join(name for name, its in PROVIDERS.items() if its in there)
        raise UsageError(f"onnx: there is no provider {provider} on this machine, only {has}; leave provider out")
    wanted = _FALLBACKS[provider] if provider else tuple(PROVIDERS)
    return [PROVIDERS[name] for name in wanted if PROVIDERS[name] in there]


def _short(name: str) -> str:
    """Return a file's name for people: of one that is named by its content (``models.Shelf``) its first characters."""
    return re.sub(r"^([0-9a-f]{12})[0-9a-f]{52}", r"\1", name)


def _one_line(exc: Exception) -> str:
    """Return what onnxruntime says, without the name of its code and the path of the file."""
    text = " ".join(str(exc).split()).rpartition("[ONNXRuntimeError] : ")[2]
    text = re.sub(r"^\d+ : [A-Z_]+ : ", "", text)
    return re.sub(r"Load model from .*? failed: ?", "", text)[:300] or type(exc).__name__
