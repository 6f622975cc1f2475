"""The process of one stream: read its camera, look at the newest frame, hand on what was seen."""

from __future__ import annotations

import base64
import json
import os
import resource
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TypeVar

import cv2

from jetq.errors import CameraFault, JetqError, UsageError
from jetq.model.credentials import Secret, redact
from jetq.model.stream import StreamSpec
from jetq.video.analyzers import load
from jetq.video.analyzers.base import Analyzer, Result
from jetq.video.analyzers.look import look
from jetq.video.capture.base import Capture, Grabbed
from jetq.video.capture.chain import open_camera
from jetq.video.live.making import close_sinks, make_sinks
from jetq.video.live.pace import Latency, Newest, Pace, Rate
from jetq.video.live.preview import Preview
from jetq.video.live.sink import Seen, Sink

T = TypeVar("T")
#: Time between two reports (s); results wait no longer.
REPORT_S = 0.25
#: A camera is let go of within this (s), or by the end of the process: some drivers mind that.
CLOSE_S = 1.0
#: An analyzer that has one frame for so long (s) is told of.
BUSY_S = 0.5
#: A result's picture is left out where it is larger (bytes).
MOST_JPEG_BYTES = 32 * 1024


class Runner:
    """One camera, one analyzer, and the places for results."""

    def __init__(self, channel: socket.socket, words: IO[bytes], told: Mapping[str, Any]) -> None:
        """``words``: what the supervisor says, line by line; ``told``: the first of it (``service.watch``)."""
        self._channel, self._words = channel, words
        self._spec = StreamSpec.from_json(told["spec"])
        self._secrets = {shown: Secret.from_json(plain) for shown, plain in told["secrets"].items()}
        self._stream, self._token = str(told["stream"]), str(told["token"])
        self._folder, self._files_max_bytes = Path(told["files"]), int(told["files_max_bytes"])
        self._pace, self._newest = Pace(told["fps"]), Newest()
        self._arrivals, self._looks, self._latency = Rate(), Rate(), Latency()
        self._stops = threading.Event()
        self._ending: tuple[str, str] | None = None  # how, why
        self._began_s = time.monotonic()
        self._last_s: float | None = None  # a frame came
        self._owns = False  # what it sees counts
        self._grabbed = self._looked = 0
        self._told = 0  # of those that were grabbed, up to the last report
        self._good = self._raises = 0  # since the last report; raises: in a row, up to now
        self._trace = ""
        self._results: list[str] = []
        self._sinks: list[Sink] = []
        self._preview = Preview(told["preview"])
        self._used = _Usage()
        self._grabber: threading.Thread | None = None
        self._voice = threading.Lock()  # around what is said to the supervisor
        self._busy_since_s: float | None = None  # its analyzer has one frame

    def run(self) -> None:
        """Run until the camera ends or fails, or somebody asks for the end."""
        signal.signal(signal.SIGTERM, lambda *_: self._stops.set())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        cv2.setNumThreads(1)  # a stream costs what it says: its neighbours have the other cores
        threading.Thread(target=self._obey, name="obey", daemon=True).start()
        try:
            how, why = self._stream_until_the_end()
        except CameraFault as exc:
            how, why = ("hopeless" if exc.hopeless else "broken"), str(exc)
        except JetqError as exc:  # what was asked for cannot be had, whoever tries
            how, why = "hopeless", str(exc)
        close_sinks(self._sinks)
        self._preview.close()
        if self._grabber is not None:
            self._grabber.join(CLOSE_S)
        self._send({"end": how, "why": self._clean(why)})

    def _stream_until_the_end(self) -> tuple[str, str]:
        analyzer = self._theirs(lambda: load.make(self._spec.analyzer, self._spec.options))
        every = load.appetite(analyzer).every
        capture = open_camera(self._spec, self._secrets.get(self._spec.camera.shown))
        d = capture.described
        self._send({"opened": {name: getattr(d, name) for name in type(d).__slots__}})
        self._theirs(analyzer.start)
        self._sinks = make_sinks(self._spec, self._secrets, self._folder, files_max_bytes=self._files_max_bytes)
        self._grabber = threading.Thread(target=self._grab, args=(capture,), name="grab", daemon=True)
        self._grabber.start()
        threading.Thread(target=self._tell_busy, name="busy", daemon=True).start()
        reported_s = 0.0
        while not self._stops.is_set() and not (self._newest.ended and self._newest.is_empty):
            frame = self._newest.take(REPORT_S)
            if frame is not None and frame.picture is not None and self._pace.is_due(frame.at_s):
                self._pace.looked(frame.at_s)
                self._looked += 1
                if (self._looked - 1) % every == 0:
                    self._look(analyzer, frame)
            if time.monotonic() - reported_s >= REPORT_S:
                self._report()
                reported_s = time.monotonic()
        self._report()
        ending = self._ending or ("stopped", "asked to end")
        with suppress(UsageError):  # told in the log; it was over already
            self._theirs(analyzer.stop)
        return ending

    def _grab(self, capture: Capture) -> None:
        """Keep the newest frame, in a thread of its own: a camera never waits for who looks."""
        try:
            while not self._stops.is_set():
                frame = capture.grab(wanted=lambda: self._newest.is_empty and self._pace.is_due(time.monotonic()))
                if frame is None:
                    self._ending = ("over", "its file is over")
                    return
                self._grabbed += 1
                self._last_s = frame.at_s
                self._arrivals.add(frame.at_s)
                if self._pace.is_due(frame.at_s):
                    self._newest.put(frame)
        except CameraFault as exc:
            self._ending = ("hopeless" if exc.hopeless else "broken"), str(exc)
        except BaseException as exc:
            self._ending = "broken", f"what reads its camera raised {type(exc).__name__}: {exc}"
            raise
        finally:
            self._newest.end()
            capture.close()

    def _theirs(self, call: Callable[[], T]) -> T:
        """Return what an analyzer's own code gives, outside of frames.

        Raises:
            JetqError: it raised; its traceback is in the log. What fails before the first frame fails each time.
        """
        try:
            return call()
        except JetqError:
            raise
        except (Exception, SystemExit) as exc:
            print(self._clean(traceback.format_exc(limit=-8)), file=sys.stderr, flush=True)
            raise UsageError(f"its analyzer {self._spec.analyzer} raised {type(exc).__name__}: {exc}") from exc

    def _look(self, analyzer: Analyzer, frame: Grabbed) -> None:
        assert frame.picture is not None
        picture = frame.picture()
        self._busy_since_s = time.monotonic()
        try:
            result = look(analyzer, picture, frame.at_s - self._began_s)
        except (Exception, SystemExit):  # noqa: BLE001 - an analyzer is anybody's code
            self._raises += 1
            self._trace = self._clean(traceback.format_exc(limit=-8))
            return
        finally:
            self._busy_since_s = None
        now_s = time.monotonic()
        self._looks.add(now_s)
        self._latency.add(now_s - frame.at_s)
        self._good += 1
        self._raises = 0
        at_s = time.time() - (now_s - frame.at_s)
        seen = Seen(self._stream, self._token, self._looked, at_s, result or Result(0.0), lambda: picture)
        self._preview.offer(seen)
        if result is None:
            return
        self._results.append(json.dumps(_with_picture(seen.as_line(), result)))
        if self._owns:  # an heir looks, so that it is ready; what it sees, the owner sees too
            for sink in self._sinks:
                sink.take(seen)

    def _tell_busy(self) -> None:
        """Say it where one frame takes long: else it would seem that no frames come."""
        while not self._stops.wait(BUSY_S):
            since_s = self._busy_since_s
            if since_s is not None and time.monotonic() - since_s >= BUSY_S:
                self._send({"busy_s": round(time.monotonic() - since_s, 1)})

    # The supervisor -------------------------------------------------------------------------------------------------

    def _report(self) -> None:
        now_s = time.monotonic()
        results, self._results = self._results, []
        # A frame that nobody had to look at is a good one, but not where the analyzer raises on those that it gets.
        grabbed = self._grabbed
        good = self._good if self._raises else grabbed - self._told
        self._told, self._good = grabbed, 0
        cpu_s, rss_bytes = self._used.read(now_s)
        self._send(
            {
                "good": good,
                "raises": self._raises,
                "trace": self._trace if self._raises else "",
                "results": results,
                "fps_in": round(self._arrivals.value(now_s), 2),
                "fps_out": round(self._looks.value(now_s), 2),
                "frames": grabbed,
                "drops": self._newest.dropped,
                "frame_age_s": None if self._last_s is None else round(now_s - self._last_s, 3),
                "latency_p50_s": self._latency.quantile(0.5),
                "latency_p99_s": self._latency.quantile(0.99),
                "cpu_s": cpu_s,
                "rss_bytes": rss_bytes,
                "sinks": [
                    {"kept": kept.kept, "dropped": kept.dropped, "why": self._clean(kept.why)}
                    for kept in (sink.kept for sink in self._sinks)
                ],
            }
        )

    def _send(self, words: Mapping[str, Any]) -> None:
        try:
            with self._voice:
                self._channel.sendall(json.dumps(words).encode() + b"\n")
        except OSError:
            self._stops.set()  # nobody supervises it any more

    def _obey(self) -> None:
        """Hear what the supervisor says, until it is gone."""
        for line in self._words:
            said = json.loads(line)
            self._pace.fps, self._owns = said["fps"], said["owns"]
        os._exit(0)

    def _clean(self, text: str) -> str:
        return redact(text, self._secrets.values())


class _Usage:
    """What this process takes of the machine."""

    def __init__(self) -> None:
        self._at_s, self._cpu_s = time.monotonic(), time.process_time()
        self._value: float | None = None

    def read(self, now_s: float) -> tuple[float | None, int]:
        """Return processor seconds a second since the last whole second, and resident bytes."""
        if now_s - self._at_s >= 1.0:
            cpu_s = time.process_time()
            self._value = round((cpu_s - self._cpu_s) / (now_s - self._at_s), 4)
            self._at_s, self._cpu_s = now_s, cpu_s
        with open("/proc/self/statm") as statm:
            pages = int(statm.read().split()[1])
        return self._value, pages * resource.getpagesize()


def _with_picture(line: dict[str, Any], result: Result) -> dict[str, Any]:
    if result.jpeg is None or len(result.jpeg) > MOST_JPEG_BYTES:
        return line
    return line | {"jpeg": base64.b64encode(result.jpeg).decode("ascii")}


def main(channel: socket.socket) -> None:
    """Run the stream that the first line of the channel describes."""
    words = channel.makefile("rb")  # closed by nobody: a thread reads it, and that would wait for the next line
    first = words.readline()
    if first:
        Runner(channel, words, json.loads(first)).run()
