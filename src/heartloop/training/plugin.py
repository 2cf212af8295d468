"""The plug-in that verl loads in every process, by the entry point group `verl.plugins` when verl itself is imported.

With `VERL_PLATFORM=cpu` it first registers the CPU as a platform, which verl 0.9.1 lacks, and patches three places that assume a
device. Ray counts logical GPUs here (`ray_init.num_gpus`), one a rank; none is used.
"""

from __future__ import annotations

import os
import tempfile
import types
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import ray
import torch
import torch.distributed
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry


def _always(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


class _Device(types.ModuleType):
    """A replacement for `torch.cuda`: `torch.cpu`, and the functions that it lacks."""

    max_memory_allocated = max_memory_reserved = memory_allocated = memory_reserved = staticmethod(_always(0))
    empty_cache = ipc_collect = reset_peak_memory_stats = set_device = synchronize = staticmethod(_always(None))
    get_device_name = staticmethod(_always("cpu"))
    manual_seed = manual_seed_all = staticmethod(torch.manual_seed)
    get_rng_state = staticmethod(torch.get_rng_state)
    set_rng_state = staticmethod(torch.set_rng_state)

    @staticmethod
    def mem_get_info(*_: Any) -> tuple[int, int]:
        page = os.sysconf("SC_PAGE_SIZE")
        return page * os.sysconf("SC_AVPHYS_PAGES"), page * os.sysconf("SC_PHYS_PAGES")

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)


_DEVICE = _Device("heartloop_cpu")


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformBase):  # type: ignore[misc]
    """Never chosen automatically."""

    device_name = property(lambda self: "cpu")
    vendor_name = property(lambda self: "generic")
    device_module = property(lambda self: _DEVICE)

    is_available = _always(True)
    is_platform_available = _always(False)
    is_ipc_supported = _always(False)
    current_device = _always("cpu")  # verl passes it to torch as a device
    device_count = _always(1)
    get_device_capability = _always((None, None))
    communication_backend_name = _always("gloo")
    visible_devices_envvar = _always("CUDA_VISIBLE_DEVICES")
    ray_resource_name = _always("GPU")
    ray_noset_envvars = _always([])
    nvtx_range = _always(nullcontext())
    set_device = synchronize = set_allocator_settings = empty_cache = profiler_start = profiler_stop = cudart = _always(None)

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed


def _rendezvous() -> str | None:
    """A file, for the ranks of one machine: torch's own server would listen on every network."""
    if os.environ.get("WORLD_SIZE") != os.environ.get("RAY_LOCAL_WORLD_SIZE"):
        return None  # several machines use verl's address
    session = ray.get_runtime_context().get_session_name()
    return (Path(tempfile.gettempdir()) / f"heartloop-{session}-{os.environ['MASTER_PORT']}").as_uri()


def _adapt() -> None:
    """Patches three assumptions: gloo named twice, a critic on flash attention, pinned memory for the reference."""
    import verl.utils.model
    import verl.workers.engine.fsdp.transformer_impl as fsdp_engine  # uses the platform at import

    begin = torch.distributed.init_process_group

    def init_process_group(backend: str | None = None, *args: Any, **kwargs: Any) -> None:
        if backend == "cpu:gloo,cpu:gloo":
            backend = "gloo"
            kwargs["init_method"] = kwargs.get("init_method") or _rendezvous()
        begin(backend, *args, **kwargs)

    def load_valuehead_model(local_path: str, torch_dtype: Any, model_config: Any, trust_remote_code: bool) -> Any:
        from transformers import AutoModelForTokenClassification

        return AutoModelForTokenClassification.from_pretrained(
            local_path,
            dtype=torch_dtype,
            config=model_config,
            attn_implementation=model_config._attn_implementation,
            trust_remote_code=trust_remote_code,
        )

    torch.distributed.init_process_group = init_process_group
    verl.utils.model.load_valuehead_model = load_valuehead_model
    fsdp_engine.CPUOffloadPolicy = lambda **_: None  # nothing to offload


if os.environ.get("VERL_PLATFORM", "").strip().lower() == "cpu":
    _adapt()
from heartloop.training import cpu, trainer  # noqa: E402, F401  # last: they ask verl for its platform
