"""Small videos made on the spot, and a cluster of one thread in this process.

make_video   make_video(name, frames=…, …) -> Path: a film whose frame n is recognisable
crew         an in-process crew: runs chunks in threads, no broker
digest       name of an analyzer whose score is a checksum of all pixels
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from jetq.model.job import JobRow
from jetq.video.farm import Crew
from jetq.video.run import analyze_chunk

DIGEST = '''
import zlib
from jetq.video.analyzers.base import Result

class Digest:
    """Every pixel counts."""
    def start(self): pass
    def frame(self, picture, t_s): return Result(zlib.crc32(picture.tobytes()) / 2**32)
    def stop(self): pass

class Fails(Digest):
    """Raises at 1 s."""
    def frame(self, picture, t_s):
        if t_s >= 1.0:
            raise ValueError("the lens is covered")
        return super().frame(picture, t_s)

class Counter(Digest):
    """The score is how many frames it has seen."""
    warmup = 7
    def start(self): self.seen = 0
    def frame(self, picture, t_s):
        self.seen += 1
        return Result(float(self.seen))

class Shapeless:
    """No analyzer."""

NUMBER = 5
'''


@pytest.fixture
def digest(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> str:
    folder = tmp_path_factory.mktemp("own_analyzers")
    (folder / "own_eyes.py").write_text(DIGEST)
    (folder / "needy_eyes.py").write_text("import no_such_library")
    (folder / "torn_eyes.py").write_text("class Eye:\n    def start(self) pass\n")
    (folder / "old_eyes.py").write_text("from own_eyes import Gone")
    monkeypatch.syspath_prepend(str(folder))
    return "own_eyes:Digest"


@pytest.fixture
def make_video(tmp_path: Path) -> Callable[..., Path]:
    def make(
        name: str = "made.mp4",
        *,
        frames: int = 60,
        size: tuple[int, int] = (96, 64),
        rate: int = 25,
        gop: int = 12,
        codec: str = "libx264",
        options: Mapping[str, str] | None = None,
        times: Sequence[int] | None = None,
    ) -> Path:
        path = tmp_path / name
        noise = np.random.default_rng(7).integers(0, 255, (size[1], size[0], 3), np.uint8)
        with av.open(str(path), "w") as out:
            stream = out.add_stream(codec, rate=rate, options=dict(options or {}))
            stream.width, stream.height, stream.pix_fmt, stream.gop_size = *size, "yuv420p", gop
            for n in range(frames):
                frame = av.VideoFrame.from_ndarray(np.roll(noise, n * 2, axis=1) // 2 + n % 100, format="bgr24")
                frame.pts, frame.time_base = (times[n] if times else n), Fraction(1, rate)
                out.mux(stream.encode(frame))
            out.mux(stream.encode(None))
        return path

    return make


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    path = tmp_path / "sound.mp4"
    with av.open(str(path), "w") as out:
        stream = out.add_stream("aac", rate=44100)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 44100), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 44100
        out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return path


class ThreadJob:
    """A job that runs in a thread of this process."""

    def __init__(self, future: Future[Any], node: str) -> None:
        self.id = str(uuid.uuid4())
        self.cancelled_because = ""
        self._future, self._node, self._at = future, node, time.time()

    def row(self) -> JobRow:
        state, result, error = "RUNNING", None, None
        if self._future.cancelled():
            state = "CANCELLED"
        elif self._future.done():
            fault = self._future.exception()
            state, error = ("FAILED", repr(fault)) if fault else ("SUCCEEDED", None)
            result = None if fault else self._future.result()
        times = (self._at, self._at, time.time())
        return JobRow(self.id, "task", "video.analyze", state, [self._node], 0, *times, result, error, None)

    def cancel(self, reason: str = "") -> JobRow:
        self.cancelled_because = reason
        self._future.cancel()
        return self.row()


class ThreadCrew:
    """Runs each chunk in one of two threads; remembers what it was given."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.calls: list[Mapping[str, Any]] = []
        self.jobs: list[ThreadJob] = []
        self._pool = pool

    def crew(self, **more: Any) -> Crew:
        return Crew(self.submit, **{"slots": 2, **more})

    def submit(self, calls: Sequence[Mapping[str, Any]]) -> list[ThreadJob]:
        self.calls += calls
        jobs = [
            ThreadJob(self._pool.submit(analyze_chunk, **call), f"node-{n % 3 + 1}") for n, call in enumerate(calls)
        ]
        self.jobs += jobs
        return jobs


@pytest.fixture
def crew() -> Iterator[ThreadCrew]:
    with ThreadPoolExecutor(2) as pool:
        yield ThreadCrew(pool)
        pool.shutdown(cancel_futures=True)
