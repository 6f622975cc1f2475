"""Open a video: what it holds (by its packets), and the frames of one chunk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any

import av
import av.error
from av.container import InputContainer
from av.packet import Packet
from av.stream import Disposition
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from jetq.errors import UsageError, VideoUnreadable
from jetq.video.capture.base import Picture
from jetq.video.chunks import Chunk, Index

#: Codecs through which FFmpeg takes plain text for a film.
TEXT_CODECS = frozenset({"ansi", "bintext", "xbin", "idf"})
#: Containers that stamp only some frames: FFmpeg guesses the others, differently after a seek.
_GUESSED_STAMPS = frozenset({"mpeg", "mpegvideo"})
#: How FFmpeg reads from the submitter: a read that takes 10 s (in µs) is an error, not a hang; a broken connection is
#: made again at the same byte, for about 3 s.
_HTTP = {"rw_timeout": "10000000", "reconnect": "1", "reconnect_on_network_error": "1", "reconnect_delay_max": "2"}
#: Frame rate of a file that names none.
DEFAULT_FPS = 25.0


@dataclass(frozen=True, slots=True)
class Clip:
    """What a video file holds."""

    path: Path
    width: int
    height: int
    fps: float
    size_bytes: int
    index: Index

    @property
    def duration_s(self) -> float:
        """Length at the mean frame rate."""
        return self.index.n_frames / self.fps


@dataclass(frozen=True, slots=True)
class Frame:
    """One decoded frame. ``picture`` is made on demand: dropped frames cost no conversion."""

    index: int
    t_s: float  # since frame 0
    decoded: VideoFrame

    def picture(self) -> Picture:
        """Return the frame as (h, w, 3) uint8, BGR."""
        return self.decoded.to_ndarray(format="bgr24")  # type: ignore[return-value]


def probe(path: Path) -> Clip:
    """Read every packet of a file and decode its first frame.

    Raises:
        UsageError: no video in it, or none that can be decoded; the message says which file and why.
    """
    try:
        with av.open(str(path)) as container:
            stream = _video_stream(container, path)
            index = _index(container, stream, path)
            fps = rate_of(stream) or DEFAULT_FPS
            size = (stream.width, stream.height)
    except av.error.FFmpegError as exc:
        raise UsageError(f"{path}: not a video, or damaged ({exc.strerror}); check that it plays") from exc
    with Reader(str(path)) as reader:
        first = next(reader.frames(Chunk(0, 0, index.n_frames, 0)), None)
    if first is None:
        raise UsageError(f"{path}: not one of its {index.n_frames} frames can be decoded; check that it plays")
    return Clip(path, *size, fps, path.stat().st_size, index)


class Reader:
    """An open video. Use it in a ``with`` block."""

    def __init__(self, location: str, *, label: str | None = None) -> None:
        """Open ``location`` (a path or an http URL). ``label`` stands for it in messages."""
        self._location = location
        self._label = label or location
        self._container, self.stream = self._open()
        self.decoded = 0  # frames so far, dropped ones included
        self.damaged = 0  # packets that could not be decoded

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._container.close()

    @property
    def fps(self) -> float:
        """Mean frame rate."""
        return rate_of(self.stream) or DEFAULT_FPS

    def frames(self, chunk: Chunk) -> Iterator[Frame]:
        """Give the chunk's frames in the order in which they are shown, its warm-up first.

        Raises:
            VideoUnreadable: the connection to the input broke.
        """
        fed = chunk.first_frame - chunk.warmup
        number = fed
        until = chunk.first_frame + chunk.n_frames if chunk.end_pts is not None else None
        for frame in self._fed(chunk):
            if chunk.end_pts is not None and frame.pts is not None and frame.pts >= chunk.end_pts:
                return
            if chunk.first_pts is None and number >= chunk.first_frame + chunk.n_frames:
                return
            yield Frame(number, self._time_s(frame, number, chunk), frame)
            number += 1
            if number == until:
                return

    def _time_s(self, frame: VideoFrame, number: int, chunk: Chunk) -> float:
        if chunk.first_pts is None or frame.pts is None or frame.time_base is None:
            return round(number / self.fps, 6)
        return round(float((frame.pts - chunk.origin_pts) * frame.time_base), 6)

    def _fed(self, chunk: Chunk) -> Iterator[VideoFrame]:
        """Give frames from the first one that is fed; what comes before is decoded and dropped."""
        if chunk.first_pts is None:
            for at, frame in enumerate(self._decode()):
                if at >= chunk.first_frame - chunk.warmup:
                    yield frame
            return
        for frame in self._from_the_key_frame(chunk):
            if frame.pts is None or frame.pts >= chunk.first_pts:
                yield frame

    def _from_the_key_frame(self, chunk: Chunk) -> Iterator[VideoFrame]:
        """Seek to the chunk's key frame or before it. Where a container's seek leads past it, read from the start."""
        if chunk.start_pts is None:
            return self._decode()
        self._container.seek(chunk.start_pts, stream=self.stream)
        packets = self._container.demux(self.stream)
        landed = next(packets, None)
        if landed is not None and _not_after_key(landed, chunk):
            return self._decode(chain([landed], packets))
        self._container.close()
        self._container, self.stream = self._open()
        return self._decode()

    def _decode(self, packets: Iterator[Packet[VideoStream]] | None = None) -> Iterator[VideoFrame]:
        try:
            for packet in packets or self._container.demux(self.stream):
                try:
                    frames = packet.decode()
                except av.error.InvalidDataError:
                    self.damaged += 1
                    continue
                for frame in frames:
                    self.decoded += 1
                    yield frame
        except av.error.FFmpegError as exc:
            raise VideoUnreadable(
                f"{self._label}: reading stopped ({exc.strerror}); is the submitter still there?"
            ) from exc

    def _open(self) -> tuple[InputContainer, VideoStream]:
        remote = "://" in self._location
        options = _HTTP if remote else {}
        try:
            container = av.open(self._location, options=options)
        except (av.error.FFmpegError, OSError) as exc:
            raise VideoUnreadable(
                f"{self._label}: cannot be opened ({exc.strerror}); is the submitter still there?"
            ) from exc
        stream = films(container)[0]
        stream.thread_type = "NONE"  # a chunk is one slot's work: more threads would take other slots' cores
        return container, stream


def _not_after_key(packet: Packet[VideoStream], chunk: Chunk) -> bool:
    """Whether decoding from this packet meets the chunk's key frame."""
    if packet.dts is not None and chunk.start_dts is not None:
        return packet.dts <= chunk.start_dts
    return (
        packet.is_keyframe and packet.pts is not None and chunk.start_pts is not None and packet.pts <= chunk.start_pts
    )


