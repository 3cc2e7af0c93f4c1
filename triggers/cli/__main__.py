"""``python -m triggers.cli`` is ``doubtless``; the supervisor starts its children so."""

from triggers.cli import main

main()
