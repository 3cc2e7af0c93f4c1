"""Patch Bay: components wired to destinations of any provider by a file, with delays and redelivery.

Source: the Patch Bay of ATG's Dynamo Message System. :func:`read_patchbay` reads the file, :class:`PatchBay`
runs what it wires; a component sends by its :class:`MessageContext`.
"""

from triggers.patchbay.bay import PatchBay
from triggers.patchbay.context import MessageContext, current_context
from triggers.patchbay.wiring.model import PatchBayFile
from triggers.patchbay.wiring.toml_reader import read_patchbay

__all__ = ["MessageContext", "PatchBay", "PatchBayFile", "current_context", "read_patchbay"]
