"""Runs in an object store, through fsspec: a local copy of a URL, filled when a command starts and uploaded while it runs.

All other code sees the folder of the copy. What a killed command did not upload, the next one with this copy uploads first.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from socket import gethostname
from threading import Event, Lock, Thread
from typing import Any
from uuid import uuid4

from heartloop.core.errors import HeartloopError, InputError, UseError
from heartloop.core.system import install_command, reported, write_whole

MOST_BYTES = 8 << 20
"""Of a file of dialogues at a URL: it is uploaded whole whenever it grew, so a longer one is continued in another file."""
_EVERY, _RENEWED, _STALE = 5.0, 20.0, 120.0  # seconds between uploads, until a lock is renewed, until its owner counts as killed
_SECRET = re.compile(r"(?<=://)[^/@\s]*:[^/@\s]*@|\?\S+")
_KEPT = re.compile(r"(^|/)(settings\.json|log\.jsonl|batches/.*\.jsonl|transcripts(/.*)?\.jsonl|dialogues-\d+/.*)$")
_copies: dict[str, _Copy] = {}

_Known = dict[str, list[object]]  # version in the store, size and time here, of each file as it was when both were the same


class _Copy:
    def __init__(self, url: str, *, write: bool) -> None:
        self.shown, self.write = _SECRET.sub("", url), write
        self._had: set[str] = set()  # files that were here; one that goes while the command runs goes from the store
        self.lost: UseError | None = None  # says which other command took the lock in the store
        self._renewed, self._renewing, self._stop = 0.0, Lock(), Event()
        self._threads = [Thread(target=self._repeat, args=(call,), daemon=True) for call in (self._renew, self.sync)]
        with self._reported(), contextlib.ExitStack() as failing:
            from filelock import FileLock, Timeout
            from fsspec.core import url_to_fs

            self._store, self._root = url_to_fs(url, **({"auto_mkdir": True} if url.startswith("file:") else {}))
            caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "heartloop" / "runs"
            folder = caches / hashlib.sha256(url.encode()).hexdigest()[:16]
            with reported(f"write to {folder}", "set XDG_CACHE_HOME to a folder that can be written to"):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = FileLock(folder / ".lock", thread_local=False)
            try:
                self._lock.acquire(timeout=_EVERY if write else 0)
            except Timeout as error:
                if write:
                    raise UseError(f"another process is writing to {self.shown}; wait, or choose another --out") from error
                folder = Path(tempfile.mkdtemp(prefix="heartloop-"))  # as the other one changes the copy
                atexit.register(shutil.rmtree, folder, ignore_errors=True)
                self._lock = FileLock(folder / ".lock", thread_local=False)
            failing.callback(self._lock.release)
            self._record, self.path = folder / ".known.json", folder / self.shown.rpartition("/")[2]
            self.path.mkdir(exist_ok=True)
            self._owner, _ = self._load()
            failing.callback(self._stop.set)
            self._threads[0].start()  # renews the lock also during long transfers
            self.sync(pull=True)
            if not write and not any(self.path.iterdir()):
                raise InputError(f"{self.shown} has no files; expected a run directory, or a folder of them")
            if write:
                failing.pop_all()
                self._threads[1].start()

    def close(self) -> str | None:
        """Uploads the rest and releases the lock; returns a sentence if that failed."""
        self._stop.set()
        try:
            with self._reported():
                for thread in self._threads if self.write else ():
                    thread.join()
                self.sync()
                if self.write:
                    self._store.rm_file(self._at(".lock"))
        except (UseError, KeyboardInterrupt) as error:
            return (
                f"{str(error) or 'interrupted'}. The next command with this URL uploads what is in {self.path} and missing there"
            )
        finally:
            self._lock.release()
        return None

    def sync(self, *, pull: bool = False) -> None:
        """Uploads what changed here and, with `pull`, downloads what changed there."""
        from filelock import Timeout

        # where the lock is taken, another process is writing here, which uploads this too
        with self._reported(), contextlib.suppress(Timeout), self._lock.acquire(timeout=0):
            _, known = self._load()
            try:
                with contextlib.suppress(*([Exception] if pull and not self.write else [])):  # one may only be allowed to read
                    self._push(known, self._there() if pull else {})
                if pull:
                    self._pull(known, self._there())
            finally:
                write_whole(self._record, json.dumps([self._owner, known]))

    def _load(self) -> tuple[str, _Known]:
        owner, known = json.loads(self._record.read_bytes()) if self._record.exists() else (uuid4().hex, {})
        return owner, known

    def _repeat(self, call: Callable[[], None]) -> None:
        while not self._stop.wait(_EVERY):
            with contextlib.suppress(Exception):  # it is tried again, and closing reports it
                call()

    def _push(self, known: _Known, there: Mapping[str, str]) -> None:
        from heartloop.evaluation.parquet import INDEX

        self._renew()
        indexes, here = self._here(INDEX), self._here()
        # an index after the files that it names, and before the removal of those that they replace
        for names in (sorted(here.keys() - indexes.keys()), indexes):
            self._put(known, [name for name in names if here[name] != known.get(name, [])[1:]], there)
            if indexes != self._here(INDEX):
                return  # the run is being compacted; the next upload finds it whole
        index = (self.path / INDEX).read_text() if INDEX in here else ""  # names parts, and JSON lines that may go
        for name in self._had & known.keys() - here.keys():
            if not here or name == INDEX or (_KEPT.search(name) and (f'"{name}"' in index) == name.startswith("dialogues-")):
                raise UseError(f"{self.path / name} is gone; {self.shown} keeps it, but not what was written to it since")
            with contextlib.suppress(FileNotFoundError):
                self._store.rm_file(self._at(name))
            del known[name]
        self._had = set(here)

    def _put(self, known: _Known, names: Sequence[str], there: Mapping[str, str]) -> None:
        """Uploads files. Of one that changed there too, the lines of both are kept, or if it is no JSON lines, that there."""
        states = {}
        for name in names:
            path = self.path / name
            if name in there and there[name] != known.get(name, [""])[0]:
                if path.suffix != ".jsonl":
                    known[name] = ["", *_state(path)]
                    continue
                theirs, own = (one.split(b"\n")[:-1] for one in (self._store.cat_file(self._at(name)), path.read_bytes()))
                further = set(own) - set(theirs)
                write_whole(path, b"".join(line + b"\n" for line in [*theirs, *filter(further.__contains__, own)]))
            states[name] = _state(path)
        if states:
            self._store.put([str(self.path / name) for name in states], [self._at(name) for name in states])
            versions = self._there()
            known |= {name: [versions[name], *state] for name, state in states.items()}

    def _pull(self, known: _Known, there: Mapping[str, str]) -> None:
        here = self._here()
        clean = {name for name in here if here[name] == known.get(name, [])[1:]}
        new = {name: self.path / name for name in there if name not in here or (name in clean and known[name][0] != there[name])}
        self._store.get([self._at(name) for name in new], [f"{path}.part" for path in new.values()])
        for name, path in new.items():
            Path(f"{path}.part").replace(path)
            known[name] = [there[name], *_state(path)]
        for name in known.keys() - there.keys():
            if name in clean:
                (self.path / name).unlink()
            del known[name]
        for folder, *_ in os.walk(self.path, topdown=False):  # a run that is gone there leaves no folder here
            with contextlib.suppress(OSError):  # not empty
                Path(folder).rmdir()
        self.path.mkdir(exist_ok=True)
        self._had = set(self._here())

    def _renew(self) -> None:
        """Takes or renews the lock, an object with its owner and a time."""
        with self._renewing:
            if not self.write or abs(time.time() - self._renewed) < _RENEWED:
                return
            address, lock = self._at(".lock"), dict[str, Any]()
            with contextlib.suppress(FileNotFoundError):
                lock = json.loads(self._store.cat_file(address))
            if lock.get("owner") != self._owner and (self._renewed or time.time() - lock.get("time", 0.0) < _STALE):
                self.lost = UseError(
                    f"another command is writing to {self.shown}, on {lock.get('host', 'another machine')}; wait for it "
                    f"({_STALE:.0f} seconds if it was killed), or choose another --out"
                )
                raise self.lost
            own = {"owner": self._owner, "host": gethostname(), "time": time.time()}
            self._store.pipe_file(address, json.dumps(own).encode())
            self._renewed = time.time()

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _there(self) -> dict[str, str]:
        """The version of each file in the store."""
        self._store.invalidate_cache()
        found = self._store.find(self._root, detail=True).items()
        return {name: _version(info) for path, info in found if _is_of_run(name := path.removeprefix(self._root).lstrip("/"))}

    def _here(self, end: str = "") -> dict[str, list[int]]:
        """Size and time of each file here."""
        files = {path.relative_to(self.path).as_posix(): path for path in sorted(self.path.rglob(f"*{end}")) if path.is_file()}
        return {name: _state(path) for name, path in files.items() if _is_of_run(name)}

    @contextlib.contextmanager
    def _reported(self) -> Iterator[None]:
        try:
            yield
        except HeartloopError:
            raise
        except Exception as error:  # each store raises its own
            why = " ".join(_SECRET.sub("", str(error)).split()) or type(error).__name__
            remedy = "check the address, the network and the credentials"
            if isinstance(error, ImportError):
                remedy = f"{install_command('object-store')}, and s3fs, gcsfs, adlfs or what the address needs"
            raise UseError(f"cannot use {self.shown}: {why}; {remedy}") from error


def _state(path: Path) -> list[int]:
    return [path.stat().st_size, path.stat().st_mtime_ns]


def _is_of_run(name: str) -> bool:
    return all(part and not part.startswith(".") and not part.endswith(".part") for part in name.split("/"))


def _version(info: Mapping[str, object]) -> str:
    """What tells versions of an object apart, by the field names of several stores."""
    fields = ("ETag", "etag", "md5Hash", "LastModified", "last_modified", "mtime", "created")
    found = next((info[name] for name in fields if info.get(name)), "")
    return f"{info['size']} {found.timestamp() if isinstance(found, datetime) else found}"


def local(given: str | os.PathLike[str], *, write: bool = False) -> Path:
    """The path of a run or folder; of a URL, that of a local copy, which is brought up to date."""
    if "://" not in (url := os.fspath(given).rstrip("/")):
        if re.fullmatch(r"[a-z][a-z0-9+.-]+:(/.*)?|file:.*", url):
            raise UseError(f"{given} is no path and no URL; expected a URL such as s3://bucket/run")
        return Path(given)
    if (copy := _copies.get(url)) is None or (write and not copy.write):
        copy = _copies[url] = _Copy(url, write=write)
    elif not copy.write:
        copy.sync(pull=True)
    return copy.path


new = partial(local, write=True)


def is_copy(path: Path) -> bool:
    """Whether a path is of the copy of a URL. Raises an error if another command took the lock of that URL."""
    for error in (copy.lost for copy in _copies.values() if copy.lost and path.is_relative_to(copy.path)):
        raise error
    return any(path.is_relative_to(copy.path) for copy in _copies.values())


def sibling(path: Path, name: str) -> Path:
    """A path next to another; of the copy of a URL, next to that."""
    url = next((url for url, copy in _copies.items() if copy.path == path), None)
    if url is not None and url.count("/") == 2:
        raise UseError(f"{with_urls(path)} is the root of a store, and nothing can be next to it; pass --out")
    return path.with_name(name) if url is None else new(f"{url.rpartition('/')[0]}/{name}")


def with_urls(text: object) -> str:
    """A text with URLs in place of the paths of their local copies."""
    shown = str(text)
    for copy in _copies.values():
        shown = shown.replace(str(copy.path), copy.shown)
    return shown


def refresh() -> None:
    """Brings the copies that are read up to date."""
    for copy in _copies.values():
        with contextlib.suppress(UseError):  # it is tried again
            copy.sync(pull=not copy.write)


def close_all(*only: str | os.PathLike[str]) -> list[str]:
    """Uploads what is missing, at all URLs or only some; returns a sentence on each where that failed."""
    urls = [os.fspath(given).rstrip("/") for given in only or [*_copies]]
    return [sentence for url in urls if url in _copies and (sentence := _copies.pop(url).close())]
