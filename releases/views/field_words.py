"""What the fields of a draft are called on its form; the name that a problem uses stands beside the words."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

FIELD_WORDS = {
    "model.slug": _("Model name"),
    "model.served_name": _("Name that requests use"),
    "model.revision": _("Commit of the weights"),
    "model.manifest_sha256": _("Shard manifest, SHA-256"),
    "image.name": _("Image name"),
    "image.digest": _("Image digest"),
    "image.vllm_version": _("Engine version"),
    "platform.driver": _("GPU driver version"),
    "platform.vbios": _("GPU firmware version"),
    "tokenizer.tokenizer": _("Tokenizer, SHA-256"),
    "tokenizer.template": _("Chat template, SHA-256"),
    "tokenizer.generation_config": _("Generation config, SHA-256"),
    "shape.nodes": _("Nodes of a unit"),
    "shape.gpus_per_node": _("GPUs of a node"),
    "shape.tp": _("Tensor parallel"),
    "shape.pp": _("Pipeline parallel"),
    "shape.dp": _("Data parallel"),
    "shape.gpus": _("Cards of the node, for launcher single"),
}
