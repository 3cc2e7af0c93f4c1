"""``python -m triggers.cli`` is ``doubtless``; the supervisor starts its children in this form."""

from triggers.cli import main

main()
