"""Watch cameras as a program of one's own would: ``python -m benchmarks._watch KIND URL...``, one thread a camera.

    opencv  cv2.VideoCapture, read, look        opencv-1  the same, with one thread that decodes
    pyav    PyAV decodes, and nothing else

It writes ``ready`` once each camera has given a frame, and reads one line, ``BEGIN END`` (time.monotonic, s). Then it
writes the frames that it has done between these, and how long each took from its arrival, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

import av
import av.error
import cv2

from jetq import process
from jetq.video.analyzers.motion import Motion

#: A frame that was done: when, and how long after it had arrived (s).
Done = tuple[float, float]
#: Between two tries of a camera that broke off (s).
_AGAIN_S = 0.2


def opencv(url: str) -> Iterator[Done]:
    """Look at one frame after the other."""
    motion = Motion()
    motion.start()
    while True:
        camera = cv2.VideoCapture(url, cv2.CAP_FFMPEG)
        while True:
            good, picture = camera.read()
            arrived_s = time.monotonic()
            if not good:
                break
            motion.frame(picture, arrived_s)  # type: ignore[arg-type]
            done_s = time.monotonic()
            yield done_s, done_s - arrived_s
        camera.release()
        time.sleep(_AGAIN_S)


def pyav(url: str) -> Iterator[Done]:
    """Decode one frame after the other, in this thread."""
    while True:
        try:
            with av.open(url, options={"rtsp_transport": "tcp"}) as container:
                container.streams.video[0].thread_type = "NONE"
                for _ in container.decode(video=0):
                    yield time.monotonic(), 0.0
        except av.error.FFmpegError:
            time.sleep(_AGAIN_S)


KINDS: dict[str, tuple[Callable[[str], Iterator[Done]], str]] = {
    "opencv": (opencv, "rtsp_transport;tcp"),
    "opencv-1": (opencv, "rtsp_transport;tcp|threads;1"),
    "pyav": (pyav, ""),
}


def main(kind: str, urls: list[str]) -> None:
    """Watch, and tell."""
    process.tie_to(os.getppid())
    source, os.environ["OPENCV_FFMPEG_CAPTURE_OPTIONS"] = KINDS[kind]
    cv2.setNumThreads(1)
    done: list[list[Done]] = [[] for _ in urls]
    seen = threading.Semaphore(0)

    def watch(url: str, mine: list[Done]) -> None:
        frames = source(url)
        mine.append(next(frames))
        seen.release()  # and goes on: what waits until all are open would be counted as more than comes
        mine.extend(frames)

    for url, mine in zip(urls, done, strict=True):
        threading.Thread(target=watch, args=(url, mine), daemon=True).start()
    for _ in urls:
        seen.acquire()
    print("ready", flush=True)
    begin_s, end_s = map(float, sys.stdin.readline().split())
    time.sleep(max(0.0, end_s - time.monotonic()))
    inside = [[took_s for at_s, took_s in list(mine) if begin_s <= at_s < end_s] for mine in done]
    print(json.dumps(inside), flush=True)
    os._exit(0)  # readers may hang in their library


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
