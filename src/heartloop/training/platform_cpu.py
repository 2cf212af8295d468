"""The CPU as a platform of verl, chosen with `VERL_PLATFORM=cpu`, for laptops and tests.

Covers verl's platform interface, and the three places of verl 0.9.1 that assume a device beyond it. Does not cover the rollout
server (`replica_cpu`) nor the training engine (`engine_cpu`).

Ray counts logical GPUs here (`ray_init.num_gpus`), one a rank; none is used.
"""

from __future__ import annotations

import os
import tempfile
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
import torch
import torch.distributed
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry

__all__ = ["PlatformCPU"]


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _zero(*_: Any, **__: Any) -> int:
    return 0


class _Device(types.ModuleType):
    """A replacement for `torch.cuda`: `torch.cpu`, and the functions that it lacks."""

    max_memory_allocated = max_memory_reserved = memory_allocated = memory_reserved = staticmethod(_zero)
    empty_cache = ipc_collect = reset_peak_memory_stats = set_device = synchronize = staticmethod(_nothing)
    manual_seed = manual_seed_all = staticmethod(torch.manual_seed)
    get_rng_state = staticmethod(torch.get_rng_state)
    set_rng_state = staticmethod(torch.set_rng_state)

    @staticmethod
    def get_device_name(*_: Any) -> str:
        return "cpu"

    @staticmethod
    def mem_get_info(*_: Any) -> tuple[int, int]:
        page = os.sysconf("SC_PAGE_SIZE")
        return page * os.sysconf("SC_AVPHYS_PAGES"), page * os.sysconf("SC_PHYS_PAGES")

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)


_DEVICE = _Device("heartloop.training.cpu_device")


@PlatformRegistry.register(platform="cpu")
class PlatformCPU(PlatformBase):  # type: ignore[misc]
    """The CPU as verl's device. Never chosen automatically, only by `VERL_PLATFORM=cpu`."""

    @property
    def device_name(self) -> str:
        return "cpu"

    @property
    def vendor_name(self) -> str:
        return "generic"

    @property
    def device_module(self) -> types.ModuleType:
        return _DEVICE

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return False

    def current_device(self) -> Any:
        return "cpu"  # verl passes it to torch as a device

    def device_count(self) -> int:
        return 1

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def set_device(self, device_index: int) -> None: ...

    def synchronize(self, device_index: int | None = None) -> None: ...

    def set_allocator_settings(self, settings: str) -> None: ...

    def empty_cache(self) -> None: ...

    def profiler_start(self) -> None: ...

    def profiler_stop(self) -> None: ...

    def cudart(self) -> Any: ...


def _rendezvous() -> str | None:
    """The rendezvous of the ranks of one machine: a file, as torch's own server would listen on every network."""
    if os.environ.get("WORLD_SIZE") != os.environ.get("RAY_LOCAL_WORLD_SIZE"):
        return None  # several machines use verl's address
    session = ray.get_runtime_context().get_session_name()
    return (Path(tempfile.gettempdir()) / f"heartloop-{session}-{os.environ['MASTER_PORT']}").as_uri()


def _adapt() -> None:
    """Patches the three assumptions: gloo named twice, a critic on flash attention, pinned memory for the reference."""
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


_adapt()
