"""Words of the log page: levels, and what a known message means and asks for."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

LEVEL_WORDS = {
    "D": _("debug"),
    "I": _("info"),
    "W": _("warning"),
    "E": _("error"),
}

# By the kind that readings/vllm_log/failures.py gives a line: what it means, what follows from it.
MEANINGS = {
    "watchdog": _(
        "A collective did not end in time. The ranks that report it are the ones that wait; look for the "
        "rank that is behind them. A communicator cannot take a new rank: the whole unit is replaced."
    ),
    "rpc_timeout": _(
        "The engine waited for its workers in vain. A rank hangs or is lost on another node; that rank may "
        "have said nothing at all. The whole unit is replaced."
    ),
    "worker_died": _(
        "A worker process ended. This is where the unit was lost; the reason stands in the lines of that "
        "rank before it. The whole unit is replaced."
    ),
    "oom": _("The card had no memory left. Compare with the memory budget of the release."),
    "gpu_not_free": _(
        "Something else held memory of the card at the start. Look for a process that was left behind."
    ),
    "kv_too_small": _(
        "What is left for the KV cache is less than one request of full length needs."
    ),
    "kv_none": _("Nothing is left for the KV cache: the weights fill the share of the card."),
    "no_space": _("A file system of the node is full."),
    "disk_quota": _("A quota of the node is used up."),
    "port_in_use": _("The port is taken. An earlier launch may still hold it."),
    "nccl_mismatch": _("The nodes run different NCCL versions, so different images."),
    "follower_not_headless": _("A follower was started without --headless."),
    "bad_arguments": _("The engine does not know one of its arguments."),
    "unsupported_model": _("This engine version does not know the model's architecture."),
    "illegal_access": _(
        "A kernel touched memory that is not its own. Software is likelier than the card; try the same "
        "image on another node first."
    ),
    "cuda_error": _("The card or its driver failed. Look at the node's kernel log for an Xid."),
    "no_kernel_image": _("The image was not built for this card."),
    "store_timeout": _("Not all nodes came to the rendezvous in time."),
    "nccl_error": _("NCCL failed. The first warning of the same rank before it says why."),
    "engine_dead": _("An echo: the engine was dead already. The cause stands earlier."),
    "after_shutdown": _("An echo: the engine is shutting down. The cause stands earlier."),
    "start_failed": _(
        "The engine did not start. The cause stands in the lines of a worker before it."
    ),
    "engine_fatal": _("The engine gave up. The cause stands earlier."),
    "worker_exception": _("A worker failed. Its own lines say why."),
    "killed": _("The process was killed by a signal."),
}
