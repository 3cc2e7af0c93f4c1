"""Patch Bay: components wired to destinations of any provider by a file, with delays and redelivery.

Source: the Patch Bay of ATG's Dynamo Message System. :func:`read_patchbay` reads the file, and
:class:`PatchBay` runs its components; a component sends with its :class:`MessageContext`.

``bay.py`` runs it, ``wiring/`` is the file. ``components.py`` loads components and runs the sources among
them, ``context.py`` is what they send with, ``inputs.py`` makes their triggers and receives for all of them,
``outputs.py`` finds their destinations, and ``local.py`` calls the sinks of local destinations.
``redelivery.py`` tries failed messages again, ``failures.py`` makes the copy for the failure port after that,
and ``releaser.py`` sends delayed messages when they are due.
"""

from triggers.patchbay.bay import PatchBay
from triggers.patchbay.context import MessageContext, current_context
from triggers.patchbay.wiring.model import PatchBayFile
from triggers.patchbay.wiring.toml_reader import read_patchbay

__all__ = ["MessageContext", "PatchBay", "PatchBayFile", "current_context", "read_patchbay"]