def films(container: InputContainer) -> list[VideoStream]:
    """Return the video streams that are no cover picture of a song."""
    return [s for s in container.streams.video if not s.disposition & Disposition.attached_pic]


def rate_of(stream: VideoStream) -> float | None:
    """Return the mean frame rate; None: the file names none."""
    rate = stream.average_rate or stream.guessed_rate
    return None if rate is None else float(rate)


def _video_stream(container: InputContainer, path: Path) -> VideoStream:
    found = films(container)
    if not found and container.streams.audio:
        raise UsageError(f"{path}: holds sound only, no video; give a file with pictures")
    if not found or found[0].codec_context.name in TEXT_CODECS:
        raise UsageError(f"{path}: holds no video; give a file with pictures")
    return found[0]


def _index(container: InputContainer, stream: VideoStream, path: Path) -> Index:
    """Build the index from the packets alone: nothing is decoded."""
    packets: list[tuple[Any, Any, bool]] = []
    for packet in container.demux(stream):
        if packet.size and not packet.is_discard:
            packets.append((packet.pts, packet.dts, packet.is_keyframe))
    if not packets:
        raise UsageError(f"{path}: holds no frames; give a file with pictures")
    stamps = {pts for pts, _, _ in packets}
    if None in stamps or len(stamps) < len(packets) or container.format.name in _GUESSED_STAMPS:
        return Index(len(packets), tuple(n for n, p in enumerate(packets) if p[2]) or (0,))
    packets.sort(key=lambda packet: packet[0])
    keys = [(n, dts) for n, (_, dts, key) in enumerate(packets) if key]
    if not keys or keys[0][0] > 0:
        keys.insert(0, (0, packets[0][1]))
    return Index(
        n_frames=len(packets),
        keys=tuple(n for n, _ in keys),
        pts=tuple(p for p, _, _ in packets),
        key_dts=tuple(d for _, d in keys),
    )
